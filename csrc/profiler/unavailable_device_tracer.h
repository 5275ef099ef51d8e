#pragma once

#include "runtime/export.h"

namespace torch_fl {

// The device tracer that csrc/runtime/sources.cmake selects for kunlunxin. The vendor's CUPTI-compatible
// tracer instruments the CUDA dispatch key, which this backend does not use: it would report an empty device
// timeline as if nothing had run.
class TORCH_FL_API DeviceTracer {
public:
    static bool isAvailable() noexcept;

    // Does nothing, and warns about that the first time.
    static void start();
    static void stop() noexcept;
};

} // namespace torch_fl

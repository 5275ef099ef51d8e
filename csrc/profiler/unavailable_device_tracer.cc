#include "profiler/unavailable_device_tracer.h"

#include <c10/util/Exception.h>

namespace torch_fl {

bool DeviceTracer::isAvailable() noexcept {
    return false;
}

void DeviceTracer::start() {
    TORCH_WARN_ONCE(
        "device tracing is not available on kunlunxin: the vendor's tracer follows the CUDA dispatch key, "
        "which flagos does not use. Nothing of the device is recorded; CPU activity is");
}

void DeviceTracer::stop() noexcept {}

} // namespace torch_fl

#pragma once

#include "runtime/accelerator/kunlunxin/stream.h"

#include <c10/core/Device.h>

namespace torch_fl::kunlunxin {

EventHandle createEvent(c10::DeviceIndex device);
// Returns the vendor's code: events are destroyed in destructors.
int destroyEvent(EventHandle event) noexcept;
void recordEvent(EventHandle event, StreamHandle stream, c10::DeviceIndex device);
// Blocks the host until the last record has passed.
void waitEvent(EventHandle event, c10::DeviceIndex device);
// True when the last record has passed. What xpu_event_query returns before that is not documented, and
// clients read every non-zero code as "not yet". Here only the codes that the vendor documents as failures
// are raised.
bool queryEvent(EventHandle event, c10::DeviceIndex device);

} // namespace torch_fl::kunlunxin

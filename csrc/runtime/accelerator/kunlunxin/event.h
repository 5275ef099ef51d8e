#pragma once

#include "runtime/accelerator/kunlunxin/stream.h"

#include <c10/core/Device.h>

namespace torch_fl::kunlunxin {

EventHandle createEvent(c10::DeviceIndex device);
// Returns the vendor's code: events are destroyed in destructors.
int destroyEvent(EventHandle event, c10::DeviceIndex device) noexcept;
void recordEvent(EventHandle event, StreamHandle stream, c10::DeviceIndex device);
// Blocks the host until the last record has passed.
void waitEvent(EventHandle event, c10::DeviceIndex device);
// True when the last record has passed. xpu_event_query has no documented code for "not yet": 716 (busy) is
// read so, and every other failure is raised.
bool queryEvent(EventHandle event, c10::DeviceIndex device);

} // namespace torch_fl::kunlunxin

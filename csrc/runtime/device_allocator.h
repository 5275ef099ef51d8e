#pragma once

#include "runtime/export.h"

#include <c10/core/CachingDeviceAllocator.h>

namespace torch_fl {

// The caching allocator behind every flagos tensor, registered as the allocator of PrivateUse1. allocate()
// takes memory on the current device for the current stream: hold a DeviceGuard. 0 bytes give a null pointer
// with the right device.
TORCH_FL_API c10::DeviceAllocator& deviceAllocator();

// The device that a pointer of deviceAllocator() belongs to, interior addresses included; raises if it is not
// ours.
c10::Device deviceOfPointer(const void* pointer);

} // namespace torch_fl

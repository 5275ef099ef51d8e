#pragma once

#include "runtime/export.h"

#include <c10/core/Device.h>
#include <c10/core/Stream.h>

namespace torch_fl {

// A stream as PyTorch names it and as libxpurt does.
//
// Note [Null stream handles]
// The handle of a default stream is null, which libxpurt reads as the default stream of *the calling thread's
// current device*. Whoever passes a handle to a vendor call must have made stream.device() current first
// (DeviceGuard of guard.h).
struct FlagosStream {
    c10::Stream stream;
    void* handle;
};

// The calling thread's current stream on a device; -1 is the current device. Raises for an index that does
// not exist.
TORCH_FL_API FlagosStream currentStream(c10::DeviceIndex device = -1);

TORCH_FL_API FlagosStream defaultStream(c10::DeviceIndex device = -1);

// The next stream of the device's pool (round robin). libxpurt allows 2^8 streams, so a stream is shared by
// everyone who got it from here, and none is ever destroyed.
FlagosStream streamFromPool(c10::DeviceIndex device = -1);

// Makes `stream` the calling thread's current stream on its device and returns the previous one. The current
// device stays as it is.
TORCH_FL_API c10::Stream exchangeCurrentStream(const c10::Stream& stream);

// Adds the vendor's handle. Raises for a stream of another device type or one that this process did not
// create.
FlagosStream lookupStream(const c10::Stream& stream);

// True when all work enqueued so far has completed. libxpurt has no stream query: an event is recorded and
// asked.
bool queryStream(const c10::Stream& stream);

// These two block the host until the work enqueued so far has completed, on the stream or on every stream of
// the device. A Python caller releases the GIL first.
void synchronizeStream(const c10::Stream& stream);
TORCH_FL_API void synchronizeDevice(c10::DeviceIndex device = -1);

} // namespace torch_fl

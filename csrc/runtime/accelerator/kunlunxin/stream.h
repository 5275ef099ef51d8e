#pragma once

#include <c10/core/Device.h>

namespace torch_fl::kunlunxin {

using StreamHandle = void*;
using EventHandle = void*;

// The null handle is the default stream of *the current device*. Every function here therefore takes the
// device and makes it current for the call.
inline constexpr StreamHandle kDefaultStream = nullptr;

// Creates a stream and enters it into the registry that synchronizeDevice() walks. Streams live as long as
// the process: they are pooled, because libxpurt has no more than 2^8 of them.
StreamHandle createStream(c10::DeviceIndex device);

// Blocks the host until all work enqueued on the stream has completed.
void waitStream(StreamHandle stream, c10::DeviceIndex device);

// Work enqueued on the stream after this call starts only when the event has passed. The event may belong to
// another device.
void streamWaitEvent(StreamHandle stream, EventHandle event, c10::DeviceIndex device);

// Blocks the host until the default stream and every stream of createStream() on `device` have completed:
// libxpurt has no device-wide wait.
void synchronizeDevice(c10::DeviceIndex device);

} // namespace torch_fl::kunlunxin

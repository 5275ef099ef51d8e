#pragma once

#include <c10/core/Allocator.h>
#include <c10/core/Device.h>

#include <cstddef>

namespace torch_fl {

// Byte copies, ordered on the current stream of the device(s). They select the device themselves; 0 bytes is
// a no-op.
//
// `host` is the whole allocation that the host address lies in (storage().data_ptr()). With `non_blocking`
// and pinned host memory the copy is only enqueued, and the host allocator keeps `host` from being reused
// until the stream has passed. Otherwise the copy has completed when the call returns: whether libxpurt still
// reads pageable memory after an asynchronous call has returned is not documented.
void copyHostToDevice(
    void* destination, c10::DeviceIndex device, const void* source, const c10::DataPtr& host, size_t bytes,
    bool non_blocking);

void copyDeviceToHost(
    void* destination, const c10::DataPtr& host, const void* source, c10::DeviceIndex device, size_t bytes,
    bool non_blocking);

// The same for host memory that nobody else will touch or free during the call, such as a local variable: has
// completed on return.
void copyHostToDevice(void* destination, c10::DeviceIndex device, const void* source, size_t bytes);
void copyDeviceToHost(void* destination, const void* source, c10::DeviceIndex device, size_t bytes);

// Within one device: enqueued on its current stream.
void copyDeviceToDevice(void* destination, const void* source, c10::DeviceIndex device, size_t bytes);

// Between two devices: waits for the current streams of both, then copies, and has completed on return.
void copyPeer(
    void* destination, c10::DeviceIndex destination_device, const void* source, c10::DeviceIndex source_device,
    size_t bytes);

// True for an address inside pinned host memory: of our own host allocator, or else of another one that the
// CUDA-shaped runtime in the process knows.
bool isPinnedPointer(const void* pointer);

} // namespace torch_fl

#pragma once

#include "runtime/accelerator/kunlunxin/stream.h"

#include <c10/core/Device.h>

#include <cstddef>
#include <string>

namespace torch_fl::kunlunxin {

// The runtime fails on one large asynchronous copy of pinned memory (-999) and is unusable afterwards; pieces
// of this size work. Asynchronous copies below are cut into such pieces when the host memory is pinned.
inline constexpr size_t kPinnedCopyChunk = size_t{1} << 20;

// Device memory; nullptr when the device has not enough of it (705), raises on everything else. `bytes` must
// not be 0: libxpurt answers 707.
void* tryAllocate(size_t bytes, c10::DeviceIndex device);
// What tryAllocate() would have said: "xpu_malloc(4096 bytes) on device 0: Device memory not enough (705)".
std::string describeOutOfMemory(size_t bytes, c10::DeviceIndex device);
void free(void* pointer, c10::DeviceIndex device);

// Pinned host memory, and whether an address lies in a block that hostAllocate() gave out and hostFree() has
// not taken back.
void* hostAllocate(size_t bytes);
void hostFree(void* pointer);
bool isHostAllocated(const void* pointer);

enum class CopyDirection { HostToDevice, DeviceToHost, DeviceToDevice };

// Enqueues a copy on `stream` of `device` and returns. Host memory must stay alive until the stream has
// passed it; for pageable memory the caller waits for the stream. `pinned` says that the host side is pinned
// memory.
void copyAsync(
    void* destination, const void* source, size_t bytes, CopyDirection direction, StreamHandle stream,
    c10::DeviceIndex device, bool pinned);

// Copies between two devices and returns when it is done. libxpurt has no stream for this call and promises
// no order with any: the caller waits for the streams that use either buffer.
void copyPeer(
    void* destination, c10::DeviceIndex destination_device, const void* source, c10::DeviceIndex source_device,
    size_t bytes);

} // namespace torch_fl::kunlunxin

#include "runtime/copy.h"

#include "runtime/accelerator/kunlunxin/foreign_pinned.h"
#include "runtime/accelerator/kunlunxin/memory.h"
#include "runtime/host_allocator.h"
#include "runtime/runtime.h"
#include "runtime/stream.h"

namespace torch_fl {

namespace {

// `host_storage` is null when there is no allocation to keep alive, and then the copy is always waited for.
void copyWithHost(
    void* destination, const void* source, const void* host_address, const c10::DataPtr* host_storage,
    kunlunxin::CopyDirection direction, c10::DeviceIndex device, size_t bytes, bool non_blocking) {
    if (bytes == 0) {
        return;
    }
    const FlagosStream stream = currentStream(device);
    const bool may_return_early = non_blocking && host_storage != nullptr;
    // Whether the memory is pinned matters only for those two questions; asking costs a look-up.
    const bool pinned = (may_return_early || bytes > kunlunxin::kPinnedCopyChunk) && isPinnedPointer(host_address);
    kunlunxin::copyAsync(destination, source, bytes, direction, stream.handle, stream.stream.device_index(), pinned);
    const bool kept_alive =
        may_return_early && pinned &&
        hostAllocator().record_event(host_storage->get(), host_storage->get_context(), stream.stream);
    if (!kept_alive) {
        kunlunxin::waitStream(stream.handle, stream.stream.device_index());
    }
}

} // namespace

void copyHostToDevice(
    void* destination, c10::DeviceIndex device, const void* source, const c10::DataPtr& host, size_t bytes,
    bool non_blocking) {
    copyWithHost(
        destination, source, source, &host, kunlunxin::CopyDirection::HostToDevice, device, bytes, non_blocking);
}

void copyDeviceToHost(
    void* destination, const c10::DataPtr& host, const void* source, c10::DeviceIndex device, size_t bytes,
    bool non_blocking) {
    copyWithHost(
        destination, source, destination, &host, kunlunxin::CopyDirection::DeviceToHost, device, bytes, non_blocking);
}

void copyHostToDevice(void* destination, c10::DeviceIndex device, const void* source, size_t bytes) {
    copyWithHost(destination, source, source, nullptr, kunlunxin::CopyDirection::HostToDevice, device, bytes, false);
}

void copyDeviceToHost(void* destination, const void* source, c10::DeviceIndex device, size_t bytes) {
    copyWithHost(
        destination, source, destination, nullptr, kunlunxin::CopyDirection::DeviceToHost, device, bytes, false);
}

void copyDeviceToDevice(void* destination, const void* source, c10::DeviceIndex device, size_t bytes) {
    if (bytes == 0) {
        return;
    }
    const FlagosStream stream = currentStream(device);
    kunlunxin::copyAsync(
        destination,
        source,
        bytes,
        kunlunxin::CopyDirection::DeviceToDevice,
        stream.handle,
        stream.stream.device_index(),
        /*pinned=*/false);
}

void copyPeer(
    void* destination, c10::DeviceIndex destination_device, const void* source, c10::DeviceIndex source_device,
    size_t bytes) {
    if (bytes == 0) {
        return;
    }
    for (const c10::DeviceIndex device : {source_device, destination_device}) {
        const FlagosStream stream = currentStream(device);
        kunlunxin::waitStream(stream.handle, stream.stream.device_index());
    }
    kunlunxin::copyPeer(destination, destination_device, source, source_device, bytes);
}

bool isPinnedPointer(const void* pointer) {
    if (pointer == nullptr) {
        return false;
    }
    if (kunlunxin::isHostAllocated(pointer)) {
        return true;
    }
    // Asking the other runtime may make it set up a context. Before this process has used a device nothing
    // can have been pinned for one.
    return isInitialized() && kunlunxin::isPinnedByCudaRuntime(pointer);
}

} // namespace torch_fl

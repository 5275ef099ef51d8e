#include "runtime/accelerator/kunlunxin/memory.h"

#include "runtime/accelerator/kunlunxin/device.h"
#include "runtime/accelerator/kunlunxin/error.h"

#include <xpu/runtime.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <shared_mutex>

namespace torch_fl::kunlunxin {

namespace {

// Address ranges of the pinned host memory that this process holds. Never destroyed: pinned tensors may
// outlive the static destructors of this library.
class HostRanges {
public:
    void add(const void* pointer, size_t bytes) {
        const std::unique_lock<std::shared_mutex> lock(mutex_);
        bytes_at_[address(pointer)] = bytes;
    }

    void remove(const void* pointer) {
        const std::unique_lock<std::shared_mutex> lock(mutex_);
        bytes_at_.erase(address(pointer));
    }

    bool contains(const void* pointer) const {
        const std::shared_lock<std::shared_mutex> lock(mutex_);
        auto above = bytes_at_.upper_bound(address(pointer));
        if (above == bytes_at_.begin()) {
            return false;
        }
        --above;
        return address(pointer) - above->first < above->second;
    }

    static HostRanges& instance() {
        static HostRanges* const ranges = std::make_unique<HostRanges>().release();
        return *ranges;
    }

private:
    static uintptr_t address(const void* pointer) { return reinterpret_cast<uintptr_t>(pointer); }

    mutable std::shared_mutex mutex_;
    std::map<uintptr_t, size_t> bytes_at_;
};

struct DirectionTraits {
    XPUMemcpyKind kind;
    const char* name;
};

DirectionTraits traits(CopyDirection direction) {
    switch (direction) {
    case CopyDirection::HostToDevice:
        return {XPU_HOST_TO_DEVICE, "host to device"};
    case CopyDirection::DeviceToHost:
        return {XPU_DEVICE_TO_HOST, "device to host"};
    case CopyDirection::DeviceToDevice:
        break;
    }
    return {XPU_DEVICE_TO_DEVICE, "device to device"};
}

std::string allocationCall(size_t bytes) {
    return c10::str("xpu_malloc(", bytes, " bytes)");
}

} // namespace

void* tryAllocate(size_t bytes, c10::DeviceIndex device) {
    const ScopedDevice scope(device);
    void* pointer = nullptr;
    const int returned = xpu_malloc(&pointer, bytes, XPU_MEM_MAIN);
    if (isOutOfMemory(returned)) {
        return nullptr;
    }
    TORCH_FL_XPU_CHECK(returned, device, allocationCall(bytes));
    return pointer;
}

std::string describeOutOfMemory(size_t bytes, c10::DeviceIndex device) {
    return describeError(XPUERR_NOMEM, allocationCall(bytes), device);
}

void free(void* pointer, c10::DeviceIndex device) {
    const ScopedDevice scope(device);
    TORCH_FL_XPU_CHECK(xpu_free(pointer), device, "xpu_free(", pointer, ")");
}

void* hostAllocate(size_t bytes) {
    void* pointer = nullptr;
    TORCH_FL_XPU_CHECK(xpu_host_alloc(&pointer, bytes, 0), kNoDevice, "xpu_host_alloc(", bytes, " bytes)");
    HostRanges::instance().add(pointer, bytes);
    return pointer;
}

void hostFree(void* pointer) {
    HostRanges::instance().remove(pointer);
    TORCH_FL_XPU_CHECK(xpu_host_free(pointer), kNoDevice, "xpu_host_free(", pointer, ")");
}

bool isHostAllocated(const void* pointer) {
    return HostRanges::instance().contains(pointer);
}

void copyAsync(
    void* destination, const void* source, size_t bytes, CopyDirection direction, StreamHandle stream,
    c10::DeviceIndex device, bool pinned) {
    const ScopedDevice scope(device);
    const DirectionTraits how = traits(direction);
    const size_t chunk = pinned ? kPinnedCopyChunk : bytes;
    for (size_t done = 0; done < bytes; done += chunk) {
        const size_t count = std::min(chunk, bytes - done);
        TORCH_FL_XPU_CHECK(
            xpu_memcpy_async(
                static_cast<char*>(destination) + done,
                static_cast<const char*>(source) + done,
                count,
                how.kind,
                stream),
            device,
            "xpu_memcpy_async(",
            count,
            " bytes, ",
            how.name,
            ", stream ",
            stream,
            ")");
    }
}

void copyPeer(
    void* destination, c10::DeviceIndex destination_device, const void* source, c10::DeviceIndex source_device,
    size_t bytes) {
    checkDeviceIndex(destination_device);
    checkDeviceIndex(source_device);
    TORCH_FL_XPU_CHECK(
        xpu_memcpy_peer(destination_device, destination, source_device, source, bytes),
        destination_device,
        "xpu_memcpy_peer(",
        bytes,
        " bytes, from device ",
        static_cast<int>(source_device),
        ")");
}

} // namespace torch_fl::kunlunxin

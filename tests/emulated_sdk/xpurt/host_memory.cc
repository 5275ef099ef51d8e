#include "host_memory.h"

#include <cstdlib>
#include <mutex>

#include "statistics.h"

namespace xpuemu {

constexpr uint64_t kPage = 4096;

HostMemory::Ranges::const_iterator HostMemory::find(uintptr_t address) const {
    auto after = ranges_.upper_bound(address);
    if (after == ranges_.begin()) {
        return ranges_.end();
    }
    const auto range = std::prev(after);
    return address - range->first < range->second.bytes ? range : ranges_.end();
}

XPUError_t HostMemory::allocate(uint64_t bytes, int device, void** pointer) {
    if (pointer == nullptr || bytes == 0) {
        return XPUERR_INVALID_PARAM;
    }
    if (bytes > UINT64_MAX - kPage) {
        return XPUERR_NOCPUMEM;
    }
    void* memory = std::aligned_alloc(kPage, (bytes + kPage - 1) & ~(kPage - 1));
    if (memory == nullptr) {
        return XPUERR_NOCPUMEM;
    }
    const std::lock_guard lock(mutex_);
    ranges_.emplace(reinterpret_cast<uintptr_t>(memory), Range{bytes, device, true});
    statistics().host_bytes += bytes;
    *pointer = memory;
    return XPU_SUCCESS;
}

XPUError_t HostMemory::remove(void* pointer, bool allocated) {
    const std::lock_guard lock(mutex_);
    const auto range = ranges_.find(reinterpret_cast<uintptr_t>(pointer));
    if (range == ranges_.end() || range->second.allocated != allocated) {
        return XPUERR_INVALID_PARAM;
    }
    if (allocated) {
        statistics().host_bytes -= range->second.bytes;
    }
    ranges_.erase(range);
    return XPU_SUCCESS;
}

XPUError_t HostMemory::release(void* pointer) {
    const XPUError_t error = remove(pointer, true);
    if (error == XPU_SUCCESS) {
        std::free(pointer);
    }
    return error;
}

XPUError_t HostMemory::registerRange(void* pointer, uint64_t bytes, int device) {
    const auto first = reinterpret_cast<uintptr_t>(pointer);
    if (pointer == nullptr || bytes == 0 || bytes > UINTPTR_MAX - first) {
        return XPUERR_INVALID_PARAM;
    }
    const std::lock_guard lock(mutex_);
    const auto next = ranges_.lower_bound(first);
    const bool overlaps = find(first) != ranges_.end() || (next != ranges_.end() && next->first - first < bytes);
    if (overlaps) {
        return XPUERR_HOSTMEM_ALREADY_REGISTERED;
    }
    ranges_.emplace(first, Range{bytes, device, false});
    return XPU_SUCCESS;
}

XPUError_t HostMemory::unregisterRange(void* pointer) {
    return remove(pointer, false);
}

int HostMemory::deviceOf(const void* pointer) const {
    const std::shared_lock lock(mutex_);
    const auto range = find(reinterpret_cast<uintptr_t>(pointer));
    return range == ranges_.end() ? -1 : range->second.device;
}

bool HostMemory::contains(const void* pointer, uint64_t bytes) const {
    const auto address = reinterpret_cast<uintptr_t>(pointer);
    const std::shared_lock lock(mutex_);
    const auto range = find(address);
    return range != ranges_.end() && bytes <= range->second.bytes - (address - range->first);
}

} // namespace xpuemu

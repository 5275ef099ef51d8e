#include "device_memory.h"

#include <cstring>
#include <new>

#include <sys/mman.h>

#include "statistics.h"

namespace xpuemu {

constexpr unsigned kGranuleShift = 16; // allocations are aligned to 64 KiB
constexpr uint64_t kGranule = uint64_t{1} << kGranuleShift;

static constexpr uint64_t roundUp(uint64_t bytes) {
    return (bytes + kGranule - 1) & ~(kGranule - 1);
}

template <typename T>
static std::atomic<T>* zeroPages(uint64_t count) {
    static_assert(std::atomic<T>::is_always_lock_free && sizeof(std::atomic<T>) == sizeof(T));
    void* address =
        mmap(nullptr, count * sizeof(T), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (address == MAP_FAILED) {
        throw std::bad_alloc();
    }
    return static_cast<std::atomic<T>*>(address);
}

DeviceMemory::DeviceMemory(AddressSpace& space, int device, uint64_t capacity, std::optional<uint8_t> poison)
    : space_(space), device_(device), capacity_(capacity), poison_(poison) {
    space_.mapDevice(device);
    const uint64_t granules = space_.deviceSpan() >> kGranuleShift;
    // Kept for the life of the process, like the device.
    start_of_ = zeroPages<uint32_t>(granules);
    bytes_of_ = zeroPages<uint64_t>(granules);
    gaps_.emplace(0, space_.deviceSpan());
}

void DeviceMemory::markGranules(uint64_t offset, uint64_t span, uint32_t start) {
    const uint64_t first = offset >> kGranuleShift;
    for (uint64_t granule = first; granule < first + (span >> kGranuleShift); ++granule) {
        start_of_[granule].store(start, std::memory_order_release);
    }
}

XPUError_t DeviceMemory::allocate(uint64_t bytes, XPUMemoryKind kind, void** pointer) {
    const bool known = kind == XPU_MEM_MAIN || kind == XPU_MEM_L3 || kind == XPU_MEM_MMAPPABLE;
    if (pointer == nullptr || bytes == 0 || !known) {
        return XPUERR_INVALID_PARAM;
    }
    const std::lock_guard lock(mutex_);
    if (kind == XPU_MEM_L3 || bytes > capacity_ - used_) { // there is no L3 memory: XPUATTR_MEM_L3_CAPACITY is 0
        return XPUERR_NOMEM;
    }
    const uint64_t span = roundUp(bytes);
    auto gap = gaps_.begin();
    while (gap != gaps_.end() && gap->second < span) {
        ++gap;
    }
    if (gap == gaps_.end()) {
        return XPUERR_NOMEM;
    }
    const uint64_t offset = gap->first;
    const uint64_t left = gap->second - span;
    allocations_.emplace(offset, Allocation{bytes, span, kind});
    gaps_.erase(gap);
    if (left != 0) {
        gaps_.emplace(offset + span, left);
    }
    used_ += bytes;
    const uint64_t first = offset >> kGranuleShift;
    bytes_of_[first].store(bytes, std::memory_order_relaxed);
    markGranules(offset, span, static_cast<uint32_t>(first + 1));

    const uintptr_t address = space_.viewAddress(device_, offset);
    if (poison_) {
        std::memset(space_.hostAddress(address), *poison_, bytes);
    }
    ++statistics().mallocs;
    statistics().bytes_in_use += bytes;
    *pointer = reinterpret_cast<void*>(address);
    return XPU_SUCCESS;
}

XPUError_t DeviceMemory::release(void* pointer) {
    const uint64_t offset = space_.offsetOf(reinterpret_cast<uintptr_t>(pointer));
    const std::lock_guard lock(mutex_);
    const auto found = allocations_.find(offset);
    if (found == allocations_.end()) {
        return XPUERR_INVALID_PARAM;
    }
    const Allocation allocation = found->second;
    markGranules(offset, allocation.span, 0);
    space_.discard(device_, offset, allocation.span);
    allocations_.erase(found);
    used_ -= allocation.bytes;

    auto gap = gaps_.emplace(offset, allocation.span).first;
    if (const auto next = std::next(gap); next != gaps_.end() && gap->first + gap->second == next->first) {
        gap->second += next->second;
        gaps_.erase(next);
    }
    if (gap != gaps_.begin()) {
        if (const auto previous = std::prev(gap); previous->first + previous->second == gap->first) {
            previous->second += gap->second;
            gaps_.erase(gap);
        }
    }
    ++statistics().frees;
    statistics().bytes_in_use -= allocation.bytes;
    return XPU_SUCCESS;
}

XPUError_t DeviceMemory::map(void* pointer, uint64_t bytes, void** out) {
    const auto address = reinterpret_cast<uintptr_t>(pointer);
    const std::lock_guard lock(mutex_);
    const auto found = allocations_.find(space_.offsetOf(address));
    if (found == allocations_.end() || found->second.kind != XPU_MEM_MMAPPABLE || bytes > found->second.bytes) {
        return XPUERR_INVALID_PARAM;
    }
    *out = space_.hostAddress(address);
    return XPU_SUCCESS;
}

bool DeviceMemory::contains(uintptr_t address, uint64_t bytes) const {
    const uint64_t offset = space_.offsetOf(address);
    const uint32_t start = start_of_[offset >> kGranuleShift].load(std::memory_order_acquire);
    if (start == 0) {
        return false;
    }
    const uint64_t inside = offset - (uint64_t{start - 1} << kGranuleShift);
    const uint64_t size = bytes_of_[start - 1].load(std::memory_order_relaxed);
    return inside <= size && bytes <= size - inside;
}

uint64_t DeviceMemory::freeBytes() {
    const std::lock_guard lock(mutex_);
    return capacity_ - used_;
}

} // namespace xpuemu

// Allocations in the memory of one device.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <unordered_map>

#include "xpu/defs.h"

#include "address_space.h"

namespace xpuemu {

class DeviceMemory {
public:
    // Throws std::bad_alloc when the memory cannot be mapped.
    DeviceMemory(AddressSpace& space, int device, uint64_t capacity, std::optional<uint8_t> poison);
    DeviceMemory(const DeviceMemory&) = delete;
    DeviceMemory& operator=(const DeviceMemory&) = delete;

    // View address of a new allocation. XPU_SUCCESS, XPUERR_INVALID_PARAM or XPUERR_NOMEM.
    XPUError_t allocate(uint64_t bytes, XPUMemoryKind kind, void** pointer);

    // XPUERR_INVALID_PARAM unless `pointer` is the start of a live allocation. Does not wait for work that uses it.
    XPUError_t release(void* pointer);

    // Host side of an allocation made with XPU_MEM_MMAPPABLE.
    XPUError_t map(void* pointer, uint64_t bytes, void** out);

    // Whether [address, address + bytes) lies in one live allocation. Lock-free.
    bool contains(uintptr_t address, uint64_t bytes) const;

    uint64_t capacity() const { return capacity_; }
    uint64_t freeBytes();

private:
    struct Allocation {
        uint64_t bytes;
        uint64_t span; // bytes of address space
        XPUMemoryKind kind;
    };

    void markGranules(uint64_t offset, uint64_t span, uint32_t start);

    AddressSpace& space_;
    const int device_;
    const uint64_t capacity_;
    const std::optional<uint8_t> poison_;

    std::mutex mutex_;
    uint64_t used_ = 0;                                    // as requested
    std::map<uint64_t, uint64_t> gaps_;                    // offset -> bytes, never adjacent
    std::unordered_map<uint64_t, Allocation> allocations_; // by offset

    // For contains(): per granule the first granule of its allocation plus one (0: not allocated), and per first
    // granule the allocation's size. Both lie in zero pages that come into being when written.
    std::atomic<uint32_t>* start_of_ = nullptr;
    std::atomic<uint64_t>* bytes_of_ = nullptr;
};

} // namespace xpuemu

// Host memory that the runtime knows: allocated by it or registered with it.
#pragma once

#include <cstdint>
#include <map>
#include <shared_mutex>

#include "xpu/defs.h"

namespace xpuemu {

class HostMemory {
public:
    XPUError_t allocate(uint64_t bytes, int device, void** pointer);
    XPUError_t release(void* pointer);
    XPUError_t registerRange(void* pointer, uint64_t bytes, int device);
    XPUError_t unregisterRange(void* pointer);

    // Device that was current when the range holding `pointer` became known, or -1 when it is not known.
    int deviceOf(const void* pointer) const;

    // Whether the whole of [pointer, pointer + bytes) is known.
    bool contains(const void* pointer, uint64_t bytes) const;

private:
    struct Range {
        uint64_t bytes;
        int device;
        bool allocated; // by us, as opposed to registered
    };
    using Ranges = std::map<uintptr_t, Range>;

    Ranges::const_iterator find(uintptr_t address) const; // caller holds the lock
    XPUError_t remove(void* pointer, bool allocated);

    mutable std::shared_mutex mutex_;
    Ranges ranges_; // by first address, never overlapping
};

} // namespace xpuemu

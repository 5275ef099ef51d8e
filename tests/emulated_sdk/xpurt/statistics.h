// Counters that tests read through xpuemu_statistic.
#pragma once

#include <atomic>
#include <cstdint>

namespace xpuemu {

struct Statistics {
    std::atomic<uint64_t> mallocs{0};
    std::atomic<uint64_t> frees{0};
    std::atomic<uint64_t> bytes_in_use{0}; // as requested, over all devices
    std::atomic<uint64_t> host_bytes{0};   // allocated by xpu_host_alloc, not registered
    std::atomic<uint64_t> copies{0};       // completed
    std::atomic<uint64_t> copied_bytes{0};
    std::atomic<uint64_t> launches{0}; // submitted kernels
    std::atomic<uint64_t> streams{0};  // open now, default streams not counted
    std::atomic<uint64_t> events{0};   // existing now
};

Statistics& statistics();

} // namespace xpuemu

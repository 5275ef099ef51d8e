#include "statistics.h"

#include <string_view>

#include "common/export.h"
#include "emulation.h"

namespace xpuemu {

// Trivially destructible, so workers may still count while the process exits.
static constinit Statistics counters;

Statistics& statistics() {
    return counters;
}

} // namespace xpuemu

extern "C" XPUEMU_EXPORT uint64_t xpuemu_statistic(const char* name) {
    if (name == nullptr) {
        return UINT64_MAX;
    }
    const xpuemu::Statistics& counters = xpuemu::statistics();
    const struct {
        std::string_view name;
        const std::atomic<uint64_t>& value;
    } table[] = {
        {"mallocs", counters.mallocs},
        {"frees", counters.frees},
        {"bytes_in_use", counters.bytes_in_use},
        {"host_bytes", counters.host_bytes},
        {"copies", counters.copies},
        {"copied_bytes", counters.copied_bytes},
        {"launches", counters.launches},
        {"streams", counters.streams},
        {"events", counters.events},
    };
    for (const auto& row : table) {
        if (row.name == name) {
            return row.value.load();
        }
    }
    return UINT64_MAX;
}

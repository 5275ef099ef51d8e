// XPU-RT 5.37.1 was seen to end a process that loads it before profiler tracing has been enabled. On demand this copy
// does the same; the exit status is ours.

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "common/environment.h"

__attribute__((constructor)) static void endUnlessTracing() {
    const char* tracing = std::getenv("XPU_ENABLE_PROFILER_TRACING");
    const bool enabled = tracing != nullptr && std::strcmp(tracing, "1") == 0;
    if (xpuemu::numberFromEnvironment("XPUEMU_PROFILER_GATE", 0, 1) == 1 && !enabled) {
        std::fputs("Runtime profiler is disabled\n", stderr);
        std::exit(1);
    }
}

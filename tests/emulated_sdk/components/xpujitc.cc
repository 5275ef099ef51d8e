#include "xpujitc.h"

#include "common/export.h"

extern "C" XPUEMU_EXPORT const char* xpujitc_target(void) {
#if defined(__x86_64__)
    __builtin_cpu_init(); // needed when a constructor asks
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
        return "avx2";
    }
#endif
    return "baseline";
}

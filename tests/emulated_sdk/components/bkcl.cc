// libbkcl.so: the collective library, without collectives in this version of the emulator. Like the vendor's it says on
// stderr from where it was loaded.

#include <cstdio>

#include <dlfcn.h>

#include "common/export.h"
#include "versions.h"

extern "C" XPUEMU_EXPORT const char* bkcl_component_set(void) {
    return XPUEMU_COMPONENT_SET;
}

__attribute__((constructor)) static void announce() {
    Dl_info info{};
    if (dladdr(reinterpret_cast<void*>(&bkcl_component_set), &info) != 0) {
        std::fprintf(stderr, "XCCL %s loaded\n", info.dli_fname);
    }
}

// Entry points about device memory and about host memory that the runtime knows.

#include "xpu/runtime.h"

#include "common/export.h"
#include "entry.h"

using namespace xpuemu;

extern "C" {

XPUEMU_EXPORT int xpu_malloc(void** pdevptr, uint64_t bytes, XPUMemoryKind kind) {
    return entryOnDevice([&](Machine&, Device& device) {
        const XPUError_t error = device.health().status();
        return error != XPU_SUCCESS ? error : device.memory().allocate(bytes, kind, pdevptr);
    });
}

// Memory may be freed whichever device is current, also on a poisoned device, and work that still uses it is not
// waited for: what it reads and writes then is undefined.
XPUEMU_EXPORT int xpu_free(void* devptr) {
    return entryOnDevice([&](Machine& machine, Device&) {
        const int owner = machine.space().deviceOf(reinterpret_cast<uintptr_t>(devptr));
        return owner < 0 ? XPUERR_INVALID_PARAM : machine.device(owner).memory().release(devptr);
    });
}

XPUEMU_EXPORT int xpu_mmap(void** out, void* devptr, size_t bytes) {
    return entryOnDevice([&](Machine& machine, Device&) {
        const int owner = machine.space().deviceOf(reinterpret_cast<uintptr_t>(devptr));
        if (out == nullptr || owner < 0) {
            return XPUERR_INVALID_PARAM;
        }
        return machine.device(owner).memory().map(devptr, bytes, out);
    });
}

XPUEMU_EXPORT int xpu_host_alloc(void** phostptr, uint64_t bytes, unsigned int flags) {
    return entryOnDevice([&](Machine& machine, Device&) {
        return flags != 0 ? XPUERR_INVALID_PARAM : machine.hostMemory().allocate(bytes, currentDevice(), phostptr);
    });
}

XPUEMU_EXPORT int xpu_host_free(void* hostptr) {
    return entryOnDevice([&](Machine& machine, Device&) { return machine.hostMemory().release(hostptr); });
}

XPUEMU_EXPORT int xpu_host_register(void* hostptr, uint64_t bytes, unsigned int flags) {
    return entryOnDevice([&](Machine& machine, Device&) {
        return flags != 0 ? XPUERR_INVALID_PARAM : machine.hostMemory().registerRange(hostptr, bytes, currentDevice());
    });
}

XPUEMU_EXPORT int xpu_host_unregister(void* hostptr) {
    return entryOnDevice([&](Machine& machine, Device&) { return machine.hostMemory().unregisterRange(hostptr); });
}

} // extern "C"

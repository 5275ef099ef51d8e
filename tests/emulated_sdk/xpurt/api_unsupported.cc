// Entry points that the emulator knows but cannot serve: it does not execute XPU machine code, has no links between
// cards, measures no kernels, and shares no memory between processes. All of them answer -XPUERR_NOSUPPORT.

#include "xpu/runtime.h"

#include "common/export.h"

constexpr int kRefused = -XPUERR_NOSUPPORT;

extern "C" {

XPUEMU_EXPORT int xpu_get_ccix_peer_id(int, int, int*) {
    return kRefused;
}

XPUEMU_EXPORT int xpu_create_sd_func(XPUFunc*, uint64_t, uint32_t, uint32_t, uint32_t, uint64_t, const char*, bool) {
    return kRefused;
}
XPUEMU_EXPORT int xpu_create_cl_func(XPUFunc*, uint64_t, uint32_t, uint32_t, uint32_t, uint64_t, const char*, bool) {
    return kRefused;
}
XPUEMU_EXPORT int xpu_launch_config(int, int, XPUStream) {
    return kRefused;
}
XPUEMU_EXPORT int xpu_launch_argument_set(const void*, size_t, size_t) {
    return kRefused;
}
XPUEMU_EXPORT int xpu_launch_async(XPUFunc) {
    return kRefused;
}
XPUEMU_EXPORT int xpu_last_kernel_exec_time(uint64_t*) {
    return kRefused;
}
XPUEMU_EXPORT int xpu_kernel_debug(XPUStream) {
    return kRefused;
}
XPUEMU_EXPORT int xpu_kernel_debug_reset(void) {
    return kRefused;
}

XPUEMU_EXPORT int xpu_ipc_get_memhandle(XPUIpcMemHandle*, void*) {
    return kRefused;
}
XPUEMU_EXPORT int xpu_ipc_open_memhandle(void**, XPUIpcMemHandle, unsigned int) {
    return kRefused;
}
XPUEMU_EXPORT int xpu_ipc_close_memhandle(void*) {
    return kRefused;
}

} // extern "C"

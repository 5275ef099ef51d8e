// What the emulated libxpurt exports beyond the vendor's interface: the other emulated libraries run their kernels
// through it, and tests read its counters.
#pragma once

#include <cstdint>

#include "xpu/runtime.h"

extern "C" {

// Kind of a pointer, as cudaPointerGetAttributes numbers it.
enum XpuemuPointerKind {
    XPUEMU_POINTER_UNKNOWN = 0,
    XPUEMU_POINTER_HOST = 1, // xpu_host_alloc or xpu_host_register
    XPUEMU_POINTER_DEVICE = 2,
};

// The address at which this process may really read and write `bytes` bytes of device memory at `devptr`, or null when
// they do not lie in one live allocation. Lock-free.
void* xpuemu_host_view(const void* devptr, uint64_t bytes);

// Ordinal of the device that owns `devptr`, or -1. Lock-free.
int xpuemu_pointer_device(const void* devptr);

XpuemuPointerKind xpuemu_pointer_kind(const void* pointer, int* devid);

// Ordinal of the device of `stream` (null: the calling thread's current device). 0 or a negative XPUError_t.
int xpuemu_stream_device(XPUStream stream, int* devid);

// Runs fn(arg) on the stream's worker, after everything submitted to the stream before, and then destroy(arg), which
// may be null. On failure (a negative XPUError_t) fn is never called and arg stays the caller's.
int xpuemu_enqueue(XPUStream stream, void (*fn)(void*), void* arg, void (*destroy)(void*));

// Called by fn on a worker: the kernel has failed. The device refuses everything from here on.
void xpuemu_raise_kernel_exception(void);

// Bytes of device memory that are not allocated. For the CUDA-shaped libraries; libxpurt has no such query.
int xpuemu_memory_info(uint64_t* free_bytes, uint64_t* total_bytes);

// A counter of this process: mallocs, frees, bytes_in_use, host_bytes, copies, copied_bytes, launches, streams, events.
// UINT64_MAX for any other name.
uint64_t xpuemu_statistic(const char* name);

} // extern "C"

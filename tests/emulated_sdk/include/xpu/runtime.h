// The XPU runtime's C interface, as far as it is publicly known for the P800 (XRE5). A C++ header: it uses default
// arguments. Every function returns 0 on success and a negative number on failure, whose absolute value is an
// XPUError_t.
//
// Written from scratch for the emulated SDK; public_interface.tsv holds every prototype with its source.
// Not declared, because their parameters are not publicly known: xpu_launch_config_v2, xpu_pointer_get_attrs,
// xpu_host_pointer_get_attrs, xpu_profiler_start, xpu_profiler_stop.
#pragma once

#include <cstddef>
#include <cstdint>

#include "xpu/defs.h"
#include "xpu/version.h"

extern "C" {

// Passed by value to xpu_ipc_open_memhandle. Its size is our inference.
struct XPUIpcMemHandle {
    char reserved[64];
};

// Versions. A commit buffer holds XPU_MAX_STRLEN characters.
int xpu_get_driver_version(uint32_t* major, uint32_t* minor);
int xpu_get_runtime_version(uint32_t* major, uint32_t* minor);
int xpu_get_driver_commit(char* commit);
int xpu_get_runtime_commit(char* commit);

// Devices. The current device belongs to the calling thread and starts as 0.
int xpu_device_count(int* count);
int xpu_device_list(int* devids);
int xpu_set_device(int devid);
int xpu_current_device(int* devid);
int xpu_device_get_attr(uint64_t* value, XPUDeviceAttr attr, int devid);
int xpu_get_ccix_peer_id(int devid, int port, int* peer);

// Memory of the current device, and host memory known to the runtime.
int xpu_malloc(void** pdevptr, uint64_t bytes, XPUMemoryKind kind = XPU_MEM_MAIN);
int xpu_free(void* devptr);
int xpu_mmap(void** out, void* devptr, size_t bytes);
int xpu_host_alloc(void** phostptr, uint64_t bytes, unsigned int flags = 0);
int xpu_host_free(void* hostptr);
int xpu_host_register(void* hostptr, uint64_t bytes, unsigned int flags = 0);
int xpu_host_unregister(void* hostptr);

// Copies.
int xpu_memcpy(void* dst, const void* src, uint64_t bytes, XPUMemcpyKind kind);
int xpu_memcpy_async(void* dst, const void* src, uint64_t bytes, XPUMemcpyKind kind, XPUStream stream);
int xpu_memcpy_peer(int dst_devid, void* dst, int src_devid, const void* src, uint64_t bytes);

// Streams and events. xpu_event_query returns 0 when the event's work is complete.
int xpu_stream_create(XPUStream* pstream);
int xpu_stream_destroy(XPUStream stream);
int xpu_stream_wait_event(XPUStream stream, XPUEvent event);
int xpu_event_create(XPUEvent* pevent);
int xpu_event_destroy(XPUEvent event);
int xpu_event_record(XPUEvent event, XPUStream stream = NULL);
int xpu_event_wait(XPUEvent event);
int xpu_event_query(XPUEvent event);
int xpu_wait(XPUStream stream = NULL);

// Kernels given as device code.
int xpu_create_sd_func(
    XPUFunc* pfunc, uint64_t code_addr, uint32_t code_byte_size, uint32_t code_pc, uint32_t param_dword_size,
    uint64_t hash, const char* name = NULL, bool on_xpu = false);
int xpu_create_cl_func(
    XPUFunc* pfunc, uint64_t code_addr, uint32_t code_byte_size, uint32_t code_pc, uint32_t param_dword_size,
    uint64_t hash, const char* name = NULL, bool on_xpu = false);
int xpu_launch_config(int nclusters, int ncores, XPUStream stream = NULL);
int xpu_launch_argument_set(const void* arg, size_t size, size_t offset);
int xpu_launch_async(XPUFunc func);
int xpu_last_kernel_exec_time(uint64_t* nanoseconds);
int xpu_kernel_debug(XPUStream stream = NULL);
int xpu_kernel_debug_reset(void);

// Memory shared between processes (XRE5 only).
int xpu_ipc_get_memhandle(XPUIpcMemHandle* handle, void* devptr);
int xpu_ipc_open_memhandle(void** pdevptr, XPUIpcMemHandle handle, unsigned int flags);
int xpu_ipc_close_memhandle(void* devptr);

} // extern "C"

// Entry points that copy.
//
// Chosen here, because it is not publicly known:
// - a synchronous copy first waits for the default stream of the current device (a peer copy: of both devices), and
//   for no other stream;
// - device memory must belong to the current device, or to the device of the stream, or to the device named;
// - asynchronous copies are asynchronous for pageable host memory too: the caller must keep the host memory alive and
//   unchanged until the stream has been waited for.

#include <cstring>

#include "xpu/runtime.h"

#include "common/export.h"
#include "entry.h"
#include "statistics.h"

using namespace xpuemu;

// What the P800 was seen to answer to a long asynchronous copy of pinned memory; no XPUError_t.
constexpr int kPinnedCopyTooLong = 999;

namespace {

struct Copy {
    void* to;
    const void* from;
    uint64_t bytes;

    void operator()() const {
        std::memmove(to, from, bytes);
        ++statistics().copies;
        statistics().copied_bytes += bytes;
    }
};

} // namespace

// Address at which `pointer` can be used, or null when it is not memory of `device`.
static void* onDevice(Machine& machine, int device, const void* pointer, uint64_t bytes) {
    const bool belongs = machine.space().deviceOf(reinterpret_cast<uintptr_t>(pointer)) == device;
    return belongs ? machine.hostView(pointer, bytes) : nullptr;
}

// `pointer`, or null when it is not host memory.
static void* onHost(Machine& machine, const void* pointer) {
    const bool is_device = machine.space().deviceOf(reinterpret_cast<uintptr_t>(pointer)) >= 0;
    return is_device ? nullptr : const_cast<void*>(pointer);
}

static XPUError_t
prepare(Machine& machine, int device, void* dst, const void* src, uint64_t bytes, XPUMemcpyKind kind, Copy* copy) {
    const bool from_device = kind == XPU_DEVICE_TO_HOST || kind == XPU_DEVICE_TO_DEVICE;
    const bool to_device = kind == XPU_HOST_TO_DEVICE || kind == XPU_DEVICE_TO_DEVICE;
    if (!from_device && !to_device) {
        return XPUERR_INVALID_PARAM;
    }
    copy->to = to_device ? onDevice(machine, device, dst, bytes) : onHost(machine, dst);
    copy->from = from_device ? onDevice(machine, device, src, bytes) : onHost(machine, src);
    copy->bytes = bytes;
    return copy->to == nullptr || copy->from == nullptr ? XPUERR_INVALID_PARAM : XPU_SUCCESS;
}

// A copy of pinned memory longer than the limit that a test has set.
static bool isTooLong(Machine& machine, const void* dst, const void* src, uint64_t bytes) {
    const uint64_t limit = machine.settings().pinned_copy_limit;
    return limit != 0 && bytes > limit &&
           (machine.hostMemory().contains(src, bytes) || machine.hostMemory().contains(dst, bytes));
}

static XPUError_t copyNow(Device& device, const Copy& copy) {
    device.defaultStream().wait();
    const XPUError_t error = device.health().collect();
    if (error == XPU_SUCCESS) {
        copy();
    }
    return error;
}

extern "C" {

XPUEMU_EXPORT int xpu_memcpy(void* dst, const void* src, uint64_t bytes, XPUMemcpyKind kind) {
    return entryOnDevice([&](Machine& machine, Device& device) {
        if (bytes == 0) {
            return device.health().status();
        }
        Copy copy{};
        const XPUError_t error = prepare(machine, currentDevice(), dst, src, bytes, kind, &copy);
        return error != XPU_SUCCESS ? error : copyNow(device, copy);
    });
}

XPUEMU_EXPORT int xpu_memcpy_async(void* dst, const void* src, uint64_t bytes, XPUMemcpyKind kind, XPUStream handle) {
    return entryOnStream(handle, [&](Machine& machine, Stream& stream) {
        XPUError_t error = stream.health().status();
        if (error != XPU_SUCCESS || bytes == 0) {
            return error;
        }
        Copy copy{};
        error = prepare(machine, stream.device(), dst, src, bytes, kind, &copy);
        if (error == XPU_SUCCESS && isTooLong(machine, dst, src, bytes)) {
            return static_cast<XPUError_t>(kPinnedCopyTooLong);
        }
        return error != XPU_SUCCESS ? error : stream.submit(Task::of(Task::Kind::Work, copy));
    });
}

XPUEMU_EXPORT int xpu_memcpy_peer(int dst_devid, void* dst, int src_devid, const void* src, uint64_t bytes) {
    return entryOnDevice([&](Machine& machine, Device&) {
        if (!machine.hasDevice(dst_devid) || !machine.hasDevice(src_devid)) {
            return XPUERR_INVALID_DEVICE;
        }
        Device& from = machine.device(src_devid);
        Device& to = machine.device(dst_devid);
        if (bytes == 0) {
            return to.health().status();
        }
        const Copy copy{onDevice(machine, dst_devid, dst, bytes), onDevice(machine, src_devid, src, bytes), bytes};
        if (copy.to == nullptr || copy.from == nullptr) {
            return XPUERR_INVALID_PARAM;
        }
        from.defaultStream().wait();
        const XPUError_t error = from.health().collect();
        return error != XPU_SUCCESS ? error : copyNow(to, copy);
    });
}

} // extern "C"

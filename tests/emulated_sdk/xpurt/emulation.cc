#include "emulation.h"

#include "common/export.h"
#include "entry.h"
#include "statistics.h"

using namespace xpuemu;

extern "C" {

XPUEMU_EXPORT void* xpuemu_host_view(const void* devptr, uint64_t bytes) {
    Machine* machine = Machine::existing();
    return machine == nullptr || inForkedChild() ? nullptr : machine->hostView(devptr, bytes);
}

XPUEMU_EXPORT int xpuemu_pointer_device(const void* devptr) {
    const Machine* machine = Machine::existing();
    return machine == nullptr ? -1 : machine->space().deviceOf(reinterpret_cast<uintptr_t>(devptr));
}

XPUEMU_EXPORT XpuemuPointerKind xpuemu_pointer_kind(const void* pointer, int* devid) {
    *devid = -1;
    Machine* machine = Machine::existing();
    if (machine == nullptr || inForkedChild()) {
        return XPUEMU_POINTER_UNKNOWN;
    }
    if (machine->hostView(pointer, 1) != nullptr) {
        *devid = machine->space().deviceOf(reinterpret_cast<uintptr_t>(pointer));
        return XPUEMU_POINTER_DEVICE;
    }
    *devid = machine->hostMemory().deviceOf(pointer);
    return *devid < 0 ? XPUEMU_POINTER_UNKNOWN : XPUEMU_POINTER_HOST;
}

XPUEMU_EXPORT int xpuemu_stream_device(XPUStream handle, int* devid) {
    return entryOnStream(handle, [&](Machine&, const Stream& stream) {
        *devid = stream.device();
        return XPU_SUCCESS;
    });
}

XPUEMU_EXPORT int xpuemu_enqueue(XPUStream handle, void (*fn)(void*), void* arg, void (*destroy)(void*)) {
    return entryOnStream(handle, [&](Machine& machine, Stream& stream) {
        XPUError_t error = stream.health().status();
        if (error != XPU_SUCCESS) {
            return error;
        }
        const uint64_t number = ++statistics().launches;
        if (number == machine.settings().failing_launch) {
            error = stream.submit(Task::of(Task::Kind::Work, [] { xpuemu_raise_kernel_exception(); }));
            if (error != XPU_SUCCESS) {
                return error;
            }
        }
        Task task(Task::Kind::Work, fn, arg, destroy);
        error = stream.submit(std::move(task));
        if (error != XPU_SUCCESS) {
            task.disown();
        }
        return error;
    });
}

XPUEMU_EXPORT void xpuemu_raise_kernel_exception(void) {
    if (Stream* stream = Stream::current()) {
        stream->health().fail();
    }
}

XPUEMU_EXPORT int xpuemu_memory_info(uint64_t* free_bytes, uint64_t* total_bytes) {
    return entryOnDevice([&](Machine&, Device& device) {
        *free_bytes = device.memory().freeBytes();
        *total_bytes = device.memory().capacity();
        return XPU_SUCCESS;
    });
}

} // extern "C"

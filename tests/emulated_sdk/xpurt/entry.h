// What every entry point has in common.
#pragma once

#include <new>

#include "machine.h"

namespace xpuemu {

// Runs `body`, which answers an XPUError_t, and returns its negative, as the interface wants. Nothing is thrown across
// the C interface. In a forked child the answer is -XPUERR_UNINIT: locks may be held by threads that do not exist.
template <typename F>
int entry(F body) {
    if (inForkedChild()) {
        return -XPUERR_UNINIT;
    }
    try {
        return -body();
    } catch (const std::bad_alloc&) {
        return -XPUERR_NOCPUMEM;
    } catch (...) {
        return -XPUERR_UNEXPECT;
    }
}

// As entry(), for calls that use the calling thread's current device.
template <typename F>
int entryOnDevice(F body) {
    return entry([&] {
        Machine& machine = Machine::instance();
        if (!machine.hasDevice(currentDevice())) {
            return XPUERR_NODEV;
        }
        return body(machine, machine.device(currentDevice()));
    });
}

// As entry(), for calls that need a stream by its handle.
template <typename F>
int entryOnStream(XPUStream handle, F body) {
    return entry([&] {
        Machine& machine = Machine::instance();
        std::shared_ptr<Stream> stream;
        const XPUError_t error = machine.findStream(handle, &stream);
        return error != XPU_SUCCESS ? error : body(machine, *stream);
    });
}

} // namespace xpuemu

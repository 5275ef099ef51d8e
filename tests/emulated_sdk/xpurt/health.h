// Whether a device still works. A failed kernel poisons its device for the life of the process; the real one stays
// poisoned until it is reset.
#pragma once

#include <atomic>

#include "xpu/defs.h"

namespace xpuemu {

class Health {
public:
    bool good() const { return state_.load(std::memory_order_acquire) == State::Good; }

    void fail() {
        State expected = State::Good;
        state_.compare_exchange_strong(expected, State::Excepted);
    }

    // What a call that does not synchronise answers.
    XPUError_t status() const { return toError(state_.load(std::memory_order_acquire)); }

    // What a synchronising call answers: the kernel's failure once, and from then on that the device is abnormal.
    XPUError_t collect() {
        State expected = State::Excepted;
        state_.compare_exchange_strong(expected, State::Abnormal);
        return toError(expected); // as it was before this call
    }

private:
    enum class State { Good, Excepted, Abnormal };

    static XPUError_t toError(State state) {
        switch (state) {
        case State::Good:
            return XPU_SUCCESS;
        case State::Excepted:
            return XPUERR_KEXCEPTION;
        default:
            return XPUERR_ABNORMAL;
        }
    }

    std::atomic<State> state_{State::Good};
};

} // namespace xpuemu

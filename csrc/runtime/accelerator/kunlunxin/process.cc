#include "runtime/accelerator/kunlunxin/process.h"

#include <c10/util/Exception.h>

#include <pthread.h>

#include <atomic>

namespace torch_fl::kunlunxin {

namespace {

// Constant-initialised, so the handler may run at any time.
constinit std::atomic<bool> called{false};
constinit std::atomic<bool> forked_after_call{false};

// Runs in the child, where only async-signal-safe work is allowed.
void markChild() {
    if (called.load(std::memory_order_relaxed)) {
        forked_after_call.store(true, std::memory_order_relaxed);
    }
}

} // namespace

void watchForks() {
    const int returned = pthread_atfork(nullptr, nullptr, markChild);
    TORCH_CHECK(returned == 0, "pthread_atfork() failed with ", returned);
}

void noteCall() noexcept {
    called.store(true, std::memory_order_relaxed);
}

bool isForkedAfterCall() noexcept {
    return forked_after_call.load(std::memory_order_relaxed);
}

void checkNotForked() {
    TORCH_CHECK(
        !isForkedAfterCall(),
        "Cannot re-initialize flagos in forked subprocess. To use flagos with multiprocessing, you must use "
        "the 'spawn' start method");
}

} // namespace torch_fl::kunlunxin

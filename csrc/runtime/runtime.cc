#include "runtime/runtime.h"

#include "runtime/device_allocator.h"
#include "runtime/guard.h"
#include "runtime/hooks.h"
#include "runtime/host_allocator.h"

#include <c10/core/DeviceType.h>
#include <c10/util/CallOnce.h>
#include <c10/util/Exception.h>

#include <pthread.h>

#include <atomic>
#include <memory>

namespace torch_fl {

namespace {

enum class ProcessState { Unused, InUse, ForkedInUse };

std::atomic<ProcessState>& processState() {
    static std::atomic<ProcessState> state{ProcessState::Unused};
    return state;
}

// Runs in the child, where only async-signal-safe work is allowed.
void markForkedChild() {
    if (processState().load(std::memory_order_relaxed) == ProcessState::InUse) {
        processState().store(ProcessState::ForkedInUse, std::memory_order_relaxed);
    }
}

C10_NOINLINE void firstUse() {
    TORCH_CHECK(
        processState().load(std::memory_order_relaxed) != ProcessState::ForkedInUse,
        "Cannot re-initialize flagos in forked subprocess. To use flagos with multiprocessing, you must use the "
        "'spawn' start method");
    static c10::once_flag handler;
    c10::call_once(handler, [] {
        const int returned = pthread_atfork(nullptr, nullptr, markForkedChild);
        TORCH_CHECK(returned == 0, "pthread_atfork() failed with ", returned);
    });
    processState().store(ProcessState::InUse, std::memory_order_relaxed);
}

} // namespace

void registerRuntime() {
    // Refuses a second name. torch itself refuses a second set of hooks.
    c10::register_privateuse1_backend("flagos");
    at::RegisterPrivateUse1HooksInterface(std::make_unique<FlagosHooks>().release());
    // PyTorch keeps both for the life of the process and never deletes them.
    static const c10::impl::DeviceGuardImplRegistrar guard(
        c10::DeviceType::PrivateUse1, std::make_unique<FlagosGuardImpl>().release());
    c10::SetAllocator(c10::DeviceType::PrivateUse1, &deviceAllocator());
    at::setHostAllocator(c10::DeviceType::PrivateUse1, &hostAllocator());
}

void requireUsable() {
    if (C10_UNLIKELY(!isInitialized())) {
        firstUse();
    }
}

bool isInitialized() noexcept {
    return processState().load(std::memory_order_relaxed) == ProcessState::InUse;
}

bool isInBadFork() noexcept {
    return processState().load(std::memory_order_relaxed) == ProcessState::ForkedInUse;
}

} // namespace torch_fl

#include "runtime/runtime.h"

#include "runtime/accelerator/kunlunxin/process.h"
#include "runtime/device_allocator.h"
#include "runtime/guard.h"
#include "runtime/hooks.h"
#include "runtime/host_allocator.h"

#include <c10/core/DeviceType.h>

#include <atomic>
#include <memory>

namespace torch_fl {

namespace {

constinit std::atomic<bool> initialized{false};

} // namespace

void registerRuntime() {
    // Refuses a second name. torch itself refuses a second set of hooks.
    c10::register_privateuse1_backend("flagos");
    kunlunxin::watchForks();
    at::RegisterPrivateUse1HooksInterface(std::make_unique<FlagosHooks>().release());
    // PyTorch keeps both for the life of the process and never deletes them.
    static const c10::impl::DeviceGuardImplRegistrar guard(
        c10::DeviceType::PrivateUse1, std::make_unique<FlagosGuardImpl>().release());
    c10::SetAllocator(c10::DeviceType::PrivateUse1, &deviceAllocator());
    at::setHostAllocator(c10::DeviceType::PrivateUse1, &hostAllocator());
}

void requireUsable() {
    kunlunxin::checkNotForked();
    if (C10_UNLIKELY(!initialized.load(std::memory_order_relaxed))) {
        initialized.store(true, std::memory_order_relaxed);
    }
}

bool isInitialized() noexcept {
    return initialized.load(std::memory_order_relaxed) && !isInBadFork();
}

bool isInBadFork() noexcept {
    return kunlunxin::isForkedAfterCall();
}

} // namespace torch_fl

#include "runtime/runtime.h"

#include "autoload/stand_in.h"
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
    TORCH_CHECK(
        !c10::is_privateuse1_backend_registered() || c10::get_privateuse1_backend() == "flagos",
        "PyTorch's PrivateUse1 device already belongs to the backend '",
        c10::get_privateuse1_backend(),
        "', and it has room for one");
    c10::register_privateuse1_backend("flagos");
    kunlunxin::watchForks();
    registerHooks(nullptr); // refuses where an owner that did not give the device a name has registered its own
    // PyTorch keeps both for the life of the process and never deletes them.
    static const c10::impl::DeviceGuardImplRegistrar guard(
        c10::DeviceType::PrivateUse1, std::make_unique<FlagosGuardImpl>().release());
    c10::SetAllocator(c10::DeviceType::PrivateUse1, &deviceAllocator());
    at::setHostAllocator(c10::DeviceType::PrivateUse1, &hostAllocator());
    // Last: the stand-in takes them as the sign that all the rest is there.
    registerHooks(std::make_unique<FlagosHooks>());
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

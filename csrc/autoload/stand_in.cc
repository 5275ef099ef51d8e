#include "autoload/stand_in.h"

#include "autoload/python.h"

#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <atomic>
#include <utility>

namespace torch_fl {

namespace {

using c10::Device;
using c10::DeviceIndex;
using c10::DeviceType;
using c10::Stream;

constexpr DeviceType kType = DeviceType::PrivateUse1;

// The backend's own, once it is there. PyTorch keeps such objects for the life of the process.
constinit std::atomic<const at::PrivateUse1HooksInterface*> real_hooks{nullptr};

const at::PrivateUse1HooksInterface& hooks() {
    if (real_hooks.load(std::memory_order_acquire) == nullptr) {
        loadBackend();
    }
    const auto* const found = real_hooks.load(std::memory_order_acquire);
    // PyTorch initializes no device under FakeTensorMode (torch/csrc/utils/device_lazy_init.cpp).
    TORCH_CHECK(found != nullptr, "flagos is not loaded: use the device once outside of FakeTensorMode");
    return *found;
}

// For questions that may not fail: the backend's hooks, or null where it does not load.
const at::PrivateUse1HooksInterface* hooksIfUsable() noexcept {
    if (real_hooks.load(std::memory_order_acquire) == nullptr && countDevices() == 0) {
        return nullptr;
    }
    return real_hooks.load(std::memory_order_acquire);
}

class StandInHooks final : public at::PrivateUse1HooksInterface {
public:
    bool isBuilt() const override { return true; }
    bool isAvailable() const override {
        const auto* const usable = hooksIfUsable();
        return usable != nullptr && usable->isAvailable();
    }
    DeviceIndex deviceCount() const override {
        const auto* const usable = hooksIfUsable();
        return usable == nullptr ? 0 : usable->deviceCount();
    }
    bool hasPrimaryContext(DeviceIndex device) const override {
        const auto* const loaded = real_hooks.load(std::memory_order_acquire);
        return loaded != nullptr && loaded->hasPrimaryContext(device);
    }
    bool isPinnedPtr(const void* data) const override {
        const auto* const loaded = real_hooks.load(std::memory_order_acquire);
        return loaded != nullptr && loaded->isPinnedPtr(data);
    }
    void init() const override { hooks().init(); }
    void setCurrentDevice(DeviceIndex device) const override { hooks().setCurrentDevice(device); }
    DeviceIndex getCurrentDevice() const override { return hooks().getCurrentDevice(); }
    DeviceIndex exchangeDevice(DeviceIndex device) const override { return hooks().exchangeDevice(device); }
    DeviceIndex maybeExchangeDevice(DeviceIndex device) const override { return hooks().maybeExchangeDevice(device); }
    Device getDeviceFromPtr(void* data) const override { return hooks().getDeviceFromPtr(data); }
    const at::Generator& getDefaultGenerator(DeviceIndex device) const override {
        return hooks().getDefaultGenerator(device);
    }
    at::Generator getNewGenerator(DeviceIndex device) const override { return hooks().getNewGenerator(device); }
    at::Allocator* getPinnedMemoryAllocator() const override { return hooks().getPinnedMemoryAllocator(); }
    void resizePrivateUse1Bytes(const c10::Storage& storage, size_t new_size) const override {
        hooks().resizePrivateUse1Bytes(storage, new_size);
    }
};

// The guard that the backend has registered in place of this one; loads it first.
const c10::impl::DeviceGuardImplInterface& guard() {
    hooks();
    return *c10::impl::getDeviceGuardImpl(kType);
}

// Only until the backend registers its own. Streams and events come out of the first question, so that no question
// about one of them can be put here; what needs neither loads the backend.
class StandInGuard final : public c10::impl::DeviceGuardImplInterface {
public:
    DeviceType type() const override { return kType; }
    Device exchangeDevice(Device device) const override { return guard().exchangeDevice(device); }
    Device getDevice() const override { return guard().getDevice(); }
    void setDevice(Device device) const override { guard().setDevice(device); }
    void uncheckedSetDevice(Device /*device*/) const noexcept override {}
    DeviceIndex deviceCount() const noexcept override {
        // The autograd engine asks once, at the first backward pass, and has no queue for a device that comes later.
        return countDevices();
    }
    Stream getStream(Device device) const override { return guard().getStream(device); }
    Stream getDefaultStream(Device device) const override { return guard().getDefaultStream(device); }
    Stream getStreamFromGlobalPool(Device device, bool is_high_priority) const override {
        return guard().getStreamFromGlobalPool(device, is_high_priority);
    }
    Stream getNewStream(Device device, int priority) const override { return guard().getNewStream(device, priority); }
    Stream exchangeStream(Stream stream) const override { return guard().exchangeStream(stream); }
    void* getStreamNativeHandle(const Stream stream) const override { return guard().getStreamNativeHandle(stream); }
    bool queryStream(const Stream& stream) const override { return guard().queryStream(stream); }
    void synchronizeStream(const Stream& stream) const override { guard().synchronizeStream(stream); }
    void synchronizeDevice(const DeviceIndex device) const override { guard().synchronizeDevice(device); }
    void recordDataPtrOnStream(const c10::DataPtr& pointer, const Stream& stream) const override {
        guard().recordDataPtrOnStream(pointer, stream);
    }
    void
    record(void** event, const Stream& stream, const DeviceIndex device, const c10::EventFlag flag) const override {
        guard().record(event, stream, device, flag);
    }
    void block(void* event, const Stream& stream) const override { guard().block(event, stream); }
    bool queryEvent(void* event) const override { return guard().queryEvent(event); }
    void synchronizeEvent(void* event) const override { guard().synchronizeEvent(event); }
    // An event that was made before the backend came holds this guard for good (c10/core/impl/InlineEvent.h).
    void destroyEvent(void* event, const DeviceIndex device) const noexcept override {
        if (event != nullptr) {
            c10::impl::getDeviceGuardImpl(kType)->destroyEvent(event, device);
        }
    }
    double elapsedTime(void* start, void* end, const DeviceIndex device) const override {
        return guard().elapsedTime(start, end, device);
    }
};

// Nothing is allocated yet, and torch.accelerator's memory functions are told so.
class StandInAllocator final : public c10::DeviceAllocator {
public:
    bool initialized() override { return false; }
    void emptyCache(c10::MempoolId_t /*pool*/) override {}
    void recordStream(const c10::DataPtr& /*pointer*/, Stream /*stream*/) override {}
    c10::CachingDeviceAllocator::DeviceStats getDeviceStats(DeviceIndex /*device*/) override { return {}; }
    void resetAccumulatedStats(DeviceIndex /*device*/) override {}
    void resetPeakStats(DeviceIndex /*device*/) override {}
    std::pair<size_t, size_t> getMemoryInfo(DeviceIndex device) override { return loaded().getMemoryInfo(device); }
    c10::DataPtr allocate(size_t size) override { return loaded().allocate(size); }
    void copy_data(void* destination, const void* source, std::size_t count) const override {
        loaded().copy_data(destination, source, count);
    }

private:
    static c10::DeviceAllocator& loaded() {
        hooks();
        return *c10::getDeviceAllocator(kType);
    }
};

StandInAllocator& standInAllocator() {
    static StandInAllocator allocator;
    return allocator;
}

} // namespace

void registerHooks(std::unique_ptr<at::PrivateUse1HooksInterface> hooks) {
    // Once a process, and refused by PyTorch when another backend was first.
    static const bool registered = [] {
        at::RegisterPrivateUse1HooksInterface(std::make_unique<StandInHooks>().release());
        return true;
    }();
    static_cast<void>(registered);
    if (hooks != nullptr) {
        real_hooks.store(hooks.release(), std::memory_order_release);
    }
}

} // namespace torch_fl

int torch_fl_register_stand_in() noexcept {
    try {
        torch_fl::registerHooks(nullptr);
        static const c10::impl::DeviceGuardImplRegistrar guard(
            torch_fl::kType, std::make_unique<torch_fl::StandInGuard>().release());
        c10::SetAllocator(torch_fl::kType, &torch_fl::standInAllocator());
        return 0;
    } catch (const std::exception&) {
        return -1;
    }
}

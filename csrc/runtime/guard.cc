#include "runtime/guard.h"

#include "runtime/accelerator/kunlunxin/device.h"
#include "runtime/device_allocator.h"
#include "runtime/event.h"
#include "runtime/runtime.h"
#include "runtime/stream.h"

#include <memory>

namespace torch_fl {

namespace {

c10::Device flagosDevice(c10::DeviceIndex index) {
    return {c10::DeviceType::PrivateUse1, index};
}

const Event& asEvent(void* event) {
    return *static_cast<const Event*>(event);
}

} // namespace

FlagosGuardImpl::FlagosGuardImpl(c10::DeviceType type) {
    TORCH_INTERNAL_ASSERT(type == static_type);
}

c10::DeviceType FlagosGuardImpl::type() const {
    return static_type;
}

c10::Device FlagosGuardImpl::exchangeDevice(c10::Device device) const {
    TORCH_INTERNAL_ASSERT(device.type() == static_type);
    if (!device.has_index()) {
        return getDevice();
    }
    return flagosDevice(kunlunxin::exchangeDevice(device.index()));
}

c10::Device FlagosGuardImpl::getDevice() const {
    return flagosDevice(kunlunxin::resolveDeviceIndex(-1));
}

void FlagosGuardImpl::setDevice(c10::Device device) const {
    TORCH_INTERNAL_ASSERT(device.type() == static_type);
    // The autograd engine selects every device in each of its threads, for CPU work too, and an error there
    // ends the process. In a forked child nothing is selected: whatever would use the device raises by
    // itself.
    if (!device.has_index() || isInBadFork()) {
        return;
    }
    kunlunxin::setDevice(device.index());
}

void FlagosGuardImpl::uncheckedSetDevice(c10::Device device) const noexcept {
    // Named so by PyTorch: called from destructors, where nothing can be done about a failure.
    if (device.has_index() && !isInBadFork()) {
        static_cast<void>(kunlunxin::setDeviceUnchecked(device.index()));
    }
}

c10::DeviceIndex FlagosGuardImpl::deviceCount() const noexcept {
    return kunlunxin::deviceCount();
}

c10::Stream FlagosGuardImpl::getStream(c10::Device device) const {
    return currentStream(device.index()).stream;
}

c10::Stream FlagosGuardImpl::getDefaultStream(c10::Device device) const {
    return defaultStream(device.index()).stream;
}

c10::Stream FlagosGuardImpl::getStreamFromGlobalPool(c10::Device device, bool /*is_high_priority*/) const {
    return streamFromPool(device.index()).stream;
}

c10::Stream FlagosGuardImpl::getNewStream(c10::Device device, int /*priority*/) const {
    // libxpurt has no priorities: the range is (0, 0), and as elsewhere in PyTorch a value outside is
    // clamped.
    return streamFromPool(device.index()).stream;
}

c10::Stream FlagosGuardImpl::exchangeStream(c10::Stream stream) const {
    return exchangeCurrentStream(stream);
}

void* FlagosGuardImpl::getStreamNativeHandle(const c10::Stream stream) const {
    return lookupStream(stream).handle;
}

bool FlagosGuardImpl::queryStream(const c10::Stream& stream) const {
    return torch_fl::queryStream(stream);
}

void FlagosGuardImpl::synchronizeStream(const c10::Stream& stream) const {
    torch_fl::synchronizeStream(stream);
}

void FlagosGuardImpl::synchronizeDevice(const c10::DeviceIndex device) const {
    torch_fl::synchronizeDevice(device);
}

void FlagosGuardImpl::recordDataPtrOnStream(const c10::DataPtr& pointer, const c10::Stream& stream) const {
    deviceAllocator().recordStream(pointer, stream);
}

void FlagosGuardImpl::record(
    void** event, const c10::Stream& stream, const c10::DeviceIndex device, const c10::EventFlag /*flag*/) const {
    TORCH_CHECK(
        device == -1 || device == stream.device_index(),
        "Event device index ",
        static_cast<int>(device),
        " does not match recording stream's device index ",
        static_cast<int>(stream.device_index()),
        ".");
    if (*event == nullptr) {
        auto created = std::make_unique<Event>();
        created->record(lookupStream(stream));
        // Owned by PyTorch from here, until destroyEvent().
        *event = created.release();
        return;
    }
    static_cast<Event*>(*event)->record(lookupStream(stream));
}

void FlagosGuardImpl::block(void* event, const c10::Stream& stream) const {
    if (event != nullptr) {
        asEvent(event).block(lookupStream(stream));
    }
}

bool FlagosGuardImpl::queryEvent(void* event) const {
    return event == nullptr || asEvent(event).query();
}

void FlagosGuardImpl::synchronizeEvent(void* event) const {
    if (event != nullptr) {
        asEvent(event).synchronize();
    }
}

void FlagosGuardImpl::destroyEvent(void* event, const c10::DeviceIndex /*device*/) const noexcept {
    const std::unique_ptr<Event> owner(static_cast<Event*>(event));
}

double FlagosGuardImpl::elapsedTime(void* /*start*/, void* /*end*/, const c10::DeviceIndex /*device*/) const {
    TORCH_CHECK_NOT_IMPLEMENTED(
        false,
        "elapsed time between events is not available on flagos: the vendor's runtime records no time in an "
        "event. Measure with a host clock around torch.flagos.synchronize()");
}

} // namespace torch_fl

#include "runtime/hooks.h"

#include "runtime/accelerator/kunlunxin/device.h"
#include "runtime/copy.h"
#include "runtime/device_allocator.h"
#include "runtime/generator.h"
#include "runtime/guard.h"
#include "runtime/host_allocator.h"
#include "runtime/runtime.h"
#include "runtime/stream.h"

#include <algorithm>
#include <utility>

namespace torch_fl {

bool FlagosHooks::isBuilt() const {
    return true;
}

bool FlagosHooks::isAvailable() const {
    return kunlunxin::deviceCount() > 0;
}

bool FlagosHooks::hasPrimaryContext(c10::DeviceIndex device) const {
    // libxpurt sets all devices up at once.
    return isInitialized() && device >= 0 && device < kunlunxin::deviceCount();
}

void FlagosHooks::init() const {
    requireUsable();
}

c10::DeviceIndex FlagosHooks::deviceCount() const {
    return kunlunxin::deviceCount();
}

void FlagosHooks::setCurrentDevice(c10::DeviceIndex device) const {
    kunlunxin::setDevice(device);
}

c10::DeviceIndex FlagosHooks::getCurrentDevice() const {
    return kunlunxin::resolveDeviceIndex(-1);
}

c10::DeviceIndex FlagosHooks::exchangeDevice(c10::DeviceIndex device) const {
    // PyTorch passes -1 for "leave it as it is".
    return device < 0 ? getCurrentDevice() : kunlunxin::exchangeDevice(device);
}

c10::DeviceIndex FlagosHooks::maybeExchangeDevice(c10::DeviceIndex device) const {
    // Selecting a device creates no context, so there is no cheaper half of it.
    return exchangeDevice(device);
}

at::Device FlagosHooks::getDeviceFromPtr(void* data) const {
    return deviceOfPointer(data);
}

const at::Generator& FlagosHooks::getDefaultGenerator(c10::DeviceIndex device) const {
    return defaultGenerator(device);
}

at::Generator FlagosHooks::getNewGenerator(c10::DeviceIndex device) const {
    return newGenerator(device);
}

bool FlagosHooks::isPinnedPtr(const void* data) const {
    return isPinnedPointer(data);
}

at::Allocator* FlagosHooks::getPinnedMemoryAllocator() const {
    return &hostAllocator();
}

void FlagosHooks::resizePrivateUse1Bytes(const c10::Storage& storage, size_t new_size) const {
    c10::StorageImpl* const impl = storage.unsafeGetStorageImpl();
    TORCH_CHECK(impl->resizable(), "Trying to resize storage that is not resizable");
    const c10::DeviceIndex device = impl->device().index();
    const DeviceGuard guard(device);
    c10::DataPtr fresh = deviceAllocator().allocate(new_size);
    const size_t kept = std::min(new_size, impl->nbytes());
    copyDeviceToDevice(fresh.get(), impl->data(), device, kept);
    // The old block may belong to another stream than the one that is still reading it.
    deviceAllocator().recordStream(impl->data_ptr(), currentStream(device).stream);
    impl->set_data_ptr_noswap(std::move(fresh));
    impl->set_nbytes(new_size);
}

} // namespace torch_fl

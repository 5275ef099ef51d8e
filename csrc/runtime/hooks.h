#pragma once

#include <ATen/detail/PrivateUse1HooksInterface.h>

namespace torch_fl {

// What PyTorch's device-generic code asks of an accelerator. Contracts:
// ATen/detail/AcceleratorHooksInterface.h.
class FlagosHooks final : public at::PrivateUse1HooksInterface {
public:
    bool isBuilt() const override;
    bool isAvailable() const override;
    bool hasPrimaryContext(c10::DeviceIndex device) const override;
    void init() const override;

    c10::DeviceIndex deviceCount() const override;
    void setCurrentDevice(c10::DeviceIndex device) const override;
    c10::DeviceIndex getCurrentDevice() const override;
    c10::DeviceIndex exchangeDevice(c10::DeviceIndex device) const override;
    c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex device) const override;
    at::Device getDeviceFromPtr(void* data) const override;

    const at::Generator& getDefaultGenerator(c10::DeviceIndex device) const override;
    at::Generator getNewGenerator(c10::DeviceIndex device) const override;

    bool isPinnedPtr(const void* data) const override;
    at::Allocator* getPinnedMemoryAllocator() const override;
    void resizePrivateUse1Bytes(const c10::Storage& storage, size_t new_size) const override;
};

} // namespace torch_fl

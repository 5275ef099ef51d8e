#pragma once

#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <c10/core/impl/InlineDeviceGuard.h>

namespace torch_fl {

// PyTorch's view of devices, streams and events. Contracts of each method:
// c10/core/impl/DeviceGuardImplInterface.h. An index of -1 means the current device everywhere.
class FlagosGuardImpl final : public c10::impl::DeviceGuardImplInterface {
public:
    static constexpr c10::DeviceType static_type = c10::DeviceType::PrivateUse1;

    FlagosGuardImpl() = default;
    // Required by InlineDeviceGuard.
    explicit FlagosGuardImpl(c10::DeviceType type);

    c10::DeviceType type() const override;
    c10::Device exchangeDevice(c10::Device device) const override;
    c10::Device getDevice() const override;
    void setDevice(c10::Device device) const override;
    void uncheckedSetDevice(c10::Device device) const noexcept override;
    c10::DeviceIndex deviceCount() const noexcept override;

    c10::Stream getStream(c10::Device device) const override;
    c10::Stream getDefaultStream(c10::Device device) const override;
    c10::Stream getStreamFromGlobalPool(c10::Device device, bool is_high_priority = false) const override;
    c10::Stream getNewStream(c10::Device device, int priority = 0) const override;
    c10::Stream exchangeStream(c10::Stream stream) const override;
    void* getStreamNativeHandle(const c10::Stream stream) const override;
    bool queryStream(const c10::Stream& stream) const override;
    void synchronizeStream(const c10::Stream& stream) const override;
    void synchronizeDevice(const c10::DeviceIndex device) const override;
    void recordDataPtrOnStream(const c10::DataPtr& pointer, const c10::Stream& stream) const override;

    void record(void** event, const c10::Stream& stream, const c10::DeviceIndex device, const c10::EventFlag flag)
        const override;
    void block(void* event, const c10::Stream& stream) const override;
    bool queryEvent(void* event) const override;
    void synchronizeEvent(void* event) const override;
    void destroyEvent(void* event, const c10::DeviceIndex device) const noexcept override;
    double elapsedTime(void* start, void* end, const c10::DeviceIndex device) const override;
};

// Makes a device current for a scope, without virtual calls. Raises at construction for an index that does
// not exist.
using DeviceGuard = c10::impl::InlineDeviceGuard<FlagosGuardImpl>;
using OptionalDeviceGuard = c10::impl::InlineOptionalDeviceGuard<FlagosGuardImpl>;

} // namespace torch_fl

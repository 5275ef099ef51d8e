#pragma once

#include "runtime/export.h"

#include <c10/core/Device.h>

#include <cstdint>
#include <string>

namespace torch_fl::kunlunxin {

// Number of usable devices; 0 when there is no driver, no device or no permission. Does not raise and does
// not count as initialisation. A success is remembered; a failure is asked again the next time.
TORCH_FL_API c10::DeviceIndex deviceCount() noexcept;

// Why deviceCount() is 0; empty when it is not.
TORCH_FL_API std::string deviceCountFailure();

// The calling thread's current device. libxpurt keeps it per thread and starts every thread on device 0. It
// is never cached here: another library in the process may call xpu_set_device too.
c10::DeviceIndex currentDevice();

// Makes `device` the calling thread's current device. Raises for an index that does not exist.
TORCH_FL_API void setDevice(c10::DeviceIndex device);

// The same for destructors: returns the vendor's code instead of raising.
int setDeviceUnchecked(c10::DeviceIndex device) noexcept;

// Sets the current device and returns the previous one.
TORCH_FL_API c10::DeviceIndex exchangeDevice(c10::DeviceIndex device);

// Raises unless 0 <= device < deviceCount(); when there is no device at all, the message carries
// deviceCountFailure().
void checkDeviceIndex(c10::DeviceIndex device);

// `device`, or the current device for -1. Raises as checkDeviceIndex() does.
TORCH_FL_API c10::DeviceIndex resolveDeviceIndex(c10::DeviceIndex device);

// Makes `device` current for a scope. Costs one call when it already is.
class ScopedDevice {
public:
    explicit ScopedDevice(c10::DeviceIndex device);
    ~ScopedDevice();
    ScopedDevice(const ScopedDevice&) = delete;
    ScopedDevice& operator=(const ScopedDevice&) = delete;
    ScopedDevice(ScopedDevice&&) = delete;
    ScopedDevice& operator=(ScopedDevice&&) = delete;

private:
    c10::DeviceIndex previous_;
    bool changed_;
};

struct PciAddress {
    uint32_t domain = 0;
    uint32_t bus = 0;
    uint32_t slot = 0;
    uint32_t function = 0;
};

struct Version {
    uint32_t major = 0;
    uint32_t minor = 0;
};

struct DeviceProperties {
    std::string name; // family, from the model number: "Kunlunxin KL3"
    uint64_t model = 0;
    uint64_t total_memory = 0; // bytes
    uint64_t l3_memory = 0;    // bytes
    uint64_t cluster_count = 0;
    uint64_t sdnn_count = 0;
    PciAddress pci;
    Version driver;
    Version runtime;
};

// Asks the vendor each time.
TORCH_FL_API DeviceProperties deviceProperties(c10::DeviceIndex device);

// Bytes of main memory; asked once per device.
uint64_t totalMemory(c10::DeviceIndex device);

} // namespace torch_fl::kunlunxin

#include "runtime/accelerator/kunlunxin/device.h"

#include "runtime/accelerator/kunlunxin/error.h"
#include "runtime/accelerator/kunlunxin/process.h"

#include <xpu/runtime.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <limits>

namespace torch_fl::kunlunxin {

namespace {

constexpr int kMaxDevices = std::min<int>(MAX_DEVICE_NUM, std::numeric_limits<c10::DeviceIndex>::max());

// The device count once it has been a success, else 0.
std::atomic<c10::DeviceIndex>& knownDeviceCount() {
    static std::atomic<c10::DeviceIndex> count{0};
    return count;
}

uint64_t attribute(XPUDeviceAttr attribute, const char* name, c10::DeviceIndex device) {
    uint64_t value = 0;
    TORCH_FL_XPU_CHECK(xpu_device_get_attr(&value, attribute, device), device, "xpu_device_get_attr(", name, ")");
    return value;
}

#define TORCH_FL_ATTRIBUTE(name, device) attribute(name, #name, device)

// XPUATTR_MODEL numbers the boards of each generation in a range of its own.
std::string familyName(uint64_t model) {
    if (model == K200 || model == K100) {
        return "Kunlunxin KL1";
    }
    if (model <= KL2_END) {
        return "Kunlunxin KL2";
    }
    if (model <= KL3_END) {
        return "Kunlunxin KL3";
    }
    return c10::str("Kunlunxin model ", model);
}

// Bits of XPUATTR_PCI_ADDRESS: 31:16 domain, 15:8 bus, 7:3 slot, 2:0 function.
PciAddress unpackPciAddress(uint64_t word) {
    return {
        static_cast<uint32_t>((word >> 16) & 0xffff),
        static_cast<uint32_t>((word >> 8) & 0xff),
        static_cast<uint32_t>((word >> 3) & 0x1f),
        static_cast<uint32_t>(word & 0x7)};
}

} // namespace

c10::DeviceIndex deviceCount() noexcept {
    const c10::DeviceIndex known = knownDeviceCount().load(std::memory_order_relaxed);
    if (C10_LIKELY(known > 0)) {
        return known;
    }
    if (isForkedAfterCall()) {
        return 0;
    }
    noteCall();
    int count = 0;
    if (xpu_device_count(&count) != kSuccess || count <= 0) {
        return 0;
    }
    const auto usable = static_cast<c10::DeviceIndex>(std::min(count, kMaxDevices));
    knownDeviceCount().store(usable, std::memory_order_relaxed);
    return usable;
}

std::string deviceCountFailure() {
    if (deviceCount() > 0) {
        return "";
    }
    if (isForkedAfterCall()) {
        return "this process was forked from one that had already asked for devices";
    }
    int count = 0;
    const int returned = xpu_device_count(&count);
    if (returned != kSuccess) {
        return describeError(returned, "xpu_device_count()", kNoDevice);
    }
    return "xpu_device_count() finds no device";
}

c10::DeviceIndex currentDevice() {
    checkNotForked();
    int device = 0;
    TORCH_FL_XPU_CHECK(xpu_current_device(&device), kNoDevice, "xpu_current_device()");
    return static_cast<c10::DeviceIndex>(device);
}

void setDevice(c10::DeviceIndex device) {
    checkNotForked();
    checkDeviceIndex(device);
    TORCH_FL_XPU_CHECK(xpu_set_device(device), device, "xpu_set_device()");
}

int setDeviceUnchecked(c10::DeviceIndex device) noexcept {
    return xpu_set_device(device);
}

c10::DeviceIndex exchangeDevice(c10::DeviceIndex device) {
    checkDeviceIndex(device);
    const c10::DeviceIndex previous = currentDevice();
    if (previous != device) {
        TORCH_FL_XPU_CHECK(xpu_set_device(device), device, "xpu_set_device()");
    }
    return previous;
}

void checkDeviceIndex(c10::DeviceIndex device) {
    const c10::DeviceIndex count = deviceCount();
    TORCH_CHECK(count > 0, "no flagos device is available: ", deviceCountFailure());
    TORCH_CHECK(
        device >= 0 && device < count,
        "The device index is out of range. It must be in [0, ",
        static_cast<int>(count),
        "), but got ",
        static_cast<int>(device),
        ".");
}

c10::DeviceIndex resolveDeviceIndex(c10::DeviceIndex device) {
    if (device != -1) {
        checkDeviceIndex(device);
        return device;
    }
    TORCH_CHECK(deviceCount() > 0, "no flagos device is available: ", deviceCountFailure());
    return currentDevice();
}

ScopedDevice::ScopedDevice(c10::DeviceIndex device)
    : previous_(exchangeDevice(device)), changed_(previous_ != device) {}

ScopedDevice::~ScopedDevice() {
    if (changed_) {
        // The previous device was current a moment ago. If it cannot be selected any more, the next call that
        // needs it says so; a destructor cannot.
        static_cast<void>(setDeviceUnchecked(previous_));
    }
}

DeviceProperties deviceProperties(c10::DeviceIndex device) {
    checkDeviceIndex(device);
    DeviceProperties properties;
    properties.model = TORCH_FL_ATTRIBUTE(XPUATTR_MODEL, device);
    properties.name = familyName(properties.model);
    properties.total_memory = totalMemory(device);
    properties.l3_memory = TORCH_FL_ATTRIBUTE(XPUATTR_MEM_L3_CAPACITY, device);
    properties.cluster_count = TORCH_FL_ATTRIBUTE(XPUATTR_NUM_CLUSTER, device);
    properties.sdnn_count = TORCH_FL_ATTRIBUTE(XPUATTR_NUM_SDNN, device);
    {
        // On a P800 this attribute describes the current device, whatever index is passed.
        const ScopedDevice scope(device);
        properties.pci = unpackPciAddress(TORCH_FL_ATTRIBUTE(XPUATTR_PCI_ADDRESS, device));
    }
    TORCH_FL_XPU_CHECK(
        xpu_get_driver_version(&properties.driver.major, &properties.driver.minor), device, "xpu_get_driver_version()");
    TORCH_FL_XPU_CHECK(
        xpu_get_runtime_version(&properties.runtime.major, &properties.runtime.minor),
        device,
        "xpu_get_runtime_version()");
    return properties;
}

uint64_t totalMemory(c10::DeviceIndex device) {
    static std::array<std::atomic<uint64_t>, kMaxDevices> known{};
    checkDeviceIndex(device);
    auto& bytes = known[static_cast<size_t>(device)];
    if (bytes.load(std::memory_order_relaxed) == 0) {
        bytes.store(TORCH_FL_ATTRIBUTE(XPUATTR_MEM_MAIN_CAPACITY, device), std::memory_order_relaxed);
    }
    return bytes.load(std::memory_order_relaxed);
}

} // namespace torch_fl::kunlunxin

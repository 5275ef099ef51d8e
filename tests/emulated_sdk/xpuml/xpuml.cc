// libxpuml.so.1: the NVML-shaped library of the SDK. It counts devices by itself: it does not use libxpurt.

#include <atomic>
#include <cstdint>
#include <cstdio>

#include "common/environment.h"
#include "common/export.h"

enum nvmlReturn_t {
    NVML_SUCCESS = 0,
    NVML_ERROR_UNINITIALIZED = 1,
    NVML_ERROR_INVALID_ARGUMENT = 2,
    NVML_ERROR_DRIVER_NOT_LOADED = 9,
};

static constinit std::atomic<int> users{0};

// Monitoring sees every device, whatever the process may use.
static int64_t deviceCount() {
    return xpuemu::numberFromEnvironment("XPUEMU_DEVICES", xpuemu::kDefaultDevices, xpuemu::kMaxDevices);
}

extern "C" {

XPUEMU_EXPORT nvmlReturn_t nvmlInit_v2(void) {
    if (deviceCount() == 0) {
        return NVML_ERROR_DRIVER_NOT_LOADED;
    }
    ++users;
    return NVML_SUCCESS;
}

XPUEMU_EXPORT nvmlReturn_t nvmlShutdown(void) {
    int count = users.load();
    while (count > 0 && !users.compare_exchange_weak(count, count - 1)) {
    }
    return count > 0 ? NVML_SUCCESS : NVML_ERROR_UNINITIALIZED;
}

XPUEMU_EXPORT nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int* count) {
    if (users.load() == 0) {
        return NVML_ERROR_UNINITIALIZED;
    }
    if (count == nullptr) {
        return NVML_ERROR_INVALID_ARGUMENT;
    }
    *count = static_cast<unsigned int>(deviceCount());
    return NVML_SUCCESS;
}

XPUEMU_EXPORT nvmlReturn_t nvmlSystemGetDriverVersion(char* version, unsigned int length) {
    if (users.load() == 0) {
        return NVML_ERROR_UNINITIALIZED;
    }
    if (version == nullptr || length == 0) {
        return NVML_ERROR_INVALID_ARGUMENT;
    }
    std::snprintf(version, length, "5.0.21.43");
    return NVML_SUCCESS;
}

} // extern "C"

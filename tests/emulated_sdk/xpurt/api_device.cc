// Entry points about versions and devices. Those about versions and the number of devices leave the runtime
// uninitialised, so a process may still fork after them.

#include <cstdio>

#include "xpu/runtime.h"

#include "common/environment.h"
#include "common/export.h"
#include "entry.h"

using namespace xpuemu;

static XPUError_t putVersion(uint32_t* major, uint32_t* minor, uint32_t major_value, uint32_t minor_value) {
    if (major == nullptr || minor == nullptr) {
        return XPUERR_INVALID_PARAM;
    }
    *major = major_value;
    *minor = minor_value;
    return XPU_SUCCESS;
}

static XPUError_t putCommit(char* commit) {
    if (commit == nullptr) {
        return XPUERR_INVALID_PARAM;
    }
    std::snprintf(commit, XPU_MAX_STRLEN, "%s", XPURT_COMMIT);
    return XPU_SUCCESS;
}

static int countDevices() {
    const Machine* machine = Machine::existing();
    return machine != nullptr ? machine->deviceCount() : static_cast<int>(visibleDevices().size());
}

// Units and values of the capacities and of the ids are our inference; NUM_CLUSTER and NUM_SDNN are a P800's.
static XPUError_t attribute(Machine& machine, XPUDeviceAttr attr, int devid, uint64_t* value) {
    switch (attr) {
    case XPUATTR_PCI_ADDRESS:
        // As on the P800: it is the current device's, whichever device was asked for.
        *value = (uint64_t(machine.device(currentDevice()).physical()) + 1) << 8;
        return XPU_SUCCESS;
    case XPUATTR_DEVID:
    case XPUATTR_BOARDID:
    case XPUATTR_ONBOARDID:
        *value = uint64_t(machine.device(devid).physical());
        return XPU_SUCCESS;
    case XPUATTR_MODEL:
        *value = KL3_BEGIN;
        return XPU_SUCCESS;
    case XPUATTR_MEM_MAIN_CAPACITY:
        *value = machine.device(devid).memory().capacity();
        return XPU_SUCCESS;
    case XPUATTR_NUM_CLUSTER:
        *value = 12;
        return XPU_SUCCESS;
    case XPUATTR_NUM_SDNN:
        *value = 96;
        return XPU_SUCCESS;
    case XPUATTR_MEM_L3_CAPACITY:
    case XPUATTR_NUM_DMACH:
    case XPUATTR_NUM_HWQ:
    case XPUATTR_NUM_ENC:
    case XPUATTR_NUM_DEC:
    case XPUATTR_NUM_IMGPROC:
        *value = 0;
        return XPU_SUCCESS;
    }
    return XPUERR_INVALID_PARAM;
}

extern "C" {

XPUEMU_EXPORT int xpu_get_driver_version(uint32_t* major, uint32_t* minor) {
    return -putVersion(major, minor, 5, 0);
}

XPUEMU_EXPORT int xpu_get_runtime_version(uint32_t* major, uint32_t* minor) {
    return -putVersion(major, minor, XPURT_VERSION_MAJOR, XPURT_VERSION_MINOR);
}

XPUEMU_EXPORT int xpu_get_driver_commit(char* commit) {
    return -putCommit(commit);
}

XPUEMU_EXPORT int xpu_get_runtime_commit(char* commit) {
    return -putCommit(commit);
}

XPUEMU_EXPORT int xpu_device_count(int* count) {
    return entry([&] {
        if (count == nullptr) {
            return XPUERR_INVALID_PARAM;
        }
        *count = countDevices();
        return *count == 0 ? XPUERR_NODEV : XPU_SUCCESS;
    });
}

// As on the P800: the caller's array comes back as it was.
XPUEMU_EXPORT int xpu_device_list(int* devids) {
    return devids == nullptr ? -XPUERR_INVALID_PARAM : XPU_SUCCESS;
}

XPUEMU_EXPORT int xpu_set_device(int devid) {
    return entry([&] {
        if (!Machine::instance().hasDevice(devid)) {
            return XPUERR_INVALID_DEVICE;
        }
        setCurrentDevice(devid);
        return XPU_SUCCESS;
    });
}

XPUEMU_EXPORT int xpu_current_device(int* devid) {
    return entryOnDevice([&](Machine&, Device&) {
        if (devid == nullptr) {
            return XPUERR_INVALID_PARAM;
        }
        *devid = currentDevice();
        return XPU_SUCCESS;
    });
}

XPUEMU_EXPORT int xpu_device_get_attr(uint64_t* value, XPUDeviceAttr attr, int devid) {
    return entryOnDevice([&](Machine& machine, Device&) {
        if (value == nullptr) {
            return XPUERR_INVALID_PARAM;
        }
        return machine.hasDevice(devid) ? attribute(machine, attr, devid, value) : XPUERR_INVALID_DEVICE;
    });
}

} // extern "C"

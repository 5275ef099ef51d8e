// Types, error numbers and enumerations of the XPU runtime, as far as they are publicly known.
//
// Written from scratch for the emulated SDK; public_interface.tsv holds every name and value with its source, and a
// test compares the two.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <cstring>

// Opaque handles. A null stream is the default stream of the calling thread's current device.
typedef void* XPUStream;
typedef void* XPUEvent;
typedef void* XPUFunc;

constexpr int MAX_DEVICE_NUM = 64;
constexpr int XPU_MAX_STRLEN = 64;

enum XPUError_t {
    XPU_SUCCESS = 0,
    XPUERR_INVALID_DEVICE = 701,
    XPUERR_UNINIT = 702,
    XPUERR_NODEV = 703,
    XPUERR_VERSION = 704,
    XPUERR_NOMEM = 705,
    XPUERR_NOCPUMEM = 706,
    XPUERR_INVALID_PARAM = 707,
    XPUERR_NOXPUFUNC = 708,
    XPUERR_LDSO = 709,
    XPUERR_LDSYM = 710,
    XPUERR_SIMULATOR = 711,
    XPUERR_NOSUPPORT = 712,
    XPUERR_ABNORMAL = 713,
    XPUERR_KEXCEPTION = 714,
    XPUERR_TIMEOUT = 715,
    XPUERR_BUSY = 716,
    XPUERR_USEAFCLOSE = 717,
    XPUERR_UCECC = 718,
    XPUERR_OVERHEAT = 719,
    XPUERR_UNEXPECT = 800,
    XPUERR_DEVRESET = 801,
    XPUERR_HWEXCEPTION = 802,
    XPUERR_HBM_INIT = 803,
    XPUERR_DEVINIT = 804,
    XPUERR_PEERRESET = 805,
    XPUERR_MAXDEV = 806,
    XPUERR_NOIOC = 807,
    XPUERR_DMATIMEOUT = 808,
    XPUERR_DMAABORT = 809,
    XPUERR_MCUUNINIT = 810,
    XPUERR_OLDFW = 811,
    XPUERR_PCIE = 812,
    XPUERR_FAULT = 813,
    XPUERR_INTERRUPTED = 814,
    XPUERR_AESTIMEOUT = 815,
    XPUERR_HOSTMEM_ALREADY_REGISTERED = 816,
    XPUERR_TRACER = 817,
};

enum XPUMemoryKind {
    XPU_MEM_HBM = 0,
    XPU_MEM_MAIN = 0,
    XPU_MEM_L3 = 1,
    XPU_USER_ALLOCABLE_MEM_COUNT = 2,
    XPU_MEM_MMAPPABLE = 16,
};

// Device to host is 0 and host to device is 1, and there is no host-to-host kind.
enum XPUMemcpyKind {
    XPU_DEVICE_TO_HOST = 0,
    XPU_HOST_TO_DEVICE = 1,
    XPU_DEVICE_TO_DEVICE = 2,
};

enum XPUDeviceAttr {
    XPUATTR_PCI_ADDRESS = 0, // bits 31:16 domain, 15:8 bus, 7:3 slot, 2:0 function
    XPUATTR_DEVID = 1,
    XPUATTR_BOARDID = 2,
    XPUATTR_ONBOARDID = 3,
    XPUATTR_MODEL = 4, // a DeviceModel
    XPUATTR_MEM_MAIN_CAPACITY = 5,
    XPUATTR_MEM_L3_CAPACITY = 6,
    XPUATTR_NUM_CLUSTER = 7,
    XPUATTR_NUM_SDNN = 8,
    XPUATTR_NUM_DMACH = 9,
    XPUATTR_NUM_HWQ = 10,
    XPUATTR_NUM_ENC = 11,
    XPUATTR_NUM_DEC = 12,
    XPUATTR_NUM_IMGPROC = 13,
};

// Only the range matters to clients: it tells the chip's generation.
enum DeviceModel {
    K200 = 0,
    K100 = 1,
    R200 = 2,
    R300 = 3,
    R200_8F = 4,
    R200_8FS = 5,
    R100 = 6,
    RG800 = 9,
    KL2_END = 299,
    KL3_BEGIN = 300,
    KL3_END = 599,
};

// Text of an error number of either sign. It is compiled into each client: libxpurt exports no such symbol.
// Numbers below 700 belong to the C library.
static inline const char* xpu_strerror(int error) {
    const int code = std::abs(error);
    if (code < 700) {
        return strerror(code);
    }
    switch (code) {
    case XPUERR_INVALID_DEVICE:
        return "Invalid XPU device";
    case XPUERR_UNINIT:
        return "XPU runtime not properly inited";
    case XPUERR_NODEV:
        return "No available XPU device";
    case XPUERR_VERSION:
        return "Version mismatch";
    case XPUERR_NOMEM:
        return "Device memory not enough";
    case XPUERR_NOCPUMEM:
        return "CPU memory not enough";
    case XPUERR_INVALID_PARAM:
        return "Invalid parameter";
    case XPUERR_NOXPUFUNC:
        return "Cannot get XPU func";
    case XPUERR_LDSO:
        return "Error loading dynamic library";
    case XPUERR_LDSYM:
        return "Error loading func from dynamic library";
    case XPUERR_SIMULATOR:
        return "Error from XPU Simulator";
    case XPUERR_NOSUPPORT:
        return "Operation not supported";
    case XPUERR_ABNORMAL:
        return "Device abnormal due to previous error";
    case XPUERR_KEXCEPTION:
        return "Exception in kernel execution";
    case XPUERR_TIMEOUT:
        return "Kernel execution timed out";
    case XPUERR_BUSY:
        return "Resource busy";
    case XPUERR_USEAFCLOSE:
        return "Use a stream after closed";
    case XPUERR_UCECC:
        return "Uncorrectable ECC";
    case XPUERR_OVERHEAT:
        return "Overheat";
    case XPUERR_UNEXPECT:
        return "Execution error, reach unexpected control flow";
    case XPUERR_DEVRESET:
    case XPUERR_PEERRESET:
        return "Device is being reset, try again later";
    case XPUERR_HWEXCEPTION:
        return "Hardware module exception";
    case XPUERR_HBM_INIT:
        return "Error init HBM";
    case XPUERR_DEVINIT:
        return "Error init device";
    case XPUERR_MAXDEV:
        return "Device count exceed limit";
    case XPUERR_NOIOC:
        return "Unknown IOCTL command";
    case XPUERR_DMATIMEOUT:
        return "DMA timed out, a reboot maybe needed";
    case XPUERR_DMAABORT:
        return "DMA aborted due to error, possibly wrong address or hardware state";
    case XPUERR_MCUUNINIT:
        return "Firmware not initialized";
    case XPUERR_OLDFW:
        return "Firmware version too old (<15), please update.";
    case XPUERR_PCIE:
        return "Error in PCIe";
    case XPUERR_FAULT:
        return "Error copy between kernel and user space";
    case XPUERR_INTERRUPTED:
        return "Execution interrupted by user";
    case XPUERR_AESTIMEOUT:
        return "AES timed out";
    case XPUERR_HOSTMEM_ALREADY_REGISTERED:
        return "Host memory is already registered";
    case XPUERR_TRACER:
        return "Tracer subsystem error";
    default:
        return "Unknown error";
    }
}

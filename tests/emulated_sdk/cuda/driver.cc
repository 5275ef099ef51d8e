// libxpucuda.so: a CUDA-driver-shaped front of libxpurt.

#include "driver.h"

#include <atomic>
#include <cstdio>
#include <string_view>

#include "xpu/runtime.h"

#include "common/export.h"
#include "xpurt/emulation.h"

static constinit std::atomic<bool> initialised{false};

static CUresult fromXpu(int error) {
    switch (error < 0 ? -error : error) {
    case XPU_SUCCESS:
        return CUDA_SUCCESS;
    case XPUERR_INVALID_PARAM:
        return CUDA_ERROR_INVALID_VALUE;
    case XPUERR_NOMEM:
    case XPUERR_NOCPUMEM:
        return CUDA_ERROR_OUT_OF_MEMORY;
    case XPUERR_UNINIT:
        return CUDA_ERROR_NOT_INITIALIZED;
    case XPUERR_NODEV:
        return CUDA_ERROR_NO_DEVICE;
    case XPUERR_INVALID_DEVICE:
        return CUDA_ERROR_INVALID_DEVICE;
    default:
        return CUDA_ERROR_UNKNOWN;
    }
}

static bool isDevice(CUdevice device) {
    int count = 0;
    return xpu_device_count(&count) == 0 && device >= 0 && device < count;
}

namespace {

struct ErrorText {
    CUresult error;
    const char* name;
    const char* text;
};

constexpr ErrorText kErrors[] = {
    {CUDA_SUCCESS, "CUDA_SUCCESS", "no error"},
    {CUDA_ERROR_INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {CUDA_ERROR_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {CUDA_ERROR_NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {CUDA_ERROR_NO_DEVICE, "CUDA_ERROR_NO_DEVICE", "no device is available"},
    {CUDA_ERROR_INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {CUDA_ERROR_NOT_FOUND, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {CUDA_ERROR_UNKNOWN, "CUDA_ERROR_UNKNOWN", "unknown error"},
};

const ErrorText* findError(CUresult error) {
    for (const ErrorText& row : kErrors) {
        if (row.error == error) {
            return &row;
        }
    }
    return nullptr;
}

} // namespace

extern "C" {

XPUEMU_EXPORT CUresult cuInit(unsigned int flags) {
    if (flags != 0) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    int count = 0;
    const CUresult result = fromXpu(xpu_device_count(&count));
    if (result == CUDA_SUCCESS) {
        initialised.store(true);
    }
    return result;
}

XPUEMU_EXPORT CUresult cuDriverGetVersion(int* version) {
    if (version == nullptr) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *version = kCudaDriverVersion;
    return CUDA_SUCCESS;
}

XPUEMU_EXPORT CUresult cuDeviceGetCount(int* count) {
    if (!initialised.load()) {
        return CUDA_ERROR_NOT_INITIALIZED;
    }
    return fromXpu(xpu_device_count(count));
}

XPUEMU_EXPORT CUresult cuDeviceGet(CUdevice* device, int ordinal) {
    if (!initialised.load()) {
        return CUDA_ERROR_NOT_INITIALIZED;
    }
    if (device == nullptr) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (!isDevice(ordinal)) {
        return CUDA_ERROR_INVALID_DEVICE;
    }
    *device = ordinal;
    return CUDA_SUCCESS;
}

XPUEMU_EXPORT CUresult cuDeviceGetName(char* name, int length, CUdevice device) {
    if (name == nullptr || length < 1) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (!isDevice(device)) {
        return CUDA_ERROR_INVALID_DEVICE;
    }
    std::snprintf(name, static_cast<size_t>(length), "KL3");
    return CUDA_SUCCESS;
}

XPUEMU_EXPORT CUresult cuDeviceTotalMem_v2(size_t* bytes, CUdevice device) {
    uint64_t capacity = 0;
    const CUresult result = fromXpu(xpu_device_get_attr(&capacity, XPUATTR_MEM_MAIN_CAPACITY, device));
    if (result == CUDA_SUCCESS) {
        *bytes = capacity;
    }
    return result;
}

XPUEMU_EXPORT CUresult cuMemGetInfo_v2(size_t* free_bytes, size_t* total_bytes) {
    uint64_t free = 0;
    uint64_t total = 0;
    const CUresult result = fromXpu(xpuemu_memory_info(&free, &total));
    if (result == CUDA_SUCCESS) {
        *free_bytes = free;
        *total_bytes = total;
    }
    return result;
}

XPUEMU_EXPORT CUresult cuGetErrorName(CUresult error, const char** name) {
    const ErrorText* row = findError(error);
    *name = row == nullptr ? nullptr : row->name;
    return row == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

XPUEMU_EXPORT CUresult cuGetErrorString(CUresult error, const char** text) {
    const ErrorText* row = findError(error);
    *text = row == nullptr ? nullptr : row->text;
    return row == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

// Names are given without the version suffix, as in CUDA.
XPUEMU_EXPORT CUresult cuGetProcAddress_v2(
    const char* symbol, void** function, int version, cuuint64_t, CUdriverProcAddressQueryResult* status) {
    const struct {
        std::string_view name;
        void* function;
    } table[] = {
        {"cuInit", reinterpret_cast<void*>(&cuInit)},
        {"cuDriverGetVersion", reinterpret_cast<void*>(&cuDriverGetVersion)},
        {"cuDeviceGetCount", reinterpret_cast<void*>(&cuDeviceGetCount)},
        {"cuDeviceGet", reinterpret_cast<void*>(&cuDeviceGet)},
        {"cuDeviceGetName", reinterpret_cast<void*>(&cuDeviceGetName)},
        {"cuDeviceTotalMem", reinterpret_cast<void*>(&cuDeviceTotalMem_v2)},
        {"cuMemGetInfo", reinterpret_cast<void*>(&cuMemGetInfo_v2)},
        {"cuGetErrorName", reinterpret_cast<void*>(&cuGetErrorName)},
        {"cuGetErrorString", reinterpret_cast<void*>(&cuGetErrorString)},
        {"cuGetProcAddress", reinterpret_cast<void*>(&cuGetProcAddress_v2)},
    };
    if (symbol == nullptr || function == nullptr) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *function = nullptr;
    CUdriverProcAddressQueryResult answer = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    for (const auto& row : table) {
        if (row.name == symbol) {
            const bool old_enough = version <= kCudaDriverVersion;
            *function = old_enough ? row.function : nullptr;
            answer = old_enough ? CU_GET_PROC_ADDRESS_SUCCESS : CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT;
        }
    }
    if (status != nullptr) {
        *status = answer;
    }
    return answer == CU_GET_PROC_ADDRESS_SUCCESS ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

} // extern "C"

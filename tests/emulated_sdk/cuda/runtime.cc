// The CUDA-runtime-shaped front of libxpurt that both cudart libraries contain. XPUEMU_CUDART_VERSION tells them apart.

#include <cuda_runtime.h>

#include "xpu/runtime.h"

#include "common/export.h"
#include "driver.h"
#include "last_error.h"
#include "xpurt/emulation.h"

static thread_local cudaError_t last_error = cudaSuccess;

cudaError_t rememberCudaError(cudaError_t error) {
    if (error != cudaSuccess) {
        last_error = error;
    }
    return error;
}

static cudaError_t fromXpu(int error) {
    switch (error < 0 ? -error : error) {
    case XPU_SUCCESS:
        return cudaSuccess;
    case XPUERR_INVALID_PARAM:
        return rememberCudaError(cudaErrorInvalidValue);
    case XPUERR_NOMEM:
    case XPUERR_NOCPUMEM:
        return rememberCudaError(cudaErrorMemoryAllocation);
    case XPUERR_UNINIT:
        return rememberCudaError(cudaErrorInitializationError);
    case XPUERR_NODEV:
        return rememberCudaError(cudaErrorNoDevice);
    case XPUERR_INVALID_DEVICE:
        return rememberCudaError(cudaErrorInvalidDevice);
    case XPUERR_KEXCEPTION:
    case XPUERR_ABNORMAL:
        return rememberCudaError(cudaErrorIllegalAddress);
    case XPUERR_HOSTMEM_ALREADY_REGISTERED:
        return rememberCudaError(cudaErrorHostMemoryAlreadyRegistered);
    case XPUERR_NOSUPPORT:
        return rememberCudaError(cudaErrorNotSupported);
    default:
        return rememberCudaError(cudaErrorUnknown);
    }
}

namespace {

struct ErrorText {
    cudaError_t error;
    const char* name;
    const char* text;
};

constexpr ErrorText kErrors[] = {
    {cudaSuccess, "cudaSuccess", "no error"},
    {cudaErrorInvalidValue, "cudaErrorInvalidValue", "invalid argument"},
    {cudaErrorMemoryAllocation, "cudaErrorMemoryAllocation", "out of memory"},
    {cudaErrorInitializationError, "cudaErrorInitializationError", "initialization error"},
    {cudaErrorNoDevice, "cudaErrorNoDevice", "no device is available"},
    {cudaErrorInvalidDevice, "cudaErrorInvalidDevice", "invalid device ordinal"},
    {cudaErrorNotReady, "cudaErrorNotReady", "device not ready"},
    {cudaErrorIllegalAddress, "cudaErrorIllegalAddress", "an illegal memory access was encountered"},
    {cudaErrorHostMemoryAlreadyRegistered, "cudaErrorHostMemoryAlreadyRegistered", "host memory is already registered"},
    {cudaErrorHostMemoryNotRegistered, "cudaErrorHostMemoryNotRegistered", "host memory is not registered"},
    {cudaErrorNotSupported, "cudaErrorNotSupported", "operation not supported"},
    {cudaErrorUnknown, "cudaErrorUnknown", "unknown error"},
};

const ErrorText& findError(cudaError_t error) {
    static constexpr ErrorText kUnrecognised = {cudaErrorUnknown, "unrecognized error code", "unrecognized error code"};
    for (const ErrorText& row : kErrors) {
        if (row.error == error) {
            return row;
        }
    }
    return kUnrecognised;
}

// Copies between host addresses never reach libxpurt, which has no such kind.
bool toXpuKind(const void* dst, const void* src, cudaMemcpyKind kind, XPUMemcpyKind* xpu_kind) {
    const bool from_device = xpuemu_pointer_device(src) >= 0;
    const bool to_device = xpuemu_pointer_device(dst) >= 0;
    if (kind == cudaMemcpyHostToDevice || (kind == cudaMemcpyDefault && to_device && !from_device)) {
        *xpu_kind = XPU_HOST_TO_DEVICE;
    } else if (kind == cudaMemcpyDeviceToHost || (kind == cudaMemcpyDefault && from_device && !to_device)) {
        *xpu_kind = XPU_DEVICE_TO_HOST;
    } else if (kind == cudaMemcpyDeviceToDevice || (kind == cudaMemcpyDefault && from_device && to_device)) {
        *xpu_kind = XPU_DEVICE_TO_DEVICE;
    } else {
        return false;
    }
    return true;
}

} // namespace

extern "C" {

XPUEMU_EXPORT const char* cudaGetErrorName(cudaError_t error) {
    return findError(error).name;
}

XPUEMU_EXPORT const char* cudaGetErrorString(cudaError_t error) {
    return findError(error).text;
}

XPUEMU_EXPORT cudaError_t cudaGetLastError(void) {
    const cudaError_t error = last_error;
    last_error = cudaSuccess;
    return error;
}

XPUEMU_EXPORT cudaError_t cudaPeekAtLastError(void) {
    return last_error;
}

XPUEMU_EXPORT cudaError_t cudaDriverGetVersion(int* version) {
    return cuDriverGetVersion(version) == CUDA_SUCCESS ? cudaSuccess : rememberCudaError(cudaErrorInvalidValue);
}

XPUEMU_EXPORT cudaError_t cudaRuntimeGetVersion(int* version) {
    if (version == nullptr) {
        return rememberCudaError(cudaErrorInvalidValue);
    }
    *version = XPUEMU_CUDART_VERSION;
    return cudaSuccess;
}

XPUEMU_EXPORT cudaError_t cudaGetDeviceCount(int* count) {
    return fromXpu(xpu_device_count(count));
}

XPUEMU_EXPORT cudaError_t cudaGetDevice(int* device) {
    return fromXpu(xpu_current_device(device));
}

XPUEMU_EXPORT cudaError_t cudaSetDevice(int device) {
    return fromXpu(xpu_set_device(device));
}

// The default stream only: the streams made through libxpurt are not this library's.
XPUEMU_EXPORT cudaError_t cudaDeviceSynchronize(void) {
    return fromXpu(xpu_wait(nullptr));
}

XPUEMU_EXPORT cudaError_t cudaMalloc(void** pointer, size_t bytes) {
    return fromXpu(xpu_malloc(pointer, bytes));
}

XPUEMU_EXPORT cudaError_t cudaFree(void* pointer) {
    return pointer == nullptr ? cudaSuccess : fromXpu(xpu_free(pointer));
}

XPUEMU_EXPORT cudaError_t cudaMemcpy(void* dst, const void* src, size_t bytes, cudaMemcpyKind kind) {
    XPUMemcpyKind xpu_kind{};
    if (!toXpuKind(dst, src, kind, &xpu_kind)) {
        return rememberCudaError(cudaErrorNotSupported);
    }
    return fromXpu(xpu_memcpy(dst, src, bytes, xpu_kind));
}

XPUEMU_EXPORT cudaError_t cudaMemGetInfo(size_t* free_bytes, size_t* total_bytes) {
    switch (cuMemGetInfo_v2(free_bytes, total_bytes)) {
    case CUDA_SUCCESS:
        return cudaSuccess;
    case CUDA_ERROR_NO_DEVICE:
        return rememberCudaError(cudaErrorNoDevice);
    default:
        return rememberCudaError(cudaErrorUnknown);
    }
}

XPUEMU_EXPORT cudaError_t cudaHostAlloc(void** pointer, size_t bytes, unsigned int flags) {
    return fromXpu(xpu_host_alloc(pointer, bytes, flags));
}

XPUEMU_EXPORT cudaError_t cudaFreeHost(void* pointer) {
    return fromXpu(xpu_host_free(pointer));
}

XPUEMU_EXPORT cudaError_t cudaHostRegister(void* pointer, size_t bytes, unsigned int flags) {
    return fromXpu(xpu_host_register(pointer, bytes, flags));
}

XPUEMU_EXPORT cudaError_t cudaHostUnregister(void* pointer) {
    const cudaError_t error = fromXpu(xpu_host_unregister(pointer));
    return error == cudaErrorInvalidValue ? rememberCudaError(cudaErrorHostMemoryNotRegistered) : error;
}

// As CUDA 11 and newer do, an unknown pointer is answered and not refused.
XPUEMU_EXPORT cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* pointer) {
    if (attributes == nullptr) {
        return rememberCudaError(cudaErrorInvalidValue);
    }
    void* address = const_cast<void*>(pointer);
    *attributes = {cudaMemoryTypeUnregistered, -1, nullptr, address};
    switch (xpuemu_pointer_kind(pointer, &attributes->device)) {
    case XPUEMU_POINTER_HOST:
        attributes->type = cudaMemoryTypeHost;
        attributes->devicePointer = address;
        break;
    case XPUEMU_POINTER_DEVICE:
        attributes->type = cudaMemoryTypeDevice;
        attributes->devicePointer = address;
        attributes->hostPointer = nullptr;
        break;
    case XPUEMU_POINTER_UNKNOWN:
        break;
    }
    return cudaSuccess;
}

} // extern "C"

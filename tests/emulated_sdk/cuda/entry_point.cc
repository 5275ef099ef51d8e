// The one function that makes libcudart.so.12 different from the CUDA-11-shaped one: libxpu_blas.so needs it and names
// no library that has it.

#include <cuda_runtime.h>

#include "common/export.h"
#include "driver.h"
#include "last_error.h"

extern "C" XPUEMU_EXPORT cudaError_t cudaGetDriverEntryPoint(
    const char* symbol, void** function, unsigned long long flags, cudaDriverEntryPointQueryResult* status) {
    CUdriverProcAddressQueryResult answer = CU_GET_PROC_ADDRESS_SUCCESS;
    const CUresult result = cuGetProcAddress_v2(symbol, function, XPUEMU_CUDART_VERSION, flags, &answer);
    if (status != nullptr) {
        *status = static_cast<cudaDriverEntryPointQueryResult>(answer);
    }
    // As in CUDA, a symbol that is not there is told by status and a null function, not by an error.
    return result == CUDA_ERROR_INVALID_VALUE ? rememberCudaError(cudaErrorInvalidValue) : cudaSuccess;
}

#include <cuda_runtime.h>

#include "blas.h"
#include "common/export.h"
#include "components/versions.h"

// The driver must speak CUDA 12. This is the reference that makes libxpu_blas.so unloadable before the CUDA-compatible
// runtime is in the global scope.
static int checkDriver() {
    void* function = nullptr;
    cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
    const cudaError_t error = cudaGetDriverEntryPoint("cuDriverGetVersion", &function, cudaEnableDefault, &found);
    if (error != cudaSuccess || found != cudaDriverEntryPointSuccess || function == nullptr) {
        return 2;
    }
    int version = 0;
    const int status = reinterpret_cast<int (*)(int*)>(function)(&version);
    return status == 0 && version / 1000 >= 12 ? 0 : 2;
}

extern "C" {

XPUEMU_EXPORT int xpu_blas_create(void) {
    static const int status = checkDriver();
    return status;
}

XPUEMU_EXPORT const char* xpu_blas_component_set(void) {
    return XPUEMU_COMPONENT_SET;
}

} // extern "C"

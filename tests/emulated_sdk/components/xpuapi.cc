// libxpuapi.so: the raw operator layer, which the port does not use. It stands here for its place in the loader's
// graph: it needs the CUDA-compatible runtime, the components and the collective library.

#include <cuda_runtime.h>

#include <cstring>

#include "common/export.h"
#include "versions.h"

// 0 when the libraries below belong together and the runtime is CUDA 12.
extern "C" XPUEMU_EXPORT int xpuapi_check(void) {
    int version = 0;
    if (cudaRuntimeGetVersion(&version) != cudaSuccess || version / 1000 != 12) {
        return 2;
    }
    const char* const sets[] = {
        xpu_blas_component_set(), xpu_dnn_component_set(), xpu_flash_attention_component_set(), bkcl_component_set()};
    for (const char* set : sets) {
        if (std::strcmp(set, XPUEMU_COMPONENT_SET) != 0) {
            return 2;
        }
    }
    return 0;
}

// Contexts.

#include "xdnn_pytorch/context.h"

#include <cstring>
#include <memory>

#include <cuda_runtime.h>

#include "common/export.h"
#include "components/blas/blas.h"
#include "components/versions.h"

// From libxpuml.so.1; 0 is success.
extern "C" int nvmlInit_v2(void);

// What must hold before anything can run: a driver, a CUDA 12 runtime below, and components of one set.
static bool stackIsUsable() {
    int runtime = 0;
    const bool cuda12 = cudaRuntimeGetVersion(&runtime) == cudaSuccess && runtime / 1000 == 12;
    const char* const sets[] = {xpu_blas_component_set(), xpu_dnn_component_set(), xpu_flash_attention_component_set()};
    bool one_set = true;
    for (const char* set : sets) {
        one_set = one_set && std::strcmp(set, XPUEMU_COMPONENT_SET) == 0;
    }
    return cuda12 && one_set && nvmlInit_v2() == 0 && xpu_blas_create() == 0;
}

namespace xpytorch {
namespace xpu {
namespace api {

XPUEMU_EXPORT Context* create_context() {
    static const bool usable = stackIsUsable();
    int device = 0;
    if (!usable || xpu_current_device(&device) != 0) {
        return nullptr;
    }
    auto context = std::make_unique<Context>(DeviceInfo(kXPU3));
    return context.release(); // the interface hands out a pointer that destroy_context takes back
}

XPUEMU_EXPORT void destroy_context(Context* context) {
    std::default_delete<Context>()(context);
}

XPUEMU_EXPORT int64_t Context::ncluster() const {
    return 12;
}

} // namespace api
} // namespace xpu
} // namespace xpytorch

#include "kernel.h"

namespace xpuemu::blas {

Kernel baselineKernel() {
    return {4, 8, &multiplyTile<4, 2, 16>};
}

} // namespace xpuemu::blas

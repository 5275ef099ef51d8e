// Compiled with -mavx2 -mfma: nothing but the kernel may be in this file.

#include "kernel.h"

namespace xpuemu::blas {

Kernel avx2Kernel() {
    return {6, 16, &multiplyTile<6, 2, 32>};
}

} // namespace xpuemu::blas

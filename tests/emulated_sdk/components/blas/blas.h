// libxpu_blas.so: matrix products of strided matrices.
#pragma once

#include <cstdint>

#include "xdnn_pytorch/value_types.h"

// A matrix at addresses the host can use. Strides count elements. A broadcast has stride 0.
struct XpuBlasMatrix {
    void* data;
    int64_t row_stride;
    int64_t column_stride;
};

// out = beta * addend + alpha * (a @ b), where a is m x k and b is k x n. With beta 0 the addend is not read and may
// have null data. The addend may be out itself. float32, float16 and bfloat16 use alpha and beta; the integer types use
// integer_alpha and integer_beta and wrap around.
struct XpuBlasGemm {
    xdnn_pytorch::ScalarType type; // of all four matrices
    int64_t m;
    int64_t n;
    int64_t k;
    XpuBlasMatrix a;
    XpuBlasMatrix b;
    XpuBlasMatrix addend;
    XpuBlasMatrix out;
    float alpha;
    float beta;
    int64_t integer_alpha;
    int64_t integer_beta;
};

extern "C" {

// Prepares the library at its first call: asks the CUDA-compatible runtime for a driver entry point. 0, or 2 when there
// is no usable driver.
int xpu_blas_create(void);

// Whether xpu_blas_gemm computes with this type.
bool xpu_blas_supports(xdnn_pytorch::ScalarType type);

// Computes on the calling thread. The type must be supported.
void xpu_blas_gemm(const XpuBlasGemm* problem);

} // extern "C"

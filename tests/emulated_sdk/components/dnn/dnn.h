// libxpu_dnn.so: classification kernels on addresses the host can use. Strides count elements. The functions
// compute on the calling thread.
#pragma once

#include <cstdint>

#include "xdnn_pytorch/value_types.h"

// A line of elements.
struct XpuDnnLine {
    void* data;
    int64_t stride;
};

// Negative log likelihood of `batch` samples over `classes` classes. target is int64, or uint8 when byte_target is set;
// weight.data may be null: every class weighs 1.
struct XpuDnnNll {
    xdnn_pytorch::ScalarType type;
    int64_t batch;
    int64_t classes;
    int64_t ignore_index;
    int64_t reduction; // 0 none, 1 mean, 2 sum
    XpuDnnLine target;
    bool byte_target;
    XpuDnnLine weight;
};

extern "C" {

// Whether the functions below compute with this type.
bool xpu_dnn_supports(xdnn_pytorch::ScalarType type);

// out = in - log(sum(exp(in))) over one line of `count` elements. The types may differ.
void xpu_dnn_log_softmax(
    xdnn_pytorch::ScalarType in_type, XpuDnnLine in, xdnn_pytorch::ScalarType out_type, XpuDnnLine out, int64_t count);

// grad_in = grad_out - exp(output) * sum(grad_out) over one line. grad_out and output have `type`.
void xpu_dnn_log_softmax_backward(
    xdnn_pytorch::ScalarType type, XpuDnnLine grad_out, XpuDnnLine output, xdnn_pytorch::ScalarType grad_in_type,
    XpuDnnLine grad_in, int64_t count);

// `in` is batch x classes; `out` has one element, or one per sample when nothing is reduced. False when a target is
// neither a class nor ignore_index; then out is not complete.
bool xpu_dnn_nll(
    const XpuDnnNll* problem, const void* in, int64_t in_row_stride, int64_t in_column_stride, XpuDnnLine out);

// total_weight.data may be null: it is computed. grad_in is overwritten entirely. False as above.
bool xpu_dnn_nll_backward(
    const XpuDnnNll* problem, XpuDnnLine grad_out, const void* total_weight, void* grad_in, int64_t grad_in_row_stride,
    int64_t grad_in_column_stride);

} // extern "C"

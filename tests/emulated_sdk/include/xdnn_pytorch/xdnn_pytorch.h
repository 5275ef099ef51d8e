// Operators of the emulated libxdnn_pytorch.so.
//
// A function is named after the ATen overload, with '.' and '_' both as '_'; the context comes first, inputs follow
// in ATen's order, and outputs come last. Inputs and outputs are strided; binary inputs broadcast; an output may be
// one of the inputs. All return an xdnn::Error_t as int once the work is queued on the context's stream.
//
// Written from scratch; public_interface.tsv says which prototypes are publicly known and which are inferred.
#pragma once

#include <cstdint>
#include <vector>

#include "xdnn_pytorch/context.h"
#include "xdnn_pytorch/value_types.h"

namespace xdnn_pytorch {

using xpytorch::xpu::api::Context;

// Element-wise with two inputs. alpha multiplies the second one.
int add_tensor(Context* ctx, const Tensor& self, const Tensor& other, const Scalar& alpha, Tensor& out);
int add_scalar(Context* ctx, const Tensor& self, const Scalar& other, const Scalar& alpha, Tensor& out);
int sub_tensor(Context* ctx, const Tensor& self, const Tensor& other, const Scalar& alpha, Tensor& out);
int sub_scalar(Context* ctx, const Tensor& self, const Scalar& other, const Scalar& alpha, Tensor& out);
int mul_tensor(Context* ctx, const Tensor& self, const Tensor& other, Tensor& out);
int mul_scalar(Context* ctx, const Tensor& self, const Scalar& other, Tensor& out);
int div_tensor(Context* ctx, const Tensor& self, const Tensor& other, Tensor& out);
int div_tensor_mode(
    Context* ctx, const Tensor& self, const Tensor& other, const optional<StringView>& rounding_mode, Tensor& out);
int div_scalar(Context* ctx, const Tensor& self, const Scalar& other, Tensor& out);

// Element-wise with one input. cast takes both types from its tensors; with equal types it is a strided copy.
int fill__scalar(Context* ctx, const Tensor& self, const Scalar& value, Tensor& out);
int cast(Context* ctx, const Tensor& self, Tensor& out);
int relu(Context* ctx, const Tensor& self, Tensor& out);
int threshold_backward(
    Context* ctx, const Tensor& grad_output, const Tensor& self, const Scalar& threshold, Tensor& grad_input);

// Reductions. dtype, when given, is the output's.
int sum(Context* ctx, const Tensor& self, const optional<ScalarType>& dtype, Tensor& out);
int sum_dim_IntList(
    Context* ctx, const Tensor& self, const std::vector<int64_t>& dim, bool keepdim, const optional<ScalarType>& dtype,
    Tensor& out);
int mean(Context* ctx, const Tensor& self, const optional<ScalarType>& dtype, Tensor& out);
int mean_dim(
    Context* ctx, const Tensor& self, const std::vector<int64_t>& dim, bool keepdim, const optional<ScalarType>& dtype,
    Tensor& out);

// Classification losses. reduction: 0 none, 1 mean, 2 sum. An absent weight weighs every class by 1; an absent
// total_weight is computed.
int log_softmax(Context* ctx, const Tensor& self, int64_t dim, const optional<ScalarType>& dtype, Tensor& out);
int _log_softmax_backward_data(
    Context* ctx, const Tensor& grad_output, const Tensor& output, int64_t dim, const optional<ScalarType>& input_dtype,
    Tensor& grad_input);
int nll_loss(
    Context* ctx, const Tensor& self, const Tensor& target, const Tensor& weight, int64_t reduction,
    int64_t ignore_index, Tensor& out);
int nll_loss_backward(
    Context* ctx, const Tensor& grad_output, const Tensor& self, const Tensor& target, const Tensor& weight,
    int64_t reduction, int64_t ignore_index, const Tensor& total_weight, Tensor& grad_input);

// Matrix products. addmm: beta * self + alpha * (mat1 @ mat2).
int addmm(
    Context* ctx, const Tensor& self, const Tensor& mat1, const Tensor& mat2, const Scalar& beta, const Scalar& alpha,
    Tensor& out);
int mm(Context* ctx, const Tensor& self, const Tensor& mat2, Tensor& out);
int bmm(Context* ctx, const Tensor& self, const Tensor& mat2, Tensor& out);

} // namespace xdnn_pytorch

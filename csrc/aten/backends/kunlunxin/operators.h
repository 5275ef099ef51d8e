#pragma once

#include "aten/native_operator.h"

#include <span>

namespace torch_fl::kunlunxin {

// The kernels that the operator library computes, by family. torch_fl/_codegen/operators.py says of each which
// function it calls, and how well that function is known.
std::span<const NativeOperator> transferOperators();  // fill_, zero_; casts and strided copies are in copy.cc
std::span<const NativeOperator> pointwiseOperators(); // add, sub, mul, div, relu
std::span<const NativeOperator> reductionOperators(); // sum, mean
std::span<const NativeOperator> linalgOperators();    // mm, addmm, bmm
std::span<const NativeOperator> lossOperators();      // log_softmax, nll_loss

} // namespace torch_fl::kunlunxin

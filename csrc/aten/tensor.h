#pragma once

#include "aten/native_operator.h"

#include <ATen/core/Tensor.h>

#include <span>

namespace torch_fl {

// Uninitialised memory on flagos device `device` (-1: the current one). Raises for an index that does not
// exist and for negative sizes.
at::Tensor emptyStrided(at::IntArrayRef sizes, at::IntArrayRef strides, at::ScalarType dtype, c10::DeviceIndex device);

at::Tensor emptyContiguous(at::IntArrayRef sizes, at::ScalarType dtype, c10::DeviceIndex device);

// Same sizes, and strides as at::empty_like gives them: those of `self` when it is dense, else contiguous.
at::Tensor emptyLike(const at::Tensor& self, at::ScalarType dtype);

inline at::Tensor emptyLike(const at::Tensor& self) {
    return emptyLike(self, self.scalar_type());
}

// Memory, views, storage and reading one element: what a tensor needs before any operator computes.
std::span<const NativeOperator> tensorOperators();

} // namespace torch_fl

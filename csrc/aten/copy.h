#pragma once

#include "aten/native_operator.h"

#include <ATen/core/Tensor.h>

#include <span>

namespace torch_fl {

// Note [Copies]
// Writes `source` into `destination`, of which at least one is a flagos tensor: any dtypes, strides and
// devices; `source` broadcasts. Lazy conjugation and negation are resolved here, since copy_ is one of the few
// operators that are given them.
//
// Bytes move in as few steps as layout and dtype allow: a plain copy where both sides have one dense layout,
// else the operator library's strided `cast`, else through host memory. dtypes are converted on the side that
// reads, so that at most one step crosses the bus.
//
// `non_blocking` only helps when the bytes can move straight between pinned host memory and a dense tensor of
// the same dtype and strides; in every other case, and between devices, the copy has completed on return.
//
// Raises what CPU copies raise for shapes that do not fit and for a destination that overlaps itself or the
// source.
void copyInto(const at::Tensor& destination, const at::Tensor& source, bool non_blocking = false);

// copy_ and the operators that PyTorch redispatches copies to.
std::span<const NativeOperator> copyOperators();

} // namespace torch_fl

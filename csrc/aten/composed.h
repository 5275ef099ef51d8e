#pragma once

#include "aten/native_operator.h"

#include <span>

namespace torch_fl {

// Operators that never reach the CPU fallback although nothing computes them on flagos: PyTorch has a kernel for
// other accelerators, or one that only raises, and none for the CPU. They are computed on the CPU from other
// operators: convolution, and the fused LSTM and GRU cells that PyTorch takes for every accelerator.
std::span<const NativeOperator> composedOperators();

} // namespace torch_fl

#pragma once

#include <ATen/core/boxing/KernelFunction.h>
#include <ATen/native/CPUFallback.h>

#include <utility>

namespace torch_fl {

// Note [CPU fallback]
// The kernel of every operator that has no other: moves the arguments to the CPU, runs the CPU kernel there
// and moves the results back, to the device of the first flagos tensor. Copies from the device wait for the
// current stream and copies to it have completed on return, so no other synchronisation is needed.
//
// Operators that draw random numbers and take a generator draw from the flagos device's own, so that
// torch.manual_seed decides what they draw; see [Generators and the CPU fallback] in runtime/generator.h. The
// few random operators without a generator argument draw from the default CPU generator.
//
// Raises for tensors on different devices, in PyTorch's words; 0-dim CPU tensors are numbers and may join any
// device, and some operators take index or length tensors on the CPU.
//
// Never reached by convolution (composed.cc) and by the sparse and quantized keys, which PyTorch refuses by
// itself.
//
// FLAGOS_LOG_FALLBACK=1, read once, warns at each operator's first fallback.
void cpuFallback(const c10::OperatorHandle& op, torch::jit::Stack* stack);

// Says that an operator runs on the CPU, as cpuFallback() does for those that it runs.
void announceFallback(const char* name, const char* overload);

// Runs one call through cpuFallback(). `Op` is the operator's struct in at::_ops.
template <typename Op, typename... Arguments>
decltype(auto) onCpu(Arguments&&... arguments) {
    return at::native::call_fallback_fn<&cpuFallback, Op>::call(std::forward<Arguments>(arguments)...);
}

// For operators with SymInt in their schema whose kernels here take int64_t.
template <typename Op, typename... Arguments>
decltype(auto) onCpuSymint(Arguments&&... arguments) {
    return at::native::call_fallback_fn_symint<&cpuFallback, Op>::call(std::forward<Arguments>(arguments)...);
}

} // namespace torch_fl

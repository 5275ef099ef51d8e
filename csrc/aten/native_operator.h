#pragma once

#include <torch/library.h>

#include <type_traits>

namespace torch_fl {

// One row of a table of kernels: an ATen overload ("add.Tensor") and what makes its kernel. Tables are
// constant data; nothing is registered before routing.h says so.
struct NativeOperator {
    const char* name;
    torch::CppFunction (*kernel)();
};

// Wraps a kernel function for the dispatcher. Its signature is checked against the operator's schema when it
// is registered.
template <auto Function>
torch::CppFunction kernel() {
    using Type = std::remove_pointer_t<decltype(Function)>;
    return torch::CppFunction(c10::CompileTimeFunctionPointer<Type, Function>());
}

} // namespace torch_fl

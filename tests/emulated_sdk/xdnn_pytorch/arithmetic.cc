// add, sub, mul and the backward of thresholding.

#include "xdnn_pytorch/xdnn_pytorch.h"

#include "common/export.h"
#include "elementwise.h"

using namespace xpuemu;

namespace {

// Integers wrap around; unsigned arithmetic does that without undefined behaviour, if it is not narrower than int.
template <typename T>
using Wrapping = std::conditional_t<sizeof(T) <= 4, uint32_t, uint64_t>;

struct Tensors {
    Operand self;
    Operand other;
    Operand out;
};

// Binds three tensors of one type.
Error_t bindBinary(Call& call, const Tensor& self, const Tensor& other, Tensor& out, Tensors* tensors) {
    XPUEMU_RETURN_IF_ERROR(call.bind(self, &tensors->self));
    XPUEMU_RETURN_IF_ERROR(call.bind(other, &tensors->other));
    XPUEMU_RETURN_IF_ERROR(call.bind(out, &tensors->out));
    return self.type == other.type && self.type == out.type ? SUCCESS : call.fail(INVALID_PARAM);
}

Error_t bindUnary(Call& call, const Tensor& self, Tensor& out, Tensors* tensors) {
    XPUEMU_RETURN_IF_ERROR(call.bind(self, &tensors->self));
    XPUEMU_RETURN_IF_ERROR(call.bind(out, &tensors->out));
    return self.type == out.type ? SUCCESS : call.fail(INVALID_PARAM);
}

// self + alpha * other; sign is 1 or -1.
Error_t addTensors(Call& call, const Tensor& self, const Tensor& other, const Scalar& alpha, int sign, Tensor& out) {
    Tensors t;
    XPUEMU_RETURN_IF_ERROR(bindBinary(call, self, other, out, &t));
    const bool integral = dispatchIntegral(self.type, false, [](auto) { return true; });
    if ((integral || self.type == ScalarType::kbool) && isFloating(alpha)) {
        return call.fail(INVALID_PARAM);
    }
    if (self.type == ScalarType::kbool) {
        if (sign < 0) { // there is no subtraction of truth values
            return call.fail(NOT_IMPLEMENT);
        }
        const bool counts = scalarToInteger(alpha) != 0;
        return submitBinary<bool>(
            call, t.self, t.other, t.out, [counts](bool a, bool b) { return a || (counts && b); });
    }
    return dispatchFloatingOrIntegral(self.type, NOT_IMPLEMENT, [&](auto tag) {
        using T = typename decltype(tag)::type;
        if constexpr (is_floating<T>) {
            const float factor = static_cast<float>(sign) * scalarToFloat(alpha);
            if (factor == 1.0f) {
                return submitBinary<T>(call, t.self, t.other, t.out, [](float a, float b) { return a + b; });
            }
            return submitBinary<T>(call, t.self, t.other, t.out, [factor](float a, float b) { return a + factor * b; });
        } else {
            using U = Wrapping<T>;
            const auto factor = static_cast<U>(sign) * static_cast<U>(scalarToInteger(alpha));
            return submitBinary<T>(call, t.self, t.other, t.out, [factor](T a, T b) {
                return static_cast<T>(static_cast<U>(a) + factor * static_cast<U>(b));
            });
        }
    });
}

// self + alpha * other for a number; sign is 1 or -1. Integers take whole numbers only: the caller promotes.
Error_t addNumber(Call& call, const Tensor& self, const Scalar& other, const Scalar& alpha, int sign, Tensor& out) {
    Tensors t;
    XPUEMU_RETURN_IF_ERROR(bindUnary(call, self, out, &t));
    return dispatchFloatingOrIntegral(self.type, NOT_IMPLEMENT, [&](auto tag) {
        using T = typename decltype(tag)::type;
        if constexpr (is_floating<T>) {
            const float addend = static_cast<float>(sign) * scalarToFloat(alpha) * scalarToFloat(other);
            return submitUnary<T>(call, t.self, t.out, [addend](float a) { return a + addend; });
        } else {
            if (isFloating(other) || isFloating(alpha)) {
                return call.fail(INVALID_PARAM);
            }
            using U = Wrapping<T>;
            const auto addend =
                static_cast<U>(sign) * static_cast<U>(scalarToInteger(alpha)) * static_cast<U>(scalarToInteger(other));
            return submitUnary<T>(
                call, t.self, t.out, [addend](T a) { return static_cast<T>(static_cast<U>(a) + addend); });
        }
    });
}

Error_t multiply(Call& call, const Tensor& self, const Tensor& other, Tensor& out) {
    Tensors t;
    XPUEMU_RETURN_IF_ERROR(bindBinary(call, self, other, out, &t));
    if (self.type == ScalarType::kbool) {
        return submitBinary<bool>(call, t.self, t.other, t.out, [](bool a, bool b) { return a && b; });
    }
    return dispatchFloatingOrIntegral(self.type, NOT_IMPLEMENT, [&](auto tag) {
        using T = typename decltype(tag)::type;
        if constexpr (is_floating<T>) {
            return submitBinary<T>(call, t.self, t.other, t.out, [](float a, float b) { return a * b; });
        } else {
            using U = Wrapping<T>;
            return submitBinary<T>(call, t.self, t.other, t.out, [](T a, T b) {
                return static_cast<T>(static_cast<U>(a) * static_cast<U>(b));
            });
        }
    });
}

Error_t multiplyByNumber(Call& call, const Tensor& self, const Scalar& other, Tensor& out) {
    Tensors t;
    XPUEMU_RETURN_IF_ERROR(bindUnary(call, self, out, &t));
    if (self.type == ScalarType::kbool && !isFloating(other)) {
        const bool factor = scalarToInteger(other) != 0;
        return submitUnary<bool>(call, t.self, t.out, [factor](bool a) { return a && factor; });
    }
    return dispatchFloatingOrIntegral(self.type, NOT_IMPLEMENT, [&](auto tag) {
        using T = typename decltype(tag)::type;
        if constexpr (is_floating<T>) {
            const float factor = scalarToFloat(other);
            return submitUnary<T>(call, t.self, t.out, [factor](float a) { return a * factor; });
        } else {
            if (isFloating(other)) {
                return call.fail(INVALID_PARAM);
            }
            using U = Wrapping<T>;
            const auto factor = static_cast<U>(scalarToInteger(other));
            return submitUnary<T>(
                call, t.self, t.out, [factor](T a) { return static_cast<T>(static_cast<U>(a) * factor); });
        }
    });
}

Error_t rectify(Call& call, const Tensor& self, Tensor& out) {
    Tensors t;
    XPUEMU_RETURN_IF_ERROR(bindUnary(call, self, out, &t));
    return dispatchFloatingOrIntegral(self.type, NOT_IMPLEMENT, [&](auto tag) {
        using T = typename decltype(tag)::type;
        // Written so that NaN stays NaN.
        return submitUnary<T>(call, t.self, t.out, [](auto a) { return a < 0 ? decltype(a)(0) : a; });
    });
}

Error_t thresholdBackward(
    Call& call, const Tensor& grad_output, const Tensor& self, const Scalar& threshold, Tensor& grad_input) {
    Tensors t;
    XPUEMU_RETURN_IF_ERROR(bindBinary(call, grad_output, self, grad_input, &t));
    return dispatchFloatingOrIntegral(self.type, NOT_IMPLEMENT, [&](auto tag) {
        using T = typename decltype(tag)::type;
        using V = std::conditional_t<is_floating<T>, float, T>;
        const auto limit =
            is_floating<T> ? static_cast<V>(scalarToFloat(threshold)) : static_cast<V>(scalarToInteger(threshold));
        return submitBinary<T>(
            call, t.self, t.other, t.out, [limit](V grad, V value) { return value <= limit ? V(0) : grad; });
    });
}

} // namespace

namespace xdnn_pytorch {

XPUEMU_EXPORT int add_tensor(Context* ctx, const Tensor& self, const Tensor& other, const Scalar& alpha, Tensor& out) {
    return callOperator(
        ctx, Function::add_tensor, [&](Call& call) { return addTensors(call, self, other, alpha, 1, out); });
}

XPUEMU_EXPORT int sub_tensor(Context* ctx, const Tensor& self, const Tensor& other, const Scalar& alpha, Tensor& out) {
    return callOperator(
        ctx, Function::sub_tensor, [&](Call& call) { return addTensors(call, self, other, alpha, -1, out); });
}

XPUEMU_EXPORT int add_scalar(Context* ctx, const Tensor& self, const Scalar& other, const Scalar& alpha, Tensor& out) {
    return callOperator(
        ctx, Function::add_scalar, [&](Call& call) { return addNumber(call, self, other, alpha, 1, out); });
}

XPUEMU_EXPORT int sub_scalar(Context* ctx, const Tensor& self, const Scalar& other, const Scalar& alpha, Tensor& out) {
    return callOperator(
        ctx, Function::sub_scalar, [&](Call& call) { return addNumber(call, self, other, alpha, -1, out); });
}

XPUEMU_EXPORT int mul_tensor(Context* ctx, const Tensor& self, const Tensor& other, Tensor& out) {
    return callOperator(ctx, Function::mul_tensor, [&](Call& call) { return multiply(call, self, other, out); });
}

XPUEMU_EXPORT int mul_scalar(Context* ctx, const Tensor& self, const Scalar& other, Tensor& out) {
    return callOperator(
        ctx, Function::mul_scalar, [&](Call& call) { return multiplyByNumber(call, self, other, out); });
}

XPUEMU_EXPORT int relu(Context* ctx, const Tensor& self, Tensor& out) {
    return callOperator(ctx, Function::relu, [&](Call& call) { return rectify(call, self, out); });
}

XPUEMU_EXPORT int threshold_backward(
    Context* ctx, const Tensor& grad_output, const Tensor& self, const Scalar& threshold, Tensor& grad_input) {
    return callOperator(ctx, Function::threshold_backward, [&](Call& call) {
        return thresholdBackward(call, grad_output, self, threshold, grad_input);
    });
}

} // namespace xdnn_pytorch

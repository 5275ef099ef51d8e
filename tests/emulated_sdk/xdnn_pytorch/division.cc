// True division, and division rounded down or towards zero.

#include <cmath>
#include <string>

#include "xdnn_pytorch/xdnn_pytorch.h"

#include "common/export.h"
#include "elementwise.h"

using namespace xpuemu;

namespace {

enum class Rounding { None, Truncate, Floor };

// Python's floor division: exact where a / b rounds to a whole number that it is not.
float floorDivide(float a, float b) {
    if (b == 0) {
        return a / b;
    }
    const float remainder = std::fmod(a, b);
    float quotient = (a - remainder) / b;
    if (remainder != 0 && (b < 0) != (remainder < 0)) {
        quotient -= 1;
    }
    if (quotient == 0) {
        return std::copysign(0.0f, a / b);
    }
    const float whole = std::floor(quotient);
    return quotient - whole > 0.5f ? whole + 1 : whole;
}

// Division by zero gives 0 and the one overflow wraps around; on the CPU device both are errors of the host.
template <typename T>
T truncateDivide(T a, T b) {
    if (b == 0) {
        return 0;
    }
    if constexpr (std::is_signed_v<T>) {
        if (b == -1) {
            return static_cast<T>(-static_cast<uint64_t>(a));
        }
    }
    return static_cast<T>(a / b);
}

template <typename T>
T floorDivideIntegers(T a, T b) {
    const T quotient = truncateDivide(a, b);
    if (b == 0 || b == T(-1)) {
        return quotient;
    }
    const bool inexact = a % b != 0;
    return inexact && (a < 0) != (b < 0) ? static_cast<T>(quotient - 1) : quotient;
}

Error_t divide(Call& call, const Tensor& self, const Tensor& other, Rounding rounding, Tensor& out) {
    Operand a;
    Operand b;
    Operand to;
    XPUEMU_RETURN_IF_ERROR(call.bind(self, &a));
    XPUEMU_RETURN_IF_ERROR(call.bind(other, &b));
    XPUEMU_RETURN_IF_ERROR(call.bind(out, &to));
    if (self.type != other.type || self.type != out.type) {
        return call.fail(INVALID_PARAM);
    }
    const auto floating = [&](auto tag) {
        using T = typename decltype(tag)::type;
        switch (rounding) {
        case Rounding::Truncate:
            return submitBinary<T>(call, a, b, to, [](float x, float y) { return std::trunc(x / y); });
        case Rounding::Floor:
            return submitBinary<T>(call, a, b, to, [](float x, float y) { return floorDivide(x, y); });
        case Rounding::None:
            break;
        }
        return submitBinary<T>(call, a, b, to, [](float x, float y) { return x / y; });
    };
    const auto integral = [&](auto tag) {
        using T = typename decltype(tag)::type;
        if (rounding == Rounding::Truncate) {
            return submitBinary<T>(call, a, b, to, [](T x, T y) { return truncateDivide(x, y); });
        }
        return submitBinary<T>(call, a, b, to, [](T x, T y) { return floorDivideIntegers(x, y); });
    };
    // The quotient of integers is no integer: the caller promotes.
    const Error_t otherwise =
        rounding == Rounding::None ? NOT_IMPLEMENT : dispatchIntegral(self.type, NOT_IMPLEMENT, integral);
    return dispatchFloating(self.type, otherwise, floating);
}

Error_t divideByNumber(Call& call, const Tensor& self, const Scalar& other, Tensor& out) {
    Operand from;
    Operand to;
    XPUEMU_RETURN_IF_ERROR(call.bind(self, &from));
    XPUEMU_RETURN_IF_ERROR(call.bind(out, &to));
    if (self.type != out.type) {
        return call.fail(INVALID_PARAM);
    }
    const float divisor = scalarToFloat(other);
    return dispatchFloating(self.type, NOT_IMPLEMENT, [&](auto tag) {
        using T = typename decltype(tag)::type;
        return submitUnary<T>(call, from, to, [divisor](float a) { return a / divisor; });
    });
}

} // namespace

namespace xdnn_pytorch {

XPUEMU_EXPORT int div_tensor(Context* ctx, const Tensor& self, const Tensor& other, Tensor& out) {
    return callOperator(
        ctx, Function::div_tensor, [&](Call& call) { return divide(call, self, other, Rounding::None, out); });
}

XPUEMU_EXPORT int div_tensor_mode(
    Context* ctx, const Tensor& self, const Tensor& other, const optional<StringView>& rounding_mode, Tensor& out) {
    return callOperator(ctx, Function::div_tensor_mode, [&](Call& call) {
        const std::string mode = rounding_mode.has_value() ? rounding_mode.value().str() : "";
        if (mode == "") {
            return divide(call, self, other, Rounding::None, out);
        }
        if (mode == "trunc") {
            return divide(call, self, other, Rounding::Truncate, out);
        }
        if (mode == "floor") {
            return divide(call, self, other, Rounding::Floor, out);
        }
        return call.fail(INVALID_PARAM);
    });
}

XPUEMU_EXPORT int div_scalar(Context* ctx, const Tensor& self, const Scalar& other, Tensor& out) {
    return callOperator(ctx, Function::div_scalar, [&](Call& call) { return divideByNumber(call, self, other, out); });
}

} // namespace xdnn_pytorch

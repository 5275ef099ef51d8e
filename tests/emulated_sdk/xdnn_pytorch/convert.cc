// fill_ and cast, the operators that also know float64.

#include <cstring>

#include "xdnn_pytorch/xdnn_pytorch.h"

#include "common/export.h"
#include "elementwise.h"

using namespace xpuemu;

namespace {

// Integer from a floating number as the processor's conversion instructions give it, without C++'s undefined behaviour:
// what does not fit gives the smallest value of the instruction's width.
template <typename T>
T toInteger(double value) {
    if constexpr (std::is_same_v<T, int64_t> || std::is_same_v<T, uint8_t>) {
        const bool fits = value >= -0x1p63 && value < 0x1p63;
        return static_cast<T>(fits ? static_cast<int64_t>(value) : INT64_MIN);
    } else {
        const bool fits = value > -0x1p31 - 1 && value < 0x1p31;
        return static_cast<T>(fits ? static_cast<int32_t>(value) : INT32_MIN);
    }
}

template <typename From>
auto widen(From value) {
    if constexpr (is_floating<From>) {
        return toFloat(value);
    } else {
        return value;
    }
}

template <typename To, typename From>
To convert(From stored) {
    const auto value = widen(stored);
    using V = std::remove_const_t<decltype(value)>;
    if constexpr (std::is_same_v<To, bool>) {
        return value != V(0);
    } else if constexpr (is_floating<To>) {
        return fromFloat<To>(static_cast<float>(value));
    } else if constexpr (std::is_same_v<To, double>) {
        return static_cast<double>(value);
    } else if constexpr (std::is_floating_point_v<V>) {
        return toInteger<To>(value);
    } else {
        return static_cast<To>(value);
    }
}

template <typename R, typename F>
R dispatchAll(ScalarType type, R otherwise, F f) {
    switch (type) {
    case ScalarType::kbool:
        return f(TypeTag<bool>());
    case ScalarType::kfloat64:
        return f(TypeTag<double>());
    default:
        return dispatchFloatingOrIntegral(type, otherwise, f);
    }
}

template <typename T>
T read(const char* address) {
    if constexpr (std::is_same_v<T, bool>) {
        return *reinterpret_cast<const uint8_t*>(address) != 0; // any byte but 0 is true
    } else {
        return *reinterpret_cast<const T*>(address);
    }
}

template <typename To, typename From>
void castLine(const void*, char* const* pointers, const int64_t* steps, int64_t count) {
    if (steps[0] == sizeof(To) && steps[1] == sizeof(From)) {
        for (int64_t i = 0; i < count; ++i) {
            reinterpret_cast<To*>(pointers[0])[i] = convert<To>(read<From>(pointers[1] + i * sizeof(From)));
        }
        return;
    }
    for (int64_t i = 0; i < count; ++i) {
        *reinterpret_cast<To*>(pointers[0] + i * steps[0]) = convert<To>(read<From>(pointers[1] + i * steps[1]));
    }
}

// A copy between tensors of one type, which sees only the elements' size. U is an unsigned type of that size.
template <typename U>
void copyLine(const void*, char* const* pointers, const int64_t* steps, int64_t count) {
    if (steps[0] == sizeof(U) && steps[1] == sizeof(U)) {
        std::memmove(pointers[0], pointers[1], static_cast<size_t>(count) * sizeof(U));
        return;
    }
    for (int64_t i = 0; i < count; ++i) {
        *reinterpret_cast<U*>(pointers[0] + i * steps[0]) = *reinterpret_cast<const U*>(pointers[1] + i * steps[1]);
    }
}

template <typename T>
void fillLine(const void* state, char* const* pointers, const int64_t* steps, int64_t count) {
    const T value = *static_cast<const T*>(state);
    for (int64_t i = 0; i < count; ++i) {
        *reinterpret_cast<T*>(pointers[0] + i * steps[0]) = value;
    }
}

LineFunction copyOf(int64_t element_size) {
    switch (element_size) {
    case 1:
        return &copyLine<uint8_t>;
    case 2:
        return &copyLine<uint16_t>;
    case 4:
        return &copyLine<uint32_t>;
    default:
        return &copyLine<uint64_t>;
    }
}

LineFunction castOf(ScalarType from, ScalarType to) {
    constexpr LineFunction kNone = nullptr;
    return dispatchAll(from, kNone, [to](auto source) {
        return dispatchAll(to, kNone, [](auto target) -> LineFunction {
            return &castLine<typename decltype(target)::type, typename decltype(source)::type>;
        });
    });
}

} // namespace

namespace xdnn_pytorch {

XPUEMU_EXPORT int cast(Context* ctx, const Tensor& self, Tensor& out) {
    return callOperator(ctx, Function::cast, [&](Call& call) {
        Operand from;
        Operand to;
        XPUEMU_RETURN_IF_ERROR(call.bind(self, &from));
        XPUEMU_RETURN_IF_ERROR(call.bind(out, &to));
        const LineFunction line = self.type == out.type ? copyOf(to.element_size) : castOf(self.type, out.type);
        return submitLines<2>(call, {&to, &from}, line, nullptr, 0);
    });
}

// self is the tensor that is filled, and clients pass it as out too; out is what is written.
XPUEMU_EXPORT int fill__scalar(Context* ctx, const Tensor& self, const Scalar& value, Tensor& out) {
    return callOperator(ctx, Function::fill__scalar, [&](Call& call) {
        Operand to;
        XPUEMU_RETURN_IF_ERROR(call.bind(out, &to));
        if (self.type != out.type || self.sizes != out.sizes) {
            return call.fail(INVALID_PARAM);
        }
        return dispatchAll(out.type, NOT_IMPLEMENT, [&](auto tag) {
            using T = typename decltype(tag)::type;
            const T stored = isFloating(value) ? convert<T>(scalarToFloat(value)) : convert<T>(scalarToInteger(value));
            return submitLines<1>(call, {&to}, &fillLine<T>, &stored, sizeof stored);
        });
    });
}

} // namespace xdnn_pytorch

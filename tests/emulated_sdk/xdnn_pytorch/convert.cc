// fill_ and cast, the operators that also know float64.

#include <cstring>

#include "xdnn_pytorch/xdnn_pytorch.h"

#include "common/export.h"
#include "loop.h"

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
struct Cast {
    Loop<2> loop;

    void operator()() const {
        loop.run([](const auto& p, const auto& step, int64_t count) {
            if (step[0] == sizeof(To) && step[1] == sizeof(From)) {
                for (int64_t i = 0; i < count; ++i) {
                    reinterpret_cast<To*>(p[0])[i] = convert<To>(read<From>(p[1] + i * sizeof(From)));
                }
                return;
            }
            for (int64_t i = 0; i < count; ++i) {
                *reinterpret_cast<To*>(p[0] + i * step[0]) = convert<To>(read<From>(p[1] + i * step[1]));
            }
        });
    }
};

// A copy between tensors of one type, which sees only the elements' size. U is an unsigned type of that size.
template <typename U>
struct StridedCopy {
    Loop<2> loop;

    void operator()() const {
        loop.run([](const auto& p, const auto& step, int64_t count) {
            if (step[0] == sizeof(U) && step[1] == sizeof(U)) {
                std::memmove(p[0], p[1], static_cast<size_t>(count) * sizeof(U));
                return;
            }
            for (int64_t i = 0; i < count; ++i) {
                *reinterpret_cast<U*>(p[0] + i * step[0]) = *reinterpret_cast<const U*>(p[1] + i * step[1]);
            }
        });
    }
};

template <typename T>
struct Fill {
    Loop<1> loop;
    T value;

    void operator()() const {
        loop.run([this](const auto& p, const auto& step, int64_t count) {
            for (int64_t i = 0; i < count; ++i) {
                *reinterpret_cast<T*>(p[0] + i * step[0]) = value;
            }
        });
    }
};

template <typename K>
Error_t submitPair(Call& call, const Operand& from, const Operand& to) {
    K kernel{};
    XPUEMU_RETURN_IF_ERROR(makeLoop<2>(call, {&to, &from}, &kernel.loop));
    return to.count == 0 ? SUCCESS : call.submit(kernel);
}

Error_t copy(Call& call, const Operand& from, const Operand& to) {
    switch (to.element_size) {
    case 1:
        return submitPair<StridedCopy<uint8_t>>(call, from, to);
    case 2:
        return submitPair<StridedCopy<uint16_t>>(call, from, to);
    case 4:
        return submitPair<StridedCopy<uint32_t>>(call, from, to);
    default:
        return submitPair<StridedCopy<uint64_t>>(call, from, to);
    }
}

} // namespace

namespace xdnn_pytorch {

XPUEMU_EXPORT int cast(Context* ctx, const Tensor& self, Tensor& out) {
    return callOperator(ctx, Function::cast, [&](Call& call) {
        Operand from;
        Operand to;
        XPUEMU_RETURN_IF_ERROR(call.bind(self, &from));
        XPUEMU_RETURN_IF_ERROR(call.bind(out, &to));
        if (self.type == out.type) {
            return copy(call, from, to);
        }
        return dispatchAll(self.type, NOT_IMPLEMENT, [&](auto source) {
            return dispatchAll(out.type, NOT_IMPLEMENT, [&](auto target) {
                return submitPair<Cast<typename decltype(target)::type, typename decltype(source)::type>>(
                    call, from, to);
            });
        });
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
            Fill<T> kernel{};
            kernel.value = isFloating(value) ? convert<T>(scalarToFloat(value)) : convert<T>(scalarToInteger(value));
            XPUEMU_RETURN_IF_ERROR(makeLoop<1>(call, {&to}, &kernel.loop));
            return to.count == 0 ? SUCCESS : call.submit(kernel);
        });
    });
}

} // namespace xdnn_pytorch

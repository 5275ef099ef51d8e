// Element types of tensors and conversion between them, without anyone's half-precision library.
#pragma once

#include <bit>
#include <cstdint>
#include <type_traits>

#include "xdnn_pytorch/value_types.h"

namespace xpuemu {

using xdnn_pytorch::ScalarType;

struct Half {
    uint16_t bits;
};

struct BFloat16 {
    uint16_t bits;
};

// IEEE binary16 to binary32: shifted into place, the exponent is rebiased by a multiplication, which also gets
// subnormal numbers right.
inline float toFloat(Half value) {
    const uint32_t magnitude = value.bits & 0x7fffu;
    const uint32_t sign = uint32_t(value.bits & 0x8000u) << 16;
    const float rebiased = std::bit_cast<float>(magnitude << 13) * 0x1p+112f;
    const uint32_t infinite_or_nan = magnitude >= 0x7c00u ? 0x7f800000u : 0u;
    return std::bit_cast<float>(std::bit_cast<uint32_t>(rebiased) | infinite_or_nan | sign);
}

inline float toFloat(BFloat16 value) {
    return std::bit_cast<float>(uint32_t(value.bits) << 16);
}

inline float toFloat(float value) {
    return value;
}

// Rounds to nearest, ties to even.
inline Half toHalf(float value) {
    const uint32_t bits = std::bit_cast<uint32_t>(value);
    const auto sign = static_cast<uint16_t>((bits >> 16) & 0x8000u);
    const uint32_t magnitude = bits & 0x7fffffffu;
    uint32_t half = 0;
    if (magnitude > 0x7f800000u) {
        half = 0x7e00u; // NaN
    } else if (magnitude >= 0x47800000u) {
        half = 0x7c00u; // 65536 and more
    } else if (magnitude < 0x38800000u) {
        // Below 2^-14 the result is subnormal; the addition of 0.5 rounds at its last place, 2^-24.
        half = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - 0x3f000000u;
    } else {
        half = (magnitude - (112u << 23) + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
    }
    return {static_cast<uint16_t>(sign | half)};
}

inline BFloat16 toBFloat16(float value) {
    const uint32_t bits = std::bit_cast<uint32_t>(value);
    if ((bits & 0x7fffffffu) > 0x7f800000u) {
        return {0x7fc0u};
    }
    return {static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16)};
}

// T from the result of a computation in float.
template <typename T>
T fromFloat(float value) {
    if constexpr (std::is_same_v<T, Half>) {
        return toHalf(value);
    } else if constexpr (std::is_same_v<T, BFloat16>) {
        return toBFloat16(value);
    } else {
        static_assert(std::is_same_v<T, float>);
        return value;
    }
}

template <typename T>
constexpr bool is_floating = std::is_same_v<T, float> || std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>;

// Bytes of one element; 0 for a type that is none.
constexpr int64_t elementSize(ScalarType type) {
    switch (type) {
    case ScalarType::kbool:
    case ScalarType::kuint8:
    case ScalarType::kint8:
        return 1;
    case ScalarType::kint16:
    case ScalarType::kfloat16:
    case ScalarType::kbfloat16:
        return 2;
    case ScalarType::kint32:
    case ScalarType::kfloat32:
        return 4;
    case ScalarType::kint64:
    case ScalarType::kfloat64:
        return 8;
    case ScalarType::UnknownScalarType:
        break;
    }
    return 0;
}

template <typename T>
struct TypeTag {
    using type = T;
};

// Calls f(TypeTag<T>) for the element type T and returns its answer; `otherwise` for a type of another family.
template <typename R, typename F>
R dispatchFloating(ScalarType type, R otherwise, F f) {
    switch (type) {
    case ScalarType::kfloat32:
        return f(TypeTag<float>());
    case ScalarType::kfloat16:
        return f(TypeTag<Half>());
    case ScalarType::kbfloat16:
        return f(TypeTag<BFloat16>());
    default:
        return otherwise;
    }
}

template <typename R, typename F>
R dispatchIntegral(ScalarType type, R otherwise, F f) {
    switch (type) {
    case ScalarType::kuint8:
        return f(TypeTag<uint8_t>());
    case ScalarType::kint8:
        return f(TypeTag<int8_t>());
    case ScalarType::kint16:
        return f(TypeTag<int16_t>());
    case ScalarType::kint32:
        return f(TypeTag<int32_t>());
    case ScalarType::kint64:
        return f(TypeTag<int64_t>());
    default:
        return otherwise;
    }
}

template <typename R, typename F>
R dispatchFloatingOrIntegral(ScalarType type, R otherwise, F f) {
    const bool floating = dispatchFloating(type, false, [](auto) { return true; });
    return floating ? dispatchFloating(type, otherwise, f) : dispatchIntegral(type, otherwise, f);
}

} // namespace xpuemu

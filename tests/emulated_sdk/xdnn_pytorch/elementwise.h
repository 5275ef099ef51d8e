// Element-wise kernels: a function of elements, applied along strided lines.
#pragma once

#include <array>
#include <cstddef>
#include <type_traits>

#include "loop.h"

namespace xpuemu {

// Works on `count` elements: pointer and step in bytes for each tensor. `state` is what the kernel captured. Only this
// is instantiated per operator and type; everything around it is compiled once.
using LineFunction = void (*)(const void* state, char* const* pointers, const int64_t* steps, int64_t count);

// Queues `line` over the shape of operands[0], the output, to which the others are broadcast. `state` is copied.
template <int N>
Error_t submitLines(
    Call& call, const std::array<const Operand*, N>& operands, LineFunction line, const void* state, size_t state_size);

// Elements are loaded as what they are computed in: half precision as float, everything else as itself.
template <typename T>
auto load(const char* address) {
    const T value = *reinterpret_cast<const T*>(address);
    if constexpr (is_floating<T>) {
        return toFloat(value);
    } else {
        return value;
    }
}

template <typename T, typename V>
void store(char* address, V value) {
    if constexpr (is_floating<T>) {
        *reinterpret_cast<T*>(address) = fromFloat<T>(value);
    } else {
        *reinterpret_cast<T*>(address) = static_cast<T>(value);
    }
}

// out = f(in). An output may be its input: each element is read before it is written, which is what the ivdep pragma
// tells the compiler.
template <typename T, typename F>
void unaryLine(const void* state, char* const* pointers, const int64_t* steps, int64_t count) {
    const F& f = *static_cast<const F*>(state);
    char* const out = pointers[0];
    const char* const in = pointers[1];
    if (steps[0] == sizeof(T) && steps[1] == sizeof(T)) {
#pragma GCC ivdep
        for (int64_t i = 0; i < count; ++i) {
            store<T>(out + i * sizeof(T), f(load<T>(in + i * sizeof(T))));
        }
        return;
    }
    for (int64_t i = 0; i < count; ++i) {
        store<T>(out + i * steps[0], f(load<T>(in + i * steps[1])));
    }
}

// out = f(a, b).
template <typename T, typename F>
void binaryLine(const void* state, char* const* pointers, const int64_t* steps, int64_t count) {
    const F& f = *static_cast<const F*>(state);
    char* const out = pointers[0];
    const char* const a = pointers[1];
    const char* const b = pointers[2];
    constexpr int64_t kStep = sizeof(T);
    if (steps[0] == kStep && steps[1] == kStep && steps[2] == kStep) {
#pragma GCC ivdep
        for (int64_t i = 0; i < count; ++i) {
            store<T>(out + i * kStep, f(load<T>(a + i * kStep), load<T>(b + i * kStep)));
        }
        return;
    }
    for (int64_t i = 0; i < count; ++i) {
        store<T>(out + i * steps[0], f(load<T>(a + i * steps[1]), load<T>(b + i * steps[2])));
    }
}

// Queues out = f(in).
template <typename T, typename F>
Error_t submitUnary(Call& call, const Operand& in, const Operand& out, F f) {
    static_assert(std::is_trivially_copyable_v<F>);
    return submitLines<2>(call, {&out, &in}, &unaryLine<T, F>, &f, sizeof f);
}

// Queues out = f(a, b).
template <typename T, typename F>
Error_t submitBinary(Call& call, const Operand& a, const Operand& b, const Operand& out, F f) {
    static_assert(std::is_trivially_copyable_v<F>);
    return submitLines<3>(call, {&out, &a, &b}, &binaryLine<T, F>, &f, sizeof f);
}

} // namespace xpuemu

// Element-wise kernels: a function of one or two elements, applied along strided lines.
#pragma once

#include "loop.h"

namespace xpuemu {

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

// out = f(in), tensors 0 and 1. An output may be its input: each element is read before it is written, which is what
// the ivdep pragma tells the compiler.
template <typename T, typename F>
struct Unary {
    Loop<2> loop;
    F f;

    void operator()() const {
        loop.run([&](const auto& p, const auto& step, int64_t count) {
            if (step[0] == sizeof(T) && step[1] == sizeof(T)) {
                char* const out = p[0];
                const char* const in = p[1];
#pragma GCC ivdep
                for (int64_t i = 0; i < count; ++i) {
                    store<T>(out + i * sizeof(T), f(load<T>(in + i * sizeof(T))));
                }
                return;
            }
            for (int64_t i = 0; i < count; ++i) {
                store<T>(p[0] + i * step[0], f(load<T>(p[1] + i * step[1])));
            }
        });
    }
};

// out = f(a, b), tensors 0, 1 and 2.
template <typename T, typename F>
struct Binary {
    Loop<3> loop;
    F f;

    void operator()() const {
        loop.run([&](const auto& p, const auto& step, int64_t count) {
            char* const out = p[0];
            const char* const a = p[1];
            const char* const b = p[2];
            constexpr int64_t kStep = sizeof(T);
            if (step[0] == kStep && step[1] == kStep && step[2] == kStep) {
#pragma GCC ivdep
                for (int64_t i = 0; i < count; ++i) {
                    store<T>(out + i * kStep, f(load<T>(a + i * kStep), load<T>(b + i * kStep)));
                }
            } else if (step[0] == kStep && step[1] == kStep && step[2] == 0) {
                const auto fixed = load<T>(b);
#pragma GCC ivdep
                for (int64_t i = 0; i < count; ++i) {
                    store<T>(out + i * kStep, f(load<T>(a + i * kStep), fixed));
                }
            } else {
                for (int64_t i = 0; i < count; ++i) {
                    store<T>(out + i * step[0], f(load<T>(a + i * step[1]), load<T>(b + i * step[2])));
                }
            }
        });
    }
};

// Queues out = f(in).
template <typename T, typename F>
Error_t submitUnary(Call& call, const Operand& in, const Operand& out, F f) {
    Unary<T, F> kernel{{}, f};
    XPUEMU_RETURN_IF_ERROR(makeLoop<2>(call, {&out, &in}, &kernel.loop));
    return out.count == 0 ? SUCCESS : call.submit(kernel);
}

// Queues out = f(a, b).
template <typename T, typename F>
Error_t submitBinary(Call& call, const Operand& a, const Operand& b, const Operand& out, F f) {
    Binary<T, F> kernel{{}, f};
    XPUEMU_RETURN_IF_ERROR(makeLoop<3>(call, {&out, &a, &b}, &kernel.loop));
    return out.count == 0 ? SUCCESS : call.submit(kernel);
}

} // namespace xpuemu

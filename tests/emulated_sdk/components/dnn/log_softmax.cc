#include <cmath>
#include <limits>

#include "common/element.h"
#include "common/export.h"
#include "components/versions.h"
#include "dnn.h"

using namespace xpuemu;

template <typename T>
static T* pointer(const XpuDnnLine& line) {
    return static_cast<T*>(line.data);
}

template <typename In, typename Out>
static void logSoftmax(XpuDnnLine in, XpuDnnLine out, int64_t count) {
    const In* from = pointer<const In>(in);
    Out* to = pointer<Out>(out);
    float largest = -std::numeric_limits<float>::infinity();
    for (int64_t i = 0; i < count; ++i) {
        const float value = toFloat(from[i * in.stride]);
        largest = value > largest || std::isnan(value) ? value : largest;
    }
    double sum = 0;
    for (int64_t i = 0; i < count; ++i) {
        sum += std::exp(toFloat(from[i * in.stride]) - largest);
    }
    const auto shift = static_cast<float>(std::log(sum));
    for (int64_t i = 0; i < count; ++i) {
        to[i * out.stride] = fromFloat<Out>(toFloat(from[i * in.stride]) - largest - shift);
    }
}

template <typename T, typename Out>
static void logSoftmaxBackward(XpuDnnLine grad_out, XpuDnnLine output, XpuDnnLine grad_in, int64_t count) {
    const T* grad = pointer<const T>(grad_out);
    const T* result = pointer<const T>(output);
    Out* to = pointer<Out>(grad_in);
    double sum = 0;
    for (int64_t i = 0; i < count; ++i) {
        sum += toFloat(grad[i * grad_out.stride]);
    }
    const auto total = static_cast<float>(sum);
    for (int64_t i = 0; i < count; ++i) {
        const float probability = std::exp(toFloat(result[i * output.stride]));
        to[i * grad_in.stride] = fromFloat<Out>(toFloat(grad[i * grad_out.stride]) - probability * total);
    }
}

// Calls f(TypeTag<A>, TypeTag<B>).
template <typename F>
static void dispatchTwo(ScalarType a, ScalarType b, F f) {
    dispatchFloating(a, false, [&](auto first) {
        return dispatchFloating(b, false, [&](auto second) {
            f(first, second);
            return true;
        });
    });
}

extern "C" {

XPUEMU_EXPORT bool xpu_dnn_supports(ScalarType type) {
    return dispatchFloating(type, false, [](auto) { return true; });
}

XPUEMU_EXPORT void
xpu_dnn_log_softmax(ScalarType in_type, XpuDnnLine in, ScalarType out_type, XpuDnnLine out, int64_t count) {
    dispatchTwo(in_type, out_type, [&](auto from, auto to) {
        logSoftmax<typename decltype(from)::type, typename decltype(to)::type>(in, out, count);
    });
}

XPUEMU_EXPORT void xpu_dnn_log_softmax_backward(
    ScalarType type, XpuDnnLine grad_out, XpuDnnLine output, ScalarType grad_in_type, XpuDnnLine grad_in,
    int64_t count) {
    dispatchTwo(type, grad_in_type, [&](auto from, auto to) {
        logSoftmaxBackward<typename decltype(from)::type, typename decltype(to)::type>(
            grad_out, output, grad_in, count);
    });
}

XPUEMU_EXPORT const char* xpu_dnn_component_set(void) {
    return XPUEMU_COMPONENT_SET;
}

} // extern "C"

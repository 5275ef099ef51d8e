#include "common/element.h"
#include "common/export.h"
#include "dnn.h"

using namespace xpuemu;

constexpr int64_t kNone = 0;
constexpr int64_t kMean = 1;

static int64_t targetOf(const XpuDnnNll& problem, int64_t sample) {
    const int64_t index = sample * problem.target.stride;
    return problem.byte_target ? static_cast<const uint8_t*>(problem.target.data)[index]
                               : static_cast<const int64_t*>(problem.target.data)[index];
}

template <typename T>
static float weightOf(const XpuDnnNll& problem, int64_t target) {
    return problem.weight.data == nullptr
               ? 1.0f
               : toFloat(static_cast<const T*>(problem.weight.data)[target * problem.weight.stride]);
}

// Calls f(sample, target, weight) for every sample that is not ignored, and ignored(sample) for the others. False when
// a target is no class.
template <typename T, typename F, typename G>
static bool forEachSample(const XpuDnnNll& problem, F f, G ignored) {
    for (int64_t sample = 0; sample < problem.batch; ++sample) {
        const int64_t target = targetOf(problem, sample);
        if (target == problem.ignore_index) {
            ignored(sample);
        } else if (target < 0 || target >= problem.classes) {
            return false;
        } else {
            f(sample, target, weightOf<T>(problem, target));
        }
    }
    return true;
}

template <typename T>
static bool forward(const XpuDnnNll& problem, const T* in, int64_t row_stride, int64_t column_stride, XpuDnnLine out) {
    T* to = static_cast<T*>(out.data);
    double loss = 0;
    double total_weight = 0;
    const bool valid = forEachSample<T>(
        problem,
        [&](int64_t sample, int64_t target, float weight) {
            const float value = -weight * toFloat(in[sample * row_stride + target * column_stride]);
            if (problem.reduction == kNone) {
                to[sample * out.stride] = fromFloat<T>(value);
            }
            loss += value;
            total_weight += weight;
        },
        [&](int64_t sample) {
            if (problem.reduction == kNone) {
                to[sample * out.stride] = fromFloat<T>(0);
            }
        });
    if (problem.reduction != kNone) {
        // The mean over nothing is 0 / 0.
        to[0] = fromFloat<T>(static_cast<float>(problem.reduction == kMean ? loss / total_weight : loss));
    }
    return valid;
}

template <typename T>
static bool backward(
    const XpuDnnNll& problem, XpuDnnLine grad_out, const T* total_weight, T* grad_in, int64_t row_stride,
    int64_t column_stride) {
    for (int64_t sample = 0; sample < problem.batch; ++sample) {
        for (int64_t c = 0; c < problem.classes; ++c) {
            grad_in[sample * row_stride + c * column_stride] = fromFloat<T>(0);
        }
    }
    double divisor = 1;
    if (problem.reduction == kMean) {
        divisor = 0;
        if (total_weight != nullptr) {
            divisor = toFloat(*total_weight);
        } else if (!forEachSample<T>(
                       problem, [&](int64_t, int64_t, float weight) { divisor += weight; }, [](int64_t) {})) {
            return false;
        }
    }
    const T* grad = static_cast<const T*>(grad_out.data);
    return forEachSample<T>(
        problem,
        [&](int64_t sample, int64_t target, float weight) {
            const float upstream = toFloat(grad[problem.reduction == kNone ? sample * grad_out.stride : 0]);
            grad_in[sample * row_stride + target * column_stride] =
                fromFloat<T>(static_cast<float>(-weight * upstream / divisor));
        },
        [](int64_t) {});
}

extern "C" {

XPUEMU_EXPORT bool
xpu_dnn_nll(const XpuDnnNll* problem, const void* in, int64_t in_row_stride, int64_t in_column_stride, XpuDnnLine out) {
    return dispatchFloating(problem->type, false, [&](auto tag) {
        using T = typename decltype(tag)::type;
        return forward<T>(*problem, static_cast<const T*>(in), in_row_stride, in_column_stride, out);
    });
}

XPUEMU_EXPORT bool xpu_dnn_nll_backward(
    const XpuDnnNll* problem, XpuDnnLine grad_out, const void* total_weight, void* grad_in, int64_t grad_in_row_stride,
    int64_t grad_in_column_stride) {
    return dispatchFloating(problem->type, false, [&](auto tag) {
        using T = typename decltype(tag)::type;
        return backward<T>(
            *problem,
            grad_out,
            static_cast<const T*>(total_weight),
            static_cast<T*>(grad_in),
            grad_in_row_stride,
            grad_in_column_stride);
    });
}

} // extern "C"

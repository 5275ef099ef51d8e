// sum and mean, over everything or over some dimensions.

#include <algorithm>
#include <memory>

#include "xdnn_pytorch/xdnn_pytorch.h"

#include "common/export.h"
#include "elementwise.h"

using namespace xpuemu;

namespace {

// Floating inputs are added up in double, integers and truth values in 64 bits that wrap around.
template <typename T>
using Sum = std::conditional_t<is_floating<T>, double, uint64_t>;

template <typename T>
Sum<T> addend(const char* address) {
    return static_cast<Sum<T>>(load<T>(address));
}

template <typename T>
Sum<T> sumLine(const char* data, int64_t step, int64_t count) {
    Sum<T> parts[4] = {}; // independent, so that the additions overlap
    int64_t i = 0;
    for (; i + 4 <= count; i += 4) {
        for (int part = 0; part < 4; ++part) {
            parts[part] += addend<T>(data + (i + part) * step);
        }
    }
    for (; i < count; ++i) {
        parts[0] += addend<T>(data + i * step);
    }
    return (parts[0] + parts[1]) + (parts[2] + parts[3]);
}

template <typename T>
void storeSum(char* to, ScalarType type, Sum<T> sum) {
    dispatchFloatingOrIntegral(type, false, [&](auto tag) {
        using Out = typename decltype(tag)::type;
        if constexpr (is_floating<Out> && is_floating<T>) {
            store<Out>(to, static_cast<float>(sum));
        } else if constexpr (is_floating<Out>) {
            store<Out>(to, static_cast<float>(static_cast<int64_t>(sum)));
        } else {
            store<Out>(to, sum);
        }
        return true;
    });
}

// The kept dimensions are walked with the output (tensors: output, input); the others are added up (input only).
template <typename T>
struct Reduction {
    Loop<2> kept;
    Loop<1> reduced;
    bool empty; // nothing is added up: each sum is 0
    ScalarType out_type;
    double divisor; // 1 for a sum

    void put(char* to, Sum<T> sum) const {
        if constexpr (is_floating<T>) {
            sum /= divisor;
        }
        storeSum<T>(to, out_type, sum);
    }

    void operator()() const {
        kept.run([this](const auto& p, const auto& step, int64_t count) {
            const bool neighbours_are_kept = kept.dims > 0 && reduced.dims > 0 && step[1] < reduced.strides[0][0];
            if (neighbours_are_kept && !empty) {
                sumSideBySide(p, step, count);
                return;
            }
            for (int64_t i = 0; i < count; ++i) {
                put(p[0] + i * step[0], empty ? Sum<T>(0) : sumOne(p[1] + i * step[1]));
            }
        });
    }

    Sum<T> sumOne(char* from) const {
        Sum<T> sum = 0;
        Loop<1> loop = reduced;
        loop.data[0] = from;
        loop.run([&](const auto& p, const auto& step, int64_t count) { sum += sumLine<T>(p[0], step[0], count); });
        return sum;
    }

    // When neighbours in memory belong to different sums, as for the columns of a matrix, sums are made side by side.
    void sumSideBySide(const std::array<char*, 2>& p, const std::array<int64_t, 2>& step, int64_t count) const {
        constexpr int64_t kWidth = 256;
        Sum<T> sums[kWidth];
        for (int64_t first = 0; first < count; first += kWidth) {
            const int64_t width = std::min(kWidth, count - first);
            std::fill_n(sums, width, Sum<T>(0));
            Loop<1> loop = reduced;
            loop.data[0] = p[1] + first * step[1];
            loop.run([&](const auto& line, const auto& line_step, int64_t lines) {
                for (int64_t i = 0; i < lines; ++i) {
                    const char* from = line[0] + i * line_step[0];
                    for (int64_t j = 0; j < width; ++j) {
                        sums[j] += addend<T>(from + j * step[1]);
                    }
                }
            });
            for (int64_t j = 0; j < width; ++j) {
                put(p[0] + (first + j) * step[0], sums[j]);
            }
        }
    }
};

// Which dimensions `dims` names; all of them when it names none. INVALID_PARAM for a dimension that does not exist or
// is named twice.
Error_t markDims(Call& call, const Operand& in, const std::vector<int64_t>& dims, std::vector<bool>* reduced) {
    reduced->assign(static_cast<size_t>(in.dims()), dims.empty());
    for (const int64_t dim : dims) {
        const int64_t wrapped = dim < 0 ? dim + in.dims() : dim;
        if (wrapped < 0 || wrapped >= in.dims() || (*reduced)[static_cast<size_t>(wrapped)]) {
            return call.fail(INVALID_PARAM);
        }
        (*reduced)[static_cast<size_t>(wrapped)] = true;
    }
    return SUCCESS;
}

// Shape of the result: a tensor without dimensions is {1}.
std::vector<int64_t> reducedShape(const Operand& in, const std::vector<bool>& reduced, bool keepdim) {
    std::vector<int64_t> shape;
    for (size_t dim = 0; dim < reduced.size(); ++dim) {
        if (!reduced[dim]) {
            shape.push_back(in.tensor->sizes[dim]);
        } else if (keepdim) {
            shape.push_back(1);
        }
    }
    if (shape.empty()) {
        shape.push_back(1);
    }
    return shape;
}

template <typename T>
Error_t submitReduction(
    Call& call, const Operand& in, const Operand& out, const std::vector<bool>& reduced, bool keepdim, bool average) {
    Reduction<T> kernel{};
    kernel.out_type = out.type();
    kernel.kept.data = {out.data, in.data};
    int64_t count = 1; // of elements in one sum
    int64_t out_dim = out.dims();
    for (int64_t dim = in.dims(); dim-- > 0;) {
        const int64_t step = in.stride(dim) * in.element_size;
        bool added = true;
        if (reduced[static_cast<size_t>(dim)]) {
            count *= in.size(dim);
            added = kernel.reduced.add(in.size(dim), {step});
            out_dim -= keepdim ? 1 : 0;
        } else {
            --out_dim;
            added = kernel.kept.add(in.size(dim), {out.stride(out_dim) * out.element_size, step});
        }
        if (!added) {
            return call.fail(NOT_IMPLEMENT);
        }
    }
    kernel.empty = count == 0;
    kernel.reduced.sortByFirst();
    kernel.divisor = average ? static_cast<double>(count) : 1.0; // 0 / 0 is the mean of nothing
    return out.count == 0 ? SUCCESS : call.submit(kernel);
}

Error_t reduce(
    Call& call, const Tensor& self, const std::vector<int64_t>& dims, bool keepdim,
    const xdnn_pytorch::optional<ScalarType>& dtype, bool average, Tensor& out) {
    Operand in;
    Operand to;
    XPUEMU_RETURN_IF_ERROR(call.bind(self, &in));
    XPUEMU_RETURN_IF_ERROR(call.bind(out, &to));
    std::vector<bool> reduced;
    XPUEMU_RETURN_IF_ERROR(markDims(call, in, dims, &reduced));
    const bool one_element = to.count == 1 && to.dims() == 0; // {} is accepted for {1}
    if ((dtype.has_value() && dtype.value() != out.type) ||
        (reducedShape(in, reduced, keepdim) != out.sizes && !one_element)) {
        return call.fail(INVALID_PARAM);
    }
    const bool from_floating = dispatchFloating(self.type, false, [](auto) { return true; });
    const bool to_floating = dispatchFloating(out.type, false, [](auto) { return true; });
    const bool to_integral = dispatchIntegral(out.type, false, [](auto) { return true; });
    if (from_floating ? !to_floating : average || !(to_floating || to_integral)) {
        return call.fail(NOT_IMPLEMENT);
    }
    if (self.type == ScalarType::kbool) {
        return submitReduction<bool>(call, in, to, reduced, keepdim, average);
    }
    return dispatchFloatingOrIntegral(self.type, NOT_IMPLEMENT, [&](auto tag) {
        return submitReduction<typename decltype(tag)::type>(call, in, to, reduced, keepdim, average);
    });
}

} // namespace

namespace xdnn_pytorch {

XPUEMU_EXPORT int sum(Context* ctx, const Tensor& self, const optional<ScalarType>& dtype, Tensor& out) {
    return callOperator(
        ctx, Function::sum, [&](Call& call) { return reduce(call, self, {}, false, dtype, false, out); });
}

XPUEMU_EXPORT int sum_dim_IntList(
    Context* ctx, const Tensor& self, const std::vector<int64_t>& dim, bool keepdim, const optional<ScalarType>& dtype,
    Tensor& out) {
    return callOperator(ctx, Function::sum_dim_IntList, [&](Call& call) {
        return reduce(call, self, dim, keepdim, dtype, false, out);
    });
}

XPUEMU_EXPORT int mean(Context* ctx, const Tensor& self, const optional<ScalarType>& dtype, Tensor& out) {
    return callOperator(
        ctx, Function::mean, [&](Call& call) { return reduce(call, self, {}, false, dtype, true, out); });
}

XPUEMU_EXPORT int mean_dim(
    Context* ctx, const Tensor& self, const std::vector<int64_t>& dim, bool keepdim, const optional<ScalarType>& dtype,
    Tensor& out) {
    return callOperator(
        ctx, Function::mean_dim, [&](Call& call) { return reduce(call, self, dim, keepdim, dtype, true, out); });
}

} // namespace xdnn_pytorch

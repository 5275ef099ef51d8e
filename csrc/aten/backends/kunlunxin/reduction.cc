#include "aten/backends/kunlunxin/adaptor.h"
#include "aten/backends/kunlunxin/operators.h"
#include "aten/backends/kunlunxin/transfer.h"
#include "aten/cpu_fallback.h"
#include "aten/structured.h"
#include "aten/tensor.h"

#include <ATen/WrapDimUtils.h>
#include <ATen/ops/mean_meta.h>
#include <ATen/ops/mean_ops.h>
#include <ATen/ops/sum_meta.h>
#include <ATen/ops/sum_ops.h>

#include <limits>
#include <numeric>
#include <vector>

namespace torch_fl::kunlunxin {

namespace {

using at::OptionalIntArrayRef;
using at::ScalarType;
using at::Tensor;

// What sum and mean do not share. `nothing` is the result over no elements.
struct Sum {
    using Meta = at::meta::structured_sum_dim_IntList;
    using FullOp = at::_ops::sum;
    using DimOp = at::_ops::sum_dim_IntList;
    using OutOp = at::_ops::sum_IntList_out;
    static constexpr double kNothing = 0;

    // A sum in bool is a logical or, which the library's sum is not known to be.
    static bool computesIn(ScalarType dtype) { return dtype != at::kBool && computes(dtype); }

    static ScalarType resultType(const Tensor& self, std::optional<ScalarType> dtype) {
        return dtype.value_or(at::isIntegralType(self.scalar_type(), true) ? at::kLong : self.scalar_type());
    }
    static bool all(const Tensor& self, const Tensor& out) {
        return TORCH_FL_XDNN(sum, out.device().index(), self, out.scalar_type(), out);
    }
    static bool over(const Tensor& self, at::IntArrayRef dims, bool keepdim, const Tensor& out) {
        return TORCH_FL_XDNN(sum_dim_IntList, out.device().index(), self, dims, keepdim, out.scalar_type(), out);
    }
};

struct Mean {
    using Meta = at::meta::structured_mean_dim;
    using FullOp = at::_ops::mean;
    using DimOp = at::_ops::mean_dim;
    using OutOp = at::_ops::mean_out;
    static constexpr double kNothing = std::numeric_limits<double>::quiet_NaN();

    // Other dtypes are refused, by the meta function and in its words.
    static bool computesIn(ScalarType dtype) { return computesFloat(dtype); }

    static ScalarType resultType(const Tensor& self, std::optional<ScalarType> dtype) {
        return dtype.value_or(self.scalar_type());
    }
    static bool all(const Tensor& self, const Tensor& out) {
        return TORCH_FL_XDNN(mean, out.device().index(), self, out.scalar_type(), out);
    }
    static bool over(const Tensor& self, at::IntArrayRef dims, bool keepdim, const Tensor& out) {
        return TORCH_FL_XDNN(mean_dim, out.device().index(), self, dims, keepdim, out.scalar_type(), out);
    }
};

// Converting first is only needed where accumulating in the wider output dtype is not the same.
bool widens(ScalarType from, ScalarType to) {
    return from == to || (at::isFloatingType(from) && to == at::kFloat) ||
           (at::isIntegralType(from, true) && to == at::kLong);
}

std::vector<int64_t> wrappedDims(OptionalIntArrayRef dims, int64_t rank) {
    std::vector<int64_t> result;
    if (dims.has_value()) {
        for (const int64_t dim : *dims) {
            result.push_back(at::maybe_wrap_dim(dim, rank));
        }
    }
    return result;
}

// Computes into an output that has its shape. False when the library cannot.
template <typename Traits>
bool reduce(const Tensor& self, OptionalIntArrayRef dims, bool keepdim, const Tensor& out) {
    const ScalarType dtype = out.scalar_type();
    if (out.numel() == 0) {
        return true;
    }
    if (self.numel() == 0) {
        return fill(out, Traits::kNothing);
    }
    if (!computes(self.scalar_type()) || !Traits::computesIn(dtype)) {
        return false;
    }
    const Tensor input = widens(self.scalar_type(), dtype) ? self : castTo(self, dtype);
    const std::vector<int64_t> wrapped = wrappedDims(dims, self.dim());
    // No dims means all of them; then the output has no dimensions unless they are kept.
    if (out.dim() == 0) {
        return Traits::all(input, out);
    }
    if (wrapped.empty()) {
        std::vector<int64_t> every(static_cast<size_t>(self.dim()));
        std::iota(every.begin(), every.end(), 0);
        return Traits::over(input, every, keepdim, out);
    }
    return Traits::over(input, wrapped, keepdim, out);
}

template <typename Traits>
Tensor full(const Tensor& self, std::optional<ScalarType> dtype) {
    const ScalarType result = Traits::resultType(self, dtype);
    if (computes(self.scalar_type()) && Traits::computesIn(result)) {
        Tensor out = emptyContiguous({}, result, self.device().index());
        if (reduce<Traits>(self, std::nullopt, false, out)) {
            return out;
        }
    }
    return onCpu<typename Traits::FullOp>(self, dtype);
}

template <typename Traits>
Tensor overDims(const Tensor& self, OptionalIntArrayRef dims, bool keepdim, std::optional<ScalarType> dtype) {
    if (computes(self.scalar_type())) {
        Functional<typename Traits::Meta> op;
        op.meta(self, dims, keepdim, dtype);
        if (reduce<Traits>(self, dims, keepdim, op.output())) {
            return op.output();
        }
    }
    return onCpu<typename Traits::DimOp>(self, dims, keepdim, dtype);
}

template <typename Traits>
Tensor&
overDimsOut(const Tensor& self, OptionalIntArrayRef dims, bool keepdim, std::optional<ScalarType> dtype, Tensor& out) {
    SameDevice("reduction").check(self, "self").check(out, "out");
    if (computes(self.scalar_type())) {
        using Given = IntoGiven<typename Traits::Meta>;
        Given op(Given::Kind::Out, out);
        op.meta(self, dims, keepdim, dtype);
        if (reduce<Traits>(self, dims, keepdim, out)) {
            return out;
        }
    }
    return onCpu<typename Traits::OutOp>(self, dims, keepdim, dtype, out);
}

constexpr NativeOperator kOperators[] = {
    {"sum", &kernel<&full<Sum>>},
    {"sum.dim_IntList", &kernel<&overDims<Sum>>},
    {"sum.IntList_out", &kernel<&overDimsOut<Sum>>},
    {"mean", &kernel<&full<Mean>>},
    {"mean.dim", &kernel<&overDims<Mean>>},
    {"mean.out", &kernel<&overDimsOut<Mean>>},
};

} // namespace

std::span<const NativeOperator> reductionOperators() {
    return kOperators;
}

} // namespace torch_fl::kunlunxin

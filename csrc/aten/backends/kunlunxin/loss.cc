#include "aten/backends/kunlunxin/adaptor.h"
#include "aten/backends/kunlunxin/operators.h"
#include "aten/backends/kunlunxin/transfer.h"
#include "aten/cpu_fallback.h"
#include "aten/structured.h"
#include "aten/tensor.h"

#include <ATen/WrapDimUtils.h>
#include <ATen/core/Reduction.h>
#include <ATen/ops/_log_softmax_backward_data_meta.h>
#include <ATen/ops/_log_softmax_backward_data_ops.h>
#include <ATen/ops/_log_softmax_meta.h>
#include <ATen/ops/_log_softmax_ops.h>
#include <ATen/ops/nll_loss_backward_meta.h>
#include <ATen/ops/nll_loss_backward_ops.h>
#include <ATen/ops/nll_loss_forward_meta.h>
#include <ATen/ops/nll_loss_forward_ops.h>

#include <limits>
#include <tuple>

namespace torch_fl::kunlunxin {

namespace {

using at::ScalarType;
using at::Tensor;

int64_t wrapDim(int64_t dim, const Tensor& tensor) {
    return at::maybe_wrap_dim(dim, tensor.dim());
}

bool computeLogSoftmax(const Tensor& self, int64_t dim, const Tensor& out) {
    return out.numel() == 0 ||
           TORCH_FL_XDNN(log_softmax, out.device().index(), self, wrapDim(dim, self), out.scalar_type(), out);
}

Tensor logSoftmax(const Tensor& self, int64_t dim, bool half_to_float) {
    if (computesFloat(self.scalar_type())) {
        Functional<at::meta::structured__log_softmax> op;
        op.meta(self, dim, half_to_float);
        if (computeLogSoftmax(self, dim, op.output())) {
            return op.output();
        }
    }
    return onCpu<at::_ops::_log_softmax>(self, dim, half_to_float);
}

Tensor& logSoftmaxOut(const Tensor& self, int64_t dim, bool half_to_float, Tensor& out) {
    if (computesFloat(self.scalar_type())) {
        SameDevice("_log_softmax").check(out, "out").check(self, "self");
        using Given = IntoGiven<at::meta::structured__log_softmax>;
        Given op(Given::Kind::Out, out);
        op.meta(self, dim, half_to_float);
        if (computeLogSoftmax(self, dim, out)) {
            return out;
        }
    }
    return onCpu<at::_ops::_log_softmax_out>(self, dim, half_to_float, out);
}

bool computeLogSoftmaxBackward(
    const Tensor& gradient, const Tensor& output, int64_t dim, ScalarType input_dtype, const Tensor& out) {
    return out.numel() == 0 || TORCH_FL_XDNN(
                                   _log_softmax_backward_data,
                                   out.device().index(),
                                   gradient,
                                   output,
                                   wrapDim(dim, output),
                                   input_dtype,
                                   out);
}

Tensor logSoftmaxBackward(const Tensor& gradient, const Tensor& output, int64_t dim, ScalarType input_dtype) {
    if (computesFloat(gradient.scalar_type()) && computesFloat(output.scalar_type())) {
        SameDevice("_log_softmax_backward_data").check(gradient, "grad_output").check(output, "output");
        Functional<at::meta::structured__log_softmax_backward_data> op;
        op.meta(gradient, output, dim, input_dtype);
        if (computeLogSoftmaxBackward(gradient, output, dim, input_dtype, op.output())) {
            return op.output();
        }
    }
    return onCpu<at::_ops::_log_softmax_backward_data>(gradient, output, dim, input_dtype);
}

Tensor&
logSoftmaxBackwardOut(const Tensor& gradient, const Tensor& output, int64_t dim, ScalarType input_dtype, Tensor& out) {
    if (computesFloat(gradient.scalar_type()) && computesFloat(output.scalar_type())) {
        SameDevice("_log_softmax_backward_data")
            .check(out, "out")
            .check(gradient, "grad_output")
            .check(output, "output");
        using Given = IntoGiven<at::meta::structured__log_softmax_backward_data>;
        Given op(Given::Kind::Out, out);
        op.meta(gradient, output, dim, input_dtype);
        if (computeLogSoftmaxBackward(gradient, output, dim, input_dtype, out)) {
            return out;
        }
    }
    return onCpu<at::_ops::_log_softmax_backward_data_out>(gradient, output, dim, input_dtype, out);
}

// `weight` is absent as an empty optional and as an undefined tensor alike.
at::OptionalTensorRef reference(const MaybeTensor& tensor) {
    return tensor.has_value() && tensor->defined() ? at::OptionalTensorRef(*tensor) : at::OptionalTensorRef();
}

// Whatever else the dtypes are goes to the CPU kernel, which takes them or says why not.
bool computesLoss(const Tensor& self, const Tensor& target, const MaybeTensor& weight) {
    const bool fits = !weight.has_value() || !weight->defined() || weight->scalar_type() == self.scalar_type();
    return fits && computesFloat(self.scalar_type()) && target.scalar_type() == at::kLong;
}

// A single sample without a batch dimension is a batch of one to the library.
Tensor batched(const Tensor& tensor, int64_t rank) {
    return tensor.dim() == rank ? tensor : tensor.unsqueeze(0);
}

// Note [nll_loss and what it does not return]
// The library's nll_loss gives the loss alone, while ATen's also returns the sum of the weights of the targets
// that were not ignored, which the backward needs. That sum is itself a loss: the one of inputs that are -1
// everywhere, summed. One element, seen through zero strides, is enough of an input.
bool computeTotalWeight(
    const Tensor& self, const Tensor& target, const MaybeTensor& weight, int64_t ignore_index,
    const Tensor& total_weight) {
    const Tensor minus_one = emptyContiguous({}, self.scalar_type(), self.device().index());
    return fill(minus_one, -1) && TORCH_FL_XDNN(
                                      nll_loss,
                                      self.device().index(),
                                      minus_one.expand(batched(self, 2).sizes()),
                                      batched(target, 1),
                                      weight,
                                      static_cast<int64_t>(at::Reduction::Sum),
                                      ignore_index,
                                      total_weight);
}

bool computeNllLoss(
    const Tensor& self, const Tensor& target, const MaybeTensor& weight, int64_t reduction, int64_t ignore_index,
    const Tensor& output, const Tensor& total_weight) {
    if (target.numel() == 0) {
        // A mean over nothing is NaN; a sum is 0; per-sample losses are none at all.
        const bool mean = reduction == at::Reduction::Mean;
        return fill(output, mean ? at::Scalar(std::numeric_limits<double>::quiet_NaN()) : at::Scalar(0)) &&
               fill(total_weight, 0);
    }
    if (self.numel() == 0) {
        return false;
    }
    const bool per_sample = reduction == at::Reduction::None && self.dim() == 2;
    const bool weighed =
        per_sample ? fill(total_weight, 0) : computeTotalWeight(self, target, weight, ignore_index, total_weight);
    return weighed && TORCH_FL_XDNN(
                          nll_loss,
                          self.device().index(),
                          batched(self, 2),
                          batched(target, 1),
                          weight,
                          reduction,
                          ignore_index,
                          output);
}

std::tuple<Tensor, Tensor> nllLossForward(
    const Tensor& self, const Tensor& target, const MaybeTensor& weight, int64_t reduction, int64_t ignore_index) {
    if (computesLoss(self, target, weight)) {
        SameDevice("nll_loss_forward").check(self, "self").check(target, "target").check(weight, "weight");
        Functional<at::meta::structured_nll_loss_forward, 2> op;
        op.meta(self, target, reference(weight), reduction, ignore_index);
        if (computeNllLoss(self, target, weight, reduction, ignore_index, op.output(0), op.output(1))) {
            return {op.output(0), op.output(1)};
        }
    }
    return onCpu<at::_ops::nll_loss_forward>(self, target, weight, reduction, ignore_index);
}

std::tuple<Tensor&, Tensor&> nllLossForwardOut(
    const Tensor& self, const Tensor& target, const MaybeTensor& weight, int64_t reduction, int64_t ignore_index,
    Tensor& output, Tensor& total_weight) {
    if (computesLoss(self, target, weight)) {
        SameDevice("nll_loss_forward")
            .check(output, "output")
            .check(total_weight, "total_weight")
            .check(self, "self")
            .check(target, "target")
            .check(weight, "weight");
        using Given = IntoGiven<at::meta::structured_nll_loss_forward, 2>;
        Given op(Given::Kind::Out, output, total_weight);
        op.meta(self, target, reference(weight), reduction, ignore_index);
        if (computeNllLoss(self, target, weight, reduction, ignore_index, output, total_weight)) {
            return {output, total_weight};
        }
    }
    return onCpu<at::_ops::nll_loss_forward_output>(
        self, target, weight, reduction, ignore_index, output, total_weight);
}

bool computeNllLossBackward(
    const Tensor& gradient, const Tensor& self, const Tensor& target, const MaybeTensor& weight, int64_t reduction,
    int64_t ignore_index, const Tensor& total_weight, const Tensor& out) {
    if (out.numel() == 0) {
        return true;
    }
    if (target.numel() == 0) {
        return fill(out, 0);
    }
    return TORCH_FL_XDNN(
        nll_loss_backward,
        self.device().index(),
        gradient,
        batched(self, 2),
        batched(target, 1),
        weight,
        reduction,
        ignore_index,
        total_weight,
        batched(out, 2));
}

Tensor nllLossBackward(
    const Tensor& gradient, const Tensor& self, const Tensor& target, const MaybeTensor& weight, int64_t reduction,
    int64_t ignore_index, const Tensor& total_weight) {
    if (computesLoss(self, target, weight)) {
        SameDevice("nll_loss_backward")
            .check(gradient, "grad_output")
            .check(self, "self")
            .check(target, "target")
            .check(weight, "weight")
            .check(total_weight, "total_weight");
        Functional<at::meta::structured_nll_loss_backward> op;
        op.meta(gradient, self, target, reference(weight), reduction, ignore_index, total_weight);
        if (computeNllLossBackward(
                gradient, self, target, weight, reduction, ignore_index, total_weight, op.output())) {
            return op.output();
        }
    }
    return onCpu<at::_ops::nll_loss_backward>(gradient, self, target, weight, reduction, ignore_index, total_weight);
}

Tensor& nllLossBackwardOut(
    const Tensor& gradient, const Tensor& self, const Tensor& target, const MaybeTensor& weight, int64_t reduction,
    int64_t ignore_index, const Tensor& total_weight, Tensor& out) {
    if (computesLoss(self, target, weight)) {
        SameDevice("nll_loss_backward")
            .check(out, "grad_input")
            .check(gradient, "grad_output")
            .check(self, "self")
            .check(target, "target")
            .check(weight, "weight")
            .check(total_weight, "total_weight");
        using Given = IntoGiven<at::meta::structured_nll_loss_backward>;
        Given op(Given::Kind::Out, out);
        op.meta(gradient, self, target, reference(weight), reduction, ignore_index, total_weight);
        if (computeNllLossBackward(gradient, self, target, weight, reduction, ignore_index, total_weight, out)) {
            return out;
        }
    }
    return onCpu<at::_ops::nll_loss_backward_grad_input>(
        gradient, self, target, weight, reduction, ignore_index, total_weight, out);
}

constexpr NativeOperator kOperators[] = {
    {"_log_softmax", &kernel<&logSoftmax>},
    {"_log_softmax.out", &kernel<&logSoftmaxOut>},
    {"_log_softmax_backward_data", &kernel<&logSoftmaxBackward>},
    {"_log_softmax_backward_data.out", &kernel<&logSoftmaxBackwardOut>},
    {"nll_loss_forward", &kernel<&nllLossForward>},
    {"nll_loss_forward.output", &kernel<&nllLossForwardOut>},
    {"nll_loss_backward", &kernel<&nllLossBackward>},
    {"nll_loss_backward.grad_input", &kernel<&nllLossBackwardOut>},
};

} // namespace

std::span<const NativeOperator> lossOperators() {
    return kOperators;
}

} // namespace torch_fl::kunlunxin

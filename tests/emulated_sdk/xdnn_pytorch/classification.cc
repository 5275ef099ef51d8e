// log_softmax and the negative log likelihood, with their backwards, on libxpu_dnn.so.

#include "xdnn_pytorch/xdnn_pytorch.h"

#include "common/export.h"
#include "components/dnn/dnn.h"
#include "loop.h"

using namespace xpuemu;

namespace {

// Applies f(lines, length) to each line of the tensors along one dimension.
template <int N, typename F>
struct Lines {
    Loop<N> loop; // over the other dimensions
    std::array<int64_t, N> strides;
    int64_t length;
    F f;

    void operator()() const {
        loop.run([this](const auto& p, const auto& step, int64_t count) {
            for (int64_t i = 0; i < count; ++i) {
                std::array<XpuDnnLine, N> lines;
                for (int n = 0; n < N; ++n) {
                    lines[n] = {p[n] + i * step[n], strides[n]};
                }
                f(lines, length);
            }
        });
    }
};

// Queues f for each line along `dim`. The tensors must have one shape.
template <int N, typename F>
Error_t submitAlong(Call& call, const std::array<const Operand*, N>& operands, int64_t dim, F f) {
    const Operand& first = *operands[0];
    const int64_t wrapped = dim < 0 ? dim + first.dims() : dim;
    if (wrapped < 0 || wrapped >= first.dims()) {
        return call.fail(INVALID_PARAM);
    }
    Lines<N, F> kernel{{}, {}, first.size(wrapped), f};
    for (int n = 0; n < N; ++n) {
        if (operands[n]->tensor->sizes != first.tensor->sizes) {
            return call.fail(INVALID_PARAM);
        }
        kernel.loop.data[n] = operands[n]->data;
        kernel.strides[n] = operands[n]->stride(wrapped);
    }
    for (int64_t other = first.dims(); other-- > 0;) {
        std::array<int64_t, N> steps{};
        for (int n = 0; n < N; ++n) {
            steps[n] = operands[n]->stride(other) * operands[n]->element_size;
        }
        if (other != wrapped && !kernel.loop.add(first.size(other), steps)) {
            return call.fail(NOT_IMPLEMENT);
        }
    }
    return first.count == 0 ? SUCCESS : call.submit(kernel);
}

Error_t
logSoftmax(Call& call, const Tensor& self, int64_t dim, const xdnn_pytorch::optional<ScalarType>& dtype, Tensor& out) {
    Operand in;
    Operand to;
    XPUEMU_RETURN_IF_ERROR(call.bind(self, &in));
    XPUEMU_RETURN_IF_ERROR(call.bind(out, &to));
    if (!xpu_dnn_supports(self.type) || !xpu_dnn_supports(out.type)) {
        return call.fail(NOT_IMPLEMENT);
    }
    if (dtype.has_value() && dtype.value() != out.type) {
        return call.fail(INVALID_PARAM);
    }
    return submitAlong<2>(
        call,
        {&in, &to},
        dim,
        [from = self.type, type = out.type](const std::array<XpuDnnLine, 2>& line, int64_t length) {
            xpu_dnn_log_softmax(from, line[0], type, line[1], length);
        });
}

Error_t logSoftmaxBackward(
    Call& call, const Tensor& grad_output, const Tensor& output, int64_t dim,
    const xdnn_pytorch::optional<ScalarType>& input_dtype, Tensor& grad_input) {
    Operand grad;
    Operand result;
    Operand to;
    XPUEMU_RETURN_IF_ERROR(call.bind(grad_output, &grad));
    XPUEMU_RETURN_IF_ERROR(call.bind(output, &result));
    XPUEMU_RETURN_IF_ERROR(call.bind(grad_input, &to));
    if (!xpu_dnn_supports(grad_output.type) || !xpu_dnn_supports(grad_input.type)) {
        return call.fail(NOT_IMPLEMENT);
    }
    if (grad_output.type != output.type || (input_dtype.has_value() && input_dtype.value() != grad_input.type)) {
        return call.fail(INVALID_PARAM);
    }
    return submitAlong<3>(
        call,
        {&grad, &result, &to},
        dim,
        [from = output.type, type = grad_input.type](const std::array<XpuDnnLine, 3>& line, int64_t length) {
            xpu_dnn_log_softmax_backward(from, line[0], line[1], type, line[2], length);
        });
}

// What the losses share: one row per sample, or a single sample without the batch dimension.
struct Loss {
    XpuDnnNll problem{};
    int64_t row_stride = 0;
    int64_t column_stride = 0;
};

bool isAbsent(const Tensor& tensor) {
    return tensor.data == nullptr;
}

// `scores` is the tensor of shape (batch, classes) or (classes): the input, or in the backward its gradient.
Error_t bindLoss(
    Call& call, const Operand& scores, const Tensor& target, const Tensor& weight, int64_t reduction,
    int64_t ignore_index, Loss* loss) {
    Operand targets;
    XPUEMU_RETURN_IF_ERROR(call.bind(target, &targets));
    const bool byte_target = target.type == ScalarType::kuint8;
    if (!xpu_dnn_supports(scores.type()) || (target.type != ScalarType::kint64 && !byte_target)) {
        return call.fail(NOT_IMPLEMENT);
    }
    const bool batched = scores.dims() == 2;
    const int64_t batch = batched ? scores.size(0) : 1;
    if (scores.dims() < 1 || scores.dims() > 2 || targets.dims() != 1 || targets.size(0) != batch || reduction < 0 ||
        reduction > 2) {
        return call.fail(INVALID_PARAM);
    }
    loss->row_stride = batched ? scores.stride(0) : 0;
    loss->column_stride = scores.stride(scores.dims() - 1);
    loss->problem = {
        scores.type(),
        batch,
        scores.size(scores.dims() - 1),
        ignore_index,
        reduction,
        {targets.data, targets.stride(0)},
        byte_target,
        {nullptr, 0}};
    if (isAbsent(weight)) {
        return SUCCESS;
    }
    Operand weights;
    XPUEMU_RETURN_IF_ERROR(call.bind(weight, &weights));
    if (weight.type != scores.type() || weights.dims() != 1 || weights.size(0) != loss->problem.classes) {
        return call.fail(INVALID_PARAM);
    }
    loss->problem.weight = {weights.data, weights.stride(0)};
    return SUCCESS;
}

// The loss, or its gradient: one element per sample when nothing is reduced, else one.
bool hasLossShape(const Operand& operand, const Loss& loss) {
    const int64_t expected = loss.problem.reduction == 0 ? loss.problem.batch : 1;
    return operand.type() == loss.problem.type && operand.dims() <= 1 && operand.count == expected;
}

int64_t lineStride(const Operand& operand) {
    return operand.dims() == 0 ? 1 : operand.stride(0);
}

Error_t
nll(Call& call, const Tensor& self, const Tensor& target, const Tensor& weight, int64_t reduction, int64_t ignore_index,
    Tensor& out) {
    Operand in;
    Operand to;
    Loss loss;
    XPUEMU_RETURN_IF_ERROR(call.bind(self, &in));
    XPUEMU_RETURN_IF_ERROR(call.bind(out, &to));
    XPUEMU_RETURN_IF_ERROR(bindLoss(call, in, target, weight, reduction, ignore_index, &loss));
    if (!hasLossShape(to, loss)) {
        return call.fail(INVALID_PARAM);
    }
    if (to.count == 0) {
        return SUCCESS;
    }
    return call.submit([loss, from = in.data, line = XpuDnnLine{to.data, lineStride(to)}] {
        if (!xpu_dnn_nll(&loss.problem, from, loss.row_stride, loss.column_stride, line)) {
            xpuemu_raise_kernel_exception();
        }
    });
}

Error_t nllBackward(
    Call& call, const Tensor& grad_output, const Tensor& self, const Tensor& target, const Tensor& weight,
    int64_t reduction, int64_t ignore_index, const Tensor& total_weight, Tensor& grad_input) {
    Operand grad;
    Operand in;
    Operand to;
    Operand total;
    Loss loss;
    XPUEMU_RETURN_IF_ERROR(call.bind(grad_output, &grad));
    XPUEMU_RETURN_IF_ERROR(call.bind(self, &in));
    XPUEMU_RETURN_IF_ERROR(call.bind(grad_input, &to));
    XPUEMU_RETURN_IF_ERROR(bindLoss(call, to, target, weight, reduction, ignore_index, &loss));
    if (self.type != grad_input.type || self.sizes != grad_input.sizes || !hasLossShape(grad, loss)) {
        return call.fail(INVALID_PARAM);
    }
    if (!isAbsent(total_weight)) {
        XPUEMU_RETURN_IF_ERROR(call.bind(total_weight, &total));
        if (total_weight.type != self.type || total.count != 1) {
            return call.fail(INVALID_PARAM);
        }
    }
    if (to.count == 0) {
        return SUCCESS;
    }
    return call.submit([loss, line = XpuDnnLine{grad.data, lineStride(grad)}, total = total.data, out = to.data] {
        if (!xpu_dnn_nll_backward(&loss.problem, line, total, out, loss.row_stride, loss.column_stride)) {
            xpuemu_raise_kernel_exception();
        }
    });
}

} // namespace

namespace xdnn_pytorch {

XPUEMU_EXPORT int
log_softmax(Context* ctx, const Tensor& self, int64_t dim, const optional<ScalarType>& dtype, Tensor& out) {
    return callOperator(
        ctx, Function::log_softmax, [&](Call& call) { return logSoftmax(call, self, dim, dtype, out); });
}

XPUEMU_EXPORT int _log_softmax_backward_data(
    Context* ctx, const Tensor& grad_output, const Tensor& output, int64_t dim, const optional<ScalarType>& input_dtype,
    Tensor& grad_input) {
    return callOperator(ctx, Function::_log_softmax_backward_data, [&](Call& call) {
        return logSoftmaxBackward(call, grad_output, output, dim, input_dtype, grad_input);
    });
}

XPUEMU_EXPORT int nll_loss(
    Context* ctx, const Tensor& self, const Tensor& target, const Tensor& weight, int64_t reduction,
    int64_t ignore_index, Tensor& out) {
    return callOperator(ctx, Function::nll_loss, [&](Call& call) {
        return nll(call, self, target, weight, reduction, ignore_index, out);
    });
}

XPUEMU_EXPORT int nll_loss_backward(
    Context* ctx, const Tensor& grad_output, const Tensor& self, const Tensor& target, const Tensor& weight,
    int64_t reduction, int64_t ignore_index, const Tensor& total_weight, Tensor& grad_input) {
    return callOperator(ctx, Function::nll_loss_backward, [&](Call& call) {
        return nllBackward(call, grad_output, self, target, weight, reduction, ignore_index, total_weight, grad_input);
    });
}

} // namespace xdnn_pytorch

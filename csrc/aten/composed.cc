#include "aten/composed.h"

#include "aten/cpu_fallback.h"
#include "aten/structured.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/convolution.h>
#include <ATen/ops/convolution_backward.h>

#include <array>
#include <optional>
#include <tuple>
#include <vector>

namespace torch_fl {

namespace {

using at::IntArrayRef;
using at::Tensor;
using MaybeTensor = std::optional<Tensor>;

Tensor toHost(const Tensor& tensor) {
    return tensor.defined() ? tensor.to(at::kCPU) : tensor;
}

MaybeTensor toHost(const MaybeTensor& tensor) {
    return tensor.has_value() && tensor->defined() ? MaybeTensor(tensor->to(at::kCPU)) : std::nullopt;
}

Tensor toDevice(const Tensor& tensor, c10::Device device) {
    return tensor.defined() ? tensor.to(device) : tensor;
}

Tensor convolution(
    const Tensor& input, const Tensor& weight, const MaybeTensor& bias, IntArrayRef stride, IntArrayRef padding,
    IntArrayRef dilation, bool transposed, IntArrayRef output_padding, int64_t groups) {
    announceFallback("aten::convolution_overrideable", "");
    SameDevice("convolution").check(input, "input").check(weight, "weight").check(bias, "bias");
    const Tensor result = at::convolution(
        toHost(input), toHost(weight), toHost(bias), stride, padding, dilation, transposed, output_padding, groups);
    return toDevice(result, input.device());
}

std::tuple<Tensor, Tensor, Tensor> convolutionBackward(
    const Tensor& gradient, const Tensor& input, const Tensor& weight, IntArrayRef stride, IntArrayRef padding,
    IntArrayRef dilation, bool transposed, IntArrayRef output_padding, int64_t groups,
    std::array<bool, 3> output_mask) {
    announceFallback("aten::convolution_backward_overrideable", "");
    SameDevice("convolution_backward").check(gradient, "grad_output").check(input, "input").check(weight, "weight");
    // One bias element per output channel.
    const std::array<int64_t, 1> bias_sizes{gradient.size(1)};
    const auto [for_input, for_weight, for_bias] = at::convolution_backward(
        toHost(gradient),
        toHost(input),
        toHost(weight),
        IntArrayRef(bias_sizes),
        stride,
        padding,
        dilation,
        transposed,
        output_padding,
        groups,
        output_mask);
    const c10::Device device = input.device();
    return {toDevice(for_input, device), toDevice(for_weight, device), toDevice(for_bias, device)};
}

// Note [Fused recurrent cells]
// The forward also returns a workspace, whose layout is our own affair: what the backward needs, with gates
// side by side along dimension 1, in the order PyTorch's weights have them: input, forget, cell and output for
// an LSTM; reset, update and new for a GRU.

Tensor withBias(const Tensor& gates, const MaybeTensor& bias) {
    return bias.has_value() && bias->defined() ? gates + *bias : gates;
}

Tensor columnSum(const Tensor& gradient, bool wanted) {
    return wanted ? gradient.sum(0) : Tensor();
}

// (hy, cy, workspace [N, 4H]: the gates after their activation)
std::tuple<Tensor, Tensor, Tensor> lstmCell(
    const Tensor& input_gates, const Tensor& hidden_gates, const Tensor& cx, const MaybeTensor& input_bias,
    const MaybeTensor& hidden_bias) {
    announceFallback("aten::_thnn_fused_lstm_cell", "");
    SameDevice("_thnn_fused_lstm_cell")
        .check(input_gates, "input_gates")
        .check(hidden_gates, "hidden_gates")
        .check(cx, "cx");
    const Tensor gates =
        withBias(toHost(input_gates), toHost(input_bias)) + withBias(toHost(hidden_gates), toHost(hidden_bias));
    const std::vector<Tensor> part = gates.chunk(4, 1);
    const Tensor input = part[0].sigmoid();
    const Tensor forget = part[1].sigmoid();
    const Tensor cell = part[2].tanh();
    const Tensor output = part[3].sigmoid();
    const Tensor cy = forget * toHost(cx) + input * cell;
    const Tensor hy = output * cy.tanh();
    const c10::Device device = cx.device();
    return {hy.to(device), cy.to(device), at::cat({input, forget, cell, output}, 1).to(device)};
}

// (gradient of the gates, of cx, of each bias)
std::tuple<Tensor, Tensor, Tensor> lstmCellBackward(
    const MaybeTensor& gradient_hy, const MaybeTensor& gradient_cy, const Tensor& cx, const Tensor& cy,
    const Tensor& workspace, bool has_bias) {
    announceFallback("aten::_thnn_fused_lstm_cell_backward_impl", "");
    const bool from_hy = gradient_hy.has_value() && gradient_hy->defined();
    const bool from_cy = gradient_cy.has_value() && gradient_cy->defined();
    if (!from_hy && !from_cy) {
        return {};
    }
    const std::vector<Tensor> part = toHost(workspace).chunk(4, 1);
    const Tensor &input = part[0], &forget = part[1], &cell = part[2], &output = part[3];
    const Tensor squashed = toHost(cy).tanh();
    const Tensor for_hy = from_hy ? toHost(*gradient_hy) : squashed.new_zeros(squashed.sizes());
    Tensor for_cy = for_hy * output * (1 - squashed * squashed);
    if (from_cy) {
        for_cy = for_cy + toHost(*gradient_cy);
    }
    const Tensor gates = at::cat(
        {for_cy * cell * input * (1 - input),
         for_cy * toHost(cx) * forget * (1 - forget),
         for_cy * input * (1 - cell * cell),
         for_hy * squashed * output * (1 - output)},
        1);
    const c10::Device device = cx.device();
    return {gates.to(device), (for_cy * forget).to(device), toDevice(columnSum(gates, has_bias), device)};
}

// (hy, workspace [N, 5H]: reset, update and new after their activation, hx, and the hidden part of new before
// it meets the reset gate)
std::tuple<Tensor, Tensor> gruCell(
    const Tensor& input_gates, const Tensor& hidden_gates, const Tensor& hx, const MaybeTensor& input_bias,
    const MaybeTensor& hidden_bias) {
    announceFallback("aten::_thnn_fused_gru_cell", "");
    SameDevice("_thnn_fused_gru_cell")
        .check(input_gates, "input_gates")
        .check(hidden_gates, "hidden_gates")
        .check(hx, "hx");
    const std::vector<Tensor> from_input = withBias(toHost(input_gates), toHost(input_bias)).chunk(3, 1);
    const std::vector<Tensor> from_hidden = withBias(toHost(hidden_gates), toHost(hidden_bias)).chunk(3, 1);
    const Tensor reset = (from_input[0] + from_hidden[0]).sigmoid();
    const Tensor update = (from_input[1] + from_hidden[1]).sigmoid();
    const Tensor fresh = (from_input[2] + reset * from_hidden[2]).tanh();
    const Tensor before = toHost(hx);
    const c10::Device device = hx.device();
    return {
        (fresh + update * (before - fresh)).to(device),
        at::cat({reset, update, fresh, before, from_hidden[2]}, 1).to(device)};
}

// (gradient of the input gates, of the hidden gates, of hx, of the input bias, of the hidden bias)
std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor>
gruCellBackward(const Tensor& gradient_hy, const Tensor& workspace, bool has_bias) {
    announceFallback("aten::_thnn_fused_gru_cell_backward", "");
    const std::vector<Tensor> part = toHost(workspace).chunk(5, 1);
    const Tensor &reset = part[0], &update = part[1], &fresh = part[2], &before = part[3], &hidden = part[4];
    const Tensor gradient = toHost(gradient_hy);
    const Tensor for_fresh = gradient * (1 - update) * (1 - fresh * fresh);
    const Tensor for_reset = for_fresh * hidden * reset * (1 - reset);
    const Tensor for_update = gradient * (before - fresh) * update * (1 - update);
    const Tensor input_gates = at::cat({for_reset, for_update, for_fresh}, 1);
    const Tensor hidden_gates = at::cat({for_reset, for_update, for_fresh * reset}, 1);
    const c10::Device device = workspace.device();
    return {
        input_gates.to(device),
        hidden_gates.to(device),
        (gradient * update).to(device),
        toDevice(columnSum(input_gates, has_bias), device),
        toDevice(columnSum(hidden_gates, has_bias), device)};
}

constexpr NativeOperator kOperators[] = {
    {"convolution_overrideable", &kernel<&convolution>},
    {"convolution_backward_overrideable", &kernel<&convolutionBackward>},
    {"_thnn_fused_lstm_cell", &kernel<&lstmCell>},
    {"_thnn_fused_lstm_cell_backward_impl", &kernel<&lstmCellBackward>},
    {"_thnn_fused_gru_cell", &kernel<&gruCell>},
    {"_thnn_fused_gru_cell_backward", &kernel<&gruCellBackward>},
};

} // namespace

std::span<const NativeOperator> composedOperators() {
    return kOperators;
}

} // namespace torch_fl

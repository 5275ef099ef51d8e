"""Operators without a native kernel: computed on the CPU, however they are called."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from tests import child
from tests.native.launches import Launched


@pytest.fixture(autouse=True)
def _fresh_device() -> None:
    """In place of the folder's own: nothing here counts memory."""


def numbers(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(11))


def same(call: Callable[..., Any], *tensors: Tensor, device: str = "flagos", **tolerance: float) -> None:
    """`call` gives the same on flagos as on the CPU, from the same random state, and leaves its results on flagos."""
    torch.manual_seed(5)
    expected = call(*[tensor.clone() for tensor in tensors])
    torch.manual_seed(5)
    actual = call(*[tensor.clone().to(device) for tensor in tensors])
    pairs = zip(actual, expected, strict=True) if isinstance(actual, (tuple, list)) else [(actual, expected)]
    for ours, theirs in pairs:
        if isinstance(theirs, Tensor):
            assert ours.device == torch.device(device) if ":" in device else ours.device.type == device
            ours = ours.cpu()
        torch.testing.assert_close(ours, theirs, equal_nan=True, **tolerance)


CALLS: dict[str, Callable[[Tensor], Any]] = {
    "functional": torch.exp,
    "in place": lambda x: x.exp_(),
    "in place, strided": lambda x: (x[:, ::2].exp_(), x),
    "out=": lambda x: torch.exp(x, out=torch.empty(0, device=x.device)),
    "out=, strided": lambda x: torch.exp(x, out=torch.zeros(8, 6, device=x.device)[::2]),
    "several results": lambda x: torch.sort(x, dim=1, stable=True),
    "several out=": lambda x: torch.max(
        x, 1, out=(torch.empty(0, device=x.device), torch.empty(0, dtype=torch.int64, device=x.device))
    ),
    "list argument": lambda x: torch.cat([x, x[:1], x], 0),
    "list result": lambda x: torch._foreach_exp([x, x[0]]),
    "list in place": lambda x: (torch._foreach_mul_([x], 2.0), x)[1],
    "optional tensors": lambda x: functional.batch_norm(x, None, None, training=True),
    "optional index tensors": lambda x: x[:, torch.tensor([0, 2], device=x.device)],
    "index on the CPU": lambda x: x[torch.tensor([0, 2])],
    "mask on the CPU": lambda x: x[torch.tensor([True, False, True, False])],
    "index assignment": lambda x: x.index_put_((torch.tensor([0, 2], device=x.device),), x[1] + 1),
    "0-dim result": lambda x: torch.linalg.vector_norm(x),
    "number result": lambda x: torch.equal(x, x),
    "nothing": lambda x: torch.exp(x[:0]),
    "0-dim": lambda x: torch.exp(x[0, 0]),
    "expanded": lambda x: torch.exp(x[:1].expand(4, 6)),
    "a number on the CPU": lambda x: torch.atan2(x, torch.tensor(2.0)),
    "complex": lambda x: torch.view_as_real(torch.complex(x, x) * torch.complex(x, x)),
    "float64": lambda x: x.double() + x.double(),
    "conjugate": lambda x: torch.fft.fft(x).conj().sum(),
    "eigenvalues": lambda x: torch.linalg.eigvals(x[:, :4] @ x[:, :4].t()).abs().sort()[0],
    "factory": lambda x: torch.arange(10, device=x.device),
    "random": lambda x: torch.randn(5, device=x.device),
    "random in place": lambda x: x.uniform_(),
    "random permutation": lambda x: torch.randperm(7, device=x.device),
    "layer norm": lambda x: functional.layer_norm(x, (6,)),
    "softmax": lambda x: torch.softmax(x, 1),
}


@pytest.mark.parametrize("device", ["flagos:0", "flagos:1"])
@pytest.mark.parametrize("case", CALLS)
def test_ways_to_call(case: str, device: str) -> None:
    same(CALLS[case], numbers(4, 6), device=device)


def test_in_place_results_are_seen_through_views() -> None:
    x = numbers(4, 6).to("flagos")
    view = x[1]
    x.exp_()
    torch.testing.assert_close(view.cpu(), numbers(4, 6)[1].exp())
    view.sin_()
    torch.testing.assert_close(x.cpu()[1], numbers(4, 6)[1].exp().sin())


def test_an_operator_on_one_device_leaves_the_other_current() -> None:
    x = numbers(4, 6).to("flagos:1")
    assert torch.exp(x).device == torch.device("flagos", 1)
    assert torch.flagos.current_device() == 0


def test_the_fallback_sees_what_the_current_stream_has_still_to_do() -> None:
    stream = torch.flagos.Stream()
    x = numbers(64, 64).to("flagos")
    torch.flagos.synchronize()
    with torch.flagos.stream(stream):
        y = x
        for _ in range(20):
            y = y @ x * 0.05
        result = torch.exp(y)
    expected = numbers(64, 64)
    for _ in range(20):
        expected = expected @ numbers(64, 64) * 0.05
    torch.testing.assert_close(result.cpu(), expected.exp(), rtol=1e-4, atol=1e-4)


# Random numbers -------------------------------------------------------------------------------------------------------


def test_random_operators_draw_from_the_device_generator() -> None:
    torch.manual_seed(1)
    torch.flagos.manual_seed(42)
    cpu_state = torch.get_rng_state()
    first = torch.randn(5, device="flagos")
    assert torch.equal(torch.get_rng_state(), cpu_state)
    second = torch.randn(5, device="flagos")
    assert not torch.equal(first.cpu(), second.cpu())
    torch.flagos.manual_seed(42)
    assert torch.equal(torch.randn(5, device="flagos").cpu(), first.cpu())


def test_each_device_draws_from_its_own_generator() -> None:
    torch.manual_seed(1)
    first = torch.randn(5, device="flagos:1")
    torch.randn(5, device="flagos:0")
    torch.manual_seed(1)
    torch.randn(50, device="flagos:0")
    assert torch.equal(torch.randn(5, device="flagos:1").cpu(), first.cpu())


def test_a_generator_can_be_given() -> None:
    generator = torch.Generator("flagos").manual_seed(3)
    drawn = torch.rand(5, device="flagos", generator=generator)
    again = torch.rand(5, device="flagos", generator=generator)
    generator.manual_seed(3)
    assert torch.equal(torch.rand(5, device="flagos", generator=generator).cpu(), drawn.cpu())
    assert not torch.equal(again.cpu(), drawn.cpu())


# Operators that no fallback reaches -----------------------------------------------------------------------------------

CONVOLUTIONS: dict[str, Callable[[], tuple[nn.Module, Tensor]]] = {
    "1d": lambda: (nn.Conv1d(4, 6, 3), numbers(2, 4, 9)),
    "2d": lambda: (nn.Conv2d(4, 6, 3, stride=2, padding=1, dilation=2), numbers(2, 4, 9, 9)),
    "2d without bias, in groups": lambda: (nn.Conv2d(4, 6, 3, groups=2, bias=False), numbers(2, 4, 9, 9)),
    "3d": lambda: (nn.Conv3d(2, 3, 2), numbers(2, 2, 4, 4, 4)),
    "transposed": lambda: (nn.ConvTranspose2d(4, 6, 3, stride=2, output_padding=1), numbers(2, 4, 5, 5)),
    "depthwise": lambda: (nn.Conv2d(4, 8, 3, groups=4), numbers(2, 4, 6, 6)),
    "without a batch": lambda: (nn.Conv2d(4, 6, 3), numbers(4, 9, 9)),
}
RECURRENT: dict[str, Callable[[], tuple[nn.Module, Tensor]]] = {
    "LSTM": lambda: (nn.LSTM(5, 7, num_layers=2, bidirectional=True), numbers(6, 3, 5)),
    "LSTM without bias": lambda: (nn.LSTM(5, 7, bias=False), numbers(6, 3, 5)),
    "LSTM with projection": lambda: (nn.LSTM(5, 7, proj_size=4), numbers(6, 3, 5)),
    "GRU": lambda: (nn.GRU(5, 7, num_layers=2, batch_first=True), numbers(3, 6, 5)),
    "GRU without bias": lambda: (nn.GRU(5, 7, bias=False), numbers(6, 3, 5)),
    "RNN": lambda: (nn.RNN(5, 7), numbers(6, 3, 5)),
}


@pytest.mark.filterwarnings("ignore:LSTM with projections is not supported with oneDNN")
@pytest.mark.parametrize("case", [*CONVOLUTIONS, *RECURRENT])
def test_modules_forward_and_backward(case: str) -> None:
    results = {}
    for device in ("cpu", "flagos"):
        torch.manual_seed(3)
        module, inputs = {**CONVOLUTIONS, **RECURRENT}[case]()
        module, inputs = module.to(device), inputs.to(device).requires_grad_()
        output = module(inputs)
        output = output[0] if isinstance(output, tuple) else output
        (output * output).sum().backward()
        gradients = [parameter.grad for parameter in module.parameters()]
        results[device] = [tensor.detach().cpu() for tensor in (output, inputs.grad, *gradients)]
    torch.testing.assert_close(results["flagos"], results["cpu"], rtol=1e-4, atol=1e-5)


def test_lstm_when_only_the_cell_state_is_used() -> None:
    results = {}
    for device in ("cpu", "flagos"):
        torch.manual_seed(3)
        cell, inputs = nn.LSTMCell(5, 7).to(device), numbers(3, 5).to(device)
        cell(inputs)[1].sum().backward()
        results[device] = [parameter.grad.cpu() for parameter in cell.parameters()]
    torch.testing.assert_close(results["flagos"], results["cpu"])


def test_sparse_tensors_are_refused_by_pytorch() -> None:
    with pytest.raises(NotImplementedError, match="Sparseflagos"):
        numbers(3, 3).to("flagos").to_sparse()


# Autograd and autocast ------------------------------------------------------------------------------------------------


def test_gradients_cross_devices_and_the_fallback() -> None:
    results = {}
    for device in ("cpu", "flagos:1"):
        x = numbers(4, 6).requires_grad_()
        y = x.to(device)
        (torch.softmax(y, 1) * torch.tanh(y[:, :1])).sum().backward()
        results[device] = x.grad
    torch.testing.assert_close(results["flagos:1"], results["cpu"])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_autocast_uses_pytorchs_lists(dtype: torch.dtype) -> None:
    a = numbers(4, 4).to("flagos")
    with torch.autocast("flagos", dtype=dtype):
        product = a @ a
        assert product.dtype == dtype
        assert functional.linear(a, a).dtype == dtype
        assert functional.conv1d(a[None], a[:, :, None]).dtype == dtype
        assert torch.log_softmax(product, 1).dtype == torch.float32
        assert product.exp().dtype == torch.float32
        assert torch.addcmul(a, product, product).dtype == torch.float32
        assert (product + product).dtype == dtype
        with pytest.raises(RuntimeError, match="unsafe to autocast"):
            functional.binary_cross_entropy(a.sigmoid(), a.sigmoid())
    assert (a @ a).dtype == torch.float32
    torch.testing.assert_close(product.float().cpu(), numbers(4, 4) @ numbers(4, 4), rtol=0.05, atol=0.05)


def test_autocast_trains() -> None:
    torch.manual_seed(0)
    network = nn.Linear(8, 4).to("flagos")
    scaler = torch.amp.GradScaler("flagos")
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    before = network.weight.detach().cpu().clone()
    with torch.autocast("flagos", dtype=torch.float16):
        loss = functional.cross_entropy(network(numbers(6, 8).to("flagos")), torch.arange(6, device="flagos") % 4)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    assert not torch.equal(network.weight.detach().cpu(), before)


# What goes to the CPU although a native kernel exists -----------------------------------------------------------------


def test_dtypes_that_the_library_does_not_compute_in_fall_back() -> None:
    for dtype in (torch.float64, torch.complex64):
        x = numbers(4, 4).to(dtype)
        with Launched("add_tensor", "mm", "sum", "relu", "mul_scalar") as launched:
            same(lambda t: (t + t, t @ t, t.sum(), t * 2), x)
        assert launched.total == 0
    with Launched("mm") as launched:
        same(lambda t: t @ t, torch.arange(9).view(3, 3))
    assert launched.total == 0


def environment(**extra: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name.startswith(("XPU_", "FLAGOS_KUNLUNXIN"))}
    return child.minimal_environment(**kept, **extra)


REFUSED = """
import torch, torch_fl
from tests.native.launches import launches
x = torch.arange(12.).view(3, 4)
for dtype in (torch.float16, torch.bfloat16):
    y = x.to(dtype)
    d = y.to("flagos")
    for call in (lambda t: t + t, lambda t: t * 2.5, lambda t: t.relu(), lambda t: t.sum(0), lambda t: t.mean(),
                 lambda t: t @ t.t(), lambda t: torch.addmm(t[0, :3], t, t.t()), lambda t: t.add_(1),
                 lambda t: t.zero_(),
                 lambda t: torch.log_softmax(t, 1), lambda t: t[:, ::2].contiguous(), lambda t: t.float(),
                 lambda t: torch.add(t, t[0], out=torch.empty_like(t)), lambda t: t.fill_(3), lambda t: t / t[0]):
        torch.testing.assert_close(call(d.clone()).cpu(), call(y.clone()), equal_nan=True)
    target = torch.tensor([0, 3, 1])
    ours = torch.ops.aten.nll_loss_forward(d, target.to("flagos"), None, 1, -100)
    theirs = torch.ops.aten.nll_loss_forward(y, target, None, 1, -100)
    torch.testing.assert_close([t.cpu() for t in ours], list(theirs))
print("launches", launches("add_tensor"), launches("mm"))
"""


def test_what_the_library_answers_with_not_implemented_falls_back() -> None:
    result = child.run(REFUSED, env=environment(XPUEMU_NOT_IMPLEMENT="bfloat16,float16")).check()
    assert result.stdout == "launches 0 0\n"


# The log --------------------------------------------------------------------------------------------------------------

LOGGED = """
import warnings
warnings.simplefilter("always")
import torch, torch_fl
x = torch.ones(3, 3, device="flagos")
for _ in range(2):
    torch.exp(x); x.exp_(); torch.conv1d(x[None], x[:, :, None]); x + x
    x.double() + x.double()
"""


def said(stderr: str) -> list[str]:
    return re.findall(r"aten::\S+(?= has no flagos kernel)", stderr)


def test_the_log_names_each_operator_once() -> None:
    result = child.run(LOGGED, env=environment(FLAGOS_LOG_FALLBACK="1")).check()
    expected = ["aten::add.Tensor", "aten::convolution_overrideable", "aten::exp", "aten::exp_"]
    assert sorted(said(result.stderr)) == expected


@pytest.mark.parametrize("settings", [{}, {"FLAGOS_LOG_FALLBACK": "0"}], ids=str)
def test_without_the_variable_nothing_is_said(settings: dict[str, str]) -> None:
    assert child.run(LOGGED, env=environment(**settings)).check().stderr == ""

"""Every native kernel against the CPU's, and proof that it reached the operator library."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from tests.native.launches import Launched
from torch_fl._codegen import operators

CPU, FLAGOS = "cpu", "flagos"
DTYPES = {name: getattr(torch, name) for name in operators.STORED}
BINARY = ("add", "sub", "mul", "div")


@pytest.fixture(autouse=True)
def _fresh_device() -> None:
    """In place of the folder's own: nothing here counts memory, and collecting garbage 500 times takes a minute."""


def values(shape: tuple[int, ...], dtype: torch.dtype, seed: str) -> Tensor:
    """Seeded values that every dtype here can hold, without a zero, so that they can divide."""
    generator = torch.Generator().manual_seed(zlib.crc32(f"{seed}{shape}{dtype}".encode()))
    if dtype == torch.bool:
        return torch.randint(0, 2, shape, generator=generator).bool()
    if not dtype.is_floating_point:
        return torch.randint(1, 11, shape, generator=generator).to(dtype)
    return (torch.rand(shape, generator=generator) + 0.25).to(dtype) * 2


def overload(name: str) -> Callable[..., Any]:
    base, _, variant = name.partition(".")
    packet = getattr(torch.ops.aten, base)
    found: Callable[..., Any] = getattr(packet, variant or "default")
    return found


def on(device: str, tensors: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """Copies on a device, dense ones with their strides."""
    return tuple(tensor.clone().to(device) for tensor in tensors)


def check(call: Callable[..., Any], *tensors: Tensor, functions: tuple[str, ...] = (), strides: bool = True) -> None:
    """`call` gives on flagos what it gives on the CPU, and calls one of `functions` of the library there.

    `call` gets copies of `tensors` on one device and returns what is to be compared.
    """
    expected = call(*on(CPU, tensors))
    arguments = on(FLAGOS, tensors)
    with Launched(*functions) as launched:
        actual = call(*arguments)
    assert not functions or launched.total > 0, f"none of {functions} was called"
    pairs = zip(actual, expected, strict=True) if isinstance(actual, tuple) else [(actual, expected)]
    for ours, theirs in pairs:
        assert ours.device.type == FLAGOS
        if strides:
            assert ours.stride() == theirs.stride()
        torch.testing.assert_close(ours.cpu(), theirs, equal_nan=True)


# Element-wise operators with two operands ---------------------------------------------------------------------------

OPERANDS: dict[str, Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]] = {
    "same shape": lambda a, b: (a, b),
    "transposed": lambda a, b: (a.t(), b),
    "both transposed": lambda a, b: (a.t(), b.t()),
    "one row": lambda a, b: (a, b[0]),
    "row first": lambda a, b: (a[0], b),
    "column and row": lambda a, b: (a[:, :1], b[:1]),
    "0-dim second": lambda a, b: (a, b[0, 0]),
    "0-dim first": lambda a, b: (a[0, 0], b),
    "both 0-dim": lambda a, b: (a[0, 0], b[0, 0]),
    "slices": lambda a, b: (a[::2, 1:], b[1::2, :-1]),
    "expanded": lambda a, b: (a[:1].expand(6, 6), b),
    "channels last": lambda a, b: (
        a.reshape(1, 2, 3, 6).contiguous(memory_format=torch.channels_last),
        b.reshape(1, 2, 3, 6).contiguous(memory_format=torch.channels_last),
    ),
    "with itself": lambda a, _: (a, a),
}


@pytest.mark.parametrize("case", OPERANDS)
@pytest.mark.parametrize("name", BINARY)
def test_binary_layouts(name: str, case: str) -> None:
    a, b = values((6, 6), torch.float32, "a"), values((6, 6), torch.float32, "b")
    functional_form, out_form = overload(f"{name}.Tensor"), overload(f"{name}.out")
    check(lambda x, y: functional_form(*OPERANDS[case](x, y)), a, b, functions=(f"{name}_tensor",))

    def into(x: Tensor, y: Tensor) -> Tensor:
        left, right = OPERANDS[case](x, y)
        shape = torch.broadcast_shapes(left.shape, right.shape)
        target = torch.zeros((*shape, 2), device=x.device)[..., 0]
        returned = out_form(left, right, out=target)
        assert returned is target
        return target

    check(into, a, b, functions=(f"{name}_tensor",))


IN_PLACE = ("same shape", "transposed", "both transposed", "one row", "0-dim second", "slices", "with itself")


@pytest.mark.parametrize("case", IN_PLACE)
@pytest.mark.parametrize("name", BINARY)
def test_binary_in_place(name: str, case: str) -> None:
    a, b = values((6, 6), torch.float32, "a"), values((6, 6), torch.float32, "b")
    in_place = overload(f"{name}_.Tensor")

    def change(x: Tensor, y: Tensor) -> Tensor:
        left, right = OPERANDS[case](x, y)
        assert in_place(left, right) is left
        return x  # all of it: what lies between the elements must stay

    check(change, a, b, functions=(f"{name}_tensor",))


# PyTorch has no subtraction of bool; its error is tested further down.
BINARY_DTYPES = [(name, dtype) for name in BINARY for dtype in operators.ALL if (name, dtype) != ("sub", "bool")]


@pytest.mark.parametrize(("name", "dtype"), BINARY_DTYPES)
def test_binary_dtypes(name: str, dtype: str) -> None:
    a, b = values((4, 5), DTYPES[dtype], "a"), values((4, 5), DTYPES[dtype], "b")
    if dtype == "bool" and name == "div":
        b = torch.ones_like(b)
    functions = (f"{name}_tensor",)
    check(overload(f"{name}.Tensor"), a, b, functions=functions)
    check(lambda x, y: overload(f"{name}.Tensor")(x, y[0]), a, b, functions=functions)


MIXED = (
    ("float32", "int64"),
    ("int32", "float32"),
    ("float16", "float32"),
    ("bfloat16", "float16"),
    ("int8", "uint8"),
    ("int16", "int64"),
    ("uint8", "float16"),
    ("bool", "float32"),
    ("int64", "bool"),
)


MIXED_BINARY = [(name, *pair) for name in BINARY for pair in MIXED if name != "sub" or "bool" not in pair]


@pytest.mark.parametrize(("name", "left", "right"), MIXED_BINARY)
def test_binary_promotion(name: str, left: str, right: str) -> None:
    a, b = values((4, 5), DTYPES[left], "a"), values((4, 5), DTYPES[right], "b")
    if name == "div" and right == "bool":
        b = torch.ones_like(b)
    functions = (f"{name}_tensor",)
    check(overload(f"{name}.Tensor"), a, b, functions=functions)
    # A 0-dim tensor does not change the dtype of a larger one of its category.
    check(lambda x, y: overload(f"{name}.Tensor")(x, y[0, 0]), a, b, functions=functions)
    result = torch.empty((4, 5), dtype=torch.float32)
    check(lambda x, y, out: overload(f"{name}.out")(x, y, out=out), a, b, result, functions=functions)


NUMBERS = [(name, number) for name in BINARY for number in (2, 2.5, -3, 0.1)]
NUMBERS += [(name, True) for name in BINARY if name != "sub"]


@pytest.mark.parametrize(("name", "number"), NUMBERS)
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int64", "int32", "int8"])
def test_binary_with_numbers(name: str, number: float, dtype: str) -> None:
    a = values((4, 5), DTYPES[dtype], "a")
    functions = (f"{name}_scalar", f"{name}_tensor")
    check(lambda x: overload(f"{name}.Scalar")(x, number), a, functions=functions)
    # What `x + number` calls: the number wrapped in a tensor.
    check(lambda x: getattr(torch, name)(x, number), a, functions=functions)
    check(lambda x: getattr(torch, name)(x.t(), number), a, functions=functions)
    check(lambda x: overload(f"{name}.Tensor")(x, torch.tensor(number)), a, functions=functions)
    check(lambda x: overload(f"{name}.Tensor")(x[0, 0], torch.tensor(number)), a, functions=functions)
    check(lambda x: overload(f"{name}.Tensor")(torch.tensor(number), x), a, functions=functions)
    if torch.can_cast(torch.result_type(a, number), a.dtype) and not (name == "div" and not a.is_floating_point()):
        check(lambda x: overload(f"{name}_.Scalar")(x, number), a, functions=functions)
        check(lambda x: overload(f"{name}_.Tensor")(x, torch.tensor(number)), a, functions=functions)


@pytest.mark.parametrize("alpha", [2, -0.5, 0])
@pytest.mark.parametrize("name", ["add", "sub"])
def test_alpha(name: str, alpha: float) -> None:
    a, b = values((4, 5), torch.float32, "a"), values((4, 5), torch.float32, "b")
    functions = (f"{name}_tensor",)
    check(lambda x, y: overload(f"{name}.Tensor")(x, y, alpha=alpha), a, b, functions=functions)
    check(lambda x, y: overload(f"{name}.Tensor")(x, y[0], alpha=alpha), a, b, functions=functions)
    check(lambda x, y: overload(f"{name}_.Tensor")(x, y, alpha=alpha), a, b, functions=functions)
    check(lambda x, y: overload(f"{name}.out")(x, y, alpha=alpha, out=torch.empty_like(x)), a, b, functions=functions)
    check(lambda x: overload(f"{name}.Scalar")(x, 3, alpha), a, functions=(f"{name}_scalar",))
    check(lambda y: overload(f"{name}.Tensor")(torch.tensor(3.0), y, alpha=alpha), b, functions=functions)


@pytest.mark.parametrize("name", BINARY)
def test_binary_of_nothing(name: str) -> None:
    empty = torch.empty(0, 5)
    check(overload(f"{name}.Tensor"), empty, empty)
    check(lambda x, y: overload(f"{name}.Tensor")(x, y[:1]), empty, torch.ones(3, 5))
    check(lambda x: overload(f"{name}_.Scalar")(x, 2.0), empty)


@pytest.mark.parametrize("name", BINARY)
def test_binary_special_values(name: str) -> None:
    special = torch.tensor([float("nan"), float("inf"), -float("inf"), 0.0, -0.0, 1e38])
    check(lambda x, y: overload(f"{name}.Tensor")(x[:, None], y), special, special, functions=(f"{name}_tensor",))


def message(call: Callable[..., Any], *tensors: Tensor) -> str:
    with pytest.raises((RuntimeError, IndexError, TypeError, ValueError)) as raised:
        call(*tensors)
    return str(raised.value)


ERRORS: dict[str, Callable[[Tensor], Any]] = {
    "shapes": lambda x: x + x[:, :2],
    "in-place shape": lambda x: x[0].add_(x),
    "in-place dtype": lambda x: x.int().add_(x),
    "bool subtraction": lambda x: x.bool() - x.bool(),
    "float alpha for integers": lambda x: torch.add(x.int(), x.int(), alpha=1.5),
    "bool alpha": lambda x: torch.add(x, x, alpha=True),
    "overlap with itself": lambda x: x[0, :1].expand(4).add_(1),
    "overlap with an input": lambda x: x.view(-1)[1:].add_(x.view(-1)[:-1]),
    "out dtype": lambda x: torch.add(x, x, out=torch.empty(4, 5, dtype=torch.int32, device=x.device)),
    "mm shapes": lambda x: torch.mm(x, x),
    "mm dims": lambda x: torch.mm(x, x[0]),
    "mm dtypes": lambda x: torch.mm(x, x.t().half()),
    "bmm shapes": lambda x: torch.bmm(x[None], x[None]),
    "addmm shapes": lambda x: torch.addmm(x, x, x.t()),
    "addmm dtypes": lambda x: torch.addmm(x[:1, :1].half(), x, x.t()),
    "sum dim": lambda x: x.sum(2),
    "sum repeated dim": lambda x: x.sum((0, -2)),
    "mean of integers": lambda x: x.int().mean(),
    "mean of integers over a dim": lambda x: x.int().mean(0),
    "log_softmax dim": lambda x: torch.log_softmax(x, 2),
    "nll_loss target size": lambda x: functional.nll_loss(x, torch.zeros(3, dtype=torch.int64, device=x.device)),
    "nll_loss weight size": lambda x: functional.nll_loss(
        x, torch.zeros(4, dtype=torch.int64, device=x.device), weight=x[0, :2]
    ),
    "fill with a tensor that is no number": lambda x: x.fill_(x[0]),
    "fill overflow": lambda x: x.to(torch.int8).fill_(1000),
    "relu of bool": lambda x: torch.relu(x.bool()),
}


@pytest.mark.parametrize("case", ERRORS)
def test_errors_read_as_on_the_cpu(case: str) -> None:
    x = values((4, 5), torch.float32, "x")
    assert message(ERRORS[case], x.to(FLAGOS)) == message(ERRORS[case], x)


MIXED_DEVICES: dict[str, Callable[[Tensor, Tensor], Any]] = {
    "add": lambda x, other: x + other,
    "add in place": lambda x, other: x.add_(other),
    "add out": lambda x, other: torch.add(x, x, out=other.clone()),
    "mm": lambda x, other: torch.mm(x, other),
    "addmm": lambda x, other: torch.addmm(x, x, other),
    "bmm": lambda x, other: torch.bmm(x[None], other[None]),
    "nll_loss": lambda x, other: functional.nll_loss(x, other[0].long()),
    "threshold_backward": lambda x, other: torch.ops.aten.threshold_backward(x, other, 0),
    "an operator of the fallback": lambda x, other: torch.atan2(x, other),
}


# PyTorch itself refuses an out= on the CPU with device inputs, in other words.
DEVICE_PAIRS = [
    (case, where) for case in MIXED_DEVICES for where in ("cpu", "flagos:1") if (case, where) != ("add out", "cpu")
]


@pytest.mark.parametrize(("case", "where"), DEVICE_PAIRS)
def test_devices_do_not_mix(case: str, where: str) -> None:
    x = values((3, 3), torch.float32, "x")
    said = message(MIXED_DEVICES[case], x.to(FLAGOS), x.to(where))
    assert "Expected all tensors to be on the same device" in said
    assert "flagos:0" in said
    assert where in said


# Other families -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", operators.function("relu").dtypes)
def test_relu(dtype: str) -> None:
    x = values((5, 6), DTYPES[dtype], "relu") - 1 if dtype != "uint8" else values((5, 6), torch.uint8, "relu")
    check(torch.relu, x, functions=("relu",))
    check(lambda t: torch.relu(t.t()), x, functions=("relu",))
    check(lambda t: torch.relu(t[:, ::2]), x, functions=("relu",))
    check(lambda t: torch.relu_(t), x, functions=("relu",))

    def half_in_place(t: Tensor) -> Tensor:
        torch.relu_(t[:, ::2])
        return t

    check(half_in_place, x, functions=("relu",))


def test_relu_of_special_values_and_of_nothing() -> None:
    check(torch.relu, torch.tensor([float("nan"), float("inf"), -float("inf"), -0.0]), functions=("relu",))
    check(torch.relu, torch.tensor(-2.0), functions=("relu",))
    check(torch.relu, torch.empty(0, 3))


@pytest.mark.parametrize("dtype", operators.FLOATING)
def test_threshold_backward(dtype: str) -> None:
    gradient, x = values((4, 5), DTYPES[dtype], "g"), values((4, 5), DTYPES[dtype], "x") - 1
    backward = overload("threshold_backward")
    functions = ("threshold_backward",)
    check(lambda g, t: backward(g, t, 0), gradient, x, functions=functions)
    check(lambda g, t: backward(g.t(), t.t(), 0.5), gradient, x, functions=functions)
    check(lambda g, t: backward(g[:1].expand(4, 5), t, 0), gradient, x, functions=functions)
    out = overload("threshold_backward.grad_input")
    check(lambda g, t: out(g, t, 0, grad_input=torch.empty_like(t)), gradient, x, functions=functions)


@pytest.mark.parametrize("dtype", operators.STORED)
def test_fill_and_zero(dtype: str) -> None:
    x = values((4, 6), DTYPES[dtype], "x")
    value = 1 if dtype == "bool" else 3
    functions = ("fill__scalar",)

    def slices(t: Tensor, change: Callable[[Tensor], Tensor]) -> Tensor:
        assert change(t[1:, ::2]) is not None
        return t

    check(lambda t: t.fill_(value), x, functions=functions)
    check(lambda t: slices(t, lambda s: s.fill_(value)), x, functions=functions)
    check(lambda t: t.zero_(), x, functions=functions)
    check(lambda t: slices(t, torch.Tensor.zero_), x, functions=functions)
    check(lambda t: t.t().fill_(t[0, 0]), x, functions=("cast",))
    check(lambda t: t.fill_(torch.tensor(value)), x, functions=("cast",))


def test_fill_keeps_what_each_dtype_can_hold() -> None:
    for dtype, value in (
        (torch.float64, 0.1),
        (torch.float64, 1e300),
        (torch.float32, 0.1),
        (torch.float16, 0.1),
        (torch.int64, 2**62 + 1),
        (torch.int64, -(2**63)),
        (torch.float32, float("nan")),
        (torch.bool, 7),
        (torch.int32, 2.9),
        (torch.complex64, 1 + 2j),
    ):
        check(lambda t, value=value: t.fill_(value), torch.zeros(3, dtype=dtype))


def test_zero_of_dtypes_that_the_library_does_not_know() -> None:
    for dtype in (torch.complex64, torch.complex128, torch.float8_e4m3fn, torch.uint16, torch.uint64):
        check(lambda t: t.zero_().view(torch.uint8), torch.ones(4, 4).to(dtype), functions=("fill__scalar",))


REDUCED: dict[str, Callable[[Tensor], Tensor]] = {
    "contiguous": lambda x: x,
    "permuted": lambda x: x.permute(2, 0, 1),
    "sliced": lambda x: x[:, ::2, 1:],
    "expanded": lambda x: x[:1].expand(3, 4, 5),
}
DIMS: tuple[Any, ...] = (0, 1, -1, (0, 2), (0, 1, 2), (), None)


@pytest.mark.parametrize("dim", DIMS, ids=str)
@pytest.mark.parametrize("case", REDUCED)
@pytest.mark.parametrize("name", ["sum", "mean"])
def test_reductions(name: str, case: str, dim: Any) -> None:
    x = values((3, 4, 5), torch.float32, "x")
    functions = (name, f"{name}_dim_IntList" if name == "sum" else f"{name}_dim")
    reduce = getattr(torch, name)
    check(lambda t: reduce(REDUCED[case](t)), x, functions=(name,))
    dims = [dim] if isinstance(dim, int) else dim
    for keepdim in (False, True):
        check(lambda t, keep=keepdim: reduce(REDUCED[case](t), dims, keepdim=keep), x, functions=functions)
        check(
            lambda t, keep=keepdim: reduce(REDUCED[case](t), dims, keepdim=keep, out=torch.empty(0, device=t.device)),
            x,
            functions=functions,
        )


@pytest.mark.parametrize("dtype", operators.ALL)
def test_sum_dtypes(dtype: str) -> None:
    x = values((3, 4), DTYPES[dtype], "x")
    check(lambda t: t.sum(), x, functions=("sum",))
    check(lambda t: t.sum(0), x, functions=("sum_dim_IntList",))
    check(lambda t: t.sum(1, dtype=torch.float32), x, functions=("sum_dim_IntList",))
    check(lambda t: t.sum(dtype=torch.int32), x, functions=("sum",))


@pytest.mark.parametrize("dtype", operators.FLOATING)
def test_mean_dtypes(dtype: str) -> None:
    x = values((3, 4), DTYPES[dtype], "x")
    check(lambda t: t.mean(), x, functions=("mean",))
    check(lambda t: t.mean(0), x, functions=("mean_dim",))
    check(lambda t: t.mean(1, dtype=torch.float32), x, functions=("mean_dim",))
    check(lambda t: t.int().mean(dtype=torch.float32), x, functions=("mean",))


def test_reductions_of_nothing_and_of_numbers() -> None:
    for shape in ((0,), (0, 3), (3, 0)):
        check(lambda t: t.sum(), torch.empty(shape))
        check(lambda t: t.mean(), torch.empty(shape))
        check(lambda t: t.sum(0), torch.empty(shape))
        check(lambda t: t.mean(-1), torch.empty(shape))
    for dim in (0, -1):
        check(lambda t, dim=dim: t.sum(dim), torch.tensor(2.5))
        check(lambda t, dim=dim: t.mean(dim, keepdim=True), torch.tensor(2.5))


MATRICES: dict[str, Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]] = {
    "contiguous": lambda a, b: (a, b),
    "first transposed": lambda a, b: (a.t().contiguous().t(), b),
    "both transposed": lambda a, b: (a.t().contiguous().t(), b.t().contiguous().t()),
    "sliced": lambda a, b: (a[1:, ::2], b[::2, 1:]),
    "expanded": lambda a, b: (a[:1].expand(5, 6), b),
    "one inner element": lambda a, b: (a[:, :1], b[:1]),
    "one row": lambda a, b: (a[:1], b),
    "no inner elements": lambda a, b: (a[:, :0], b[:0]),
    "no rows": lambda a, b: (a[:0], b),
}


@pytest.mark.parametrize("dtype", operators.FLOATING)
@pytest.mark.parametrize("case", MATRICES)
def test_mm(case: str, dtype: str) -> None:
    a, b = values((5, 6), DTYPES[dtype], "a"), values((6, 7), DTYPES[dtype], "b")
    empty = case.startswith("no ")
    check(lambda x, y: torch.mm(*MATRICES[case](x, y)), a, b, functions=() if empty else ("mm",))

    def into(x: Tensor, y: Tensor) -> Tensor:
        left, right = MATRICES[case](x, y)
        target = torch.zeros(right.shape[1], left.shape[0], dtype=x.dtype, device=x.device).t()
        return torch.mm(left, right, out=target)

    check(into, a, b, functions=() if empty else ("mm",))


def test_mm_into_its_own_input() -> None:
    square = values((4, 4), torch.float32, "square")
    expected = square @ square
    on_device = square.to(FLAGOS)
    torch.mm(on_device, on_device, out=on_device)
    torch.testing.assert_close(on_device.cpu(), expected)


@pytest.mark.parametrize("dtype", operators.FLOATING)
def test_bmm(dtype: str) -> None:
    a, b = values((3, 4, 5), DTYPES[dtype], "a"), values((3, 5, 6), DTYPES[dtype], "b")
    check(torch.bmm, a, b, functions=("bmm",))
    check(lambda x, y: torch.bmm(x.permute(0, 2, 1), x), a, b, functions=("bmm",))
    check(lambda x, y: torch.bmm(x[:1].expand(3, 4, 5), y), a, b, functions=("bmm",))
    check(lambda x, y: torch.bmm(x, y, out=torch.empty(0, dtype=x.dtype, device=x.device)), a, b, functions=("bmm",))
    check(lambda x, y: torch.bmm(x[:, :, :0], y[:, :0]), a, b)
    check(lambda x, y: torch.bmm(x[:0], y[:0]), a, b)


ADDED: dict[str, Callable[[Tensor], Tensor]] = {
    "matrix": lambda c: c,
    "row": lambda c: c[0],
    "column": lambda c: c[:, :1],
    "number": lambda c: c[0, 0],
    "transposed": lambda c: c.t().contiguous().t(),
}


@pytest.mark.parametrize(("beta", "alpha"), [(1, 1), (0, 1), (0.5, -2), (0, 0)])
@pytest.mark.parametrize("case", ADDED)
def test_addmm(case: str, beta: float, alpha: float) -> None:
    a, b, c = (values(shape, torch.float32, "addmm") for shape in ((5, 6), (6, 7), (5, 7)))
    options = {"beta": beta, "alpha": alpha}
    functions = ("addmm",)
    check(lambda x, y, z: torch.addmm(ADDED[case](z), x, y, **options), a, b, c, functions=functions)
    check(
        lambda x, y, z: torch.addmm(ADDED[case](z), x, y, **options, out=torch.empty(0, device=x.device)),
        a,
        b,
        c,
        functions=functions,
    )
    check(lambda x, y, z: z.addmm_(x, y, **options), a, b, c, functions=functions)
    check(lambda x, y, z: torch.addmm(ADDED[case](z), x[:, :0], y[:0], **options), a, b, c)


def test_addmm_ignores_nan_when_beta_is_zero() -> None:
    a, b, c = torch.ones(2, 3), torch.ones(3, 4), torch.full((2, 4), float("nan"))
    check(lambda x, y, z: torch.addmm(z, x, y, beta=0), a, b, c, functions=("addmm",))
    check(lambda x, y, z: torch.addmm(z, x[:, :0], y[:0], beta=0), a, b, c)


@pytest.mark.parametrize("dtype", operators.FLOATING)
@pytest.mark.parametrize("dim", [0, 1, -1])
def test_log_softmax(dim: int, dtype: str) -> None:
    x, gradient = values((4, 5), DTYPES[dtype], "x"), values((4, 5), DTYPES[dtype], "g")
    check(lambda t: torch.log_softmax(t, dim), x, functions=("log_softmax",))
    check(lambda t: torch.log_softmax(t.t(), dim), x, functions=("log_softmax",), strides=False)
    out = overload("_log_softmax.out")
    check(lambda t: out(t, dim, False, out=torch.empty_like(t)), x, functions=("log_softmax",))
    output = torch.log_softmax(x, dim)
    functions = ("_log_softmax_backward_data",)
    backward, backward_out = overload("_log_softmax_backward_data"), overload("_log_softmax_backward_data.out")
    check(lambda g, o: backward(g, o, dim, o.dtype), gradient, output, functions=functions)
    check(lambda g, o: backward(g[:1].expand(4, 5), o, dim, o.dtype), gradient, output, functions=functions)
    check(lambda g, o: backward_out(g, o, dim, o.dtype, out=torch.empty_like(o)), gradient, output, functions=functions)


def test_log_softmax_of_numbers_and_of_nothing() -> None:
    check(lambda t: torch.log_softmax(t, 0), torch.tensor(2.0), functions=("log_softmax",))
    check(lambda t: torch.log_softmax(t, 1), torch.empty(3, 0))
    check(lambda t: torch.log_softmax(t, 1), torch.tensor([[float("nan"), 1.0], [float("inf"), 1.0]]))


@pytest.mark.parametrize("reduction", [0, 1, 2], ids=("none", "mean", "sum"))
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("ignore", [-100, 2])
@pytest.mark.parametrize("rank", [1, 2])
@pytest.mark.parametrize("dtype", operators.FLOATING)
def test_nll_loss(dtype: str, rank: int, ignore: int, weighted: bool, reduction: int) -> None:
    scores = -values((6, 4), DTYPES[dtype], "scores")
    target = torch.tensor([0, 3, 2, 1, 2, 0])
    if rank == 1:
        scores, target = scores[0], target[0]
    weight = values((4,), DTYPES[dtype], "weight")
    forward, backward = overload("nll_loss_forward"), overload("nll_loss_backward")

    def chosen(w: Tensor) -> Tensor | None:
        return w if weighted else None

    def both(x: Tensor, t: Tensor, w: Tensor) -> Any:
        return forward(x, t, chosen(w), reduction, ignore)

    def both_out(x: Tensor, t: Tensor, w: Tensor) -> Any:
        outputs = {name: torch.empty(0, dtype=x.dtype, device=x.device) for name in ("output", "total_weight")}
        return overload("nll_loss_forward.output")(x, t, chosen(w), reduction, ignore, **outputs)

    check(both, scores, target, weight, functions=("nll_loss",))
    check(both_out, scores, target, weight, functions=("nll_loss",))
    loss, total = both(scores, target, weight)
    gradient = torch.ones_like(loss)
    rest = (reduction, ignore)
    functions = ("nll_loss_backward",)
    check(
        lambda g, x, t, w, total: backward(g, x, t, chosen(w), *rest, total),
        *(gradient, scores, target, weight, total),
        functions=functions,
    )
    check(
        lambda g, x, t, w, total: overload("nll_loss_backward.grad_input")(
            g, x, t, chosen(w), *rest, total, grad_input=torch.empty_like(x)
        ),
        *(gradient, scores, target, weight, total),
        functions=functions,
    )


def test_nll_loss_of_nothing() -> None:
    for reduction in ("none", "mean", "sum"):
        check(
            lambda x, t, how=reduction: functional.nll_loss(x, t, reduction=how),
            torch.empty(0, 4),
            torch.empty(0, dtype=torch.int64),
        )


# All of it ----------------------------------------------------------------------------------------------------------


def test_a_network_trains_as_on_the_cpu_without_a_single_fallback() -> None:
    functions = ("addmm", "mm", "relu", "threshold_backward", "log_softmax", "nll_loss", "nll_loss_backward")
    results = {}
    for device in (CPU, FLAGOS):
        torch.manual_seed(7)
        network = nn.Sequential(nn.Linear(12, 16), nn.ReLU(), nn.Linear(16, 5))
        inputs, target = torch.randn(20, 12), torch.randint(0, 5, (20,))
        network, inputs, target = network.to(device), inputs.to(device), target.to(device)
        optimizer = torch.optim.SGD(network.parameters(), lr=0.1, foreach=False)
        losses = []
        with Launched(*functions) as launched:
            for _ in range(5):
                optimizer.zero_grad()
                loss = functional.cross_entropy(network(inputs), target)
                loss.backward()
                optimizer.step()
                losses.append(loss.detach())
        gradients = [parameter.grad for parameter in network.parameters()]
        results[device] = [tensor.cpu() for tensor in (*losses, *gradients, *network.parameters())]
        if device == FLAGOS:
            assert all(launched.counts.values()), launched.counts
    torch.testing.assert_close(results[FLAGOS], results[CPU], rtol=1e-5, atol=1e-6)


ON_DEVICE_1: dict[str, Callable[[Tensor], Tensor]] = {
    "add": lambda x: x + x,
    "add in place": lambda x: x.add_(x[0].clone()),
    "number": lambda x: x * 2.5,
    "promotion": lambda x: x + x.long(),
    "mm": lambda x: x @ x.t(),
    "addmm": lambda x: torch.addmm(x[0, :4], x, x.t()),
    "sum": lambda x: x.sum(0),
    "mean": lambda x: x.mean(),
    "relu": lambda x: torch.relu(x - 1),
    "log_softmax": lambda x: torch.log_softmax(x, 1),
    "nll_loss": lambda x: functional.nll_loss(x, torch.arange(4, device=x.device)),
    "fill": lambda x: x.fill_(x[0, 0]),
    "zero": lambda x: x.zero_(),
    "cast": lambda x: x.half(),
    "out=": lambda x: torch.add(x, x[0], out=torch.empty(0, device=x.device)),
}


@pytest.mark.parametrize("case", ON_DEVICE_1)
def test_kernels_run_where_their_inputs_are(case: str) -> None:
    x = values((4, 5), torch.float32, "x")
    expected = ON_DEVICE_1[case](x.clone())
    actual = ON_DEVICE_1[case](x.to("flagos:1"))
    assert torch.flagos.current_device() == 0
    assert actual.device == torch.device("flagos", 1)
    torch.testing.assert_close(actual.cpu(), expected)


def test_threads_compute_at_once_on_shared_and_own_streams() -> None:
    x = values((16, 16), torch.float32, "x")
    expected = torch.relu(x @ x - x).sum(1)

    def work(index: int) -> Tensor:
        on_device = x.to(f"flagos:{index % 2}")
        own = torch.flagos.Stream(on_device.device) if index % 3 == 0 else torch.flagos.current_stream(on_device.device)
        own.wait_stream(torch.flagos.current_stream(on_device.device))
        with torch.flagos.stream(own):
            for _ in range(50):
                result = torch.relu(on_device @ on_device - on_device).sum(1)
            return result.cpu()

    # Twice: the second round's threads take over what the first round's have left behind.
    for _ in range(2):
        with ThreadPoolExecutor(6) as pool:
            for result in pool.map(work, range(12)):
                torch.testing.assert_close(result, expected)


def test_log_softmax_of_half_in_float32() -> None:
    x = values((4, 5), torch.float16, "x")
    check(lambda t: torch.log_softmax(t, 1, dtype=torch.float32), x, functions=("log_softmax",))


def test_vendor_errors_name_the_call_its_arguments_and_the_device() -> None:
    x = torch.ones(8, 8, device="flagos:1")
    x.untyped_storage().resize_(0)  # a tensor without memory, as sharded training leaves them behind
    with pytest.raises(RuntimeError) as raised:
        torch.add(x, x)
    assert (
        "xdnn_pytorch::add_tensor(float32[8, 8], float32[8, 8], 1, float32[8, 8]) on device 1: invalid parameter (1)"
        in str(raised.value)
    )

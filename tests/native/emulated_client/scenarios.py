"""What every operator must give, as functions that a child process runs. Each raises AssertionError when one does not.

The expected value comes from torch on the CPU; where torch rounds half precision more often than once, it is computed
from float32.
"""

from __future__ import annotations

import random

import torch

from tests.native.emulated_client import operators
from tests.native.emulated_client.compare import FLOATING, INTEGRAL, SHAPES, check, layouts, made, refused


def exactly(tensor: torch.Tensor) -> torch.Tensor:
    """In float32, if it is a floating tensor: what is computed with it is then rounded only once."""
    return tensor.float() if tensor.dtype in FLOATING else tensor


def sums_differences_and_products() -> None:
    for dtype in [*FLOATING, *INTEGRAL, torch.bool]:
        is_bool = dtype == torch.bool
        for shape in SHAPES:
            a, b = made(shape, dtype), made(shape, dtype)
            u, v = exactly(a), exactly(b)
            for x, y, out in zip(layouts(a), layouts(b), layouts(a)):
                alpha = True if is_bool else 3
                check("add_tensor", [x, y], torch.add(u, v, alpha=alpha).to(dtype), out=out, scalars=[int(alpha)])
                check("mul_tensor", [x, y], a * b, out=out)
                check("mul_scalar", [x], a * (True if is_bool else 5), out=out, scalars=[5])
                if not is_bool:
                    check("add_tensor", [x, y], a + b, scalars=[1])
                    check("sub_tensor", [x, y], torch.sub(u, v, alpha=2).to(dtype), out=out, scalars=[2])
                    check("add_scalar", [x], torch.add(a, 7, alpha=2), out=out, scalars=[7, 2])
                    check("sub_scalar", [x], a - 4, out=out, scalars=[4, 1])
                if dtype in FLOATING:
                    check("mul_scalar", [x], a * 0.3, out=out, scalars=[0.3])
                    check("add_tensor", [x, y], torch.add(u, v, alpha=0.3).to(dtype), out=out, scalars=[0.3])


def two_inputs_are_broadcast() -> None:
    pairs = [
        ((3, 1), (1, 4)),
        ((4,), (2, 3, 4)),
        ((2, 3, 4), (3, 1)),
        ((), (2, 3)),
        ((5,), ()),
        ((0, 3), (1, 3)),
        ((1, 1, 5), (4, 3, 5)),
        ((2, 0), (1,)),
        ((7, 1), (7, 300)),
    ]
    for dtype in [torch.float32, torch.bfloat16, torch.int64]:
        for one, other in pairs:
            a, b = made(one, dtype), made(other, dtype)
            want = a * b
            for out in layouts(want):
                check("mul_tensor", [a, b], want, out=out)
            check("add_tensor", [a.expand(want.shape), b], a + b, scalars=[1])


def an_output_may_be_an_input() -> None:
    a, b = made((33, 7), torch.float32), made((33, 7), torch.float32)
    x, y = operators.upload(a), operators.upload(b)
    assert operators.call("add_tensor", x, y, x, scalars=[0.5]) == 0
    assert operators.call("relu", x, x) == 0
    assert (
        operators.call(
            "addmm", x, *[operators.upload(i) for i in (torch.ones(33, 2), torch.ones(2, 7))], x, scalars=[2, 1]
        )
        == 0
    )
    assert operators.rt.xpu_wait(None) == 0
    torch.testing.assert_close(operators.download(x), (a + 0.5 * b).relu() * 2 + 2)


def division() -> None:
    special = torch.tensor([0.0, -0.0, 1.0, -1.5, float("inf"), float("-inf"), float("nan"), 5.0, -7.0])
    pairs = torch.cartesian_prod(special, special)
    for dtype in FLOATING:
        a, b = (column.to(dtype) for column in pairs.unbind(1))
        x, y = made((40, 3), dtype), made((40, 3), dtype)
        for mode in (None, "trunc", "floor"):
            check("div_tensor_mode", [a, b], torch.div(a, b, rounding_mode=mode), mode=mode)
            tolerance = {"rtol": 0.01, "atol": 1} if mode else {}
            for u, v, out in zip(layouts(x), layouts(y), layouts(x)):
                check("div_tensor_mode", [u, v], torch.div(x, y, rounding_mode=mode), out=out, mode=mode, **tolerance)
        check("div_tensor", [a, b], a / b)
        check("div_scalar", [x], x / 3, scalars=[3])
        check("div_scalar", [x], x / 0.7, scalars=[0.7])
    for dtype in INTEGRAL:
        x, y = made((50,), dtype), made((50,), dtype, nonzero=True)
        for mode in ("trunc", "floor"):
            check("div_tensor_mode", [x, y], torch.div(x, y, rounding_mode=mode), mode=mode)
        assert refused("div_tensor", [x, y], x) == 4
        assert refused("div_tensor_mode", [x, y], x) == 4
        assert refused("div_scalar", [x], x, scalars=[2]) == 4
    check(
        "div_tensor_mode",
        [torch.tensor([-(2**63), 5]), torch.tensor([-1, 0])],
        torch.tensor([-(2**63), 0]),
        mode="trunc",
    )


def rectifying() -> None:
    for dtype in FLOATING + INTEGRAL:
        for shape in SHAPES:
            a, g = made(shape, dtype), made(shape, dtype)
            for x, y, out in zip(layouts(a), layouts(g), layouts(a)):
                check("relu", [x], a.relu(), out=out)
                check("threshold_backward", [y, x], torch.where(a <= 0, 0, g), out=out, scalars=[0])
    special = torch.tensor([float("nan"), -0.0, float("inf"), float("-inf")])
    check("relu", [special], special.relu())
    assert refused("relu", [torch.tensor([True])], torch.tensor([True])) == 4


def casts_between_all_types() -> None:
    for source in operators.TYPES:
        values = made((4, 3, 5), source)
        if source.is_floating_point:
            values = values * 20
            if source == torch.float32:
                edges = torch.tensor(
                    [
                        0.0,
                        -0.0,
                        1e-8,
                        6e-8,
                        65504.0,
                        65519.9,
                        65520.0,
                        1e5,
                        float("inf"),
                        float("nan"),
                        2.0**-14,
                        2.0**-15 * 1.5,
                        1.00048828125,
                        3.3895e38,
                    ]
                )
                for target in (torch.float16, torch.bfloat16, torch.float64, torch.bool):
                    check("cast", [edges], edges.to(target), rtol=0, atol=0)
        for target in operators.TYPES:
            if target == torch.uint8 and values.dtype.is_signed:
                values = values.abs()
            for x, out in zip(layouts(values), layouts(values.to(target))):
                check("cast", [x], values.to(target), out=out, rtol=0, atol=0)
    every_half = torch.arange(-(2**15), 2**15, dtype=torch.int16).view(torch.float16)
    check("cast", [every_half], every_half.float(), rtol=0, atol=0)
    floats = torch.randint(-(2**31), 2**31, (200_000,), dtype=torch.int64).to(torch.int32).view(torch.float32)
    check("cast", [floats], floats.half(), rtol=0, atol=0)
    check("cast", [floats], floats.bfloat16(), rtol=0, atol=0)
    # An expanded input, and a transposition of many elements.
    check("cast", [torch.ones(1, 5).expand(4, 5)], torch.ones(4, 5))
    big = torch.randn(301, 205)
    check("cast", [big.t()], big.t().contiguous())


def filling() -> None:
    for dtype in operators.TYPES:
        for shape in SHAPES:
            for target in layouts(made(shape, dtype)):
                for value in (0, 3, 1.5):
                    if dtype == torch.bool and value not in (0, 3):
                        continue
                    x = operators.upload(target)
                    assert operators.call("fill__scalar", x, scalars=[value]) == 0
                    operators.rt.xpu_wait(None)
                    want = target.clone(memory_format=torch.preserve_format).fill_(value)
                    torch.testing.assert_close(operators.download(x), want)
                    operators.free(x)


def sums_and_means() -> None:
    shapes = [(), (1,), (9,), (1000,), (3, 5), (40, 300), (2, 3, 4, 5), (0,), (3, 0), (0, 3)]
    for dtype in FLOATING + INTEGRAL + [torch.bool]:
        names = ("sum", "mean") if dtype in FLOATING else ("sum",)
        for shape in shapes:
            a = made(shape, dtype)
            for x in layouts(a):
                for name in names:
                    reduce = getattr(torch, name)
                    check(
                        name,
                        [x],
                        reduce(a),
                        rtol=2e-2 if dtype in FLOATING[1:] else None,
                        atol=1e-2 if dtype in FLOATING[1:] else None,
                    )
                    for count in range(len(shape) + 1):
                        dims = random.sample(range(len(shape)), count)
                        dims = [d - len(shape) if random.random() < 0.5 else d for d in dims]
                        keepdim = random.random() < 0.5
                        want = reduce(a.double() if dtype in FLOATING else a, dim=dims or None, keepdim=keepdim)
                        want = want.to(dtype) if dtype in FLOATING else want
                        for out in layouts(want):
                            check(
                                name + ("_dim_IntList" if name == "sum" else "_dim"),
                                [x],
                                want,
                                out=out,
                                dims=dims,
                                keepdim=keepdim,
                                dtype=want.dtype,
                            )
    x = made((6, 5), torch.int32)
    for dtype in (torch.int8, torch.int32, torch.float32):
        check("sum", [x], x.sum(dtype=dtype), dtype=dtype)
    h = made((6, 5), torch.float16)
    check("mean_dim", [h], h.mean(0, dtype=torch.float32), dims=[0], dtype=torch.float32)
    wide = torch.randn(3, 1_000_001)
    check("sum_dim_IntList", [wide], wide.double().sum(1).float(), dims=[1])
    assert refused("mean", [x], torch.tensor(0)) == 4
    assert refused("sum", [h], torch.tensor(0)) == 4
    f = made((6, 5), torch.float32)
    assert refused("sum_dim_IntList", [f], torch.zeros(6), dims=[2]) == 1
    assert refused("sum_dim_IntList", [f], torch.zeros(6), dims=[1, -1]) == 1
    assert refused("sum_dim_IntList", [f], torch.zeros(5), dims=[1]) == 1
    assert refused("sum_dim_IntList", [f], torch.zeros(6), dims=[1], dtype=torch.float16) == 1


def log_softmax() -> None:
    for dtype in FLOATING:
        tolerance = {"rtol": 2e-2, "atol": 2e-2} if dtype != torch.float32 else {}
        for shape in [(), (1,), (7,), (3, 5), (2, 3, 4), (0, 3), (3, 0)]:
            a, g = made(shape, dtype), made(shape, dtype)
            for dim in range(-max(1, len(shape)), max(1, len(shape))):
                want = torch.log_softmax(a, dim)
                for x, out in zip(layouts(a), layouts(a)):
                    check("log_softmax", [x], want, out=out, dims=[dim], dtype=dtype, **tolerance)
                back = torch.ops.aten._log_softmax_backward_data(g, want, dim, dtype)
                for x, y, out in zip(layouts(g), layouts(want), layouts(g)):
                    check("_log_softmax_backward_data", [x, y], back, out=out, dims=[dim], dtype=dtype, **tolerance)
    extreme = torch.tensor([[1e4, -1e4, 0.0], [float("-inf"), 1.0, 2.0], [float("nan"), 1.0, 2.0]])
    check("log_softmax", [extreme], torch.log_softmax(extreme, 1), dims=[1])
    half = made((4, 6), torch.float16)
    check(
        "log_softmax",
        [half],
        torch.log_softmax(half, 1, dtype=torch.float32),
        dims=[1],
        dtype=torch.float32,
        rtol=1e-3,
        atol=1e-3,
    )
    assert refused("log_softmax", [half], half, dims=[2]) == 1


def negative_log_likelihood() -> None:
    aten = torch.ops.aten
    for dtype in FLOATING:
        tolerance = {"rtol": 2e-2, "atol": 2e-2} if dtype != torch.float32 else {}
        for shape in [(6, 4), (1, 3), (5,), (0, 4)]:
            scores = made(shape, dtype)
            target = torch.randint(0, shape[-1], shape[:-1])
            if target.numel() > 2:
                target[1] = 2
            for weight in (None, torch.rand(shape[-1]).to(dtype)):
                for reduction in (0, 1, 2):
                    for ignore in (-100, 2):
                        want, total = aten.nll_loss_forward(scores, target, weight, reduction, ignore)
                        grad = made(tuple(want.shape), dtype)
                        back = aten.nll_loss_backward(grad, scores, target, weight, reduction, ignore, total)
                        for x, out in zip(layouts(scores), layouts(scores)):
                            check(
                                "nll_loss",
                                [x, target, weight],
                                want,
                                reduction=reduction,
                                ignore_index=ignore,
                                **tolerance,
                            )
                            for given in (None, total):
                                check(
                                    "nll_loss_backward",
                                    [grad, x, target, weight, given],
                                    back,
                                    out=out,
                                    reduction=reduction,
                                    ignore_index=ignore,
                                    **tolerance,
                                )
    scores = made((3, 4), torch.float32)
    byte = torch.tensor([1, 0, 3], dtype=torch.uint8)
    check("nll_loss", [scores, byte, None], aten.nll_loss_forward(scores, byte.long(), None, 1, -100)[0])
    assert refused("nll_loss", [scores, byte.int(), None], torch.tensor(0.0)) == 4
    assert refused("nll_loss", [scores, byte, torch.rand(3)], torch.tensor(0.0)) == 1
    assert refused("nll_loss", [scores, byte, None], torch.zeros(2)) == 1


def matrix_products() -> None:
    sizes = [
        (1, 1, 1),
        (3, 4, 5),
        (6, 16, 7),
        (97, 33, 130),
        (100, 300, 600),
        (0, 3, 4),
        (3, 0, 4),
        (3, 4, 0),
        (5, 513, 1),
    ]
    for dtype in FLOATING + INTEGRAL:
        tolerance = {
            torch.float32: {"rtol": 1e-4, "atol": 1e-4},
            torch.float16: {"rtol": 2e-2, "atol": 5e-2},
            torch.bfloat16: {"rtol": 4e-2, "atol": 2e-1},
        }.get(dtype, {})
        for m, k, n in sizes:
            if dtype not in FLOATING and m * k * n > 10**6:
                continue
            a, b = made((m, k), dtype), made((k, n), dtype)
            exact = (a.double() @ b.double()) if dtype in FLOATING else a @ b
            want = exact.to(dtype)
            for x, y, out in zip(layouts(a), layouts(b), layouts(want)):
                check("mm", [x, y], want, out=out, **tolerance)
            for shape in [(m, n), (n,), (1, n), (m, 1), ()]:
                bias = made(shape, dtype)
                for beta, alpha in [(1, 1), (0, 2), (2, 3)] + ([(0.5, 0.25)] if dtype in FLOATING else []):
                    added = beta * bias.double() + alpha * exact if dtype in FLOATING else beta * bias + alpha * exact
                    for out in layouts(want):
                        check("addmm", [bias, a, b], added.to(dtype), out=out, scalars=[beta, alpha], **tolerance)
            batch = [made((2, m, k), dtype), made((2, k, n), dtype)]
            product = torch.bmm(batch[0].double(), batch[1].double()) if dtype in FLOATING else torch.bmm(*batch)
            for x, y, out in zip(layouts(batch[0]), layouts(batch[1]), layouts(product.to(dtype))):
                check("bmm", [x, y], product.to(dtype), out=out, **tolerance)
    # With beta 0 the addend is not read.
    a, b = torch.ones(2, 3), torch.ones(3, 2)
    check("addmm", [torch.full((2, 2), float("nan")), a, b], torch.full((2, 2), 3.0), scalars=[0, 1])
    assert refused("mm", [a, a], torch.zeros(2, 3)) == 1
    assert refused("mm", [a, b.half()], torch.zeros(2, 2)) == 1
    assert refused("addmm", [torch.zeros(3), a, b], torch.zeros(2, 2), scalars=[1, 1]) == 1
    assert refused("bmm", [torch.ones(2, 2, 3), torch.ones(1, 3, 2)], torch.zeros(2, 2, 2)) == 1
    assert refused("mm", [torch.ones(2, 2, dtype=torch.bool)] * 2, torch.ones(2, 2, dtype=torch.bool)) == 4


SCENARIOS = [
    sums_differences_and_products,
    two_inputs_are_broadcast,
    an_output_may_be_an_input,
    division,
    rectifying,
    casts_between_all_types,
    filling,
    sums_and_means,
    log_softmax,
    negative_log_likelihood,
    matrix_products,
]

"""Comparison of the emulated operators with torch on the CPU, for use in a child process."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from tests.native.emulated_client import operators

FLOATING = [torch.float32, torch.float16, torch.bfloat16]
INTEGRAL = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]
SHAPES = [(), (1,), (7,), (64,), (3, 5), (2, 1, 4), (4, 3, 2, 5), (0,), (3, 0, 2)]


def layouts(tensor: torch.Tensor) -> Iterator[torch.Tensor]:
    """The same values contiguous, with dimensions stored in reverse order, and with gaps and an offset."""
    yield tensor.contiguous().clone()
    if tensor.dim() > 1:
        order = list(range(tensor.dim()))[::-1]
        yield tensor.permute(order).clone(memory_format=torch.contiguous_format).permute(order)
    if tensor.dim() > 0:
        spread = torch.full([2 * size + 1 for size in tensor.shape], 3, dtype=torch.int8).to(tensor.dtype)
        view = spread[tuple(slice(1, 2 * size + 1, 2) for size in tensor.shape)]
        view.copy_(tensor)
        yield view


def made(shape: tuple[int, ...], dtype: torch.dtype, *, nonzero: bool = False) -> torch.Tensor:
    """Seeded by the caller: normal numbers, small whole numbers of either sign, or truth values."""
    if dtype.is_floating_point:
        return torch.randn(shape).to(dtype)
    if dtype == torch.bool:
        return torch.rand(shape) > 0.5
    values = torch.randint(-9 if dtype.is_signed else 0, 10, shape)
    return torch.where(values == 0, 1, values).to(dtype) if nonzero else values.to(dtype)


def _bytes(tensor: torch.Tensor) -> torch.Tensor:
    """The whole storage behind a tensor."""
    return torch.tensor([], dtype=torch.uint8).set_(tensor.untyped_storage())


def check(
    name: str,
    inputs: list[torch.Tensor | None],
    expected: torch.Tensor,
    *,
    out: torch.Tensor | None = None,
    rtol: float | None = None,
    atol: float | None = None,
    **arguments: object,
) -> None:
    """Runs an operator and raises AssertionError unless it succeeds, is counted, and gives `expected`.

    None stands for an absent tensor. `out` gives the layout of the output; its gaps must stay as they are.
    """
    target = torch.empty_like(expected, memory_format=torch.contiguous_format) if out is None else out
    if target.untyped_storage().nbytes():
        _bytes(target).fill_(0x5A)  # whatever is not written must show
    uploaded = [operators.ABSENT if one is None else operators.upload(one) for one in inputs]
    output = operators.upload(target)
    launches = operators.launches(name)
    code = operators.call(name, *uploaded, output, **arguments)  # type: ignore[arg-type]
    waited = operators.rt.xpu_wait(None)
    result = operators.download(output)
    described = f"{name}{[None if i is None else (i.dtype, tuple(i.shape), i.stride()) for i in inputs]} {arguments}"
    assert (code, waited) == (0, 0), f"{described}: {code}, then {waited}"
    assert operators.launches(name) == launches + 1, described
    torch.testing.assert_close(
        result, expected, rtol=rtol, atol=atol, equal_nan=True, msg=lambda text: f"{described}: {text}"
    )
    if target.untyped_storage().nbytes() > target.numel() * target.element_size():
        bits = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[target.element_size()]
        result.view(bits).copy_(target.view(bits))
        same = torch.equal(_bytes(result), _bytes(target))
        assert same, f"{described}: wrote beside its output"
    operators.free(*uploaded, output)


def refused(name: str, inputs: list[torch.Tensor | None], out: torch.Tensor, **arguments: object) -> int:
    """What an operator answers that must refuse; it must not be counted."""
    uploaded = [operators.ABSENT if one is None else operators.upload(one) for one in inputs]
    output = operators.upload(out)
    launches = operators.launches(name)
    code = operators.call(name, *uploaded, output, **arguments)  # type: ignore[arg-type]
    assert operators.launches(name) == launches
    assert operators.rt.xpu_wait(None) == 0
    operators.free(*uploaded, output)
    return code

"""Runs entries of PyTorch's op_db on flagos and compares each sample with the CPU. A child process of test_opinfo.py.

    python -m tests.native.opinfo_sweep NAME...

One JSON object per line on stdout: {"start": name} before an entry, {"done": name, "samples": n, "failures": [...]}
after it. A process that dies in between has said which entry it died in.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Iterator
from typing import Any

import torch
from torch.testing._internal.common_device_type import toleranceOverride
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.opinfo.core import DecorateInfo, OpInfo, SampleInput
from torch.utils._pytree import tree_flatten, tree_map

import torch_fl  # noqa: F401  (registers flagos)

SEED = 20260701


def entries() -> dict[str, OpInfo]:
    """op_db by full name, without the entries that have no float32 on the CPU."""
    return {op.full_name: op for op in op_db if torch.float32 in op.supported_dtypes("cpu")}


def to_device(value: Any, device: str) -> Any:
    """`value` with every tensor in it, and every mention of the CPU as a device, moved."""

    def move(leaf: Any) -> Any:
        if isinstance(leaf, torch.Tensor):
            return leaf.to(device)
        if isinstance(leaf, torch.device) or leaf == "cpu":
            return torch.device(device)
        return leaf

    return tree_map(move, value)


def call(op: OpInfo, sample: SampleInput, device: str) -> Any:
    torch.manual_seed(SEED)
    arguments = to_device((sample.input, sample.args, sample.kwargs), device)
    return op(arguments[0], *arguments[1], **arguments[2])


def same(actual: Any, expected: Any, **tolerance: float) -> str | None:
    """None when both agree within `tolerance`, else what differs. The default is that of torch.testing.assert_close."""
    try:
        torch.testing.assert_close(actual, expected, equal_nan=True, **tolerance)
    except (AssertionError, TypeError) as error:
        return f"{type(error).__name__}: {error}"
    return None


def declared_tolerance(op: OpInfo) -> dict[str, float]:
    """The widest float32 tolerance that the entry itself asks for on every device, or nothing."""
    declared = [
        override.d[torch.float32]
        for decorated in op.decorators
        if isinstance(decorated, DecorateInfo) and decorated.device_type is None
        for override in decorated.decorators
        if isinstance(override, toleranceOverride) and torch.float32 in override.d
    ]
    if not declared:
        return {}
    return {"rtol": max(each.rtol for each in declared), "atol": max(each.atol for each in declared)}


def to_double(value: Any) -> Any:
    def widen(leaf: Any) -> Any:
        return leaf.double() if isinstance(leaf, torch.Tensor) and leaf.dtype == torch.float32 else leaf

    return tree_map(widen, value)


def as_exact(op: OpInfo, sample: SampleInput, actual: Any, expected: Any) -> bool:
    """Whether flagos is about as near to the float64 result as the CPU is.

    Sums of many terms differ by the order in which they are added, where terms cancel by more than the default
    tolerances allow. Then neither device is right, and the float64 result says whether one of them is wrong.
    """
    values, args, kwargs = to_double((sample.input, sample.args, sample.kwargs))
    exact = to_double(call(op, SampleInput(values, args=args, kwargs=kwargs), "cpu"))
    leaves = [tree_flatten(to_double(value))[0] for value in (actual, expected, exact)]
    for ours, cpu, true in zip(*leaves, strict=True):
        if not isinstance(true, torch.Tensor) or not true.is_floating_point():
            continue
        ours_off, cpu_off = ((value - true).abs().max().item() for value in (ours, cpu))
        if not ours_off <= min(4 * cpu_off, 1e-4 * max(1.0, true.abs().max().item())):
            return False
    return True


def compare(op: OpInfo, sample: SampleInput) -> str | None:
    """None when flagos agrees with the CPU, or when the CPU does not agree with itself; else what differs."""
    expected = call(op, sample, "cpu")
    if same(call(op, sample, "cpu"), expected) is not None:
        return None
    try:
        actual = to_device(call(op, sample, "flagos"), "cpu")
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    if same(actual, expected) is None or as_exact(op, sample, actual, expected):
        return None
    return same(actual, expected, **declared_tolerance(op))


def sweep(op: OpInfo) -> Iterator[str | None]:
    torch.manual_seed(SEED)
    for sample in op.sample_inputs("cpu", torch.float32, requires_grad=False):
        difference = compare(op, sample)
        yield None if difference is None else f"{sample.summary()}: {difference}"


def main(names: list[str]) -> None:
    warnings.simplefilter("ignore")
    known = entries()
    with torch.no_grad():
        for name in names:
            print(json.dumps({"start": name}), flush=True)
            results = list(sweep(known[name]))
            failures = [result for result in results if result is not None]
            print(json.dumps({"done": name, "samples": len(results), "failures": failures}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])

"""Counts the calls that reach the operator library: what tells a native kernel from the CPU fallback."""

from __future__ import annotations

import ctypes
from functools import cache
from types import TracebackType

import torch_fl  # noqa: F401  (maps the library)


@cache
def _library() -> ctypes.CDLL:
    """The libxdnn_pytorch.so that this process already uses; opening it by its mapped path adds no second copy."""
    with open("/proc/self/maps", encoding="utf-8") as maps:
        paths = {line.split()[-1] for line in maps if line.rstrip().endswith("/libxdnn_pytorch.so")}
    assert len(paths) == 1, f"expected one libxdnn_pytorch.so in this process, found {sorted(paths)}"
    library = ctypes.CDLL(paths.pop())
    library.xpuemu_launches.argtypes = [ctypes.c_char_p]
    library.xpuemu_launches.restype = ctypes.c_uint64
    return library


def launches(function: str) -> int:
    """Successful calls of one function of the library in this process so far."""
    count: int = _library().xpuemu_launches(function.encode())
    assert count != 2**64 - 1, f"the library has no function named {function}"
    return count


class Launched:
    """Counts the calls of some functions inside `with`."""

    def __init__(self, *functions: str) -> None:
        self._functions = functions
        self._before: dict[str, int] = {}
        self.counts: dict[str, int] = {}

    def __enter__(self) -> Launched:
        self._before = {name: launches(name) for name in self._functions}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.counts = {name: launches(name) - before for name, before in self._before.items()}

    @property
    def total(self) -> int:
        return sum(self.counts.values())

"""The emulated SDK behind the device under test, reached past torch_fl: its counters, and gates that hold a stream."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable
from functools import cache
from types import TracebackType

import torch

from torch_fl import flagos


@cache
def libxpurt() -> ctypes.CDLL:
    """The libxpurt that this process already uses; opening it by its mapped path adds no second copy."""
    torch.flagos.device_count()
    with open("/proc/self/maps", encoding="utf-8") as maps:
        paths = {line.split()[-1] for line in maps if "libxpurt.so" in line}
    assert len(paths) == 1, f"expected one libxpurt in this process, found {sorted(paths)}"
    library = ctypes.CDLL(paths.pop())
    library.xpuemu_statistic.argtypes = [ctypes.c_char_p]
    library.xpuemu_statistic.restype = ctypes.c_uint64
    library.xpuemu_enqueue.argtypes = [ctypes.c_void_p] * 4
    return library


def statistic(name: str) -> int:
    """A counter of the emulated runtime: mallocs, frees, bytes_in_use, host_bytes, copies, streams, events."""
    value: int = libxpurt().xpuemu_statistic(name.encode())
    assert value != 2**64 - 1, f"the emulated SDK has no counter named {name}"
    return value


def eventually(condition: Callable[[], bool], seconds: float = 10) -> bool:
    """True as soon as `condition()` is, False when it is not within `seconds`."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.001)
    return True


class Gate:
    """Holds a stream: nothing enqueued after the gate runs until the gate is opened. Opens on leaving `with`.

    A C function that waits for a semaphore runs on the stream's worker, as a kernel would.
    """

    def __init__(self, stream: torch.Stream | None = None) -> None:
        stream = flagos.current_stream() if stream is None else stream
        self._libc = ctypes.CDLL(None)
        self._semaphore = ctypes.create_string_buffer(64)
        assert self._libc.sem_init(self._semaphore, 0, 0) == 0
        self._open = False
        wait = ctypes.cast(self._libc.sem_wait, ctypes.c_void_p)
        # A null handle is the default stream of the current device.
        with flagos.device(stream.device_index):
            handle = stream.native_handle or None
            result = libxpurt().xpuemu_enqueue(handle, wait, ctypes.addressof(self._semaphore), None)
        assert result == 0, f"xpuemu_enqueue returned {result}"

    def open(self) -> None:
        """Let the stream go on; the second call does nothing."""
        if not self._open:
            self._open = True
            assert self._libc.sem_post(self._semaphore) == 0

    def __enter__(self) -> Gate:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.open()
        # The semaphore must outlive the worker's wait for it.
        flagos.synchronize(0)
        flagos.synchronize(1)

"""Streams and events. Both are PyTorch's generic classes, with the device filled in."""

from __future__ import annotations

from types import TracebackType

import torch
from torch.types import Device
from typing_extensions import Self

from .. import _C
from ._device import DEVICE_TYPE, device_index, lazy_init


class Stream(torch.Stream):
    """A queue of work on one device.

    A new one comes from a pool that everyone shares: the vendor's runtime has few streams and no priorities, so
    `priority` is accepted and every stream has priority 0.
    """

    def __new__(cls, device: Device = None, priority: int = 0, **identity: int) -> Self:
        """The next stream of a device's pool, or the one that stream_id, device_index and device_type name."""
        if identity:
            return super().__new__(cls, priority=priority, **identity)
        lazy_init()
        return super().__new__(cls, torch.device(DEVICE_TYPE, device_index(device)), priority=priority)

    def __repr__(self) -> str:
        return f"torch.flagos.Stream(device={self.device}, stream_id={self.stream_id})"


class Event(torch.Event):
    """A mark in a stream that can be queried and waited for.

    The vendor's runtime keeps no time in an event: `enable_timing` is accepted, and elapsed_time() raises
    NotImplementedError. An event shared between processes is refused.
    """

    def __new__(cls, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False) -> Self:
        if interprocess:
            raise NotImplementedError("flagos events cannot be shared between processes")
        return super().__new__(cls, torch.device(DEVICE_TYPE), enable_timing=enable_timing, blocking=blocking)

    def elapsed_time(self, other: torch.Event) -> float:
        """Raises NotImplementedError, see above."""
        raise NotImplementedError(
            "elapsed time between events is not available on flagos: the vendor's runtime records no time in an event"
        )


def current_stream(device: Device = None) -> Stream:
    """The calling thread's current stream on a device."""
    lazy_init()
    return _from_identity(_C._current_stream(device_index(device)))


def default_stream(device: Device = None) -> Stream:
    """The default stream of a device."""
    lazy_init()
    return _from_identity(_C._default_stream(device_index(device)))


def set_stream(stream: torch.Stream | None) -> None:
    """Make `stream` the calling thread's current stream on its device; the current device stays. None does nothing."""
    if stream is not None:
        _C._set_stream(stream.stream_id, stream.device_index)


def stream(stream: torch.Stream | None) -> StreamContext:
    """Context manager in which `stream` and its device are current; see StreamContext."""
    return StreamContext(stream)


class StreamContext:
    """Makes a stream and its device current, and puts both back as they were on leaving. None changes nothing."""

    def __init__(self, stream: torch.Stream | None) -> None:
        self.stream = stream
        self._previous: list[tuple[int, Stream]] = []

    def __enter__(self) -> None:
        if self.stream is None:
            return
        index = self.stream.device_index
        self._previous.append((_C._exchange_device(index), current_stream(index)))
        set_stream(self.stream)

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.stream is None:
            return
        device, stream = self._previous.pop()
        set_stream(stream)
        _C._exchange_device(device)


def _from_identity(identity: tuple[int, int, int]) -> Stream:
    stream_id, index, kind = identity
    return Stream(stream_id=stream_id, device_index=index, device_type=kind)

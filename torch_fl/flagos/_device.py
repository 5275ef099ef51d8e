"""Devices: counting, selecting, describing and waiting for them."""

from __future__ import annotations

from dataclasses import dataclass
from types import TracebackType

import torch
from torch.types import Device

from .. import _C

DEVICE_TYPE = "flagos"


@dataclass(frozen=True)
class DeviceProperties:
    """What the vendor's runtime says of a device.

    name             the chip's family, "Kunlunxin KL3" for a P800
    model            the vendor's model number
    total_memory     bytes of device memory
    l3_memory        bytes of on-chip L3 memory
    cluster_count    compute clusters
    sdnn_count       matrix units
    pci_address      (domain, bus, slot, function)
    driver_version   (major, minor)
    runtime_version  (major, minor)
    """

    name: str
    model: int
    total_memory: int
    l3_memory: int
    cluster_count: int
    sdnn_count: int
    pci_address: tuple[int, int, int, int]
    driver_version: tuple[int, int]
    runtime_version: tuple[int, int]


def is_available() -> bool:
    """True when at least one device can be used. Never raises; `unavailable_reason` says why not."""
    return device_count() > 0


def device_count() -> int:
    """Number of usable devices; 0 without a driver, a device or permission. Never raises."""
    return _C._device_count()


def unavailable_reason() -> str:
    """What the vendor's runtime answered when it was asked for devices; empty when there are some."""
    return _C._device_count_failure()


def is_initialized() -> bool:
    """True once this process has used a device. Counting and selecting devices do not count as a use."""
    return _C._is_initialized()


def is_in_bad_fork() -> bool:
    """True in a child forked from a process that had used a device: no device can be used here."""
    return _C._is_in_bad_fork()


def lazy_init() -> None:
    """Mark the process as a user of the device. PyTorch calls this before it creates a tensor on it.

    Raises RuntimeError in a child forked after that, and when there is no device, with the reason.
    """
    _C._initialize()


def init() -> None:
    """As `lazy_init`, under the name that torch.cuda gives it."""
    lazy_init()


def device_index(device: Device, *, none_is_current: bool = True) -> int:
    """The index that `device` names; the current device's for None or a device without an index.

    With `none_is_current` False those two give -1. Raises ValueError for a device of another type.
    """
    if isinstance(device, str):
        device = torch.device(device)
    if isinstance(device, torch.device):
        if device.type != DEVICE_TYPE:
            raise ValueError(f"Expected a flagos device, but got: {device}")
        device = device.index
    if device is not None:
        return device
    return current_device() if none_is_current else -1


def current_device() -> int:
    """Index of the calling thread's current device."""
    return _C._current_device()


def set_device(device: Device) -> None:
    """Make `device` the calling thread's current device; a negative index changes nothing."""
    index = device_index(device)
    if index >= 0:
        _C._set_device(index)


class device:
    """Context manager that makes a device current; None and negative indices change nothing."""

    def __init__(self, device: Device) -> None:
        self.idx = device_index(device, none_is_current=False)
        self.prev_idx = -1

    def __enter__(self) -> None:
        self.prev_idx = _C._exchange_device(self.idx)

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        _C._exchange_device(self.prev_idx)


class device_of(device):
    """Context manager that makes the device of a tensor or storage current; one elsewhere changes nothing."""

    def __init__(self, obj: torch.Tensor | torch.UntypedStorage) -> None:
        super().__init__(obj.device if obj.device.type == DEVICE_TYPE else None)


def get_device_properties(device: Device = None) -> DeviceProperties:
    """Properties of a device, asked of the vendor's runtime at each call."""
    return DeviceProperties(**_C._device_properties(device_index(device)))  # type: ignore[arg-type]


def get_device_name(device: Device = None) -> str:
    """Name of a device, see DeviceProperties."""
    return get_device_properties(device).name


def synchronize(device: Device = None) -> None:
    """Wait until all work enqueued on every stream of a device has completed."""
    lazy_init()
    _C._synchronize(device_index(device))


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """True: the vendor's operator library computes in bfloat16, so `including_emulation` makes no difference."""
    return True


def get_amp_supported_dtype() -> list[torch.dtype]:
    """The dtypes that torch.autocast accepts for this device."""
    return [torch.float16, torch.bfloat16]

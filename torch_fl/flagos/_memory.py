"""Device memory. PyTorch's generic accelerator functions do the work; here are the names that torch.cuda gives them."""

from __future__ import annotations

from typing import Any

import torch
from torch.types import Device

from .. import _C
from ._device import device_index, is_initialized


def empty_cache() -> None:
    """Give memory that no tensor uses back to the vendor's runtime; waits for all work on every device first."""
    if is_initialized():
        _C._empty_cache()


def memory_stats(device: Device = None) -> dict[str, Any]:
    """Counters of the caching allocator by dotted name, see torch.accelerator.memory_stats; {} before the first use."""
    return torch.accelerator.memory_stats(device_index(device))


def memory_allocated(device: Device = None) -> int:
    """Bytes in use by tensors, each rounded up to a multiple of 512."""
    return torch.accelerator.memory_allocated(device_index(device))


def max_memory_allocated(device: Device = None) -> int:
    """Highest memory_allocated() since the start or the last reset_peak_memory_stats()."""
    return torch.accelerator.max_memory_allocated(device_index(device))


def memory_reserved(device: Device = None) -> int:
    """Bytes that this process holds on a device, in use or cached."""
    return torch.accelerator.memory_reserved(device_index(device))


def max_memory_reserved(device: Device = None) -> int:
    """Highest memory_reserved() since the start or the last reset_peak_memory_stats()."""
    return torch.accelerator.max_memory_reserved(device_index(device))


def reset_peak_memory_stats(device: Device = None) -> None:
    """Start the peaks anew from the present values."""
    torch.accelerator.reset_peak_memory_stats(device_index(device))


def reset_accumulated_memory_stats(device: Device = None) -> None:
    """Start the totals of allocated and freed anew from 0."""
    torch.accelerator.reset_accumulated_memory_stats(device_index(device))


def mem_get_info(device: Device = None) -> tuple[int, int]:
    """Raises NotImplementedError: the vendor's runtime has no query for free memory."""
    return torch.accelerator.get_memory_info(device_index(device))

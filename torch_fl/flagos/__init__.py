"""torch.flagos: the Kunlunxin device as PyTorch code expects to find it, modelled on torch.cuda.

Functions that take `device` accept an index, a name such as "flagos:1", a torch.device or None, the current device.
They raise ValueError for a device of another type and RuntimeError for an index that does not exist.
"""

from __future__ import annotations

from ._device import (
    DeviceProperties,
    current_device,
    device,
    device_count,
    device_of,
    get_amp_supported_dtype,
    get_device_name,
    get_device_properties,
    init,
    is_available,
    is_bf16_supported,
    is_initialized,
    set_device,
    synchronize,
    unavailable_reason,
)
from ._device import is_in_bad_fork as _is_in_bad_fork
from ._device import lazy_init as _lazy_init
from ._memory import (
    empty_cache,
    max_memory_allocated,
    max_memory_reserved,
    mem_get_info,
    memory_allocated,
    memory_reserved,
    memory_stats,
    reset_accumulated_memory_stats,
    reset_peak_memory_stats,
)
from ._random import (
    get_rng_state,
    get_rng_state_all,
    initial_seed,
    manual_seed,
    manual_seed_all,
    seed,
    seed_all,
    set_rng_state,
    set_rng_state_all,
)
from ._register import register
from ._streams import Event, Stream, StreamContext, current_stream, default_stream, set_stream, stream

__all__ = [
    "DeviceProperties",
    "Event",
    "Stream",
    "StreamContext",
    "_is_in_bad_fork",
    "_lazy_init",
    "current_device",
    "current_stream",
    "default_stream",
    "device",
    "device_count",
    "device_of",
    "empty_cache",
    "get_amp_supported_dtype",
    "get_device_name",
    "get_device_properties",
    "get_rng_state",
    "get_rng_state_all",
    "init",
    "initial_seed",
    "is_available",
    "is_bf16_supported",
    "is_initialized",
    "manual_seed",
    "manual_seed_all",
    "max_memory_allocated",
    "max_memory_reserved",
    "mem_get_info",
    "memory_allocated",
    "memory_reserved",
    "memory_stats",
    "register",
    "reset_accumulated_memory_stats",
    "reset_peak_memory_stats",
    "seed",
    "seed_all",
    "set_device",
    "set_rng_state",
    "set_rng_state_all",
    "set_stream",
    "stream",
    "synchronize",
    "unavailable_reason",
]

"""Seeds and states of the default generators, one per device."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch.types import Device

from .. import _C
from ._device import DEVICE_TYPE, device_count, device_index


def manual_seed(seed: int) -> None:
    """Seed the current device's generator. Does nothing when there is no device."""
    if device_count() > 0:
        _generator(None).manual_seed(int(seed))


def manual_seed_all(seed: int) -> None:
    """Seed the generators of all devices; torch.manual_seed calls this. Touches no device.

    A negative seed is taken modulo 2**64, as torch.Generator does; other integers raise RuntimeError.
    """
    value = int(seed)
    if not -(2**63) <= value < 2**64:
        raise RuntimeError(f"Overflow when unpacking long: {value} is not a 64-bit seed")
    _C._manual_seed_all(value % 2**64)


def seed() -> None:
    """Seed the current device's generator with a random number. Does nothing when there is no device."""
    if device_count() > 0:
        _generator(None).seed()


def seed_all() -> None:
    """Seed the generators of all devices with one random number."""
    if device_count() > 0:
        manual_seed_all(_generator(0).seed())


def initial_seed() -> int:
    """The seed of the current device's generator."""
    return _generator(None).initial_seed()


def get_rng_state(device: Device = DEVICE_TYPE) -> torch.Tensor:
    """State of a device's generator, as a CPU tensor of bytes."""
    return _generator(device).get_state()


def get_rng_state_all() -> list[torch.Tensor]:
    """States of the generators of all devices, in index order."""
    return [get_rng_state(index) for index in range(device_count())]


def set_rng_state(new_state: torch.Tensor, device: Device = DEVICE_TYPE) -> None:
    """Restore a state that get_rng_state returned."""
    _generator(device).set_state(new_state)


def set_rng_state_all(new_states: Iterable[torch.Tensor]) -> None:
    """Restore the states that get_rng_state_all returned."""
    for index, state in enumerate(new_states):
        set_rng_state(state, index)


def _generator(device: Device) -> torch.Generator:
    return _C._get_default_generator(device_index(device))

"""Gives the device its name in PyTorch."""

from __future__ import annotations

import sys

import torch
from torch.utils import backend_registration

from ._device import DEVICE_TYPE
from ._random import manual_seed_all


def register() -> None:
    """Make this package torch.flagos and give tensors, modules and storages their flagos methods. Idempotent.

    Takes the place of the stand-in that `import torch` may have registered (torch_fl_autoload), and the seed that it
    kept. torch_fl._preload.hook.check_owner has seen before that nobody else owns the name.
    """
    module = sys.modules[__package__]
    stand_in = getattr(torch, DEVICE_TYPE, None)
    if stand_in is module:
        return
    # The extension has given PyTorch's C++ side the name. The Python side keeps its own.
    if backend_registration._privateuse1_backend_name != DEVICE_TYPE:
        backend_registration.rename_privateuse1_backend(DEVICE_TYPE)
    if stand_in is not None:
        delattr(torch, DEVICE_TYPE)
    torch._register_device_module(DEVICE_TYPE, module)  # type: ignore[no-untyped-call]
    if stand_in is None:
        backend_registration.generate_methods_for_privateuse1_backend(for_storage=True)
    elif stand_in.pending_seed is not None:
        manual_seed_all(stand_in.pending_seed)

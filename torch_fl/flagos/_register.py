"""Gives the device its name in PyTorch."""

from __future__ import annotations

import sys

import torch
from torch.utils import backend_registration

from ._device import DEVICE_TYPE


def register() -> None:
    """Make this package torch.flagos and give tensors, modules and storages their flagos methods. Idempotent.

    Raises RuntimeError when PyTorch's PrivateUse1 device already has another name: it has room for one owner.
    """
    module = sys.modules[__package__]
    if getattr(torch, DEVICE_TYPE, None) is module:
        return
    # The extension has given PyTorch's C++ side the name. The Python side keeps its own.
    if backend_registration._privateuse1_backend_name != DEVICE_TYPE:
        backend_registration.rename_privateuse1_backend(DEVICE_TYPE)
    torch._register_device_module(DEVICE_TYPE, module)  # type: ignore[no-untyped-call]
    backend_registration.generate_methods_for_privateuse1_backend(for_storage=True)

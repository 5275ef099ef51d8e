"""Which ATen overloads the routes cover: those that would run on the CPU if no native kernel took them."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path
from typing import Tuple

import torchgen
from torchgen.gen import parse_native_yaml
from torchgen.model import DispatchKey

from . import operators


def torch_version() -> str:
    """The release of the installed torch, without its local part. Nothing is imported."""
    return metadata.version("torch").partition("+")[0]


def covered() -> Tuple[str, ...]:
    """Overloads with a kernel for the CPU, directly or as a structured variant, and those in the table; sorted.

    Overloads that PyTorch composes from others are left out unless the table has them, and so is what the device
    layer registers in any case: nothing could be routed there. Kernels for sparse and quantized tensors alone do not
    count either, since the fallback never sees such tensors.
    """
    directory = Path(torchgen.__file__).parent / "packaged" / "ATen" / "native"
    parsed = parse_native_yaml(str(directory / "native_functions.yaml"), str(directory / "tags.yaml"))
    cpu = parsed.backend_indices[DispatchKey.CPU]
    computed = {
        str(declared.func.name)
        for declared in parsed.native_functions
        if cpu.has_kernel(declared) or declared.structured_delegate is not None
    }
    native = {record.aten for record in operators.OPERATORS}
    return tuple(sorted((computed | native) - set(operators.DEVICE_LAYER) - set(operators.COMPOSED)))

"""Which ATen overloads the routes cover: those that would run on the CPU if no native kernel took them."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path
from typing import Tuple

import torchgen
from torchgen.gen import parse_native_yaml
from torchgen.model import DispatchKey, NativeFunction

from . import operators

COMPOSITE = (
    DispatchKey.CompositeImplicitAutograd,
    DispatchKey.CompositeExplicitAutograd,
    DispatchKey.CompositeExplicitAutogradNonFunctional,
)


def torch_version() -> str:
    """The release of the installed torch, without its local part. Nothing is imported."""
    return metadata.version("torch").partition("+")[0]


# PyTorch composes these from other operators and has a kernel for the CPU besides, which is more exact.
EXACT_ON_CPU = frozenset({"native_layer_norm", "native_group_norm"})


def covered() -> Tuple[str, ...]:
    """Overloads with a kernel for the CPU, directly or as a structured variant, and those in the table; sorted.

    Overloads that PyTorch composes from others on every device are left out unless the table has them, and so is what
    the device layer registers in any case: nothing could be routed there. Kernels for sparse and quantized tensors
    alone do not count either, since the fallback never sees such tensors.
    """
    directory = Path(torchgen.__file__).parent / "packaged" / "ATen" / "native"
    parsed = parse_native_yaml(str(directory / "native_functions.yaml"), str(directory / "tags.yaml"))

    def has(declared: NativeFunction, key: DispatchKey) -> bool:
        return bool(parsed.backend_indices[key].has_kernel(declared))

    computed = {
        str(declared.func.name)
        for declared in parsed.native_functions
        if declared.structured_delegate is not None
        or (has(declared, DispatchKey.CPU) and not any(has(declared, key) for key in COMPOSITE))
    }
    native = {record.aten for record in operators.OPERATORS}
    fixed = {*operators.DEVICE_LAYER, *operators.COMPOSED}
    return tuple(sorted((computed | native | EXACT_ON_CPU) - fixed))

"""What Python would import, found without importing it: torch, the extension, a target given by its module name."""

import importlib.machinery
import importlib.util
import os
import re
import sys
from typing import NamedTuple, Optional, Sequence, Tuple

from torch_fl._preload import torch_side

SUFFIXES: Tuple[str, ...] = tuple(importlib.machinery.EXTENSION_SUFFIXES)
"""Endings of extension modules that this interpreter imports, in its order."""


class Torch(NamedTuple):
    """An installed torch: its directory, its version ("unknown" when unreadable) and its two entry libraries."""

    directory: str
    version: str
    global_deps: Optional[str]
    extension: Optional[str]


class Installed(NamedTuple):
    """What of torch_fl is there.

    directory   the package; None when this interpreter has none
    extension   the file of torch_fl._C that this interpreter would import, or None
    torch       the installed torch, or None
    python      path of the interpreter
    version     of the interpreter, in words
    """

    directory: Optional[str]
    extension: Optional[str]
    torch: Optional[Torch]
    python: str
    version: str

    @property
    def record_path(self) -> str:
        """Where the build record is, or would be."""
        return os.path.join(self.directory or "", "_build_config.py")


def interpreter_version() -> str:
    """`CPython 3.11.7`."""
    name = {"cpython": "CPython", "pypy": "PyPy"}.get(sys.implementation.name, sys.implementation.name)
    return f"{name} {sys.version.split()[0]}"


def find_module(name: str) -> Optional[importlib.machinery.ModuleSpec]:
    """The spec of a module by its full name; no module, and no parent package of it, is imported."""
    top, *rest = name.split(".")
    try:
        spec = importlib.util.find_spec(top)  # asks every finder, also those of editable installations
    except ValueError:  # a loaded module without a spec, such as a package that was put together by hand
        spec = importlib.machinery.PathFinder.find_spec(top, sys.path)
    full = top
    for part in rest:
        if spec is None or spec.submodule_search_locations is None:
            return None
        full = f"{full}.{part}"
        spec = importlib.machinery.PathFinder.find_spec(full, list(spec.submodule_search_locations))
    return spec


def extension_file(directory: str, stem: str = "_C") -> Optional[str]:
    """The file that this interpreter would import as the extension module `stem` of a package, or None."""
    for suffix in SUFFIXES:
        path = os.path.join(directory, stem + suffix)
        if os.path.isfile(path):
            return path
    return None


def extensions_of_others(directory: str, stem: str = "_C") -> Tuple[str, ...]:
    """Files that are the extension module `stem` for some other interpreter."""
    pattern = re.compile(re.escape(stem) + r"(\.[^/]+)?\.so")
    own = {stem + suffix for suffix in SUFFIXES}
    try:
        present = sorted(os.listdir(directory))
    except OSError:
        return ()
    return tuple(os.path.join(directory, name) for name in present if pattern.fullmatch(name) and name not in own)


def find_torch() -> Optional[Torch]:
    """The torch that `import torch` would find, or None."""
    spec = find_module("torch")
    if spec is None or not spec.submodule_search_locations or spec.origin is None:
        return None
    directory = next(iter(spec.submodule_search_locations))
    global_deps = os.path.join(directory, "lib", "libtorch_global_deps.so")
    return Torch(
        directory,
        torch_side.version(directory),
        global_deps if os.path.isfile(global_deps) else None,
        extension_file(directory),
    )


def searched(entries: Sequence[str]) -> Tuple[str, ...]:
    """Entries of sys.path as a reader knows them: the empty one is the working directory."""
    return tuple(dict.fromkeys(entry or os.getcwd() for entry in entries))

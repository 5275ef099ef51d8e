"""The torch of this interpreter, read from its files: nothing of it is imported or opened."""

from __future__ import annotations

import importlib.util
import os
import sys
from typing import Optional

from . import catalog, elf
from .elf_format import DT_STRSZ, DT_STRTAB

_OLD_ABI_ERROR = b"_ZN3c105ErrorC1ENS_14SourceLocationESs\0"
"""c10::Error(SourceLocation, std::string), as libstdc++'s ABI of before GCC 5 mangles it; with today's it ends in
NSt7__cxx1112basic_string... (c10/util/Exception.h)."""


def directory() -> Optional[str]:
    """The directory of the torch that is imported or would be; None when there is none."""
    loaded = sys.modules.get("torch")
    spec = loaded.__spec__ if loaded is not None else importlib.util.find_spec("torch")
    return None if spec is None else next(iter(spec.submodule_search_locations or ()), "")


def read_version(path: str) -> str:
    """The `__version__` that a Python file assigns, without running it; "unknown" when there is none."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            lines = file.read(65536).split("\n")
    except OSError:
        return "unknown"
    for line in lines:
        name, _, value = line.partition("=")
        text = value.strip()
        if name.partition(":")[0].strip() == "__version__" and name[:1] == "_" and len(text) > 2 and text[0] in "'\"":
            return text[1:].partition(text[0])[0]
    return "unknown"


def version(torch: str) -> str:
    """The version of the torch in the directory `torch`; "unknown" when it cannot be read."""
    return read_version(os.path.join(torch, "version.py"))


def same_line(one: str, other: str) -> bool:
    """Whether two versions of torch share major and minor number."""
    return one.split("+")[0].split(".")[:2] == other.split("+")[0].split(".")[:2]


def cuda_library(torch: str) -> Optional[str]:
    """The library of a torch that would share the SONAME of the vendor's CUDA-12-compat runtime.

    A DT_NEEDED is satisfied by whatever is mapped under that SONAME (glibc elf/dl-load.c, _dl_map_object), so one of
    the two would call the other's runtime. None for a torch without CUDA, or with one of another SONAME.
    """
    path = os.path.join(torch, *catalog.TORCH_CUDA_LIBRARY)
    try:
        return path if catalog.CUDA_RUNTIME.soname in elf.read(path).needed else None
    except (elf.ElfError, OSError):
        return None  # a CPU build has no such file


def old_abi_library(torch: str) -> Optional[str]:
    """The library that shows torch to be built with the std::string of before GCC 5; None for today's ABI.

    Every call that passes a std::string would be an undefined symbol (_GLIBCXX_USE_CXX11_ABI=0).
    """
    path = os.path.join(torch, *catalog.TORCH_BASE_LIBRARY)
    try:
        file = elf.read(path)
        with open(path, "rb") as content:
            content.seek(file.file_offset(file.tags.get(DT_STRTAB, 0)))
            return path if _OLD_ABI_ERROR in content.read(file.tags.get(DT_STRSZ, 0)) else None
    except (elf.ElfError, OSError):
        return None  # not there or damaged: the loader will say so


def module_file(name: str) -> str:
    """Where torch.`name` comes from: the module that some backend registered under its device's name; "" if none."""
    module = getattr(sys.modules.get("torch"), name, None)
    return str(getattr(module, "__file__", None) or getattr(module, "__name__", ""))


def other_owner(device: str, stand_in: str) -> Optional[str]:
    """The name under which another backend has taken PrivateUse1, torch being imported; None when it is free or ours.

    device     our name
    stand_in   the module whose class stands for ours until the first use
    """
    torch = sys.modules.get("torch")
    if torch is None:
        return None
    name = str(torch._C._get_privateuse1_backend_name())
    if name == "privateuseone":
        return None
    if name != device:
        return name
    module = getattr(torch, device, None)
    ours = module is None or type(module).__module__ == stand_in or module.__name__ == f"torch_fl.{device}"
    return None if ours else name

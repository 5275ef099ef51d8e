"""What is known of the vendor's libraries, as data: names, roles, places, and needs that no file declares.

The plan is computed from the files that are really there; this table says where to start, what must come
first and which directories are worth a look. It needs nothing else of torch_fl, so that setup.py can load it by path.
"""

from __future__ import annotations

from typing import Optional, Tuple

from .record import Record

VENDOR_PACKAGE = "torch_xmlir"
"""The vendor's Python package. Its directory holds the operator library; it is never imported."""


class Library(Record):
    """One vendor library.

    soname   the DT_SONAME that other files ask for
    role     "runtime", "cuda-compat", "management", "component", "op-library" or "collectives"
    home     which of the places below normally holds it: "sdk", "cuda-compat" or "package"
    about    what it is, in the words a message may use
    """

    soname: str
    role: str
    home: str
    about: str


RUNTIME = Library("libxpurt.so.2", "runtime", "cuda-compat", "the XPU runtime")
CUDA_DRIVER = Library("libxpucuda.so", "cuda-compat", "cuda-compat", "the CUDA-compat driver")
CUDA_RUNTIME = Library("libcudart.so.12", "cuda-compat", "cuda-compat", "the CUDA-12-compat runtime")
OP_LIBRARY = Library("libxdnn_pytorch.so", "op-library", "package", "the vendor operator library")

LIBRARIES: Tuple[Library, ...] = (
    RUNTIME,
    CUDA_DRIVER,
    CUDA_RUNTIME,
    Library("libxpuml.so.1", "management", "sdk", "the management library of the XPU SDK"),
    Library("libxpujitc.so", "component", "package", "the kernel compiler that libxpu_blas.so uses"),
    Library("libxpu_blas.so", "component", "package", "a component of the vendor operator library"),
    Library("libxpu_dnn.so", "component", "package", "a component of the vendor operator library"),
    Library("libxpu_flash_attention.so", "component", "package", "a component of the vendor operator library"),
    Library("libbkcl.so", "collectives", "package", "the collectives library"),
    OP_LIBRARY,
)

COMPAT_PAIR: Tuple[str, ...] = (CUDA_DRIVER.soname, CUDA_RUNTIME.soname)
"""These two must come from one directory: built together, they call each other's internals."""

RUNTIME_COPIES: Tuple[str, ...] = (RUNTIME.soname, "libxpurt.so.1", "libxpurt.so")
"""SONAMEs of the one library that keeps the device's state. Two of them mapped are two device states."""


class HiddenNeed(Record):
    """A symbol that a library uses without a DT_NEEDED entry for any provider."""

    library: str
    symbol: str
    provider: str
    why: str


HIDDEN_NEEDS: Tuple[HiddenNeed, ...] = (
    HiddenNeed(
        "libxpu_blas.so",
        "cudaGetDriverEntryPoint",
        CUDA_RUNTIME.soname,
        "the reference is unversioned and libxpu_blas.so has no DT_NEEDED on any CUDA library, "
        "so only what is already mapped RTLD_GLOBAL can satisfy it",
    ),
)

HIDDEN_PROVIDERS: Tuple[str, ...] = tuple(need.provider for need in HIDDEN_NEEDS)
"""Opened RTLD_GLOBAL. A hint that saves reading symbol tables: what it leaves out, symbol_edges.py computes."""

# Places. Relative ones are below the vendor package's directory or below a root; `*` is one path component.
PACKAGE_SUBDIRECTORIES: Tuple[str, ...] = ("", "lib")
COMPAT_BELOW_PACKAGE: Tuple[str, ...] = ("xhpc/*/dependency_so", "xre/so")
COMPAT_BELOW_ROOT: Tuple[str, ...] = ("", "lib")
SDK_BELOW_ROOT: Tuple[str, ...] = ("so", "lib")
SDK_DEFAULT_ROOTS: Tuple[str, ...] = ("/usr/local/xpu", "/opt/xre", "/usr/local/xre")
COMPAT_DEFAULT_ROOTS: Tuple[str, ...] = ("/usr/local/xcudart",)
COMPAT_BELOW_PREFIX: Tuple[str, ...] = ("xcudart",)
"""A conda installation keeps the CUDA-compat runtime in <sys.prefix>/xcudart."""

# Headers that the build asks for, below the root that the variable names.
SDK_HEADERS: Tuple[str, ...] = ("include/xpu/runtime.h", "include/cuda_runtime.h")
OP_HEADER = "include/xdnn_pytorch/xdnn_pytorch.h"

TORCH_CUDA_LIBRARY: Tuple[str, ...] = ("lib", "libc10_cuda.so")
"""Below torch's directory: only a CUDA build of torch has it, and it names the CUDA runtime that torch uses."""

TORCH_BASE_LIBRARY: Tuple[str, ...] = ("lib", "libc10.so")
"""Below torch's directory: its smallest library, whose symbols show which std::string it was built with."""

# Variables. The first of each is what a message advises.
XDNN_DIRECTORIES_VARIABLE = "FLAGOS_KUNLUNXIN_XDNN_LIB_DIR"
SDK_ROOT_VARIABLE = "XPU_ROOT"
COMPAT_ROOT_VARIABLE = "XCUDART_ROOT"
OP_ROOT_VARIABLE = "XDNN_ROOT"
OP_LIBRARY_VARIABLE = "FLAGOS_VENDOR_TORCH_LIB"
LOAD_VARIABLE = "FLAGOS_LOAD"
ACCELERATOR_VARIABLE = "FLAGOS_ACCELERATOR"
PROFILER_VARIABLE = "XPU_ENABLE_PROFILER_TRACING"
"""The vendor's own: its runtime traces nothing without it."""
ACCELERATORS: Tuple[str, ...] = ("kunlunxin",)

VENDOR_HOOK = f"{VENDOR_PACKAGE}.pth"
VENDOR_HOOK_SWITCH = "DISABLE_XPYTORCH"
"""In site-packages the vendor's .pth file replaces `__import__`, so that `import torch` imports the vendor's package as
well. The variable, set to 1, turns it off."""

DEVICE_NODES = "/dev/xpu*"
DRIVER_STATE = "/proc/xpu/dev*/state"


def library(soname: str) -> Optional[Library]:
    """The catalogue's record of a SONAME, or None when the vendor is not known to ship it."""
    for record in LIBRARIES:
        if record.soname == soname:
            return record
    return None

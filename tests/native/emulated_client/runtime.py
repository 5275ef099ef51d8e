"""The emulated SDK as seen from Python, for use in a child process: libxpurt and the operators through ctypes.

Opens the installed libraries in the order that the loader needs (CUDA-compatible runtime first, RTLD_GLOBAL). Import
torch before this module when both are wanted: it has its own opinion on which libstdc++ is used.
"""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

SDK = Path(os.environ["EMULATED_SDK"])
PACKAGE = SDK / "site-packages" / "torch_xmlir"
XCUDART = SDK / "xcudart" / "lib"

D2H, H2D, D2D = 0, 1, 2

_NOW_GLOBAL = os.RTLD_NOW | os.RTLD_GLOBAL


def open_runtime() -> ctypes.CDLL:
    """libxpurt.so.2 of xcudart/lib, with prototypes for what the tests call."""
    rt = ctypes.CDLL(str(XCUDART / "libxpurt.so.2"), mode=_NOW_GLOBAL)
    u64, ptr, integer = ctypes.c_uint64, ctypes.c_void_p, ctypes.c_int
    prototypes = {
        "xpu_malloc": (ptr, u64, integer),
        "xpu_free": (ptr,),
        "xpu_mmap": (ptr, ptr, u64),
        "xpu_host_alloc": (ptr, u64, ctypes.c_uint),
        "xpu_host_free": (ptr,),
        "xpu_host_register": (ptr, u64, ctypes.c_uint),
        "xpu_host_unregister": (ptr,),
        "xpu_memcpy": (ptr, ptr, u64, integer),
        "xpu_memcpy_async": (ptr, ptr, u64, integer, ptr),
        "xpu_memcpy_peer": (integer, ptr, integer, ptr, u64),
        "xpu_stream_create": (ptr,),
        "xpu_stream_destroy": (ptr,),
        "xpu_stream_wait_event": (ptr, ptr),
        "xpu_event_create": (ptr,),
        "xpu_event_destroy": (ptr,),
        "xpu_event_record": (ptr, ptr),
        "xpu_event_wait": (ptr,),
        "xpu_event_query": (ptr,),
        "xpu_wait": (ptr,),
        "xpu_device_get_attr": (ptr, integer, integer),
        "xpuemu_enqueue": (ptr, ptr, ptr, ptr),
        "xpuemu_raise_kernel_exception": (),
    }
    for name, arguments in prototypes.items():
        getattr(rt, name).argtypes = arguments
    rt.xpuemu_statistic.argtypes = (ctypes.c_char_p,)
    rt.xpuemu_statistic.restype = u64
    rt.xpuemu_host_view.argtypes = (ptr, u64)
    rt.xpuemu_host_view.restype = ptr
    return rt


def open_stack() -> ctypes.CDLL:
    """The runtime, the CUDA-compatible layer, the components and libxdnn_pytorch.so, which is returned."""
    for path in (
        XCUDART / "libxpurt.so.2",
        XCUDART / "libxpucuda.so",
        XCUDART / "libcudart.so.12",
        SDK / "xpu" / "so" / "libxpuml.so.1",
        PACKAGE / "libxpujitc.so",
        PACKAGE / "libxpu_blas.so",
        PACKAGE / "libxpu_dnn.so",
        PACKAGE / "libxpu_flash_attention.so",
    ):
        ctypes.CDLL(str(path), mode=_NOW_GLOBAL)
    xdnn = ctypes.CDLL(str(PACKAGE / "libxdnn_pytorch.so"), mode=_NOW_GLOBAL)
    xdnn.xpuemu_launches.argtypes = (ctypes.c_char_p,)
    xdnn.xpuemu_launches.restype = ctypes.c_uint64
    return xdnn


def malloc(rt: ctypes.CDLL, size: int, kind: int = 0) -> int:
    """Address of `size` bytes on the current device."""
    pointer = ctypes.c_void_p()
    code = rt.xpu_malloc(ctypes.byref(pointer), size, kind)
    if code != 0 or pointer.value is None:
        raise RuntimeError(f"xpu_malloc({size}) -> {code}")
    return pointer.value

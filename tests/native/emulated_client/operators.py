"""Runs operators of the emulated SDK on copies of CPU tensors, for use in a child process that has imported torch.

EMULATED_SDK_CLIENT names the library compiled from operator_calls.cc.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from typing import NamedTuple

import torch

from tests.native.emulated_client import runtime

TYPES = [
    torch.bool,
    torch.uint8,
    torch.int8,
    torch.int16,
    torch.int32,
    torch.int64,
    torch.float32,
    torch.float16,
    torch.bfloat16,
    torch.float64,
]


class _Tensor(ctypes.Structure):
    _fields_ = [
        ("sizes", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("dims", ctypes.c_int64),
        ("type", ctypes.c_int32),
        ("data", ctypes.c_void_p),
    ]


class _Scalar(ctypes.Structure):
    _fields_ = [("floating", ctypes.c_bool), ("number", ctypes.c_float), ("integer", ctypes.c_int64)]


class _Call(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p),
        ("tensors", ctypes.POINTER(_Tensor)),
        ("tensor_count", ctypes.c_int64),
        ("scalars", ctypes.POINTER(_Scalar)),
        ("scalar_count", ctypes.c_int64),
        ("dims", ctypes.POINTER(ctypes.c_int64)),
        ("dim_count", ctypes.c_int64),
        ("reduction", ctypes.c_int64),
        ("ignore_index", ctypes.c_int64),
        ("type", ctypes.c_int32),
        ("keepdim", ctypes.c_bool),
        ("mode", ctypes.c_char_p),
    ]


class DeviceTensor(NamedTuple):
    """A copy on the device of the storage behind a CPU tensor, seen with that tensor's sizes and strides."""

    like: torch.Tensor
    address: int | None  # of the first element; None for an absent tensor
    base: int | None  # of the storage


rt = runtime.open_runtime()
xdnn = runtime.open_stack()
_calls = ctypes.CDLL(os.environ["EMULATED_SDK_CLIENT"])
_calls.client_context.restype = ctypes.c_void_p
_calls.client_call.argtypes = (ctypes.c_void_p, ctypes.POINTER(_Call))
_calls.client_device_type.argtypes = (ctypes.c_void_p,)
_calls.client_set_stream.argtypes = (ctypes.c_void_p, ctypes.c_void_p)
context = _calls.client_context()
if context is None:
    raise RuntimeError("create_context() returned null")

ABSENT = DeviceTensor(torch.empty(0), None, None)


def device_type() -> int:
    """The context's device type: 3 is kXPU3."""
    return int(_calls.client_device_type(context))


def upload(tensor: torch.Tensor) -> DeviceTensor:
    """Copies the storage of `tensor` to the device."""
    storage = tensor.untyped_storage()
    if storage.nbytes() == 0:
        return DeviceTensor(tensor, None, None)
    base = runtime.malloc(rt, storage.nbytes())
    code = rt.xpu_memcpy(base, storage.data_ptr(), storage.nbytes(), runtime.H2D)
    assert code == 0, code
    return DeviceTensor(tensor, base + tensor.storage_offset() * tensor.element_size(), base)


def download(tensor: DeviceTensor) -> torch.Tensor:
    """The device's content as a new CPU tensor with the same sizes and strides."""
    like = tensor.like
    if tensor.base is None:
        return like.clone()
    storage = torch.UntypedStorage(like.untyped_storage().nbytes())
    code = rt.xpu_memcpy(storage.data_ptr(), tensor.base, storage.nbytes(), runtime.D2H)
    assert code == 0, code
    result = torch.empty(0, dtype=like.dtype)
    return result.set_(storage, like.storage_offset(), like.size(), like.stride())


def free(*tensors: DeviceTensor) -> None:
    """Gives the device memory back."""
    for tensor in tensors:
        if tensor.base is not None:
            assert rt.xpu_free(tensor.base) == 0


def _array(values: Sequence[int]) -> ctypes.Array[ctypes.c_int64]:
    return (ctypes.c_int64 * max(1, len(values)))(*values)


def _describe(tensor: DeviceTensor) -> _Tensor:
    sizes = list(tensor.like.size()) or [1]
    strides = list(tensor.like.stride()) or [1]
    return _Tensor(_array(sizes), _array(strides), len(sizes), TYPES.index(tensor.like.dtype), tensor.address)


def call(
    name: str,
    *tensors: DeviceTensor,
    scalars: Sequence[int | float] = (),
    dims: Sequence[int] = (),
    dtype: torch.dtype | None = None,
    keepdim: bool = False,
    mode: str | None = None,
    reduction: int = 1,
    ignore_index: int = -100,
    types: dict[int, int] | None = None,
) -> int:
    """What the operator answers. A Python int becomes Scalar::create(int64_t), a float Scalar::create(float).

    `types` overrides the type number of tensors by position.
    """
    described = [_describe(tensor) for tensor in tensors]
    for position, number in (types or {}).items():
        described[position].type = number
    made = [_Scalar(isinstance(value, float), float(value), int(value)) for value in scalars]
    arguments = _Call(
        name.encode(),
        (_Tensor * len(described))(*described),
        len(described),
        (_Scalar * max(1, len(made)))(*made),
        len(made),
        _array(dims),
        len(dims),
        reduction,
        ignore_index,
        -1 if dtype is None else TYPES.index(dtype),
        keepdim,
        None if mode is None else mode.encode(),
    )
    return int(_calls.client_call(context, ctypes.byref(arguments)))


def launches(name: str) -> int:
    """Successful calls of an operator so far."""
    return int(xdnn.xpuemu_launches(name.encode()))


def set_stream(stream: ctypes.c_void_p | None) -> None:
    """Makes the following calls submit to this stream; None is the default one."""
    _calls.client_set_stream(context, stream)

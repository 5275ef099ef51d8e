"""Opens what the plan says, and looks at what became of it. The only user of ctypes in this package."""

from __future__ import annotations

import os
from typing import List, Optional, Sequence, Tuple

from . import process_image
from .plan import Step
from .record import Record

_L_NAME = 8
"""Offset of l_name in struct link_map (link.h) on a machine of 64 bits. dlopen's handle is a pointer to that struct."""


class Opened(Record):
    """A library that is now open.

    handle   dlopen's, kept by whoever keeps this record; it is never closed
    mapped   path of the file that the process really has, as the loader first opened it (l_name)
    inode    (device, inode) of that file; (0, 0) when it is gone
    before   it was in the process before: this dlopen mapped nothing new
    answers  whether a DT_NEEDED of `soname` will be satisfied by it: the file that was meant is the one that is mapped,
             and its DT_SONAME is that name
    """

    soname: str
    path: str
    handle: int
    mapped: str
    inode: Tuple[int, int]
    before: bool
    answers: bool


class OpenError(Record):
    """dlopen refused. `text` is dlerror()'s, as it came."""

    soname: str
    path: str
    text: str


def open_in_order(
    steps: Sequence[Step], *, needs_first: bool = False
) -> Tuple[Tuple[Opened, ...], Optional[OpenError]]:
    """dlopen(path, RTLD_NOW) for each step, RTLD_GLOBAL where the step says so; stops at the first refusal.

    RTLD_NOW, because a library that was opened lazily is never checked again (glibc dl-open.c,
    dl_open_worker_begin: an object that is already mapped is not relocated anew) and would end the process
    at its first missing function. By absolute path, because a bare name that is not found makes the loader
    remember directories as non-existing for the life of the process (dl-load.c, open_path). Opening what is
    already there again is harmless, and RTLD_GLOBAL then promotes a library that was local (dl-open.c,
    add_to_global_update).

    needs_first   no step brings in the library of a later one, so that what /proc/self/maps does not name now was not
                  there before its own step, and need not be asked for
    """
    import ctypes  # costs some 3 ms, so only where a library is really opened

    opened: List[Opened] = []
    mapped_before = process_image.mapped_text() if needs_first else None
    for step in steps:
        before = (mapped_before is None or _real_name(step.path) in mapped_before) and _is_open(step.path)
        try:
            library = ctypes.CDLL(step.path, mode=os.RTLD_NOW | (os.RTLD_GLOBAL if step.is_global else os.RTLD_LOCAL))
        except OSError as error:
            return tuple(opened), OpenError(step.soname, step.path, str(error))
        handle = library._handle
        name = ctypes.c_char_p.from_address(handle + _L_NAME).value or b""
        mapped = os.fsdecode(name)
        inode = _inode(mapped)
        answers = step.answers and (mapped == step.path or inode == _inode(step.path))
        opened.append(Opened(step.soname, step.path, handle, mapped, inode, before, answers))
    return tuple(opened), None


def in_main_interpreter() -> bool:
    """False in a sub-interpreter (PEP 734, mod_wsgi), where neither torch nor pybind11's modules work.

    An interpreter of its own lock does not even import ctypes before Python 3.13.
    """
    try:
        import ctypes
    except ImportError:
        return False
    current, main = ctypes.pythonapi.PyInterpreterState_Get, ctypes.pythonapi.PyInterpreterState_Main
    current.restype = main.restype = ctypes.c_void_p
    return bool(current() == main())


def _real_name(path: str) -> str:
    """The file's own name behind links to it, which is what /proc/self/maps shows of it."""
    for _ in range(40):  # as many links as the kernel follows
        try:
            path = os.path.join(os.path.dirname(path), os.readlink(path))
        except OSError:
            break
    return os.path.basename(path)


def _is_open(path: str) -> bool:
    """Whether the process has this file already. RTLD_NOLOAD changes nothing but a reference count."""
    from _ctypes import dlopen  # ctypes.CDLL would define a class for each library

    try:
        dlopen(path, os.RTLD_NOW | os.RTLD_NOLOAD)
    except OSError:
        return False  # not there, or not loadable: the real dlopen that follows says which
    return True


def _inode(path: str) -> Tuple[int, int]:
    try:
        status = os.stat(path)
    except OSError:
        return 0, 0  # mapped, and deleted since
    return status.st_dev, status.st_ino

"""Opens what the plan says. The only user of ctypes in this package."""

import os
from typing import List, NamedTuple, Optional, Sequence, Tuple

from .plan import Step


class Opened(NamedTuple):
    """A library that is now open. `handle` is dlopen's, kept by whoever keeps this record; it is never closed."""

    soname: str
    path: str
    handle: int


class OpenError(NamedTuple):
    """dlopen refused. `text` is dlerror()'s, as it came."""

    soname: str
    path: str
    text: str


def open_in_order(steps: Sequence[Step]) -> Tuple[Tuple[Opened, ...], Optional[OpenError]]:
    """dlopen(path, RTLD_NOW | RTLD_GLOBAL) for each step; stops at the first refusal.

    RTLD_NOW, because a library that was opened lazily is never checked again (glibc dl-open.c,
    dl_open_worker_begin: an object that is already mapped is not relocated anew) and would end the process
    at its first missing function. By absolute path, because a bare name that is not found makes the loader
    remember directories as non-existing for the life of the process (dl-load.c, open_path).
    """
    import ctypes  # costs some 3 ms, so only where a library is really opened

    opened: List[Opened] = []
    for step in steps:
        try:
            library = ctypes.CDLL(step.path, mode=os.RTLD_NOW | os.RTLD_GLOBAL)
        except OSError as error:
            return tuple(opened), OpenError(step.soname, step.path, str(error))
        opened.append(Opened(step.soname, step.path, library._handle))
    return tuple(opened), None

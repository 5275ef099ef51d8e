"""One frozen picture of the machine and the process that a prediction is for.

`current()` describes this process; `Host(...)` builds another one by hand. Together with process_image.py and
machine.py this is the only place that reads os.environ, /proc and the C library's configuration; everything downstream
is pure in a Host and in files. Facts that cost more than a few system calls are gathered when first asked for.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterable, Mapping, Optional, Tuple

from . import process_image
from .process_image import Mapped

if TYPE_CHECKING:
    from .ldcache import LdCache

__all__ = ["Host", "Mapped", "command_line", "current", "settings"]

SETTINGS_PREFIXES = ("FLAGOS_", "XPU_", "XDNN_", "XCUDART_")
"""Variables that torch_fl itself honours start with one of these; nothing else of the environment is handed out."""


class Host:
    """What a load depends on besides the files. Attributes never change; `replace` makes another Host.

    environment      variables as they were at exec (the loader captured them then), not os.environ
    secure           AT_SECURE: setuid, setgid, capabilities or an LSM
    mapped           files mapped now, in link_map order where that could be read; () for a process yet to start
    executable       path of the program, links resolved (/proc/self/exe)
    interpreter      path of ld.so (PT_INTERP of the executable), or None
    libc             "glibc", "musl" or "unknown"
    libc_version     e.g. (2, 36); (0, 0) when unknown
    machine bits little_endian   what the process runs: ELF e_machine, 64 or 32, byte order
    system_dirs      default directories, without a trailing slash, in search order
    lib_token        what $LIB stands for, e.g. "lib/x86_64-linux-gnu"
    platform         what $PLATFORM stands for, e.g. "x86_64"; None when it has no value
    hwcaps           active glibc-hwcaps subdirectories, best first, e.g. ("x86-64-v3", "x86-64-v2")
    legacy_hwcaps    subdirectories such as "tls/x86_64" that glibc before 2.37 tries as well, in order
    isa_level        x86-64 ISA level 1..4 of the processor; 0 on other machines
    cache            the binary ld.so.cache, read and parsed on first use
    system_preload   names in /etc/ld.so.preload
    tunables         GLIBC_TUNABLES as a mapping
    address_space    RLIMIT_AS in bytes, None when unlimited
    stack_executable whether the process's stack is executable already
    cwd uid page_size
    """

    environment: Mapping[str, str]
    secure: bool
    mapped: Tuple[Mapped, ...]
    executable: str
    interpreter: Optional[str]
    libc: str
    libc_version: Tuple[int, int]
    machine: int
    bits: int
    little_endian: bool
    system_dirs: Tuple[str, ...]
    lib_token: str
    platform: Optional[str]
    hwcaps: Tuple[str, ...]
    legacy_hwcaps: Tuple[str, ...]
    isa_level: int
    cache: LdCache
    system_preload: Tuple[str, ...]
    tunables: Mapping[str, str]
    address_space: Optional[int]
    stack_executable: bool
    cwd: str
    uid: int
    page_size: int

    def __init__(self, **facts: Any) -> None:
        """`facts` are attributes. What is left out gets the value of a plain x86-64 Debian with glibc 2.36."""
        unknown = set(facts) - set(Host.__annotations__)
        if unknown:
            raise TypeError(f"a Host has no {', '.join(sorted(unknown))}")
        self.__dict__.update(_PLAIN)
        self.__dict__.update(facts)
        self.__dict__["_later"] = {"cache": lambda host: _ld_cache(None)}

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a Host does not change: {name}; use replace")

    def __getattr__(self, name: str) -> Any:
        later: Dict[str, Callable[[Host], Any]] = self.__dict__.get("_later", {})
        if name not in later:
            raise AttributeError(name)
        value = self.__dict__[name] = later[name](self)
        return value

    def replace(self, **facts: Any) -> Host:
        """Another Host with other facts, e.g. replace(environment={...}, mapped=()).

        What is not named is kept, except what was gathered and follows from a fact that is replaced: the tunables
        from the environment, the loader and its directories from the executable, and so on.
        """
        other = Host(**facts)
        stale = {name for cause in facts for name in _FOLLOWS.get(cause, ()) if name in self._later}
        for name in Host.__annotations__:
            if name in facts:
                continue
            if name in self.__dict__ and name not in stale:
                other.__dict__[name] = self.__dict__[name]
            else:
                other.__dict__.pop(name, None)
        other.__dict__["_later"] = {name: value for name, value in self._later.items() if name not in facts}
        return other

    @property
    def isa_bits(self) -> int:
        """GNU_PROPERTY_X86_ISA_1 bits that the processor has."""
        return (1 << self.isa_level) - 1

    def maps_name(self, parts: Iterable[str]) -> bool:
        """Whether the path of any mapped file contains one of `parts`. Cheaper than asking `mapped`."""
        if "mapped" in self.__dict__:
            return any(part in entry.path for entry in self.mapped for part in parts)
        text = process_image.mapped_text()
        return any(part in text for part in parts)

    def real(self, path: str) -> str:
        """`path` as this process can open it: relative ones start at the Host's working directory."""
        return path if path.startswith("/") else os.path.join(self.cwd, path)


_PLAIN: Dict[str, Any] = {
    "environment": {},
    "secure": False,
    "mapped": (),
    "executable": "/usr/bin/python3",
    "interpreter": "/lib64/ld-linux-x86-64.so.2",
    "libc": "glibc",
    "libc_version": (2, 36),
    "machine": 62,
    "bits": 64,
    "little_endian": True,
    "system_dirs": ("/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib", "/usr/lib"),
    "lib_token": "lib/x86_64-linux-gnu",
    "platform": "x86_64",
    "hwcaps": (),
    "legacy_hwcaps": (),
    "isa_level": 1,
    "system_preload": (),
    "tunables": {},
    "address_space": None,
    "stack_executable": False,
    "cwd": "/",
    "uid": 1000,
    "page_size": 4096,
}


def _machine() -> Any:
    """machine.py, imported when a fact of the machine is first asked for: opening the libraries needs none of them."""
    from . import machine

    return machine


def _ld_cache(path: Optional[str]) -> LdCache:
    from .ldcache import LdCache

    return LdCache(path)


_GATHERED: Dict[str, Callable[[Host], Any]] = {
    "mapped": lambda host: process_image.mapped(host.bits, host.little_endian),
    "interpreter": lambda host: _machine().interpreter_of(host.executable),
    "libc": lambda host: _machine().libc_kind(host.interpreter),
    "libc_version": lambda host: _machine().glibc_version(),
    "system_dirs": lambda host: _machine().system_dirs(host.interpreter),
    "lib_token": lambda host: host.system_dirs[0].lstrip("/") if host.system_dirs else "lib",
    "processor": lambda host: _machine().processor(),
    "isa_level": lambda host: _machine().isa_level(host.machine, host.processor),
    "platform": lambda host: _machine().platform(host.machine, host.libc_version, host.processor),
    "hwcaps": lambda host: _machine().hwcaps(host.libc_version, host.isa_level),
    "legacy_hwcaps": lambda host: _machine().legacy_hwcaps(
        host.machine, host.libc_version, host.platform, host.processor
    ),
    "cache": lambda host: _ld_cache("/etc/ld.so.cache"),
    "system_preload": lambda host: _machine().system_preload(),
    "tunables": lambda host: {} if host.secure else _machine().tunables(host.environment.get("GLIBC_TUNABLES", "")),
    "address_space": lambda host: process_image.address_space_limit(),
    "stack_executable": lambda host: process_image.stack_is_executable(),
}


_FOLLOWS: Dict[str, Tuple[str, ...]] = {
    "executable": ("interpreter", "libc", "system_dirs", "lib_token"),
    "interpreter": ("libc", "system_dirs", "lib_token"),
    "system_dirs": ("lib_token",),
    "environment": ("tunables",),
    "secure": ("tunables",),
    "libc_version": ("hwcaps", "legacy_hwcaps", "platform"),
    "isa_level": ("hwcaps",),
}
"""What has to be gathered anew when a fact is replaced, unless it is given as well."""


def current() -> Host:
    """This process, now. Reading it costs a few system calls; the rest is gathered when asked for."""
    auxiliary = process_image.auxiliary_vector()
    host = Host()
    for name in _GATHERED:
        host.__dict__.pop(name, None)
    number, bits = process_image.own_machine()
    host.__dict__.update(
        _later=_GATHERED,
        environment=process_image.environment_at_exec(),
        secure=bool(auxiliary.get(process_image.AT_SECURE, 0)),
        executable=process_image.executable(),
        machine=number,
        bits=bits,
        little_endian=sys.byteorder == "little",
        cwd=_cwd(),
        uid=os.geteuid(),
        page_size=auxiliary.get(process_image.AT_PAGESZ, 4096),
    )
    return host


def settings() -> Dict[str, str]:
    """The environment variables that torch_fl itself reads, as they are now (os.environ), and no others."""
    return {name: value for name, value in os.environ.items() if name.startswith(SETTINGS_PREFIXES)}


def command_line() -> Tuple[str, ...]:
    """The arguments this interpreter was started with (/proc/self/cmdline)."""
    return process_image.command_line()


def _cwd() -> str:
    try:
        return os.getcwd()
    except FileNotFoundError:  # the working directory was removed; relative names then lead nowhere
        return "/nonexistent"

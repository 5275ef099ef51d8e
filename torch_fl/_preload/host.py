"""One frozen picture of the machine and the process that a prediction is for.

`current()` describes this process; `Host(...)` builds another one by hand. This is the only module that reads
os.environ, /proc and the C library's configuration; everything downstream is pure in a Host and in files.
Facts that cost more than a few system calls are gathered when first asked for, and then kept.
"""

from __future__ import annotations

from typing import Mapping, NamedTuple, Optional, Tuple


class Mapped(NamedTuple):
    """One file that is mapped in the process. `path` has no " (deleted)" suffix; `deleted` says so instead."""

    path: str
    device: int
    inode: int
    deleted: bool
    executable: bool


class Host:
    """What a load depends on besides the files.

    environment      variables as they were at exec (the loader captured them then), not os.environ
    secure           AT_SECURE: setuid, setgid, capabilities or an LSM
    mapped           files mapped now, in link_map order where that could be read; () in a Host made for a fresh process
    executable       path of the running program, links resolved (/proc/self/exe)
    interpreter      path of the program interpreter, i.e. of ld.so (PT_INTERP of the executable)
    libc             "glibc", "musl" or "unknown"
    libc_version     e.g. (2, 36); (0, 0) when unknown
    machine, bits, little_endian   what the process runs: ELF e_machine number, 64 or 32, byte order
    system_dirs      default directories, without a trailing slash, in search order
    lib_token        what $LIB stands for, e.g. "lib/x86_64-linux-gnu"
    platform         what $PLATFORM stands for, e.g. "x86_64"; None when it has no value
    hwcaps           active glibc-hwcaps subdirectories, best first, e.g. ("x86-64-v3", "x86-64-v2")
    legacy_hwcaps    subdirectories such as "tls/x86_64" that glibc before 2.37 tries too, in order; () otherwise
    isa_level        x86-64 ISA level 1..4 of the processor; 0 on other machines
    cache            the binary ld.so.cache (ldcache.LdCache), parsed on first use; None when there is none
    cwd              working directory
    uid              effective user
    page_size        bytes
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
    cwd: str
    uid: int
    page_size: int

    # def replace(self, **facts: object) -> Host      a copy with other facts, e.g. another environment
# def current() -> Host

"""What the loader makes of one candidate file, check by check in its order, before it maps anything.

`open_verify` is the function of that name in glibc's elf/dl-load.c; `accept` is the part of `_dl_map_object_from_fd`
that can refuse the file afterwards.
"""

from __future__ import annotations

import errno
import os
import struct
from typing import NamedTuple, Optional, Tuple

from . import dlerror, elf, elf_format
from .facts import ABSENT, BAD_FILE, DANGLING_LINK, FOUND, LIST_ENDED, UNREADABLE, WRONG_CLASS, WRONG_MACHINE
from .host import Host

_BUFFER = {64: 832, 32: 512}
"""Bytes that glibc reads of a candidate before it looks at anything."""

ELFOSABI_SYSV, ELFOSABI_GNU = 0, 3


class Candidate(NamedTuple):
    """The outcome of opening one file.

    verdict  FOUND, ABSENT, DANGLING_LINK, UNREADABLE, LIST_ENDED, WRONG_CLASS, WRONG_MACHINE or BAD_FILE
    errno    the value errno has afterwards: 0 when the file was taken
    reason   for BAD_FILE: the kind of BadFile record; otherwise a detail for people
    error    for BAD_FILE: the text of dlerror()
    """

    verdict: str
    errno: int
    reason: str = ""
    error: Optional[str] = None
    file: Optional[elf.Elf] = None


def open_verify(path: str, host: Host) -> Candidate:
    """Open `path` (relative to the host's directory if it is) and check its ELF header as the loader does."""
    try:
        descriptor = os.open(host.real(path), os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        return _unopened(host.real(path), error.errno or errno.EIO)
    except ValueError:  # an embedded NUL: no C program can ask for it
        return Candidate(ABSENT, errno.ENOENT)
    try:
        return _verify(path, descriptor, host)
    finally:
        os.close(descriptor)


def _unopened(path: str, number: int) -> Candidate:
    if number == errno.ENOENT:
        return Candidate(DANGLING_LINK if os.path.islink(path) else ABSENT, number)
    if number == errno.EACCES:
        return Candidate(UNREADABLE, number, os.strerror(number))
    if number == errno.ENOTDIR:
        return Candidate(ABSENT, number, os.strerror(number))
    return Candidate(LIST_ENDED, number, os.strerror(number))


def _verify(path: str, descriptor: int, host: Host) -> Candidate:
    status = os.fstat(descriptor)
    try:
        head = os.pread(descriptor, elf_format.HEAD, 0)
    except OSError as error:  # a directory: EISDIR
        number = error.errno or errno.EIO
        reason = "directory" if number == errno.EISDIR else "io"
        return Candidate(BAD_FILE, number, reason, dlerror.text(path, dlerror.CANNOT_READ, number))
    wide = host.bits == 64
    if len(head) < (64 if wide else 52):
        return _bad(path, "too-short", dlerror.TOO_SHORT)
    refused = _identification(path, head, host)
    if refused is not None:
        return refused
    order = "<" if host.little_endian else ">"
    layout = order + ("HHIQQQIHHH" if wide else "HHIIIIIHHH")
    kind, machine, version, _, phoff, _, _, _, phentsize, phnum = struct.unpack_from(layout, head, 16)
    if version != 1:
        return _bad(path, "bad-header", dlerror.FILE_VERSION)
    if machine != host.machine:
        return Candidate(WRONG_MACHINE, errno.ENOENT, elf.MACHINES.get(machine, f"machine {machine}"))
    if kind not in (elf.ET_DYN, elf.ET_EXEC):
        return _bad(path, "not-shared", dlerror.FILE_TYPE)
    if phentsize != (56 if wide else 32):
        return _bad(path, "bad-header", dlerror.PHENTSIZE)
    if phoff + phentsize * phnum > min(len(head), _BUFFER[host.bits]):
        try:
            table = os.pread(descriptor, phentsize * phnum, phoff)
        except (OSError, OverflowError) as error:
            number = getattr(error, "errno", None) or errno.EINVAL
            return Candidate(BAD_FILE, number, "cut-in-headers", dlerror.text(path, dlerror.CANNOT_READ, number))
        if len(table) != phentsize * phnum:
            return _bad(path, "cut-in-headers", dlerror.CANNOT_READ)
    try:
        return Candidate(FOUND, 0, "", None, elf.parse(host.real(path), descriptor, head, status))
    except elf.ElfError as error:  # e.g. more program headers than any linker writes
        return _bad(path, "bad-header", error.reason)


def _identification(path: str, head: bytes, host: Host) -> Optional[Candidate]:
    """The checks of e_ident, in the order in which glibc words them."""
    if head[:4] != b"\x7fELF":
        return _bad(path, "not-elf", dlerror.NOT_ELF)
    expected_class = 2 if host.bits == 64 else 1
    if head[4] != expected_class:
        return Candidate(WRONG_CLASS, errno.ENOENT, f"ELFCLASS{96 - host.bits}")
    if head[5] != (1 if host.little_endian else 2):
        message = dlerror.NOT_LITTLE_ENDIAN if host.little_endian else dlerror.NOT_BIG_ENDIAN
        return _bad(path, "wrong-byte-order", message)
    if head[6] != 1:
        return _bad(path, "bad-header", dlerror.IDENT_VERSION)
    if head[7] not in (ELFOSABI_SYSV, ELFOSABI_GNU):
        return _bad(path, "os-abi", dlerror.OS_ABI)
    # sysdeps/gnu/ldsodefs.h and sysdeps/unix/sysv/linux: only GNU objects may carry an ABI version, up to LIBC_ABI_MAX.
    if head[8] and not (head[7] == ELFOSABI_GNU and head[8] < _abi_limit(host.libc_version)):
        return _bad(path, "os-abi", dlerror.ABI_VERSION)
    if head[9:16] != bytes(7):
        return _bad(path, "bad-header", dlerror.PADDING)
    return None


def _abi_limit(version: Tuple[int, int]) -> int:
    """LIBC_ABI_MAX of glibc's libc-abis: DEFAULT, UNIQUE, (MIPS_PLT), ..., then one per later ABI addition."""
    return 4 if version >= (2, 23) else 3


def _bad(path: str, reason: str, message: str) -> Candidate:
    return Candidate(BAD_FILE, 0, reason, dlerror.text(path, message))


class Refusal(NamedTuple):
    """Why a verified file is not mapped. `reason` as in BadFile, or "truncated" and "isa" style preconditions."""

    reason: str
    message: str
    errno: int = 0
    crash: Optional[str] = None


def accept(file: elf.Elf, host: Host) -> Optional[Refusal]:
    """The first complaint of _dl_map_object_from_fd about the program headers and flags; None when it maps the file.

    Segments that reach past the end of the file are not its business: see preconditions.touched_past_end.
    """
    loads = []
    dynamic = empty_dynamic = False
    for segment in file.segments:
        if segment.type == elf_format.PT_DYNAMIC:
            if segment.filesz:
                dynamic = True
            else:
                empty_dynamic = True
        elif segment.type == elf_format.PT_LOAD:
            if host.libc_version < (2, 35) and segment.align & (host.page_size - 1):
                return Refusal("not-page-aligned", dlerror.SEGMENT_ALIGNMENT)
            if (segment.vaddr - segment.offset) & (host.page_size - 1):
                return Refusal("not-page-aligned", dlerror.PAGE_ALIGNMENT)
            loads.append(segment)
    if not loads:
        return Refusal("no-segments", dlerror.NO_SEGMENTS)
    if file.type != elf.ET_DYN:
        return Refusal("executable", dlerror.EXECUTABLE)
    if not dynamic or empty_dynamic:
        return Refusal("no-dynamic-section", dlerror.NO_DYNAMIC)
    mapped = _mapping(file, loads, host)
    if mapped is not None:
        return mapped
    if file.pie and host.libc_version >= (2, 30):
        return Refusal("executable", dlerror.PIE)
    if file.nodlopen:
        return Refusal("nodlopen", dlerror.NODLOPEN)
    # Since 2.41 dlopen never makes the stack executable, but for the tunable of 2.42 (and of Debian's 2.41).
    allowed = host.libc_version < (2, 41) or host.tunables.get("glibc.rtld.execstack") == "2"
    if not allowed and _wants_executable_stack(file, host):
        return Refusal("executable-stack", dlerror.EXECUTABLE_STACK, errno.EINVAL)
    return None


def _wants_executable_stack(file: elf.Elf, host: Host) -> bool:
    """PT_GNU_STACK with PF_X; x86-64 presumes it when there is none (DEFAULT_STACK_PERMS), aarch64 does not."""
    wanted = file.executable_stack
    if wanted is None:
        wanted = host.machine in (elf_format.EM_X86_64, 3)
    return wanted and not host.stack_executable


def _mapping(file: elf.Elf, loads: list[elf.Segment], host: Host) -> Optional[Refusal]:
    """What makes mmap fail: a mount that forbids execution, an address-space limit, nonsensical addresses."""
    page = host.page_size
    length = loads[-1].vaddr + loads[-1].memsz - (loads[0].vaddr & -page)
    if length <= 0 or length >= 1 << 47:
        return Refusal("bad-header", dlerror.MAP_SEGMENT)
    if host.address_space is not None and length > host.address_space:
        return Refusal("address-space", dlerror.MAP_SEGMENT)
    if any(segment.flags & elf_format.PF_X for segment in loads) and _noexec(file.path):
        return Refusal("noexec-mount", dlerror.MAP_SEGMENT)
    return None


def _noexec(path: str) -> bool:
    try:
        return bool(os.statvfs(path).f_flag & os.ST_NOEXEC)
    except OSError:
        return False

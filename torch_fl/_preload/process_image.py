"""What /proc tells of this process: the environment at exec, what is mapped, the loader's own list of objects."""

from __future__ import annotations

import os
import struct
import sys
from typing import Dict, List, Optional, Tuple

from .record import Record

AT_PHDR, AT_PHNUM, AT_PAGESZ, AT_BASE, AT_PLATFORM, AT_SECURE = 3, 5, 6, 7, 15, 23

_PT_DYNAMIC, _PT_PHDR, _DT_DEBUG = 2, 6, 21
_MAX_OBJECTS = 10000

_MACHINE_OF_UNAME = {"x86_64": 62, "aarch64": 183, "i686": 3, "i386": 3, "armv7l": 40, "riscv64": 243,
                     "ppc64le": 21, "s390x": 22, "loongarch64": 258}  # fmt: skip


def own_machine() -> Tuple[int, int]:
    """(e_machine, bits) of the running interpreter."""
    bits = 64 if sys.maxsize > 1 << 32 else 32
    number = _MACHINE_OF_UNAME.get(os.uname().machine, 0)
    return {62: 3, 183: 40}.get(number, number) if bits == 32 else number, bits


class Mapped(Record):
    """One file that is mapped in the process.

    path        without the " (deleted)" suffix; `deleted` says so instead
    executable  some part of it is mapped executable
    name        the loader's own name for it (l_name: the path as it was opened, "" for the program); None when the
                loader does not list it
    """

    path: str
    device: int
    inode: int
    deleted: bool
    executable: bool
    name: Optional[str] = None


def read(path: str) -> bytes:
    """The whole of a /proc file; b"" when it cannot be read."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        parts: List[bytes] = []
        while True:
            part = os.read(descriptor, 1 << 16)
            if not part:
                return b"".join(parts)
            parts.append(part)
    except OSError:
        return b""
    finally:
        os.close(descriptor)


def environment_at_exec() -> Dict[str, str]:
    """The environment the kernel handed to the process: what the loader saw, whatever os.environ says by now."""
    found: Dict[str, str] = {}
    for entry in read("/proc/self/environ").split(b"\0"):
        name, sign, value = entry.partition(b"=")
        if sign:
            found.setdefault(os.fsdecode(name), os.fsdecode(value))
    return found


def command_line() -> Tuple[str, ...]:
    """Arguments of the process."""
    return tuple(os.fsdecode(part) for part in read("/proc/self/cmdline").split(b"\0")[:-1])


def executable() -> str:
    """The running program, links resolved; sys.executable where /proc cannot be read."""
    try:
        return os.readlink("/proc/self/exe")
    except OSError:
        return os.path.realpath(sys.executable)


def auxiliary_vector() -> Dict[int, int]:
    """The kernel's auxiliary vector (elf.h AT_*); {} when /proc cannot be read."""
    data = read("/proc/self/auxv")
    size = struct.calcsize("@LL")
    return dict(struct.iter_unpack("@LL", data[: len(data) // size * size]))


def memory(address: int, size: int) -> bytes:
    """Bytes of this process's memory; b"" when they cannot be read."""
    try:
        descriptor = os.open("/proc/self/mem", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        return os.pread(descriptor, size, address)
    except (OSError, OverflowError):
        return b""
    finally:
        os.close(descriptor)


def mapped_text() -> str:
    """/proc/self/maps as it is: for a quick no, where `mapped` would take everything apart."""
    return os.fsdecode(read("/proc/self/maps"))


def mapped(bits: int, little_endian: bool) -> Tuple[Mapped, ...]:
    """Files mapped now: those of the loader's list in its order, then all others by address."""
    files: Dict[Tuple[int, int], List[object]] = {}
    ranges: List[Tuple[int, int, Tuple[int, int]]] = []
    for line in read("/proc/self/maps").split(b"\n"):
        fields = line.split(None, 5)
        if len(fields) < 6 or not fields[5].startswith(b"/"):
            continue
        first, _, last = fields[0].partition(b"-")
        major, _, minor = fields[3].partition(b":")
        key = (os.makedev(int(major, 16), int(minor, 16)), int(fields[4]))
        name = fields[5]
        deleted = name.endswith(b" (deleted)")
        entry = files.setdefault(key, [os.fsdecode(name[:-10] if deleted else name), deleted, False])
        entry[2] = entry[2] or b"x" in fields[1]
        ranges.append((int(first, 16), int(last, 16), key))
    names: Dict[Tuple[int, int], str] = {}
    for dynamic, loader_name in loader_list(bits, little_endian):
        for start, end, key in ranges:
            if start <= dynamic < end:
                names.setdefault(key, loader_name)
                break
    order = list(names) + [key for key in files if key not in names]
    return tuple(
        Mapped(str(files[key][0]), key[0], key[1], bool(files[key][1]), bool(files[key][2]), names.get(key))
        for key in order
    )


def loader_list(bits: int, little_endian: bool) -> Tuple[Tuple[int, str], ...]:
    """(address of the dynamic section, l_name) of every loaded object, in link_map order.

    The list hangs off DT_DEBUG of the program (link.h: struct r_debug, struct link_map); () when it cannot be read.
    """
    word = 8 if bits == 64 else 4
    sign = ("<" if little_endian else ">") + ("Q" if bits == 64 else "I")
    vector = auxiliary_vector()
    try:
        descriptor = os.open("/proc/self/mem", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return ()
    try:
        head = _debug_structure(descriptor, vector, word, sign)
        found: List[Tuple[int, str]] = []
        node = struct.unpack(sign, os.pread(descriptor, word, head + word))[0] if head else 0
        while node and len(found) < _MAX_OBJECTS:
            _, name, dynamic, following = struct.unpack(sign[0] + sign[1] * 4, os.pread(descriptor, 4 * word, node))
            text = os.pread(descriptor, 4096, name) if name else b""
            found.append((dynamic, os.fsdecode(text.split(b"\0", 1)[0])))
            node = following
        return tuple(found)
    except (OSError, OverflowError, struct.error):
        return ()
    finally:
        os.close(descriptor)


def _debug_structure(descriptor: int, vector: Dict[int, int], word: int, sign: str) -> int:
    """Address of struct r_debug, from the program headers in memory; 0 when the program has none."""
    size = 56 if word == 8 else 32
    table, bias, dynamic = vector.get(AT_PHDR, 0), None, 0
    data = os.pread(descriptor, size * vector.get(AT_PHNUM, 0), table) if table else b""
    for at in range(0, len(data) - size + 1, size):
        kind = struct.unpack_from(sign[0] + "I", data, at)[0]
        address = struct.unpack_from(sign, data, at + (16 if word == 8 else 8))[0]
        if kind == _PT_PHDR:
            bias = table - address
        elif kind == _PT_DYNAMIC:
            dynamic = address
    if not dynamic:
        return 0
    at = dynamic + (bias or 0)
    for _ in range(256):
        tag, value = struct.unpack(sign[0] + sign[1] * 2, os.pread(descriptor, 2 * word, at))
        if tag in (0, _DT_DEBUG):
            return int(value) if tag else 0
        at += 2 * word
    return 0


def address_space_limit() -> Optional[int]:
    """RLIMIT_AS in bytes, None when there is none."""
    for line in read("/proc/self/limits").split(b"\n"):
        if line.startswith(b"Max address space"):
            soft = line.split()[3]
            return int(soft) if soft.isdigit() else None
    return None


def stack_is_executable() -> bool:
    """Whether the main thread's stack is mapped executable already."""
    for line in read("/proc/self/maps").split(b"\n"):
        if line.endswith(b"[stack]"):
            return b"x" in line.split(None, 2)[1]
    return False

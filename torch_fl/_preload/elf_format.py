"""The bytes of an ELF file: numbers of the format, and how its headers and its dynamic section are decoded."""

from __future__ import annotations

import os
import struct
from typing import Any, Dict, List, Tuple

from .record import Record

ET_REL, ET_EXEC, ET_DYN, ET_CORE = 1, 2, 3, 4
PT_LOAD, PT_DYNAMIC, PT_INTERP, PT_NOTE, PT_PHDR, PT_TLS = 1, 2, 3, 4, 6, 7
PT_GNU_STACK, PT_GNU_PROPERTY = 0x6474E551, 0x6474E553
PF_X, PF_W, PF_R = 1, 2, 4

DT_NULL, DT_NEEDED, DT_PLTRELSZ, DT_HASH, DT_STRTAB, DT_SYMTAB, DT_RELA, DT_RELASZ = 0, 1, 2, 4, 5, 6, 7, 8
DT_STRSZ, DT_SONAME, DT_RPATH, DT_SYMBOLIC, DT_REL, DT_RELSZ, DT_PLTREL = 10, 14, 15, 16, 17, 18, 20
DT_TEXTREL, DT_JMPREL, DT_BIND_NOW, DT_RUNPATH, DT_FLAGS, DT_RELRSZ, DT_RELR = 22, 23, 24, 29, 30, 35, 36
DT_GNU_HASH, DT_DEPAUDIT, DT_AUDIT = 0x6FFFFEF5, 0x6FFFFEFB, 0x6FFFFEFC
DT_VERSYM, DT_RELACOUNT, DT_RELCOUNT, DT_FLAGS_1 = 0x6FFFFFF0, 0x6FFFFFF9, 0x6FFFFFFA, 0x6FFFFFFB
DT_VERDEF, DT_VERDEFNUM, DT_VERNEED, DT_VERNEEDNUM = 0x6FFFFFFC, 0x6FFFFFFD, 0x6FFFFFFE, 0x6FFFFFFF
DT_AUXILIARY, DT_FILTER = 0x7FFFFFFD, 0x7FFFFFFF

DF_SYMBOLIC, DF_TEXTREL, DF_BIND_NOW, DF_STATIC_TLS = 0x2, 0x4, 0x8, 0x10
DF_1_NOW, DF_1_NOOPEN, DF_1_NODEFLIB, DF_1_PIE = 0x1, 0x40, 0x800, 0x08000000

EM_X86_64, EM_AARCH64 = 62, 183

MACHINES: Dict[int, str] = {
    2: "sparc", 3: "i386", 8: "mips", 20: "ppc", 21: "ppc64", 22: "s390", 40: "arm", 43: "sparcv9", 50: "ia64",
    62: "x86-64", 183: "aarch64", 243: "riscv", 247: "bpf", 258: "loongarch",
}  # fmt: skip
"""Names of e_machine, as far as they are likely to be met."""

HEAD = 4096
"""Bytes read first: the ELF header and, in practice, the program headers and the first notes."""

_MAX_PROGRAM_HEADERS = 4096
_MAX_DYNAMIC_BYTES = 1 << 20
_MAX_STRING_BYTES = 1 << 16
_STRING_SPAN = 1 << 15


class ElfError(Exception):
    """The file is not a readable ELF file.

    path    the file
    offset  byte offset at which the trouble is; 0 when it concerns the whole file
    reason  a few words, lower case, no full stop
    """

    def __init__(self, path: str, offset: int, reason: str) -> None:
        super().__init__(f"{path}: offset {offset}: {reason}")
        self.path = path
        self.offset = offset
        self.reason = reason


class Segment(Record):
    """One program header."""

    type: int
    flags: int
    offset: int
    vaddr: int
    filesz: int
    memsz: int
    align: int


EMPTY: Dict[str, Any] = {
    "interpreter": None, "has_dynamic": False, "entries": (), "tags": {}, "soname": None, "needed": (), "rpath": None,
    "runpath": None, "auxiliary": (), "filters": (), "audit": None, "depaudit": None, "links": (), "flags": 0,
    "flags_1": 0, "symbolic": False, "text_relocations": False, "bind_now": False, "relr": False, "static_tls": False,
    "nodeflib": False, "nodlopen": False, "pie": False, "executable_stack": None, "tls_size": 0, "tls_align": 0,
    "damage": None,
}  # fmt: skip


def header(path: str, head: bytes) -> Dict[str, Any]:
    """Facts of the ELF header by the name of the Elf attribute, and phoff, phentsize, phnum. Raises ElfError."""
    if len(head) < 4 or head[:4] != b"\x7fELF":
        raise ElfError(path, 0, "no ELF magic" if head else "the file is empty")
    if len(head) < 16:
        raise ElfError(path, len(head), "the file ends in the ELF header")
    bits = {1: 32, 2: 64}.get(head[4])
    if bits is None:
        raise ElfError(path, 4, f"unknown ELF class {head[4]}")
    if head[5] not in (1, 2):
        raise ElfError(path, 5, f"unknown data encoding {head[5]}")
    layout = ("<" if head[5] == 1 else ">") + ("HHIIIIIHHHHHH" if bits == 32 else "HHIQQQIHHHHHH")
    if len(head) < 16 + struct.calcsize(layout):
        raise ElfError(path, len(head), "the file ends in the ELF header")
    fields = struct.unpack_from(layout, head, 16)
    return {
        "bits": bits,
        "little_endian": head[5] == 1,
        "osabi": head[7],
        "abi_version": head[8],
        "type": fields[0],
        "machine": fields[1],
        "machine_name": MACHINES.get(fields[1], f"machine {fields[1]}"),
        "phoff": fields[4],
        "phentsize": fields[8],
        "phnum": fields[9],
    }


def program_headers(path: str, descriptor: int, head: bytes, facts: Dict[str, Any]) -> Tuple[Segment, ...]:
    """The program headers; `facts` are those of `header`. Raises ElfError."""
    offset, entry, count = facts["phoff"], facts["phentsize"], facts["phnum"]
    if not count:
        return ()
    wide = facts["bits"] == 64
    if entry != (56 if wide else 32):
        raise ElfError(path, 54 if wide else 42, f"program header entries of {entry} bytes")
    if count > _MAX_PROGRAM_HEADERS:
        raise ElfError(path, 56 if wide else 44, f"{count} program headers")
    data = head[offset : offset + entry * count]
    if len(data) < entry * count:
        data = _pread(path, descriptor, entry * count, offset)
    if len(data) < entry * count:
        raise ElfError(path, offset, "the file ends in the program headers")
    order = "<" if facts["little_endian"] else ">"
    new = tuple.__new__  # what Segment(...) comes to, without a call in Python for each of them
    if wide:
        return tuple(
            new(Segment, (kind, flags, at, vaddr, filesz, memsz, align))
            for kind, flags, at, vaddr, _, filesz, memsz, align in struct.iter_unpack(order + "IIQQQQQQ", data)
        )
    return tuple(
        new(Segment, (kind, flags, at, vaddr, filesz, memsz, align))
        for kind, at, vaddr, _, filesz, memsz, flags, align in struct.iter_unpack(order + "IIIIIIII", data)
    )


def dynamic(path: str, descriptor: int, segment: Segment, facts: Dict[str, Any]) -> None:
    """Fill in what the dynamic section says (glibc elf/get-dynamic-info.h: the last entry of a tag counts)."""
    order = "<" if facts["little_endian"] else ">"
    layout = order + ("QQ" if facts["bits"] == 64 else "II")
    data = _pread(path, descriptor, min(segment.filesz, _MAX_DYNAMIC_BYTES), segment.offset)
    entries: List[Tuple[int, int]] = []
    whole = len(data) // struct.calcsize(layout) * struct.calcsize(layout)
    for tag, value in struct.iter_unpack(layout, data[:whole]):
        if tag == DT_NULL:
            break
        entries.append((tag, value))
    else:
        raise ElfError(path, segment.offset + len(data), "the dynamic section has no end")
    tags = dict(entries)
    flags, flags_1 = tags.get(DT_FLAGS, 0), tags.get(DT_FLAGS_1, 0)
    facts.update(
        has_dynamic=True,
        entries=tuple(entries),
        tags=tags,
        flags=flags,
        flags_1=flags_1,
        symbolic=DT_SYMBOLIC in tags or bool(flags & DF_SYMBOLIC),
        text_relocations=DT_TEXTREL in tags or bool(flags & DF_TEXTREL),
        bind_now=DT_BIND_NOW in tags or bool(flags & DF_BIND_NOW) or bool(flags_1 & DF_1_NOW),
        static_tls=bool(flags & DF_STATIC_TLS),
        relr=DT_RELR in tags,
        nodeflib=bool(flags_1 & DF_1_NODEFLIB),
        nodlopen=bool(flags_1 & DF_1_NOOPEN),
        pie=bool(flags_1 & DF_1_PIE),
    )
    wanted = [(tag, value) for tag, value in entries if tag in _STRING_TAGS]
    if wanted:
        _strings(path, descriptor, wanted, facts)


_STRING_TAGS = frozenset((DT_NEEDED, DT_SONAME, DT_RPATH, DT_RUNPATH, DT_AUXILIARY, DT_FILTER, DT_AUDIT, DT_DEPAUDIT))


def _strings(path: str, descriptor: int, wanted: List[Tuple[int, int]], facts: Dict[str, Any]) -> None:
    tags = facts["tags"]
    if DT_STRTAB not in tags:
        raise ElfError(path, 0, "the dynamic section has no DT_STRTAB")
    base, room = 0, 0
    for segment in facts["segments"]:
        if segment.type == PT_LOAD and segment.vaddr <= tags[DT_STRTAB] < segment.vaddr + segment.filesz:
            base = tags[DT_STRTAB] - segment.vaddr + segment.offset
            room = segment.vaddr + segment.filesz - tags[DT_STRTAB]
            break
    else:
        raise ElfError(path, 0, "DT_STRTAB points into no loadable segment")
    offsets = [value for _, value in wanted]
    first, last = min(offsets), max(offsets)
    if last >= room:
        raise ElfError(path, base, f"string offset {last} is outside the segment of the string table")
    block = _pread(path, descriptor, last - first + 512, base + first) if last - first < _STRING_SPAN else b""

    def text(offset: int) -> str:
        end = block.find(b"\0", offset - first) if block else -1
        if end >= 0:
            return os.fsdecode(block[offset - first : end])
        return string(path, descriptor, base + offset, min(_MAX_STRING_BYTES, room - offset))

    links = [(tag, text(offset)) for tag, offset in wanted]
    named = dict(links)
    facts.update(
        soname=named.get(DT_SONAME),
        needed=tuple(name for tag, name in links if tag == DT_NEEDED),
        rpath=named.get(DT_RPATH),
        runpath=named.get(DT_RUNPATH),
        auxiliary=tuple(name for tag, name in links if tag == DT_AUXILIARY),
        filters=tuple(name for tag, name in links if tag == DT_FILTER),
        audit=named.get(DT_AUDIT),
        depaudit=named.get(DT_DEPAUDIT),
        links=tuple(link for link in links if link[0] in (DT_NEEDED, DT_AUXILIARY, DT_FILTER)),
    )


def _pread(path: str, descriptor: int, size: int, offset: int) -> bytes:
    try:
        return os.pread(descriptor, size, offset)
    except (OSError, OverflowError) as error:  # EINVAL, or an offset beyond what off_t holds
        raise ElfError(path, offset, "the offset cannot be read") from error


def string(path: str, descriptor: int, offset: int, limit: int) -> str:
    """The NUL-terminated string at `offset`, of at most `limit` bytes."""
    data = _pread(path, descriptor, min(limit, 256), offset)
    if b"\0" not in data and limit > 256:
        data = _pread(path, descriptor, min(limit, _MAX_STRING_BYTES), offset)
    end = data.find(b"\0")
    if end < 0:
        raise ElfError(path, offset, "a string has no end")
    return os.fsdecode(data[:end])

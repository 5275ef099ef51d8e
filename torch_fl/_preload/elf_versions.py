"""Symbol versions of one ELF file: what it needs (DT_VERNEED) and what it defines (DT_VERDEF)."""

import os
import struct
from typing import Dict, List, NamedTuple, Optional, Tuple

from .elf import Elf
from .elf_format import (
    DT_STRSZ,
    DT_STRTAB,
    DT_VERDEF,
    DT_VERNEED,
    PT_LOAD,
    ElfError,
)

VER_FLG_BASE, VER_FLG_WEAK = 1, 2
HIDDEN = 0x8000

_CHUNK = 1 << 16
_MAX_RECORDS = 1 << 15
_SPAN = 1 << 16


class Node(NamedTuple):
    """One version that a file asks of another. `number` is what .gnu.version refers to."""

    name: str
    hash: int
    number: int
    weak: bool
    hidden: bool


class Need(NamedTuple):
    """All versions asked of one file, by the name that DT_NEEDED has for it."""

    file: str
    nodes: Tuple[Node, ...]


class Definition(NamedTuple):
    """One version that a file defines. The base definition carries the file's own name."""

    name: str
    hash: int
    number: int
    base: bool
    weak: bool
    parents: Tuple[str, ...]


class Found(NamedTuple):
    """What one index of .gnu.version stands for, as glibc's struct r_found_version has it."""

    name: str
    hash: int
    hidden: bool
    file: Optional[str]


class Versions(NamedTuple):
    """Both tables. `record_version` is the layout number of the first verneed record, 1 in every known file."""

    needed: Tuple[Need, ...]
    defined: Tuple[Definition, ...]
    record_version: int = 1

    def table(self) -> Dict[int, Found]:
        """Version index -> version, as _dl_check_map_versions fills l_versions; {} when there are no versions."""
        found: Dict[int, Found] = {}
        for need in self.needed:
            for node in need.nodes:
                found[node.number] = Found(node.name, node.hash, node.hidden, need.file)
        for definition in self.defined:
            if not definition.base:
                found[definition.number] = Found(definition.name, definition.hash, False, None)
        return found


def read_versions(file: Elf) -> Versions:
    """The version tables of a file. Raises ElfError when they are damaged, OSError when it cannot be opened."""
    need_at, definition_at = file.tags.get(DT_VERNEED), file.tags.get(DT_VERDEF)
    if need_at is None and definition_at is None:
        return Versions((), ())
    descriptor = file.open()
    try:
        needs = _needs(file, descriptor, need_at) if need_at is not None else []
        definitions = _definitions(file, descriptor, definition_at) if definition_at is not None else []
        offsets = [entry[0] for entry in needs]
        offsets += [node[0] for _, nodes in needs for node in nodes]
        offsets += [name for definition in definitions for name in definition[4]]
        text = _strings(file, descriptor, offsets)
    finally:
        os.close(descriptor)
    return Versions(
        tuple(
            Need(
                text[name],
                tuple(
                    Node(text[node], value, other & 0x7FFF, bool(flags & VER_FLG_WEAK), bool(other & HIDDEN))
                    for node, value, flags, other in nodes
                ),
            )
            for name, nodes in needs
        ),
        tuple(
            Definition(
                text[names[0]] if names else "", value, index & 0x7FFF, bool(flags & VER_FLG_BASE),
                bool(flags & VER_FLG_WEAK), tuple(text[name] for name in names[1:]),
            )
            for flags, index, value, _, names in definitions
        ),
    )  # fmt: skip


def _block(file: Elf, descriptor: int, address: int) -> Tuple[bytes, int]:
    """Bytes from `address` to the end of its segment (64 KiB at most), and their offset in the file."""
    for segment in file.segments:
        if segment.type == PT_LOAD and segment.vaddr <= address < segment.vaddr + segment.filesz:
            offset = address - segment.vaddr + segment.offset
            size = min(segment.vaddr + segment.filesz - address, _CHUNK)
            try:
                return os.pread(descriptor, size, offset), offset
            except (OSError, OverflowError) as error:
                raise ElfError(file.path, offset, "the version table cannot be read") from error
    raise ElfError(file.path, 0, f"the version table at {address:#x} is in no loadable segment")


def _needs(file: Elf, descriptor: int, address: int) -> List[Tuple[int, List[Tuple[int, int, int, int]]]]:
    """[(file name offset, [(name offset, hash, flags, other)])]."""
    data, start = _block(file, descriptor, address)
    record, auxiliary = struct.Struct(file.order + "HHIII"), struct.Struct(file.order + "IHHII")
    found: List[Tuple[int, List[Tuple[int, int, int, int]]]] = []
    at = left = 0
    left = _MAX_RECORDS
    try:
        while True:
            version, _, name, aux, following = record.unpack_from(data, at)
            if version != 1 and not found:
                raise ElfError(file.path, start + at, f"verneed record of version {version}")
            nodes = []
            here = at + aux
            while True:
                value, flags, other, node, step = auxiliary.unpack_from(data, here)
                nodes.append((node, value, flags, other))
                left -= 1
                if not step:
                    break
                if left <= 0:
                    raise ElfError(file.path, start + here, "the verneed table has no end")
                here += step
            found.append((name, nodes))
            if not following:
                return found
            at += following
    except struct.error as error:
        raise ElfError(file.path, start + at, "the verneed table is cut off") from error


def _definitions(file: Elf, descriptor: int, address: int) -> List[Tuple[int, int, int, int, List[int]]]:
    """[(flags, index, hash, offset, [name offsets: its own, then its parents'])]."""
    data, start = _block(file, descriptor, address)
    record, auxiliary = struct.Struct(file.order + "HHHHIII"), struct.Struct(file.order + "II")
    found: List[Tuple[int, int, int, int, List[int]]] = []
    at = 0
    left = _MAX_RECORDS
    try:
        while True:
            version, flags, index, count, value, aux, following = record.unpack_from(data, at)
            if version != 1:
                raise ElfError(file.path, start + at, f"verdef record of version {version}")
            names = []
            here = at + aux
            for _ in range(max(count, 1)):
                name, step = auxiliary.unpack_from(data, here)
                names.append(name)
                left -= 1
                if not step:
                    break
                here += step
            found.append((flags, index, value, start + at, names))
            if not following:
                return found
            if left <= 0:
                raise ElfError(file.path, start + at, "the verdef table has no end")
            at += following
    except struct.error as error:
        raise ElfError(file.path, start + at, "the verdef table is cut off") from error


def _strings(file: Elf, descriptor: int, offsets: List[int]) -> Dict[int, str]:
    """String-table offset -> string. One read when the strings lie together, as linkers place them."""
    if not offsets:
        return {}
    base = file.file_offset(file.tags.get(DT_STRTAB, 0))
    limit = file.tags.get(DT_STRSZ, 0)
    first, last = min(offsets), max(offsets)
    if last >= limit:
        raise ElfError(file.path, base + last, "a version name is outside the string table")
    found: Dict[int, str] = {}
    if last - first < _SPAN:
        data = _read(file, descriptor, base + first, last - first + 256)
        for offset in offsets:
            end = data.find(b"\0", offset - first)
            if end >= 0:
                found[offset] = os.fsdecode(data[offset - first : end])
    for offset in offsets:
        if offset not in found:
            data = _read(file, descriptor, base + offset, 4096)
            end = data.find(b"\0")
            if end < 0:
                raise ElfError(file.path, base + offset, "a version name has no end")
            found[offset] = os.fsdecode(data[:end])
    return found


def _read(file: Elf, descriptor: int, offset: int, size: int) -> bytes:
    try:
        return os.pread(descriptor, size, offset)
    except (OSError, OverflowError) as error:
        raise ElfError(file.path, offset, "the string table cannot be read") from error

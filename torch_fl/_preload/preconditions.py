"""What must hold for a file besides being found: whole segments, room for its TLS, the processor's level."""

from __future__ import annotations

import os
import struct
from typing import Iterable, List, NamedTuple, Optional, Tuple

from . import elf, elf_format
from .host import Host

_TLS_SURPLUS, _TLS_PER_NAMESPACE, _NAMESPACES, _OPTIONAL_TLS = 1664, 288, 4, 512
_NT_GNU_PROPERTY, _X86_ISA_1_NEEDED = 5, 0xC0008002
_MAX_NOTES = 1 << 16


def whole_size(file: elf.Elf) -> Optional[int]:
    """Bytes that the loadable segments ask for when the file is shorter than that; None for a whole file."""
    needed = max((segment.offset + segment.filesz for segment in _loads(file)), default=0)
    return needed if needed > file.size else None


def _loads(file: elf.Elf) -> List[elf.Segment]:
    return [segment for segment in file.segments if segment.type == elf_format.PT_LOAD]


def touched_past_end(file: elf.Elf, page: int) -> Optional[int]:
    """Bytes that the file must have so that mapping it touches no page behind its end; None when it has them.

    The kernel gives SIGBUS for a page that lies wholly behind the end of the file. While it maps a file the loader
    touches the page in which a segment's file data end (to clear the rest of it, dl-map-segments.h) and the dynamic
    section.
    """
    needed = whole_size(file)
    if needed is None:
        return None
    whole = -(-file.size // page) * page
    for segment in _loads(file):
        end = segment.offset + segment.filesz
        if segment.memsz > segment.filesz and end % page and end - 1 >= whole:
            return needed
    for segment in file.segments:
        if segment.type == elf_format.PT_DYNAMIC and segment.filesz and segment.offset + segment.filesz > whole:
            return needed
    return None


def touched_by_relocation(file: elf.Elf, page: int) -> Optional[int]:
    """The same for relocation: tables that are read and places that are written; None when they are all there."""
    needed = whole_size(file)
    if needed is None:
        return None
    loads = _loads(file)
    whole = -(-file.size // page) * page
    pointers = (
        elf_format.DT_STRTAB,
        elf_format.DT_SYMTAB,
        elf_format.DT_HASH,
        elf_format.DT_GNU_HASH,
        elf_format.DT_RELA,
        elf_format.DT_JMPREL,
        elf_format.DT_VERSYM,
        elf_format.DT_VERNEED,
        elf_format.DT_VERDEF,
        25,
        26,
        3,
    )  # fmt: skip  (25 26: init and fini arrays, 3: PLTGOT)
    for tag in pointers:
        if tag in file.tags and _offset(loads, file.tags[tag]) >= whole:
            return needed
    descriptor = file.open()
    try:
        for table, size in ((elf_format.DT_RELA, elf_format.DT_RELASZ), (elf_format.DT_JMPREL, elf_format.DT_PLTRELSZ)):
            if table in file.tags:
                data = os.pread(descriptor, min(file.tags.get(size, 0), file.size), _offset(loads, file.tags[table]))
                for offset, _, _ in struct.iter_unpack(file.order + "QQq", data[: len(data) // 24 * 24]):
                    if _offset(loads, offset) >= whole:
                        return needed
    except (OSError, OverflowError):
        return needed
    finally:
        os.close(descriptor)
    return None


def _offset(loads: Iterable[elf.Segment], address: int) -> int:
    for segment in loads:
        if segment.vaddr <= address < segment.vaddr + segment.filesz:
            return address - segment.vaddr + segment.offset
    return 0


def other_libc(file: elf.Elf) -> Optional[str]:
    """The DT_NEEDED entry (or PT_INTERP) that shows a file to be linked for musl; None for a glibc object."""
    for name in file.needed:
        if name.startswith("libc.musl-") or name == "libc.so":
            return name
    if file.interpreter is not None and "/ld-musl-" in file.interpreter:
        return file.interpreter
    return None


def isa_needed(file: elf.Elf) -> int:
    """GNU_PROPERTY_X86_ISA_1_NEEDED bits of the file's property note, 0 when it has none (sysdeps/x86/dl-prop.h)."""
    align = file.bits // 8
    for segment in file.segments:
        if segment.type != elf_format.PT_GNU_PROPERTY or segment.align != align or segment.filesz > _MAX_NOTES:
            continue
        try:
            descriptor = file.open()
        except (OSError, elf.ElfError):
            return 0
        try:
            data = os.pread(descriptor, segment.filesz, segment.offset)
        except (OSError, OverflowError):
            return 0
        finally:
            os.close(descriptor)
        return _property(data, file.order, align)
    return 0


def _property(data: bytes, order: str, align: int) -> int:
    at = 0
    while at + 16 <= len(data):
        name_size, size, kind = struct.unpack_from(order + "III", data, at)
        if name_size == 4 and kind == _NT_GNU_PROPERTY and data[at + 12 : at + 16] == b"GNU\0":
            here, end = at + 16, min(at + 16 + size, len(data))
            while here + 8 <= end:
                number, length = struct.unpack_from(order + "II", data, here)
                if number == _X86_ISA_1_NEEDED and length == 4 and here + 12 <= end:
                    return int(struct.unpack_from(order + "I", data, here + 8)[0])
                here += 8 + (length + align - 1) // align * align
            return 0
        at += 12 + (name_size + align - 1) // align * align + (size + align - 1) // align * align
    return 0


class StaticTls(NamedTuple):
    """The static TLS block of a process (x86-64: below the thread pointer). Sizes in bytes."""

    used: int
    size: int
    align: int

    def fits(self, blocks: int, align: int) -> Optional[StaticTls]:
        """The block after `blocks` more bytes of alignment `align`; None when they do not fit (dl-reloc.c)."""
        align = max(align, 1)
        free = self.size - self.used
        if align > self.align or free < blocks:
            return None
        count = (free - blocks) // align
        return self._replace(used=self.used + free - count * align)


def static_tls_at_start(host: Host, blocks: Iterable[Tuple[int, int]]) -> StaticTls:
    """The block as `_dl_determine_tlsoffset` lays it out for the objects of process start: (size, alignment) each.

    The surplus is that of elf/dl-tls.c, `_dl_tls_static_surplus_init`.
    """
    offset, align = 0, 64
    for size, alignment in blocks:
        alignment = max(alignment, 1)
        align = max(align, alignment)
        offset = -(-(offset + size) // alignment) * alignment
    return StaticTls(offset, -(-(offset + surplus(host)) // align) * align, align)


def surplus(host: Host) -> int:
    """Bytes set aside for libraries that are opened later and want static TLS: 1664 unless tunables say otherwise."""
    if host.libc_version < (2, 32):
        return _TLS_SURPLUS
    namespaces = min(max(_number(host, "glibc.rtld.nns", _NAMESPACES), 1), 16)
    optional = _number(host, "glibc.rtld.optional_static_tls", _OPTIONAL_TLS)
    return _TLS_SURPLUS + (namespaces - _NAMESPACES) * _TLS_PER_NAMESPACE + optional - _OPTIONAL_TLS


def _number(host: Host, tunable: str, default: int) -> int:
    text = host.tunables.get(tunable, "")
    try:
        return int(text, 0)
    except ValueError:
        return default


def tls_blocks(files: Iterable[Optional[elf.Elf]]) -> List[Tuple[int, int]]:
    """(size, alignment) of every file that has a TLS segment."""
    return [(file.tls_size, file.tls_align) for file in files if file is not None and file.tls_size]

"""Dynamic relocations of one ELF file, in the order in which the loader processes them."""

import os
import struct
from typing import List, NamedTuple, Sequence, Tuple

from .elf import Elf
from .elf_format import (
    DT_JMPREL,
    DT_PLTREL,
    DT_PLTRELSZ,
    DT_REL,
    DT_RELA,
    DT_RELASZ,
    DT_RELSZ,
    ElfError,
)


class Relocation(NamedTuple):
    """One dynamic relocation that names a symbol. `plt` tells the table it is in."""

    offset: int
    type: int
    symbol: int
    plt: bool


def table(file: Elf, descriptor: int, address: int, size: int, what: str) -> bytes:
    """`size` bytes at a virtual address. Raises ElfError, naming `what`, when the file does not have them."""
    offset = file.file_offset(address)
    if size < 0 or offset + size > file.size:
        raise ElfError(file.path, offset, f"the {what} reaches past the end of the file")
    try:
        data = os.pread(descriptor, size, offset)
    except (OSError, OverflowError) as error:
        raise ElfError(file.path, offset, f"the {what} cannot be read") from error
    if len(data) < size:
        raise ElfError(file.path, offset, f"the {what} is cut off")
    return data


def read_relocations(file: Elf, descriptor: int, types: Sequence[int] = ()) -> List[Relocation]:
    """Relocations that name a symbol; with `types`, those of the given types, whether they name one or not."""
    tags, wide = file.tags, file.bits == 64
    tables: List[Tuple[int, int, bool, bool]] = []
    for tag, size_tag, addend in ((DT_RELA, DT_RELASZ, True), (DT_REL, DT_RELSZ, False)):
        if tag in tags:
            tables.append((tags[tag], tags.get(size_tag, 0), addend, False))
    if DT_JMPREL in tags:
        addend = tags.get(DT_PLTREL, DT_RELA) == DT_RELA
        start, size = tags[DT_JMPREL], tags.get(DT_PLTRELSZ, 0)
        # Some linkers let DT_RELASZ cover the PLT relocations too (dynamic-link.h, _ELF_DYNAMIC_DO_RELOC).
        tables = [
            (at, length - size if at + length == start + size else length, kind, plt)
            for at, length, kind, plt in tables
        ]
        tables.append((start, size, addend, True))
    shift, mask = (32, 0xFFFFFFFF) if wide else (8, 0xFF)
    found: List[Relocation] = []
    for address, size, addend, plt in tables:
        if size <= 0:
            continue
        layout = ("QQq" if addend else "QQ") if wide else ("IIi" if addend else "II")
        step = struct.calcsize("=" + layout)
        data = table(file, descriptor, address, size // step * step, "relocation table")
        for fields in struct.iter_unpack(file.order + layout, data):
            info = fields[1]
            if info & mask in types if types else info >> shift:
                found.append(Relocation(fields[0], info & mask, info >> shift, plt))
    return found

"""The binary ld.so.cache, as the loader reads it (glibc elf/dl-cache.c, sysdeps/generic/dl-cache.h)."""

from __future__ import annotations

import os
import struct
from typing import Dict, List, NamedTuple, Optional, Sequence, Tuple

_MAGIC_OLD = b"ld.so-1.7.0\0"
_MAGIC_NEW = b"glibc-ld.so.cache1.1"
_EXTENSION_MAGIC = 0xEAA42174
_TAG_HWCAPS = 1
_HEADER, _ENTRY = 48, 24
_NAMED_HWCAP = 1 << 62
_ISA_SHIFT, _ISA_MASK = 32, 0x3FF
_MAX_BYTES = 64 << 20

CACHE_IDS: Dict[Tuple[int, int], int] = {(62, 64): 0x0303, (183, 64): 0x0A03, (3, 32): 0x0003, (40, 32): 0x0903}
"""(e_machine, bits) -> the flags of entries that are for this machine; 1 is accepted as well."""


class Entry(NamedTuple):
    """One line of the cache. `hwcaps` names a glibc-hwcaps subdirectory, `isa` the bit of its x86-64 level (or 0)."""

    name: str
    path: str
    flags: int
    hwcaps: Optional[str]
    isa: int
    legacy: bool


class LdCache:
    """A cache file, read on first use. A missing or damaged file is an empty cache, as it is for the loader."""

    def __init__(self, path: Optional[str]) -> None:
        self.path = path
        self._entries: Optional[Dict[str, List[Entry]]] = None
        self.error: Optional[int] = None

    @property
    def entries(self) -> Dict[str, List[Entry]]:
        """Library name -> its entries in file order."""
        if self._entries is None:
            self._entries = self._load()
        return self._entries

    def _load(self) -> Dict[str, List[Entry]]:
        if self.path is None:
            return {}
        try:
            descriptor = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            self.error = error.errno
            return {}
        try:
            data = os.pread(descriptor, min(os.fstat(descriptor).st_size, _MAX_BYTES), 0)
        except OSError as error:
            self.error = error.errno
            return {}
        finally:
            os.close(descriptor)
        try:
            return parse(data)
        except (struct.error, IndexError, ValueError):
            return {}

    def lookup(
        self, name: str, cache_id: Optional[int], hwcaps: Sequence[str], isa_bits: int
    ) -> Tuple[Optional[Entry], Tuple[Entry, ...]]:
        """(the entry the loader takes or None, all entries of that name).

        Entries for glibc-hwcaps come first in the file; of those that the processor can run the best subdirectory
        wins, then the plain entry counts. Entries of the older hwcap mechanism are passed over.
        """
        found = self.entries.get(name, [])
        best: Optional[Entry] = None
        best_rank = len(hwcaps)
        for entry in found:
            if entry.flags != 1 and entry.flags != cache_id:
                continue
            if entry.hwcaps is not None:
                if entry.isa & ~isa_bits or entry.hwcaps not in hwcaps:
                    continue
                rank = hwcaps.index(entry.hwcaps)
                if best is None or rank < best_rank:
                    best, best_rank = entry, rank
                continue
            if best is not None and best.hwcaps is not None:
                break
            if entry.legacy:
                continue
            if best is None or entry.flags == cache_id:
                best = entry
            if entry.flags == cache_id:
                break
        return best, tuple(found)


def parse(data: bytes) -> Dict[str, List[Entry]]:
    """Entries by name. Raises struct.error, IndexError or ValueError when the data are not a cache."""
    start = 0
    if data.startswith(_MAGIC_OLD):
        count = struct.unpack_from("=I", data, 12)[0]
        start = (16 + 12 * count + 7) // 8 * 8
    if not data.startswith(_MAGIC_NEW, start):
        return {}
    count, _, flags, extension = struct.unpack_from("=IIB3xI", data, start + 20)
    if flags & 3 not in (0, 2 if struct.pack("=H", 1) == b"\1\0" else 3):
        return {}
    if (len(data) - start - _HEADER) // _ENTRY < count:
        return {}
    subdirectories = _extension(data, start, extension) if extension else []
    found: Dict[str, List[Entry]] = {}
    size = len(data) - start
    for kind, key, value, _, hwcap in struct.iter_unpack(
        "=iIIIQ", data[start + _HEADER : start + _HEADER + _ENTRY * count]
    ):
        if key >= size or value >= size:
            continue
        subdirectory: Optional[str] = None
        isa = 0
        named = (hwcap >> 32) & ~_ISA_MASK == _NAMED_HWCAP >> 32
        if named:
            index = hwcap & 0xFFFFFFFF
            subdirectory = subdirectories[index] if index < len(subdirectories) else "?"
            isa = (hwcap >> _ISA_SHIFT) & _ISA_MASK
        name, path = _text(data, start + key), _text(data, start + value)
        entry = Entry(name, path, kind, subdirectory, isa, bool(hwcap) and not named)
        found.setdefault(entry.name, []).append(entry)
    return found


def _text(data: bytes, offset: int) -> str:
    return os.fsdecode(data[offset : data.index(b"\0", offset)])


def _extension(data: bytes, start: int, offset: int) -> List[str]:
    """Names of the glibc-hwcaps subdirectories, from the extension directory of the cache."""
    at = start + offset
    magic, count = struct.unpack_from("=II", data, at)
    if magic != _EXTENSION_MAGIC:
        return []
    for number in range(min(count, 64)):
        tag, _, where, size = struct.unpack_from("=IIII", data, at + 8 + 16 * number)
        if tag == _TAG_HWCAPS:
            names = struct.unpack_from(f"={min(size, 4096) // 4}I", data, start + where)
            return [_text(data, start + name) for name in names]
    return []

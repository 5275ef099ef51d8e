"""The binary ld.so.cache, as the loader reads it (glibc elf/dl-cache.c, sysdeps/generic/dl-cache.h)."""

import os
import re
import struct
from typing import Dict, List, NamedTuple, Optional, Sequence, Tuple

_MAGIC_OLD = b"ld.so-1.7.0\0"
_MAGIC_NEW = b"glibc-ld.so.cache1.1"
_EXTENSION_MAGIC = 0xEAA42174
_TAG_HWCAPS = 1
_HEADER, _ENTRY = 48, 24
_LAYOUT = struct.Struct("=iIIIQ")
_NAMED_HWCAP = 1 << 62
_ISA_SHIFT, _ISA_MASK = 32, 0x3FF
_MAX_BYTES = 64 << 20

CACHE_IDS: Dict[Tuple[int, int], int] = {(62, 64): 0x0303, (183, 64): 0x0A03, (3, 32): 0x0003, (40, 32): 0x0903}
"""(e_machine, bits) -> the flags of entries that are for this machine; 1 is accepted as well."""


class Entry(NamedTuple):
    """One line of the cache.

    hwcaps  glibc-hwcaps subdirectory that the file is in, None for most
    isa     bit of the x86-64 level that the entry asks for, 0 for none
    legacy  the entry belongs to the hwcap mechanism that glibc 2.37 dropped
    """

    name: str
    path: str
    flags: int
    hwcaps: Optional[str]
    isa: int
    legacy: bool


class LdCache:
    """A cache file, read on first use. A missing or damaged file is an empty cache, as it is for the loader.

    error  errno of reading the file, 0 when it could be read
    """

    def __init__(self, path: Optional[str]) -> None:
        self.path = path
        self.error = 0
        self._data: Optional[bytes] = None
        self._start = 0
        self._index: Dict[int, List[int]] = {}
        self._plain: Optional[Dict[bytes, List[int]]] = None
        self._subdirectories: List[str] = []

    @property
    def entries(self) -> Dict[str, List[Entry]]:
        """Library name -> its entries in file order, for all libraries."""
        self._load()
        found: Dict[str, List[Entry]] = {}
        for number in sorted(number for numbers in self._index.values() for number in numbers):
            entry = self._entry(number)
            found.setdefault(entry.name, []).append(entry)
        return found

    def named(self, name: str) -> Tuple[Entry, ...]:
        """Entries of one name. Runs of digits are compared as numbers: libz.so.01 is libz.so.1 (_dl_cache_libcmp)."""
        data = self._load()
        wanted = os.fsencode(name) + b"\0"
        numbers: List[int] = []
        at = data.find(wanted, self._start)
        while at >= 0:
            numbers += self._index.get(at - self._start, ())
            at = data.find(wanted, at + 1)
        if not numbers and any(letter.isdigit() for letter in name):
            for key in self._plain_names().get(_plain(wanted[:-1]), ()):
                numbers += self._index[key]
        return tuple(self._entry(number) for number in sorted(numbers))

    def lookup(
        self, name: str, cache_id: Optional[int], hwcaps: Sequence[str], isa_bits: int
    ) -> Tuple[Optional[Entry], Tuple[Entry, ...]]:
        """(the entry the loader takes or None, all entries of that name).

        Entries for glibc-hwcaps come first in the file; of those that the processor can run the best subdirectory
        wins, then the plain entry counts. Entries of the older hwcap mechanism are passed over.
        """
        found = self.named(name)
        best: Optional[Entry] = None
        best_rank = len(hwcaps)
        for entry in found:
            if entry.flags not in (1, cache_id):
                continue
            if entry.hwcaps is not None:
                if not entry.isa & ~isa_bits and entry.hwcaps in hwcaps:
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
        return best, found

    # --- reading --------------------------------------------------------------------------------------------------

    def _plain_names(self) -> Dict[bytes, List[int]]:
        """Names with their numbers in shortest form -> keys of the index. Only names with digits ask for it."""
        if self._plain is None:
            self._plain = {}
            data = self._load()
            for key in self._index:
                at = self._start + key
                self._plain.setdefault(_plain(data[at : data.find(b"\0", at)]), []).append(key)
        return self._plain

    def _load(self) -> bytes:
        if self._data is None:
            self._data = self._read()
            try:
                self._parse(self._data)
            except (struct.error, IndexError, ValueError):
                self._index = {}
        return self._data

    def _read(self) -> bytes:
        if self.path is None:
            return b""
        try:
            descriptor = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            self.error = error.errno or 0
            return b""
        try:
            return os.pread(descriptor, min(os.fstat(descriptor).st_size, _MAX_BYTES), 0)
        except OSError as error:
            self.error = error.errno or 0
            return b""
        finally:
            os.close(descriptor)

    def _parse(self, data: bytes) -> None:
        start = 0
        if data.startswith(_MAGIC_OLD):
            count = struct.unpack_from("=I", data, 12)[0]
            start = (16 + 12 * count + 7) // 8 * 8
        if not data.startswith(_MAGIC_NEW, start):
            return
        count, _, flags, extension = struct.unpack_from("=IIB3xI", data, start + 20)
        own_order = 2 if struct.pack("=H", 1) == b"\1\0" else 3
        size = len(data) - start
        if flags & 3 not in (0, own_order) or (size - _HEADER) // _ENTRY < count:
            return
        self._start = start
        words = struct.unpack_from(f"={count * _ENTRY // 4}I", data, start + _HEADER)
        for number, (key, value) in enumerate(zip(words[1::6], words[2::6])):
            if key < size and value < size:
                self._index.setdefault(key, []).append(number)
        if extension:
            self._subdirectories = _extension(data, start, extension)

    def _entry(self, number: int) -> Entry:
        data = self._data or b""
        kind, key, value, _, hwcap = _LAYOUT.unpack_from(data, self._start + _HEADER + _ENTRY * number)
        subdirectory: Optional[str] = None
        isa = 0
        named = (hwcap >> 32) & ~_ISA_MASK == _NAMED_HWCAP >> 32
        if named:
            at = hwcap & 0xFFFFFFFF
            subdirectory = self._subdirectories[at] if at < len(self._subdirectories) else "?"
            isa = (hwcap >> _ISA_SHIFT) & _ISA_MASK
        name, path = _text(data, self._start + key), _text(data, self._start + value)
        return Entry(name, path, kind, subdirectory, isa, bool(hwcap) and not named)


def _text(data: bytes, offset: int) -> str:
    end = data.find(b"\0", offset)
    return os.fsdecode(data[offset : end if end >= 0 else len(data)])


def _plain(name: bytes) -> bytes:
    return re.sub(rb"(?<![0-9])0+(?=[0-9])", b"", name)


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

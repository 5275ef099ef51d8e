"""Dynamic symbols of one ELF file: the undefined ones as a list, the defined ones through its hash table.

In a file with a GNU hash table the hashed (defined) symbols are the tail of the table, so what comes before them is all
that has to be read to know what the file wants.
"""

import os
import struct
import sys
from typing import Iterator, List, NamedTuple, Optional, Sequence

from .elf import Elf
from .elf_format import DT_GNU_HASH, DT_HASH, DT_STRSZ, DT_STRTAB, DT_SYMTAB, DT_VERSYM, ElfError
from .elf_relocations import Relocation, read_relocations, table

STB_LOCAL, STB_GLOBAL, STB_WEAK, STB_GNU_UNIQUE = 0, 1, 2, 10
STT_TLS = 6
STV_DEFAULT, STV_INTERNAL, STV_HIDDEN, STV_PROTECTED = 0, 1, 2, 3
SHN_UNDEF, SHN_ABS = 0, 0xFFF1
DEFINED_TYPES = frozenset((0, 1, 2, 5, 6, 10))
"""STT_NOTYPE, OBJECT, FUNC, COMMON, TLS, GNU_IFUNC: what a reference can bind to (dl-lookup.c, ALLOWED_STT)."""


class Reference(NamedTuple):
    """One undefined symbol. `version` is its entry of .gnu.version without the hidden bit, None without that table."""

    number: int
    name: bytes
    bind: int
    visibility: int
    version: Optional[int]


class Symbol(NamedTuple):
    """One defined symbol. `version` is its whole entry of .gnu.version, None without that table."""

    number: int
    name: bytes
    value: int
    bind: int
    type: int
    visibility: int
    section: int
    version: Optional[int]


class Symbols:
    """The tables of one file, read once. Raises ElfError when they do not fit together.

    words      the symbol table as 32-bit words, six a symbol: name, section << 16 | visibility << 8 | bind << 4 | type,
               value and size; empty for files of 32 bits or of the other byte order
    versions   .gnu.version; empty without that table
    """

    def __init__(self, file: Elf) -> None:
        self.file = file
        self.path = file.path
        self.wide = file.bits == 64
        self.entry = 24 if self.wide else 16
        self._layout = struct.Struct(file.order + ("IBBHQQ" if self.wide else "IIIBBH"))
        self._name = struct.Struct(file.order + "I")
        self.nbuckets = self.symoffset = self.bloom_mask = self.bloom_shift = self.chain_count = 0
        self.bloom: Sequence[int] = ()
        self.buckets: Sequence[int] = ()
        self.chain: Sequence[int] = ()
        self.gnu = False
        self.word_bits, self.word_shift = (63, 6) if self.wide else (31, 5)
        self.count = 0
        self.symtab = self.strings = self.versym = b""
        self.words: Sequence[int] = ()
        self.versions: Sequence[int] = ()
        tags = file.tags
        descriptor = file.open()
        try:
            if DT_GNU_HASH in tags:
                self._read_gnu_hash(descriptor, tags[DT_GNU_HASH])
            elif DT_HASH in tags:
                self._read_sysv_hash(descriptor, tags[DT_HASH])
            if DT_SYMTAB in tags and DT_STRTAB in tags:
                self._read_tables(descriptor)
        finally:
            os.close(descriptor)

    # --- reading --------------------------------------------------------------------------------------------------

    def _words(self, data: bytes, wide: bool = False) -> Sequence[int]:
        if self.file.little_endian == (sys.byteorder == "little"):
            return memoryview(data).cast("Q" if wide else "I")
        return struct.unpack(f"{self.file.order}{len(data) // (8 if wide else 4)}{'Q' if wide else 'I'}", data)

    def _read_gnu_hash(self, descriptor: int, address: int) -> None:
        header = table(self.file, descriptor, address, 16, "hash table")
        self.nbuckets, self.symoffset, words, self.bloom_shift = struct.unpack(self.file.order + "IIII", header)
        width = 8 if self.wide else 4
        if not self.nbuckets or not words or words & (words - 1):
            raise ElfError(self.path, self.file.file_offset(address), "the hash table's header makes no sense")
        at = address + 16
        bloom = table(self.file, descriptor, at, words * width, "hash table")
        self.bloom, self.bloom_mask = self._words(bloom, self.wide), words - 1
        at += words * width
        self.buckets = self._words(table(self.file, descriptor, at, self.nbuckets * 4, "hash table"))
        at += self.nbuckets * 4
        last = max(self.buckets)
        self.gnu = True
        if last < self.symoffset:
            return
        chain_offset = self.file.file_offset(at)
        room = self._room(at) // 4
        wanted = last - self.symoffset + 1
        if wanted > room:
            raise ElfError(self.path, chain_offset, "a hash bucket points past its segment")
        # The last chain goes on until an odd value; a little more than `wanted` is enough but for very long chains.
        size = wanted + 64
        while True:
            size = min(size, room)
            data = table(self.file, descriptor, at, size * 4, "hash table")
            chain = self._words(data)
            end = wanted - 1
            while end < len(chain) and not chain[end] & 1:
                end += 1
            if end < len(chain):
                self.chain, self.chain_count = chain, end + 1
                return
            if size == room:
                raise ElfError(self.path, chain_offset, "a hash chain has no end")
            size *= 2

    def _room(self, address: int) -> int:
        for segment in self.file.segments:
            if segment.type == 1 and segment.vaddr <= address < segment.vaddr + segment.filesz:
                return segment.vaddr + segment.filesz - address
        return 0

    def _read_sysv_hash(self, descriptor: int, address: int) -> None:
        self.nbuckets, count = struct.unpack(
            self.file.order + "II", table(self.file, descriptor, address, 8, "hash table")
        )
        if not self.nbuckets:
            return
        self.buckets = self._words(table(self.file, descriptor, address + 8, self.nbuckets * 4, "hash table"))
        self.chain = self._words(table(self.file, descriptor, address + 8 + self.nbuckets * 4, count * 4, "hash table"))
        self.chain_count = count

    def _read_tables(self, descriptor: int) -> None:
        tags = self.file.tags
        count = self.count = self._count(descriptor)
        self.symtab = table(self.file, descriptor, tags[DT_SYMTAB], count * self.entry, "symbol table")
        self.strings = table(self.file, descriptor, tags[DT_STRTAB], tags.get(DT_STRSZ, 0), "string table")
        if DT_VERSYM in tags:
            data = table(self.file, descriptor, tags[DT_VERSYM], count * 2, "version index table")
            self.versym = data if self.file.little_endian == (sys.byteorder == "little") else _swapped(data)
            self.versions = memoryview(self.versym).cast("H")
        if self.wide and self.file.little_endian and sys.byteorder == "little":
            self.words = memoryview(self.symtab).cast("I")

    def _count(self, descriptor: int) -> int:
        """How many symbols there are: no tag says so, only the hash tables do."""
        if self.gnu and self.chain_count:
            return self.symoffset + self.chain_count
        tags = self.file.tags
        if DT_HASH in tags:
            header = table(self.file, descriptor, tags[DT_HASH], 8, "hash table")
            return int(struct.unpack(self.file.order + "II", header)[1])
        # Nothing is hashed, so nothing is defined: what relocations refer to is all that matters.
        highest = max((entry.symbol for entry in read_relocations(self.file, descriptor)), default=0)
        return highest + 1

    # --- questions ------------------------------------------------------------------------------------------------

    def undefined(self) -> List[Reference]:
        """Every undefined symbol with a name, in table order.

        Linkers put the undefined ones before the hashed ones; GNU ld lets a few of a program's slip behind.
        """
        end = self.symoffset if self.gnu and self.chain_count else self.count
        found = self._undefined_between(0, end)
        if end < self.count:
            tail = memoryview(self.symtab)[end * self.entry : self.count * self.entry].cast("H")
            sections = tail[3 if self.wide else 7 :: self.entry // 2].tolist()
            if SHN_UNDEF in sections:
                found += self._undefined_between(end, self.count)
        return found

    def _undefined_between(self, start: int, end: int) -> List[Reference]:
        data = memoryview(self.symtab)[start * self.entry : end * self.entry]
        strings, versym = self.strings, self.versym
        versions: Sequence[int] = memoryview(versym).cast("H") if versym else ()
        found: List[Reference] = []
        new = tuple.__new__  # what Reference._make does, without a call in Python for each symbol
        layout = self.file.order + ("IBBH16x" if self.wide else "I8xBBH")
        for number, (name, info, other, section) in enumerate(struct.iter_unpack(layout, data), start):
            if section == SHN_UNDEF and name and info >> 4 != STB_LOCAL:
                stop = strings.find(b"\0", name)
                if stop < 0:
                    raise ElfError(self.path, 0, f"the name of symbol {number} is outside the string table")
                version = versions[number] & 0x7FFF if versym else None
                found.append(new(Reference, (number, strings[name:stop], info >> 4, other & 3, version)))
        return found

    def symbol(self, index: int) -> Symbol:
        """One symbol by its index."""
        if not 0 <= index < self.count:
            raise ElfError(self.path, 0, f"there is no symbol {index}")
        fields = self._layout.unpack_from(self.symtab, index * self.entry)
        if self.wide:
            name, info, other, section, value, _ = fields
        else:
            name, value, _, info, other, section = fields
        end = self.strings.find(b"\0", name)
        version = struct.unpack_from("=H", self.versym, index * 2)[0] if self.versym else None
        return Symbol(
            index, self.strings[name : max(end, name)], value, info >> 4, info & 15, other & 3, section, version
        )

    def is_named(self, number: int, text: bytes) -> bool:
        """Whether a symbol's name is `text`, which ends in NUL."""
        return self.strings.startswith(text, self._name.unpack_from(self.symtab, number * self.entry)[0])

    def lookup(self, name: bytes, hashed: Optional[int] = None) -> Iterator[Symbol]:
        """Every symbol of this name that the hash table leads to. `hashed` is `gnu_hash(name)`."""
        if not self.nbuckets:
            return
        wanted = name + b"\0"
        if not self.gnu:
            index = self.buckets[sysv_hash(name) % self.nbuckets]
            for _ in range(self.chain_count):
                if not 0 < index < self.chain_count:
                    return
                if self.is_named(index, wanted):
                    yield self.symbol(index)
                index = self.chain[index]
            return
        value = gnu_hash(name) if hashed is None else hashed
        bits = 64 if self.wide else 32
        word = self.bloom[(value // bits) & self.bloom_mask]
        if not (word >> (value % bits)) & (word >> ((value >> self.bloom_shift) % bits)) & 1:
            return
        index = self.buckets[value % self.nbuckets]
        if index < self.symoffset:
            return
        at = index - self.symoffset
        while at < self.chain_count:
            entry = self.chain[at]
            if (entry ^ value) >> 1 == 0:
                index = at + self.symoffset
                if self.is_named(index, wanted):
                    yield self.symbol(index)
            if entry & 1:
                return
            at += 1

    def defined(self) -> Iterator[Symbol]:
        """Every defined symbol that is not local, in table order."""
        for index in range(1, self.count):
            found = self.symbol(index)
            if found.section != SHN_UNDEF and found.bind != STB_LOCAL:
                yield found

    def relocations(self) -> List[Relocation]:
        """Relocations that name a symbol, in the order in which the loader processes them."""
        descriptor = self.file.open()
        try:
            return read_relocations(self.file, descriptor)
        finally:
            os.close(descriptor)

    def relocations_of_types(self, types: Sequence[int]) -> List[Relocation]:
        """Relocations of the given types, those that name no symbol included (`symbol` is 0)."""
        descriptor = self.file.open()
        try:
            return read_relocations(self.file, descriptor, types)
        finally:
            os.close(descriptor)


def read_symbols(file: Elf) -> Symbols:
    """The symbol tables of a file. Raises ElfError when they are damaged, OSError when it cannot be opened."""
    return Symbols(file)


_DIGITS = b"0123456789abcdefghijklmnopqrstuvw"
_HIGH = bytes(_DIGITS[byte // 33] for byte in range(256))
_LOW = bytes(_DIGITS[byte % 33] for byte in range(256))
_LONGEST = 512
"""Python may refuse to convert more than 640 digits (sys.set_int_max_str_digits)."""
_START = [5381 * pow(33, size, 1 << 32) for size in range(_LONGEST + 1)]


def gnu_hash(name: bytes) -> int:
    """dl_new_hash of glibc's elf/dl-lookup.c: 5381 * 33**n + sum(byte * 33**place), modulo 2**32.

    A loop over the bytes is what a whole symbol check would spend its time on. The sum is the value of a number of
    base 33 whose digits are the bytes; each byte is split into two real digits, and int() does the rest.
    """
    size = len(name)
    if 0 < size <= _LONGEST:
        value: int = _START[size] + 33 * int(name.translate(_HIGH), 33) + int(name.translate(_LOW), 33)
        return value & 0xFFFFFFFF
    value = 5381
    for byte in name:
        value = (value * 33 + byte) & 0xFFFFFFFF
    return value


def sysv_hash(name: bytes) -> int:
    """_dl_elf_hash of the System V ABI."""
    value = 0
    for byte in name:
        value = (value << 4) + byte
        high = value & 0xF0000000
        value = (value ^ (high >> 24)) & ~high & 0xFFFFFFFF
    return value


def _swapped(data: bytes) -> bytes:
    words = struct.unpack(f">{len(data) // 2}H" if sys.byteorder == "little" else f"<{len(data) // 2}H", data)
    return struct.pack(f"={len(words)}H", *words)

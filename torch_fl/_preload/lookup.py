"""Who serves a symbol in a scope (glibc elf/dl-lookup.c: do_lookup_x, check_match)."""

from __future__ import annotations

from typing import Dict, Iterable, Iterator, List, NamedTuple, Optional, Sequence, Tuple

from .elf_format import ElfError
from .elf_symbols import (
    DEFINED_TYPES,
    SHN_ABS,
    SHN_UNDEF,
    STB_GLOBAL,
    STB_GNU_UNIQUE,
    STB_WEAK,
    STT_TLS,
    STV_HIDDEN,
    STV_INTERNAL,
    Symbol,
    Symbols,
    gnu_hash,
)
from .elf_versions import Found
from .process import LinkMap

Answer = Tuple[Optional[int], Optional[int]]
"""(index of the object that serves a symbol or None, index of one that makes check_match abort or None)"""

_Table = Tuple[int, Symbols, int, int, Sequence[int], int, int, Sequence[int], int]
"""(index of an object, its symbols, and the parts of its GNU hash table); the third is 0 without such a table"""


class Scope(NamedTuple):
    """Objects in lookup order, and what has been asked of them already."""

    objects: Tuple[int, ...]
    tables: List[_Table]
    answers: Dict[Tuple[bytes, Optional[Found]], Answer]


class SymbolLookup:
    """Lookups among loaded objects, which are named by their index. Tables that were read are kept."""

    def __init__(self, maps: Sequence[LinkMap], libc_version: Tuple[int, int]) -> None:
        self.maps = maps
        self.libc_version = libc_version
        self._versions: Dict[int, Dict[int, Found]] = {}
        self._hashes: Dict[bytes, int] = {}
        self._symbols: Dict[int, Optional[Symbols]] = {}

    def scope(self, members: Iterable[int]) -> Scope:
        """A scope of these objects in this order; those without readable symbols serve nothing."""
        objects = tuple(dict.fromkeys(members))
        return Scope(objects, list(self._hash_tables(objects)), {})

    def hashed(self, name: bytes) -> int:
        """The GNU hash of a name."""
        value = self._hashes.get(name)
        if value is None:
            value = self._hashes[name] = gnu_hash(name)
        return value

    def answer(self, name: bytes, version: Optional[Found], scope: Scope) -> Answer:
        """`find`, remembered: the objects of a load mostly want the same symbols."""
        key = (name, version)
        found = scope.answers.get(key)
        if found is None:
            found = scope.answers[key] = self.find(name, version, scope)
        return found

    def find(self, name: bytes, version: Optional[Found], scope: Scope) -> Answer:
        """Who serves a symbol: the objects of a scope in order, each through its hash table (do_lookup_x).

        The common case is decided in this one loop; whatever is unusual about a symbol goes to `match`.
        """
        hashed = self.hashed(name)
        wanted, text = hashed | 1, name + b"\0"
        for index, symbols, bits, word_shift, bloom, bloom_mask, bloom_shift, buckets, nbuckets in scope.tables:
            if bits:
                word = bloom[(hashed >> word_shift) & bloom_mask]
                if not (word >> (hashed & bits)) & (word >> ((hashed >> bloom_shift) & bits)) & 1:
                    continue
                at = buckets[hashed % nbuckets] - symbols.symoffset
                if at < 0:
                    continue
                chain = symbols.chain
                while chain[at] | 1 != wanted or not symbols.is_named(at + symbols.symoffset, text):
                    if chain[at] & 1:
                        at = -1
                        break
                    at += 1
                if at < 0:
                    continue
                if self._plainly(index, symbols, at + symbols.symoffset, version):
                    return index, None
            chosen, aborts = self.match(index, list(symbols.lookup(name, hashed)), version)
            if aborts:
                return None, index
            if chosen is not None:
                return index, None
        return None, None

    def _hash_tables(self, members: Iterable[int]) -> Iterator[_Table]:
        for index in members:
            found = self.tables(index)
            if found is not None:
                bits = found.word_bits if found.gnu else 0
                yield (
                    index, found, bits, found.word_shift, found.bloom, found.bloom_mask, found.bloom_shift,
                    found.buckets, found.nbuckets,
                )  # fmt: skip

    def tables(self, index: int) -> Optional[Symbols]:
        """The symbol tables of an object, None when it has none that can be read."""
        try:
            return self._symbols[index]
        except KeyError:
            file = self.maps[index].elf
            try:
                found = None if file is None else file.symbols
            except (ElfError, OSError):
                found = None
            self._symbols[index] = found if found is not None and found.nbuckets else None
            return self._symbols[index]

    def _plainly(self, index: int, symbols: Symbols, number: int, version: Optional[Found]) -> bool:
        """Whether a symbol serves without any of the special cases of check_match."""
        symbol = symbols.symbol(number)
        if not symbol.value or not symbol.section or symbol.type not in DEFINED_TYPES or not serves(symbol):
            return False
        if not symbol.version:
            return version is None and symbol.version is None
        if version is None:
            return symbol.version & 0x7FFF < 3
        own = self.versions(index).get(symbol.version & 0x7FFF)
        return own is not None and own.hash == version.hash and own.name == version.name

    def match(
        self, index: int, candidates: Sequence[Symbol], version: Optional[Found]
    ) -> Tuple[Optional[Symbol], bool]:
        """check_match of dl-lookup.c over the candidates of one object."""
        table = self.versions(index)
        tentative: List[Symbol] = []
        for symbol in candidates:
            if symbol.value == 0 and symbol.section != SHN_ABS and symbol.type != STT_TLS:
                continue
            if symbol.section == SHN_UNDEF or symbol.type not in DEFINED_TYPES:
                continue
            chosen = symbol
            if version is not None:
                if not table or symbol.version is None:
                    if self._aborts(version, index):
                        return None, True
                else:
                    own = table.get(symbol.version & 0x7FFF)
                    same = own is not None and own.hash == version.hash and own.name == version.name
                    if not same and (version.hidden or (own is not None and own.hash) or symbol.version & 0x8000):
                        continue
            elif table and symbol.version is not None and symbol.version & 0x7FFF >= 3:
                if not symbol.version & 0x8000:
                    tentative.append(symbol)
                continue
            if serves(chosen):
                return chosen, False
        if len(tentative) == 1 and serves(tentative[0]):
            return tentative[0], False
        return None, False

    def _aborts(self, version: Found, index: int) -> bool:
        """The assertion in check_match: a library without versions under the very name they were required from.

        Removed in glibc 2.41 (commit bdaf500353); since then the symbol is accepted.
        """
        if self.libc_version >= (2, 41) or version.file is None:
            return False
        entry = self.maps[index]
        return version.file == entry.name or version.file in entry.aliases

    def versions(self, index: int) -> Dict[int, Found]:
        """Version index -> version of an object; {} when it has none or they cannot be read."""
        table = self._versions.get(index)
        if table is None:
            file = self.maps[index].elf
            try:
                table = {} if file is None else file.versions.table()
            except (ElfError, OSError):
                table = {}
            self._versions[index] = table
        return table


def serves(symbol: Symbol) -> bool:
    """Whether a matching symbol is visible to other objects."""
    return symbol.visibility not in (STV_HIDDEN, STV_INTERNAL) and symbol.bind in (STB_GLOBAL, STB_WEAK, STB_GNU_UNIQUE)

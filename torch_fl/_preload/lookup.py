"""Who serves a symbol in a scope (glibc elf/dl-lookup.c: do_lookup_x, check_match)."""

from typing import Dict, Iterable, List, NamedTuple, Optional, Sequence, Tuple

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

Key = Tuple[bytes, Optional[Found]]
"""A symbol's name and the version that is asked for."""

_PLAIN = frozenset(
    visibility << 8 | bind << 4 | kind
    for visibility in range(4)
    for bind in (STB_GLOBAL, STB_WEAK, STB_GNU_UNIQUE)
    for kind in DEFINED_TYPES
    if visibility not in (STV_HIDDEN, STV_INTERNAL)
)
"""Second word of a symbol, without its section, where nothing about the symbol is unusual."""


class Scope(NamedTuple):
    """Objects in lookup order, the tables of those that have any, and what has been asked of them already."""

    objects: Tuple[int, ...]
    tables: List[Tuple[int, Symbols]]
    answers: Dict[Key, Answer]


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
        tables = ((index, self.tables(index)) for index in objects)
        return Scope(objects, [(index, symbols) for index, symbols in tables if symbols is not None], {})

    def hashed(self, name: bytes) -> int:
        """The GNU hash of a name."""
        value = self._hashes.get(name)
        if value is None:
            value = self._hashes[name] = gnu_hash(name)
        return value

    def answer(self, keys: Sequence[Key], scope: Scope) -> None:
        """Put what is not known yet into `scope.answers`: the objects of a load mostly want the same symbols."""
        asked = [key for key in keys if key not in scope.answers]
        for key, found in zip(asked, self.find(asked, scope)):
            scope.answers[key] = found

    def find(self, keys: Sequence[Key], scope: Scope) -> List[Answer]:
        """Who serves each symbol: the objects of a scope in order, each through its hash table (do_lookup_x).

        Object by object and not symbol by symbol, as the loader does it, which comes to the same: most symbols are not
        in most objects, and the Bloom filter of one object is quickly asked about all of them.
        """
        hashes = [self.hashed(name) for name, _ in keys]
        answers: List[Answer] = [(None, None)] * len(keys)
        shift, bits = next(((t.word_shift, t.word_bits) for _, t in scope.tables), (6, 63))  # of the process's class
        left = [(number, hashed >> shift, hashed & bits) for number, hashed in enumerate(hashes)]
        for index, symbols in scope.tables:
            maybe: Sequence[int]
            if symbols.gnu:
                bloom, mask, two = symbols.bloom, symbols.bloom_mask, symbols.bloom_shift
                # The first of the filter's two bits for all, the second for those that pass: most do not.
                maybe = [number for number, word, bit in left if bloom[word & mask] >> bit & 1]
                maybe = [
                    number
                    for number, hashed in zip(maybe, [hashes[number] for number in maybe])
                    if bloom[(hashed >> shift) & mask] >> ((hashed >> two) & bits) & 1
                ]
            else:
                maybe = [number for number, _, _ in left]
            served = set()
            for number in maybe:
                name, version = keys[number]
                found = self._in_object(index, symbols, name, hashes[number], version)
                if found is not None:
                    answers[number] = found
                    served.add(number)
            if served:
                left = [entry for entry in left if entry[0] not in served]
        return answers

    def _in_object(
        self, index: int, symbols: Symbols, name: bytes, hashed: int, version: Optional[Found]
    ) -> Optional[Answer]:
        """What one object has to say to a symbol; None when it neither serves it nor ends the search."""
        if symbols.gnu:
            first = symbols.symoffset
            at = symbols.buckets[hashed % symbols.nbuckets] - first
            if at < 0:
                return None
            chain, wanted, text, words = symbols.chain, hashed | 1, name + b"\0", symbols.words
            while chain[at] | 1 != wanted or not (
                symbols.strings.startswith(text, words[6 * (at + first)])
                if words
                else symbols.is_named(at + first, text)
            ):
                if chain[at] & 1:
                    return None
                at += 1
            if self._plainly(index, symbols, at + first, version):
                return index, None
        chosen, aborts = self.match(index, list(symbols.lookup(name, hashed)), version)
        if aborts:
            return None, index
        return None if chosen is None else (index, None)

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
        words = symbols.words
        if not words:
            return False
        at = 6 * number
        kind = words[at + 1]
        if kind & 0x3FF not in _PLAIN or kind < 0x10000 or not (words[at + 2] or words[at + 3]):
            return False
        if not symbols.versions:
            return version is None
        own = symbols.versions[number]
        if version is None:
            return 0 < own & 0x7FFF < 3
        defined = self.versions(index).get(own & 0x7FFF)
        return defined is not None and defined.hash == version.hash and defined.name == version.name

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

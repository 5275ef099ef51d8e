"""Versions and undefined symbols of the objects of a load, as the loader checks them before it runs any code.

Versions: glibc elf/dl-version.c. Symbols: what relocation under RTLD_NOW looks up, elf/dl-lookup.c.
"""

from __future__ import annotations

from typing import Dict, Iterable, Iterator, List, NamedTuple, Optional, Sequence, Set, Tuple

from . import dlerror, elf_format, preconditions
from .elf import Elf, ElfError
from .elf_symbols import (
    DEFINED_TYPES,
    SHN_ABS,
    SHN_UNDEF,
    STB_GNU_UNIQUE,
    STB_LOCAL,
    STB_WEAK,
    STT_TLS,
    STV_HIDDEN,
    STV_INTERNAL,
    Reference,
    Symbol,
    Symbols,
    gnu_hash,
)  # fmt: skip
from .elf_versions import Found
from .facts import (
    BadFile,
    OrphanVersion,
    Problem,
    Provider,
    Refused,
    TruncatedFile,
    Undefined,
    UndefinedSymbols,
    UnversionedProvider,
    VersionNotFound,
)  # fmt: skip
from .mapping import Mapper

R_X86_64_TPOFF64 = 18
R_AARCH64_TLS_TPREL = 1030
_RELR_VERSION = "GLIBC_ABI_DT_RELR"


def check_versions(mapper: Mapper, objects: Sequence[int]) -> List[Problem]:
    """Version tables of new objects, in search-list order (`_dl_check_map_versions`)."""
    problems: List[Problem] = []
    for index in objects:
        entry = mapper.maps[index]
        if entry.elf is None or not (elf_format.DT_VERNEED in entry.elf.tags or elf_format.DT_VERDEF in entry.elf.tags):
            continue
        try:
            problems += _object_versions(mapper, entry.name, entry.elf)
        except ElfError:
            problems.append(BadFile(entry.name, entry.name, "", "damaged", None, None, "abort"))
    return problems


def _object_versions(mapper: Mapper, name: str, file: Elf) -> List[Problem]:
    problems: List[Problem] = []
    relr_reference = False
    for need in file.versions.needed:
        provider_index = mapper.named(need.file)
        if provider_index is None:
            problems.append(OrphanVersion(name, need.file))
            continue
        provider = mapper.maps[provider_index]
        defined = _defined(provider.elf)
        for node in need.nodes:
            relr_reference = relr_reference or node.name == _RELR_VERSION
            if defined is None or node.name in defined or node.weak:
                continue
            error = dlerror.version_not_found(provider.name, node.name, name)
            problems.append(VersionNotFound(provider.name, node.name, name, error))
    version = mapper.host.libc_version
    if (
        file.relr
        and version >= (2, 36)
        and not relr_reference
        and elf_format.DT_VERNEED in file.tags
        and any(entry.startswith("libc.so.") for entry in file.needed)
    ):
        error = dlerror.text(name, dlerror.RELR)
        problems.append(Refused(name, "relr", "no need for GLIBC_ABI_DT_RELR", error))
    return problems


def _defined(file: Optional[Elf]) -> Optional[Set[str]]:
    """Names of the versions a file defines; None when it has no table, and then any version is accepted."""
    if file is None or elf_format.DT_VERDEF not in file.tags:
        return None
    try:
        return {definition.name for definition in file.versions.defined}
    except (ElfError, OSError):
        return None


def check_isa(mapper: Mapper, order: Sequence[int]) -> List[Problem]:
    """Objects built for a higher x86-64 level than the processor has, in relocation order (dl_isa_level_check)."""
    host = mapper.host
    if host.machine != elf_format.EM_X86_64 or host.libc_version < (2, 33):
        return []
    problems: List[Problem] = []
    for index in order:
        entry = mapper.maps[index]
        if entry.elf is None:
            continue
        needed = preconditions.isa_needed(entry.elf)
        if needed & ~host.isa_bits:
            level = (needed & ~host.isa_bits).bit_length()
            detail = f"needs x86-64-v{level}, the processor has x86-64-v{host.isa_level}"
            problems.append(Refused(entry.name, "isa-level", detail, dlerror.text(entry.name, dlerror.ISA_LEVEL)))
    return problems


_Answer = Tuple[Optional[int], Optional[int]]
"""(index of the object that serves a symbol or None, index of one that makes check_match abort or None)"""


_Table = Tuple[int, Symbols, int, int, Sequence[int], int, int, Sequence[int], int]
"""(index of an object, its symbols, and the parts of its GNU hash table); the first part is 0 without such a table"""


class _Scope(NamedTuple):
    """Objects in lookup order, and what has been asked of them already."""

    objects: Tuple[int, ...]
    tables: List[_Table]
    answers: Dict[Tuple[bytes, Optional[Found]], _Answer]


class Relocator:
    """Looks up the undefined symbols of a load's new objects in the scopes that will hold."""

    def __init__(self, mapper: Mapper, global_scope: Sequence[int], root: int, search_list: Sequence[int]) -> None:
        self.mapper = mapper
        self.global_scope = tuple(global_scope)
        self.root = root
        self.search_list = tuple(search_list)
        self._scopes: Dict[int, _Scope] = {}
        self._versions: Dict[int, Dict[int, Found]] = {}
        self._hashes: Dict[bytes, int] = {}
        self._symbols: Dict[int, Optional[Symbols]] = {}
        self.tls: Optional[preconditions.StaticTls] = None
        self._tls_placed: Set[int] = set()

    def check(self, order: Iterable[int]) -> List[Problem]:
        """Problems of the given objects, in relocation order."""
        problems: List[Problem] = []
        for index in order:
            entry = self.mapper.maps[index]
            if entry.elf is None:
                continue
            cut = preconditions.touched_by_relocation(entry.elf, self.mapper.host.page_size)
            if cut is not None:
                problems.append(TruncatedFile(entry.name, cut, entry.elf.size))
                continue
            try:
                problems += self._object(index, entry.elf)
            except ElfError:
                problems.append(BadFile(entry.name, entry.name, "", "damaged", None, None, "abort"))
        return problems

    # --- one object -----------------------------------------------------------------------------------------------

    def _object(self, index: int, file: Elf) -> List[Problem]:
        scope = self._scope(index)
        versions = self._version_table(index)
        trouble: Dict[int, Tuple[Reference, Optional[Found], Optional[int]]] = {}
        answers = scope.answers
        for reference in file.symbols.undefined():
            if reference.visibility in (STV_HIDDEN, STV_INTERNAL):
                continue
            version = versions.get(reference.version) if reference.version is not None else None
            if version is not None and version.hash == 0:
                version = None
            key = (reference.name, version)
            answer = answers.get(key)
            if answer is None:
                answer = answers[key] = self._lookup(reference.name, version, scope)
            provider, aborting = answer
            if aborting is not None or (provider is None and reference.bind != STB_WEAK):
                trouble[reference.number] = (reference, version, aborting)
        problems = self._worded(index, file, trouble) if trouble else []
        if file.static_tls:
            problems += self._static_tls(index, file)
        return problems

    def _worded(
        self, index: int, file: Elf, trouble: Dict[int, Tuple[Reference, Optional[Found], Optional[int]]]
    ) -> List[Problem]:
        """Records for what could not be looked up, in the order of the relocations. A symbol that no relocation
        names is never looked up."""
        name = self.mapper.maps[index].name
        problems: List[Problem] = []
        undefined: List[Undefined] = []
        first_error: Optional[str] = None
        place: Optional[int] = None
        seen: Set[int] = set()
        for relocation in file.symbols.relocations():
            if relocation.symbol not in trouble or relocation.symbol in seen:
                continue
            seen.add(relocation.symbol)
            reference, version, aborting = trouble[relocation.symbol]
            symbol = reference.name.decode("utf-8", "surrogateescape")
            wanted = version.name if version is not None else None
            if aborting is not None:
                provider = self.mapper.maps[aborting].name
                problems.append(UnversionedProvider(provider, name, symbol, wanted or ""))
                continue
            if first_error is None:
                first_error = dlerror.undefined_symbol(name, symbol, wanted)
                place = len(problems)
            undefined.append(Undefined(symbol, wanted, self._providers(reference.name, version)))
        if place is not None:
            problems.insert(place, UndefinedSymbols(name, tuple(undefined), first_error))
        return problems

    def _static_tls(self, index: int, file: Elf) -> List[Problem]:
        """Initial-exec TLS of objects that were not there at start must fit what is left of the static block."""
        if self.tls is None:
            return []
        for relocation in file.symbols.relocations_of_types((R_X86_64_TPOFF64, R_AARCH64_TLS_TPREL)):
            owner = index
            if relocation.symbol:
                reference = file.symbols.symbol(relocation.symbol)
                if reference.section == SHN_UNDEF:
                    found, _ = self._lookup(reference.name, None, self._scope(index))
                    if found is None:
                        continue
                    owner = found
            if owner < self.mapper.first_new or owner in self._tls_placed:
                continue
            target = self.mapper.maps[owner].elf
            if target is None:
                continue
            after = self.tls.fits(target.tls_size, target.tls_align)
            if after is None:
                name = self.mapper.maps[owner].name
                detail = f"{target.tls_size} bytes, {self.tls.size - self.tls.used} are left"
                return [Refused(name, "static-tls", detail, dlerror.text(name, dlerror.STATIC_TLS))]
            self.tls = after
            self._tls_placed.add(owner)
        return []

    # --- lookup ---------------------------------------------------------------------------------------------------

    def _scope(self, index: int) -> _Scope:
        """The global scope, then the search list of the dlopen root that brought the object in."""
        top = index
        for _ in self.mapper.maps:
            loader = self.mapper.maps[top].loader
            if loader is None:
                break
            top = loader
        key = self.root if top == self.root else -1
        found = self._scopes.get(key)
        if found is None:
            local = self.search_list if key == self.root else ()
            members = tuple(dict.fromkeys((*self.global_scope, *local)))
            found = self._scopes[key] = _Scope(members, list(self._hash_tables(members)), {})
        return found

    def _lookup(self, name: bytes, version: Optional[Found], scope: _Scope) -> _Answer:
        """Who serves a symbol: the objects of a scope in order, each through its hash table (do_lookup_x).

        The common case is decided in this one loop; whatever is unusual about a symbol goes to `_match`.
        """
        hashed = self._hashes.get(name)
        if hashed is None:
            hashed = self._hashes[name] = gnu_hash(name)
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
            chosen, aborts = self._match(index, list(symbols.lookup(name, hashed)), version)
            if aborts:
                return None, index
            if chosen is not None:
                return index, None
        return None, None

    def _hash_tables(self, members: Iterable[int]) -> Iterator[_Table]:
        for index in members:
            found = self._tables(index)
            if found is not None:
                bits = found.word_bits if found.gnu else 0
                yield (
                    index, found, bits, found.word_shift, found.bloom, found.bloom_mask, found.bloom_shift,
                    found.buckets, found.nbuckets,
                )  # fmt: skip

    def _tables(self, index: int) -> Optional[Symbols]:
        """The symbol tables of an object, None when it has none that can be read."""
        try:
            return self._symbols[index]
        except KeyError:
            file = self.mapper.maps[index].elf
            try:
                found = None if file is None else file.symbols
            except (ElfError, OSError):
                found = None
            self._symbols[index] = found if found is not None and found.nbuckets else None
            return self._symbols[index]

    def _plainly(self, index: int, symbols: Symbols, number: int, version: Optional[Found]) -> bool:
        """Whether a symbol serves without any of the special cases of check_match."""
        symbol = symbols.symbol(number)
        if not symbol.value or not symbol.section or symbol.type not in DEFINED_TYPES or not _serves(symbol):
            return False
        if not symbol.version:
            return version is None and symbol.version is None
        if version is None:
            return symbol.version & 0x7FFF < 3
        own = self._version_table(index).get(symbol.version & 0x7FFF)
        return own is not None and own.hash == version.hash and own.name == version.name

    def _match(
        self, index: int, candidates: Sequence[Symbol], version: Optional[Found]
    ) -> Tuple[Optional[Symbol], bool]:
        """check_match of dl-lookup.c over the candidates of one object."""
        table = self._version_table(index)
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
            if _serves(chosen):
                return chosen, False
        if len(tentative) == 1 and _serves(tentative[0]):
            return tentative[0], False
        return None, False

    def _aborts(self, version: Found, index: int) -> bool:
        """The assertion in check_match: a library without versions under the very name they were required from.

        Removed in glibc 2.41 (commit bdaf500353); since then the symbol is accepted.
        """
        if self.mapper.host.libc_version >= (2, 41) or version.file is None:
            return False
        entry = self.mapper.maps[index]
        return version.file == entry.name or version.file in entry.aliases

    def _version_table(self, index: int) -> Dict[int, Found]:
        table = self._versions.get(index)
        if table is None:
            file = self.mapper.maps[index].elf
            try:
                table = {} if file is None else file.versions.table()
            except (ElfError, OSError):
                table = {}
            self._versions[index] = table
        return table

    def _providers(self, name: bytes, version: Optional[Found]) -> Tuple[Provider, ...]:
        """Loaded objects that define a symbol and do not serve it here, with the reason."""
        found: List[Provider] = []
        inside = set(self._scope(self.root).objects)
        hashed = self._hashes[name]
        for index, entry in enumerate(self.mapper.maps):
            symbols = self._tables(index)
            if symbols is None:
                continue
            table = self._version_table(index)
            for symbol in symbols.lookup(name, hashed):
                if symbol.section == SHN_UNDEF:
                    continue
                own = table.get((symbol.version or 0) & 0x7FFF)
                chosen, _ = self._match(index, [symbol], version)
                if chosen is not None and index not in inside:
                    why = "local-scope"
                elif not _serves(symbol):
                    why = "hidden"
                else:
                    why = "other-version"
                found.append(Provider(entry.name, why, own.name if own is not None else None))
        return tuple(found)


def _serves(symbol: Symbol) -> bool:
    """Whether a matching symbol is visible to others."""
    return symbol.visibility not in (STV_HIDDEN, STV_INTERNAL) and (
        symbol.bind in (1, STB_WEAK, STB_GNU_UNIQUE) and symbol.bind != STB_LOCAL
    )

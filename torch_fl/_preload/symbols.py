"""Undefined symbols of the objects of a load, as relocation under RTLD_NOW would look them up, before any code runs."""

from __future__ import annotations

from typing import Dict, Iterable, List, Optional, Sequence, Set, Tuple

from . import dlerror, preconditions
from .elf import Elf
from .elf_format import ElfError
from .elf_symbols import SHN_UNDEF, STB_WEAK, STV_HIDDEN, STV_INTERNAL, Reference
from .elf_versions import Found
from .facts import (
    BadFile,
    Problem,
    Provider,
    Refused,
    TruncatedFile,
    Undefined,
    UndefinedSymbols,
    UnversionedProvider,
)
from .lookup import Key, Scope, SymbolLookup, serves
from .mapping import Mapper

R_X86_64_TPOFF64 = 18
R_AARCH64_TLS_TPREL = 1030


class Relocator:
    """Looks up the undefined symbols of a load's new objects in the scopes that will hold."""

    def __init__(self, mapper: Mapper, global_scope: Sequence[int], root: int, search_list: Sequence[int]) -> None:
        self.mapper = mapper
        self.global_scope = tuple(global_scope)
        self.root = root
        self.search_list = tuple(search_list)
        self.lookup = SymbolLookup(mapper.maps, mapper.host.libc_version)
        self._scopes: Dict[int, Scope] = {}
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
        versions = self.lookup.versions(index)
        asked: List[Tuple[Reference, Key]] = []
        for reference in file.symbols.undefined():
            if reference.visibility in (STV_HIDDEN, STV_INTERNAL):
                continue
            version = versions.get(reference.version) if reference.version is not None else None
            asked.append((reference, (reference.name, version if version is not None and version.hash else None)))
        self.lookup.answer([key for _, key in asked], scope)
        trouble: Dict[int, Tuple[Reference, Optional[Found], Optional[int]]] = {}
        for reference, key in asked:
            provider, aborting = scope.answers[key]
            if aborting is not None or (provider is None and reference.bind != STB_WEAK):
                trouble[reference.number] = (reference, key[1], aborting)
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
                    found, _ = self.lookup.find([(reference.name, None)], self._scope(index))[0]
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

    def _scope(self, index: int) -> Scope:
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
            found = self._scopes[key] = self.lookup.scope((*self.global_scope, *local))
        return found

    def _providers(self, name: bytes, version: Optional[Found]) -> Tuple[Provider, ...]:
        """Loaded objects that define a symbol and do not serve it here, with the reason."""
        found: List[Provider] = []
        inside = set(self._scope(self.root).objects)
        hashed = self.lookup.hashed(name)
        for index, entry in enumerate(self.mapper.maps):
            symbols = self.lookup.tables(index)
            if symbols is None:
                continue
            table = self.lookup.versions(index)
            for symbol in symbols.lookup(name, hashed):
                if symbol.section == SHN_UNDEF:
                    continue
                own = table.get((symbol.version or 0) & 0x7FFF)
                chosen, _ = self.lookup.match(index, [symbol], version)
                if chosen is not None and index not in inside:
                    why = "local-scope"
                elif not serves(symbol):
                    why = "hidden"
                else:
                    why = "other-version"
                found.append(Provider(entry.name, why, own.name if own is not None else None))
        return tuple(found)

"""The ordered list of vendor libraries to open, and what is missing. Pure in its arguments and the files.

The order follows from the files: a library comes after everything that its DT_NEEDED names. The CUDA-compat
runtime comes before all of it, because a component uses one of its symbols without naming it
(`catalog.HIDDEN_NEEDS`), and only what is already mapped RTLD_GLOBAL can satisfy such a reference. Everything else
is opened RTLD_LOCAL: the names in DT_NEEDED find it by SONAME, and its symbols stay out of everybody else's way.
"""

from __future__ import annotations

import functools
import os
from typing import TYPE_CHECKING, Dict, Iterator, List, Optional, Set, Tuple

from . import catalog, elf
from .places import (
    Considered,
    Sources,
    compat_places,
    first_holding,
    named_by_user,
    package_places,
    sdk_places,
    writable_by_others,
)
from .record import Record

if TYPE_CHECKING:
    from .places import Reader

ALREADY_MAPPED = "already mapped"


class Step(Record):
    """Open `path` so that it satisfies `soname`; `needed_by` is the file that asks for it, None for the roots.

    declared   the file's own DT_SONAME. Opened by path, a file answers to no other name (glibc elf/dl-load.c,
               _dl_map_new_object), so another one or none means that opening it satisfies nobody
    is_global  RTLD_GLOBAL instead of RTLD_LOCAL: another library uses its symbols without naming it
    why        the label of the place that it was taken from (places.py), or ALREADY_MAPPED
    """

    soname: str
    path: str
    needed_by: Optional[str]
    declared: Optional[str]
    is_global: bool
    why: str = ""

    @property
    def answers(self) -> bool:
        """Whether the file, once open, satisfies a DT_NEEDED of `soname`."""
        return self.declared == self.soname


class SymbolEdge(Record):
    """`library` uses `symbols` of `provider` and no DT_NEEDED says so. Both are paths of files."""

    library: str
    symbols: Tuple[str, ...]
    provider: str


class Copy(Record):
    """A file of a wanted name that was not chosen. `label` is the place that holds it."""

    label: str
    path: str


class Rivals(Record):
    """Which copy of a library is opened, and which others there are.

    why      as in Step
    others   in the order of the search
    loader   what the loader by itself would take, None where it would find none or would not be asked
    """

    soname: str
    path: str
    why: str
    others: Tuple[Copy, ...]
    loader: Optional[str]


class Missing(Record):
    """A vendor library that no place holds. `considered` is in the order of the search."""

    soname: str
    needed_by: Tuple[str, ...]
    considered: Tuple[Considered, ...]


class Unreadable(Record):
    """A file that is there and cannot be used: not ELF, damaged, or refused by the system."""

    path: str
    reason: str


class Plan(Record):
    """What to open and in which order. `complete` says that nothing of it is missing or unreadable.

    edges    the hidden needs that were computed from the symbol tables (symbol_edges.py); the healthy path, where the
             catalogue knows them all, reads none
    rivals   other copies, where somebody asked for them (rivals.py)
    """

    steps: Tuple[Step, ...]
    missing: Tuple[Missing, ...]
    unreadable: Tuple[Unreadable, ...]
    package: Optional[str]
    compat: Optional[str]
    package_search: Tuple[Considered, ...]
    compat_search: Tuple[Considered, ...]
    writable_by_others: Tuple[str, ...]
    edges: Tuple[SymbolEdge, ...] = ()
    rivals: Tuple[Rivals, ...] = ()

    @property
    def complete(self) -> bool:
        return not self.missing and not self.unreadable


def make_plan(sources: Sources) -> Plan:
    """Decide which copy of each library to open. Nothing is opened, and no variable is changed.

    The operator library's directory is searched for in `package_places`, the CUDA-compat pair in
    `compat_places`; the first directory that holds the whole pair wins, because the two are built together.
    """
    package, package_search = first_holding(
        package_places(sources), (catalog.OP_LIBRARY.soname,), secure=sources.secure
    )
    read = functools.lru_cache(maxsize=None)(elf.read)  # the pair is read once to be chosen and once to be planned
    compat, compat_search = _find_compat(sources, package, read)
    walk = _Walk(sources, package, compat, package_search, compat_search, read)
    # libxpurt.so.2 before the pair that needs it, the pair before every component.
    for soname in (catalog.RUNTIME.soname, *catalog.COMPAT_PAIR, catalog.OP_LIBRARY.soname):
        walk.visit(soname, None)
    directories = {os.path.dirname(step.path) for step in walk.steps}
    return Plan(
        steps=tuple(walk.steps),
        missing=tuple(
            Missing(soname, tuple(needed_by), places) for soname, (needed_by, places) in walk.missing.items()
        ),
        unreadable=tuple(walk.unreadable),
        package=package,
        compat=compat,
        package_search=package_search,
        compat_search=compat_search,
        writable_by_others=tuple(sorted(path for path in directories if writable_by_others(path))),
    )


def _find_compat(
    sources: Sources, package: Optional[str], read: Reader
) -> Tuple[Optional[str], Tuple[Considered, ...]]:
    """The directory of the CUDA-compat pair. An older runtime that was linked to the newer name does not shadow it.

    Where no pair declares its names, the first that is called by them is taken: the loader may yet find it by search.
    """
    for reader in (read, None):
        found = first_holding(compat_places(sources, package), catalog.COMPAT_PAIR, secure=sources.secure, read=reader)
        if found[0] is not None:
            break
    return found


class _Walk:
    """The depth-first walk over DT_NEEDED that gives the order. Lives for one make_plan call."""

    def __init__(
        self,
        sources: Sources,
        package: Optional[str],
        compat: Optional[str],
        package_search: Tuple[Considered, ...],
        compat_search: Tuple[Considered, ...],
        read: Reader,
    ) -> None:
        self.sources = sources
        self.package = package
        self.compat = compat
        self.package_search = package_search
        self.compat_search = compat_search
        self.read = read
        self.steps: List[Step] = []
        self.missing: Dict[str, Tuple[List[str], Tuple[Considered, ...]]] = {}
        self.unreadable: List[Unreadable] = []
        self.seen: Set[str] = set()

    def visit(self, soname: str, needed_by: Optional[str]) -> None:
        """Plan `soname` after everything it needs. A name that no vendor place holds is left to the loader."""
        if soname in self.missing and needed_by:
            self.missing[soname][0].append(needed_by)
        if soname in self.seen:
            return
        self.seen.add(soname)
        path, why, considered = self.locate(soname, needed_by)
        if path is None:
            # A name outside the catalogue is the system's (libc.so.6): the loader finds it, or says that it does not.
            if catalog.library(soname) is not None:
                self.missing[soname] = ([needed_by] if needed_by else [], considered)
            return
        try:
            file = self.read(path)
            needed = file.needed
        except (elf.ElfError, OSError) as error:
            self.unreadable.append(Unreadable(path, str(error)))
            return
        for name in needed:
            self.visit(name, path)
        self.steps.append(Step(soname, path, needed_by, file.soname, soname in catalog.HIDDEN_PROVIDERS, why))

    def locate(self, soname: str, needed_by: Optional[str]) -> Tuple[Optional[str], str, Tuple[Considered, ...]]:
        """The file to open for `soname`, why that one, and the places looked at.

        What is already mapped wins, as in the loader.
        """
        if soname in self.sources.mapped:
            return self.sources.mapped[soname], ALREADY_MAPPED, ()
        if soname in catalog.COMPAT_PAIR:
            directory, considered = self.compat, self.compat_search
        elif soname == catalog.OP_LIBRARY.soname:
            directory, considered = self.package, self.package_search
        else:
            places = places_of(self.sources, self.package, self.compat, soname, needed_by)
            directory, considered = first_holding(places, (soname,), secure=self.sources.secure)
        if directory is None:
            return None, "", considered
        why = next(place.label for place in considered if place.directory == directory)
        return os.path.join(directory, soname), why, considered


def places_of(
    sources: Sources, package: Optional[str], compat: Optional[str], soname: str, needed_by: Optional[str]
) -> Iterator[Tuple[str, str]]:
    """(label, directory) where a library may be, in order. `package`, `compat`: the directories that were chosen.

    The runtime stays with the pair, and the components with the operator library.
    """
    if soname in catalog.COMPAT_PAIR:
        yield from compat_places(sources, package)
    elif soname == catalog.OP_LIBRARY.soname:
        yield from package_places(sources)
    elif soname == catalog.RUNTIME.soname:
        yield "beside the CUDA-compat runtime", compat or ""
        yield from sdk_places(sources)
    else:
        yield "the vendor package", package or ""
        yield from named_by_user(sources)
        yield from sdk_places(sources)
        if needed_by:
            yield "beside the file that needs it", os.path.dirname(needed_by)

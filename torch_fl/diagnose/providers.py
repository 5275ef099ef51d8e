"""Who could define a symbol that a load lacks: another copy of a library that is needed, or a library nobody named.

Only files that the loader could reach by a variable are looked at, and only their symbol tables.
"""

from __future__ import annotations

import os
import time
from typing import Dict, Iterator, List, Sequence, Tuple

from torch_fl._preload import elf, facts, lookup, places, resolve
from torch_fl._preload.elf_symbols import SHN_UNDEF
from torch_fl._preload.host import Host
from torch_fl.diagnose import hunt, predict

_BUDGET = 5.0
"""Seconds for reading symbol tables. Those of a whole system take a tenth of one, and a few when none is in memory."""

_UNMOVABLE = (facts.START, facts.PRELOAD, facts.TARGET)
"""Objects that no search led to, so that no other copy can take their place by a change of the search."""


def defines(path: str, wanted: facts.Undefined) -> bool:
    """Whether a file serves the symbol to others, in the version that is asked for if one is."""
    try:
        file = elf.read(path)
        versions = file.versions.table() if wanted.version is not None else {}
        for symbol in file.symbols.lookup(os.fsencode(wanted.symbol)):
            if symbol.section == SHN_UNDEF or not lookup.serves(symbol):
                continue
            version = versions.get((symbol.version or 0) & 0x7FFF)
            if wanted.version is None or (version is not None and version.name == wanted.version):
                return True
    except (OSError, elf.ElfError):
        return False
    return False


def used(outcome: resolve.Outcome, requester: str) -> Tuple[facts.Object, ...]:
    """The objects that `requester` names in DT_NEEDED, as the loader found them."""
    return tuple(item for item in outcome.objects if requester in item.needed_by)


def other_copies(
    host: Host,
    sources: places.Sources,
    outcome: resolve.Outcome,
    problem: facts.UndefinedSymbols,
    budget: float,
) -> Tuple[hunt.Copy, ...]:
    """Other files, under the name of a library that the requester needs, that define all the symbols."""
    taken = {item.name: item for item in used(outcome, problem.requester) if item.how not in _UNMOVABLE}
    names = [name for name in taken if "/" not in name]
    if not names:
        return ()
    near = [os.path.join(directory, name) for directory in _directories(host, outcome) for name in names]
    files: Dict[str, str] = {path: os.path.basename(path) for path in near if os.path.isfile(path)}
    found = hunt.hunt(names, host, sources, outcome.lookups, budget)
    files.update((candidate.path, candidate.name) for candidate in found.candidates if candidate.usable)
    copies: Dict[str, hunt.Copy] = {}
    for path, name in files.items():
        is_taken = os.path.realpath(path) == os.path.realpath(taken[name].path)
        if not is_taken and all(defines(path, symbol) for symbol in problem.symbols):
            copies.setdefault(os.path.realpath(path), hunt.Copy(os.path.normpath(path), taken[name].path))
    return tuple(copies.values())


def exporters(
    host: Host, outcome: resolve.Outcome, problem: facts.UndefinedSymbols
) -> Tuple[facts.UndefinedSymbols, int]:
    """The problem with a library for each symbol that is beside the objects of the load or known to the loader's cache.

    The one that needs the least itself is taken: a library that merely contains a copy of another's code needs more.
    The number says for how many libraries there was no time.
    """
    deadline = time.monotonic() + _BUDGET
    left_out = 0
    loaded = {os.path.realpath(loaded.name) for loaded in outcome.process.maps}
    wanted: Dict[facts.Undefined, List[str]] = {symbol: [] for symbol in problem.symbols if not symbol.providers}
    for path in _libraries(host, outcome):
        if time.monotonic() > deadline:
            left_out += 1
            continue
        if os.path.realpath(path) in loaded:
            continue
        for symbol, paths in wanted.items():
            if defines(path, symbol) and hunt.judge(path, "", "", host).usable:
                paths.append(path)
    symbols = tuple(
        symbol._replace(providers=tuple(facts.Provider(path, "not-loaded", None) for path in _ranked(wanted[symbol])))
        if symbol in wanted
        else symbol
        for symbol in problem.symbols
    )
    return problem._replace(symbols=symbols), left_out


def _ranked(paths: Sequence[str]) -> List[str]:
    """The one to name: by the name that others know it by, not by a link for the linker."""

    def rank(path: str) -> Tuple[bool, int, str]:
        file = elf.read(path)
        return file.soname not in (None, os.path.basename(path)), len(file.needed), path

    return sorted(paths, key=rank)[:1]


def _directories(host: Host, outcome: resolve.Outcome) -> Iterator[str]:
    """Directories that this load has to do with: LD_LIBRARY_PATH, and those of its objects and their run paths."""
    found: Dict[str, None] = {}
    for directory in places.library_path(host):
        found[directory] = None
    for item in outcome.objects:
        if item.is_new:
            found[os.path.dirname(item.path)] = None
            for directory, exists in predict.run_paths(host, item.path)[1]:
                if exists:
                    found[directory] = None
    return iter(dict.fromkeys(map(os.path.normpath, found)))


def _libraries(host: Host, outcome: resolve.Outcome) -> Iterator[str]:
    for directory in _directories(host, outcome):
        try:
            names = sorted(os.listdir(directory))
        except OSError:
            continue
        yield from (os.path.join(directory, name) for name in names if ".so" in name)
    for name in sorted(host.cache.entries):
        yield from (entry.path for entry in host.cache.entries[name][:1])

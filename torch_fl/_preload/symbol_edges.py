"""Symbol edges: a library that uses another's symbols without naming it, found in the files' own tables.

The healthy path never comes here. RTLD_NOW makes the loader itself check every symbol, and the catalogue knows the
hidden needs of the releases that are out; only when an open is refused are the tables read. What a new release needs
is then computed: the provider is opened first and RTLD_GLOBAL, and so needs no new release of torch_fl.
"""

import os
from typing import Dict, Iterator, List, NamedTuple, Optional, Sequence, Set, Tuple

from . import elf, resolve
from .elf_format import ElfError
from .elf_symbols import SHN_UNDEF
from .facts import Undefined, UndefinedSymbols
from .lookup import serves
from .plan import Plan, Step, SymbolEdge
from .process import GLOBAL, LOCAL, Process


class _Trouble(NamedTuple):
    """What the model says of the first step that would be refused: the step, and who lacks which symbols."""

    step: Step
    undefined: Tuple[UndefinedSymbols, ...]


def with_symbol_edges(decided: Plan, process: Process) -> Plan:
    """`decided` with every hidden need that a file at hand can satisfy; `decided` itself when there is none.

    process   what the plan would be carried out in; nothing is opened
    Providers are looked for among the files of the plan, then among the other libraries of their directories.
    """
    current = decided
    known: Set[Tuple[str, str]] = {(edge.library, edge.provider) for edge in decided.edges}
    while True:
        trouble = _first_trouble(current.steps, process)
        found = _edges(trouble, current.steps) if trouble is not None else ()
        new = tuple(edge for edge in found if (edge.library, edge.provider) not in known)
        if not new:
            return current
        known |= {(edge.library, edge.provider) for edge in new}
        edges = (*current.edges, *new)
        current = current._replace(steps=_ordered(_with_providers(current.steps, new), edges), edges=edges)


def _first_trouble(steps: Sequence[Step], process: Process) -> Optional[_Trouble]:
    for step in steps:
        outcome = resolve.dlopen(process, step.path, GLOBAL if step.is_global else LOCAL)
        if not outcome.loads:
            lacking = tuple(problem for problem in outcome.problems if isinstance(problem, UndefinedSymbols))
            return _Trouble(step, lacking)
        process = outcome.process
    return None


def _edges(trouble: _Trouble, steps: Sequence[Step]) -> Tuple[SymbolEdge, ...]:
    planned = [step.path for step in steps]
    candidates = [*planned, *_beside(planned)]
    symbols: Dict[Tuple[str, str], List[str]] = {}
    for problem in trouble.undefined:
        # A library that only came in as a dependency has no step; its provider must be there before the step's file.
        library = problem.requester if problem.requester in planned else trouble.step.path
        for undefined in problem.symbols:
            provider = next((path for path in candidates if path != library and _defines(path, undefined)), None)
            if provider is not None:
                symbols.setdefault((library, provider), []).append(undefined.symbol)
    return tuple(SymbolEdge(library, tuple(names), provider) for (library, provider), names in symbols.items())


def _beside(planned: Sequence[str]) -> Iterator[str]:
    """The other libraries in the directories of the plan, sorted: the answer must not depend on the file system."""
    for directory in dict.fromkeys(os.path.dirname(path) for path in planned):
        try:
            names = sorted(os.listdir(directory))
        except OSError:
            continue  # it can be searched and not listed: its files are opened by name all the same
        yield from (
            path for path in (os.path.join(directory, name) for name in names if ".so" in name) if path not in planned
        )


def _defines(path: str, wanted: Undefined) -> bool:
    """Whether a file defines the symbol, in the version that is asked for if one is."""
    try:
        file = elf.read(path)
        versions = file.versions.table() if wanted.version is not None else {}
        for symbol in file.symbols.lookup(os.fsencode(wanted.symbol)):
            version = versions.get((symbol.version or 0) & 0x7FFF)
            if symbol.section == SHN_UNDEF or not serves(symbol):
                continue
            if wanted.version is None or (version is not None and version.name == wanted.version):
                return True
    except (ElfError, OSError):
        return False  # no library after all; a step that cannot be read is reported by its own open
    return False


def _with_providers(steps: Sequence[Step], edges: Sequence[SymbolEdge]) -> List[Step]:
    """The steps with every provider RTLD_GLOBAL; one that the plan did not know comes with what it needs itself."""
    providers = {edge.provider: edge.library for edge in edges}
    found = {step.path: step._replace(is_global=step.is_global or step.path in providers) for step in steps}
    sonames = {step.soname for step in steps}
    beside = {os.path.basename(path): path for path in reversed(list(_beside(list(found))))}
    pending = [(path, library) for path, library in providers.items() if path not in found]
    for path, needed_by in pending:
        try:
            file = elf.read(path)
        except (ElfError, OSError):
            continue
        soname = file.soname or os.path.basename(path)
        if path in found or soname in sonames:
            continue
        sonames.add(soname)
        found[path] = Step(soname, path, needed_by, file.soname, path in providers, "beside a library of the plan")
        pending += [(beside[name], path) for name in file.needed if name in beside and name not in sonames]
    return list(found.values())


def _ordered(steps: Sequence[Step], edges: Sequence[SymbolEdge]) -> Tuple[Step, ...]:
    """Topological over DT_NEEDED and symbol edges, otherwise in the order given.

    Where the two contradict each other (a library uses symbols of one that needs it), the symbol edge wins: opened
    first, the user of it brings the library in, and its symbols are in the scope of that very load.
    """
    by_path = {step.path: step for step in steps}
    by_soname = {step.soname: step.path for step in steps}
    needs = {path: [by_soname[name] for name in _needed(path) if name in by_soname] for path in by_path}
    hidden: Dict[str, List[str]] = {}
    for edge in edges:
        hidden.setdefault(edge.library, []).append(edge.provider)
    ordered: List[Step] = []
    seen: Set[str] = set()

    def visit(path: str) -> None:
        if path in seen or path not in by_path:
            return
        seen.add(path)
        for before in hidden.get(path, ()):
            visit(before)
        for dependency in needs[path]:
            if path not in hidden.get(dependency, ()):
                visit(dependency)
            elif dependency not in seen:
                for before in needs[dependency]:
                    visit(before)
        ordered.append(by_path[path])

    for step in steps:
        visit(step.path)
    return tuple(ordered)


def _needed(path: str) -> Tuple[str, ...]:
    try:
        return elf.read(path).needed
    except (ElfError, OSError):
        return ()

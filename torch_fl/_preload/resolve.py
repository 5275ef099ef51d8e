"""What `dlopen` would do in a given process: which files it maps, in which order, and what goes wrong first.

Everything here is a pure function of a `Process` (what is loaded, on which host) and of the files on disk. Nothing is
opened for execution. Rules: glibc elf/dl-load.c, dl-deps.c, dl-open.c, dl-version.c, dl-lookup.c.

    process = fresh(host.current())                        # an interpreter that has just started
    outcome = dlopen(process, "/x/libxpurt.so.2", GLOBAL)  # a preload
    outcome = dlopen(outcome.process, "/x/_C.so")          # what happens next

Not modelled: RTLD_LAZY, RTLD_DEEPBIND, RTLD_NOLOAD and dlmopen; LD_AUDIT; what constructors do; which directories a
process that has been running for a while remembers as missing; cache entries of the hwcap mechanism that glibc 2.37
dropped; overcommit limits; control-flow enforcement; relocation types that a machine does not know. musl's rules are
others altogether: a load on a musl host carries a ForeignLibc record.
"""

import os
from typing import Dict, Iterable, List, NamedTuple, Optional, Sequence, Set, Tuple

from . import facts, preconditions
from .facts import ForeignLibc, Lookup, Object, Problem
from .mapping import Mapper, freeze
from .order import relocation_order
from .process import GLOBAL, LOCAL, LinkMap, Process
from .start import closure, fresh, running

__all__ = ["DEPENDENCIES", "GLOBAL", "LOCAL", "SYMBOLS", "VERSIONS", "LinkMap", "Outcome", "Process", "dlopen", "fresh",
           "running"]  # fmt: skip

# How deep a prediction goes. Each includes the one before.
DEPENDENCIES = "dependencies"  # the DT_NEEDED closure and its files
VERSIONS = "versions"  # and the version tables and processor levels
SYMBOLS = "symbols"  # and every undefined symbol, as RTLD_NOW relocation would look it up

_DEPTHS = (DEPENDENCIES, VERSIONS, SYMBOLS)


class Outcome(NamedTuple):
    """What one dlopen would do.

    process   the process afterwards; the one before when the load fails
    objects   the root's search list in the loader's breadth-first order, as far as it could be built
    lookups   one record for each name looked up, in order
    missing   every name for which nothing usable was found, each once
    error     the text dlerror() would return, or None
    crash     None, "sigbus", "exit" (ld.so ends the process) or "abort" (another signal does)
    problems  everything that is wrong, the first thing that the loader trips over first
    depth     how far the prediction went: relocation is not looked at when the objects do not come together
    """

    process: Process
    objects: Tuple[Object, ...]
    lookups: Tuple[Lookup, ...]
    missing: Tuple[str, ...]
    error: Optional[str]
    crash: Optional[str]
    problems: Tuple[Problem, ...]
    depth: str

    @property
    def loads(self) -> bool:
        """True when the call would return a handle."""
        return self.error is None and self.crash is None


def dlopen(
    process: Process, name: str, visible: str = LOCAL, *, depth: str = SYMBOLS, caller: Optional[str] = None
) -> Outcome:
    """What dlopen(name, RTLD_NOW | visible) would do in `process`, which is not changed.

    visible   LOCAL or GLOBAL
    depth     DEPENDENCIES, VERSIONS or SYMBOLS: how much to check
    caller    path of the object that makes the call. It matters for a name without a slash or with a token, whose
              search uses the caller's RPATH and RUNPATH; None is the executable
    """
    if visible not in (LOCAL, GLOBAL) or depth not in _DEPTHS:
        raise ValueError(f"visible={visible!r}, depth={depth!r}")
    mapper = Mapper(process.host, process.maps)
    if process.host.libc == "musl":
        mapper.problems.append(
            ForeignLibc(process.host.executable, "musl", "the process runs on musl; these are glibc's rules")
        )
    calling = 0
    if caller is not None:
        calling = next((index for index, entry in enumerate(process.maps) if entry.name == caller), 0)
    lends = calling if "/" not in name or "$" in name else None
    root = mapper.map(name, lends, facts.TARGET, root=True)
    if root is None:
        return _outcome(process, mapper, None, [], visible, DEPENDENCIES)
    if root in process.opened:
        search_list = closure(mapper.maps, root)
        return _outcome(process, mapper, root, search_list, visible, depth)
    search_list = mapper.map_dependencies(root)
    if _fatal(mapper.problems) is not None:
        mapper.problems += _versions(mapper, search_list)
        return _outcome(process, mapper, root, search_list, visible, VERSIONS)
    new = [index for index in search_list if index >= mapper.first_new]
    if depth != DEPENDENCIES and new:
        order = _order(mapper, root, search_list)
        mapper.problems += _versions(mapper, search_list)
        mapper.problems += _isa(mapper, order)
        if depth == SYMBOLS and _fatal(mapper.problems) is None:
            from .symbols import Relocator

            relocator = Relocator(mapper, process.global_scope, root, search_list)
            relocator.tls = _static_tls(process)
            mapper.problems += relocator.check(order)
    return _outcome(process, mapper, root, search_list, visible, depth)


# --- helpers ------------------------------------------------------------------------------------------------------


def _versions(mapper: Mapper, search_list: Sequence[int]) -> List[Problem]:
    from .versions import check_versions

    return check_versions(mapper, [index for index in search_list if index >= mapper.first_new])


def _isa(mapper: Mapper, order: Sequence[int]) -> List[Problem]:
    from .versions import check_isa

    return check_isa(mapper, order)


def _order(mapper: Mapper, root: int, search_list: Sequence[int]) -> List[int]:
    """New objects in relocation order. The root goes first into the sort, also before its filtees."""
    host = mapper.host
    depth_first = host.libc_version >= (2, 35) and host.tunables.get("glibc.rtld.dynamic_sort") != "1"
    members = [root, *(index for index in search_list if index != root)]
    ordered = relocation_order(
        members, lambda index: mapper.maps[index].needed, root_first=True, depth_first=depth_first
    )
    return [index for index in ordered if index >= mapper.first_new]


def _static_tls(process: Process) -> preconditions.StaticTls:
    files = [process.maps[index].elf for index in process.global_scope]
    state = preconditions.static_tls_at_start(process.host, preconditions.tls_blocks(files))
    inside = set(process.global_scope)
    for index, entry in enumerate(process.maps):
        if index not in inside and entry.elf is not None and entry.elf.static_tls and entry.elf.tls_size:
            state = state.fits(entry.elf.tls_size, entry.elf.tls_align) or state
    return state


def _fatal(problems: Iterable[Problem]) -> Optional[Problem]:
    for problem in problems:
        if problem.fatal:
            return problem
    return None


def _outcome(
    process: Process, mapper: Mapper, root: Optional[int], search_list: Sequence[int], visible: str, depth: str
) -> Outcome:
    first = _fatal(mapper.problems)
    after = process
    scope = process.global_scope
    if first is None and root is not None:
        if visible == GLOBAL:
            scope = (*scope, *(index for index in search_list if index not in scope))
        opened = process.opened if root in process.opened else (*process.opened, root)
        after = freeze(mapper, scope, opened)
    objects = _objects(mapper, root, search_list, set(scope))
    return Outcome(
        after,
        objects,
        tuple(mapper.lookups),
        tuple(mapper.missing),
        first.error if first is not None else None,
        first.crash if first is not None else None,
        tuple(mapper.problems),
        depth,
    )


def _objects(mapper: Mapper, root: Optional[int], search_list: Sequence[int], scope: Set[int]) -> Tuple[Object, ...]:
    needed_by: Dict[int, List[str]] = {}
    for index in search_list:
        for dependency in mapper.maps[index].needed:
            needed_by.setdefault(dependency, []).append(mapper.maps[index].name)
    found = []
    for index in search_list:
        entry = mapper.maps[index]
        new = index >= mapper.first_new
        asked = entry.aliases[0] if new and entry.aliases else entry.soname or os.path.basename(entry.name)
        how = entry.how if new else facts.LOADED
        found.append(
            Object(
                asked, entry.name, entry.soname, how, tuple(dict.fromkeys(needed_by.get(index, ()))),
                GLOBAL if index in scope else LOCAL, new,
            )
        )  # fmt: skip
    return tuple(found)

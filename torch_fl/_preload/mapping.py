"""Mapping one object and its dependencies, breadth first (glibc elf/dl-load.c, elf/dl-deps.c).

A `Mapper` is the mutable state of one prediction; what it has built is frozen by resolve.py. It never stops at the
first trouble: the first one decides the outcome, the others are findings.
"""

import os
from typing import Dict, List, NamedTuple, Optional, Tuple

from . import dlerror, elf, elf_format, facts, preconditions
from .facts import BadFile, ForeignLibc, Lookup, MissingLibrary, Problem, Refused, SkippedCandidate, Step, TruncatedFile
from .host import Host
from .process import GLOBAL, LOCAL, LinkMap, Process
from .search import Searcher
from .tokens import count, expand
from .verify import Candidate, Refusal, accept

_SKIPPED = (facts.WRONG_CLASS, facts.WRONG_MACHINE, facts.UNREADABLE, facts.DANGLING_LINK, facts.LIST_ENDED)
_MAX_ROUNDS = 2000
_REFUSED = ("executable-stack", "address-space", "noexec-mount")


class Failure(NamedTuple):
    """A lookup or a mapping that did not work out: the record, and whether anything answered to the name."""

    problem: Problem
    missing: bool


class Mapper:
    """Loaded objects by index, and everything that was noticed while they were loaded."""

    def __init__(self, host: Host, maps: Tuple[LinkMap, ...] = ()) -> None:
        self.host = host
        self.maps: List[LinkMap] = list(maps)
        self.first_new = len(self.maps)
        self.lookups: List[Lookup] = []
        self.problems: List[Problem] = []
        self.missing: List[str] = []
        self.search = Searcher(host)
        self._names: Dict[str, int] = {}
        self._sonames: Dict[str, int] = {}
        self._files: Dict[Tuple[int, int], int] = {}
        for index in range(len(self.maps)):
            self.enter(index)

    # --- one object -----------------------------------------------------------------------------------------------

    def loaded(self, name: str) -> Optional[int]:
        """Index of the first object that answers to `name` by path, alias or SONAME."""
        by_name, by_soname = self._names.get(name), self._sonames.get(name)
        if by_name is None or (by_soname is not None and by_soname < by_name):
            if by_soname is not None:
                self._alias(by_soname, name)
            return by_soname
        return by_name

    def named(self, name: str) -> Optional[int]:
        """Index of the first object whose path or alias is `name`: SONAMEs do not count (find_needed)."""
        return self._names.get(name)

    def map(
        self, name: str, requester: Optional[int], how: str = "", *, root: bool = False, secure: bool = False
    ) -> Optional[int]:
        """Index of the object for `name`, loading it when it is not there; None when that fails.

        requester   index of the object whose DT_NEEDED (or dlopen call) this is; None: a dlopen by path
        root        the requester only lends its tags; the object has no l_loader (RTLD_CALLMAP)
        """
        already = self.loaded(name)
        subject = "" if requester is None else self.maps[requester].name
        if already is not None:
            entry = self.maps[already]
            step = Step(facts.LOADED, None, None, entry.name, facts.ALREADY_LOADED, _matched(name, entry))
            self.lookups.append(Lookup(name, subject, (step,), entry.name, facts.LOADED))
            return already
        asking = None if requester is None else self.maps[requester]
        if "/" in name:
            found = self.search.by_path(name, asking, subject)
        else:
            found = self.search.by_name(name, self._chain(requester), self.maps[0], subject, secure_open=secure)
        lookup, candidate = found
        self.lookups.append(lookup)
        if candidate is None or candidate.file is None or lookup.path is None:
            self._failed(name, requester, lookup, candidate)
            return None
        self._report_skipped(lookup)
        loader = None if root else requester
        return self._map_file(name, loader, subject, lookup.path, candidate.file, how or lookup.how)

    def _map_file(
        self, name: str, loader: Optional[int], subject: str, path: str, file: elf.Elf, how: str
    ) -> Optional[int]:
        same = self._files.get((file.device, file.inode))
        if same is not None:
            self._alias(same, name)
            return same
        refusal = accept(file, self.host)
        if refusal is not None:
            self._refused(name, subject, path, refusal)
            return None
        cut = preconditions.touched_past_end(file, self.host.page_size)
        if cut is None and file.damage is not None:
            cut = preconditions.whole_size(file)
        if cut is not None:
            self.problems.append(TruncatedFile(path, cut, file.size))
        elif file.damage is not None:
            self.problems.append(BadFile(path, name, subject, "damaged", None, None, "abort"))
        if file.damage is not None:
            return None
        foreign = preconditions.other_libc(file)
        if foreign is not None:
            self.problems.append(ForeignLibc(path, "musl", foreign))
        index = len(self.maps)
        entry = LinkMap(
            path, (name,), file.soname, file.device, file.inode, self._origin(path), file, loader, (), LOCAL, how
        )
        self.maps.append(entry)
        self.enter(index)
        return index

    def _origin(self, path: str) -> Optional[str]:
        """Directory of the path as opened, links not resolved (_dl_new_object)."""
        absolute = self.host.real(path)
        return os.path.dirname(absolute) if "/" in absolute[1:] else "/"

    def _chain(self, index: Optional[int]) -> List[LinkMap]:
        chain: List[LinkMap] = []
        while index is not None and len(chain) <= len(self.maps):
            chain.append(self.maps[index])
            index = self.maps[index].loader
        return chain

    def enter(self, index: int) -> None:
        """Let the object at `index` be found by its names and its file. The program answers only to the name ""."""
        entry = self.maps[index]
        names = ("",) if index == 0 and entry.how == facts.START else (entry.name, *entry.aliases)
        for alias in names:
            self._names.setdefault(alias, index)
        if entry.soname is not None:
            self._sonames.setdefault(entry.soname, index)
        if entry.inode:
            self._files.setdefault((entry.device, entry.inode), index)

    def _alias(self, index: int, name: str) -> None:
        entry = self.maps[index]
        if name not in entry.aliases:
            self.maps[index] = entry._replace(aliases=(*entry.aliases, name))
        if self._names.get(name, index) >= index:
            self._names[name] = index

    # --- dependencies ---------------------------------------------------------------------------------------------

    def map_dependencies(self, root: int, preloads: Tuple[int, ...] = ()) -> List[int]:
        """The root's search list: breadth first, filtees before what they filter (_dl_map_object_deps)."""
        known: List[int] = [root, *preloads]
        done = [False] * len(known)
        at = 0
        rounds = 0
        while at < len(known):
            done[at] = True
            self._links(at, known, done)
            while at < len(known) and done[at]:
                at += 1
            rounds += 1
            if rounds > _MAX_ROUNDS:  # two objects that filter each other: glibc fills its stack until it dies
                name = self.maps[root].name
                self.problems.append(BadFile(name, name, "", "filter-cycle", None, None, "abort"))
                return list(dict.fromkeys(known))
        return known

    def _links(self, at: int, known: List[int], done: List[bool]) -> None:
        """Load what the object at `known[at]` names. A filtee takes its place and is looked at (again) next."""
        current = known[at]
        file = self.maps[current].elf
        needed: List[int] = []
        for tag, written in () if file is None else file.links:
            name = self._expanded(current, tag, written)
            if not name:
                continue
            before = len(self.problems), len(self.missing)
            index = self.map(name, current)
            if index is None:
                if tag == elf_format.DT_AUXILIARY:  # the loader ignores whatever is wrong with it
                    del self.problems[before[0] :], self.missing[before[1] :]
                continue
            needed.append(index)
            if tag == elf_format.DT_NEEDED:
                if index not in known:
                    known.append(index)
                    done.append(False)
                continue
            if index in known[: at + 1]:
                continue
            if index in known:
                later = known.index(index)
                del known[later], done[later]
            known.insert(at, index)
            done.insert(at, False)
            at += 1
        if tuple(needed) != self.maps[current].needed:
            self.maps[current] = self.maps[current]._replace(needed=tuple(needed))

    def _expanded(self, current: int, tag: int, written: str) -> str:
        """The name with its tokens replaced; "" when the entry is passed over (dl-deps.c, expand_dst)."""
        if "$" not in written or not count(written):
            return written
        entry, host = self.maps[current], self.host
        if host.secure:
            message = dlerror.text(written, dlerror.TOKEN_IN_SECURE_MODE)
        else:
            name = expand(written, entry.values(host))
            if name:
                return name
            if tag != elf_format.DT_AUXILIARY:  # glibc has it this way round: only an auxiliary name is an error
                return ""
            message = dlerror.text(written, dlerror.EMPTY_TOKEN)
        step = Step(facts.PATH, entry.name, written, None, facts.DROPPED, "token")
        lookup = Lookup(written, entry.name, (step,), None, "", message)
        self.lookups.append(lookup)
        self.problems.append(MissingLibrary(written, entry.name, self.chain_to(current), lookup, message))
        return ""

    # --- trouble --------------------------------------------------------------------------------------------------

    def chain_to(self, index: int) -> Tuple[str, ...]:
        """Paths from the root of this load to an object."""
        return tuple(entry.name for entry in reversed(self._chain(index)))

    def _failed(self, name: str, requester: Optional[int], lookup: Lookup, candidate: Optional[Candidate]) -> None:
        subject = lookup.requester
        if candidate is not None and candidate.verdict == facts.BAD_FILE:
            path = lookup.steps[-1].candidate or name
            shadows = None
            if "/" not in name:
                shadows = self.search.beyond(name, self._chain(requester), self.maps[0], path)
            self.problems.append(BadFile(path, name, subject, candidate.reason, shadows, candidate.error))
            if name not in self.missing:
                self.missing.append(name)
            return
        first = name not in self.missing
        if first:
            self.missing.append(name)
        chain = () if requester is None else self.chain_to(requester)
        self.problems.append(MissingLibrary(name, subject, chain, lookup, lookup.error))
        self._report_skipped(lookup)

    def _report_skipped(self, lookup: Lookup) -> None:
        for step in lookup.steps:
            if step.verdict in _SKIPPED and step.candidate is not None:
                self.problems.append(
                    SkippedCandidate(
                        step.candidate, lookup.name, lookup.requester, step.verdict, step.detail, lookup.path
                    )
                )

    def _refused(self, name: str, subject: str, path: str, refusal: Refusal) -> None:
        error = dlerror.text(name, refusal.message, refusal.errno)
        if refusal.reason in _REFUSED:
            self.problems.append(Refused(path, refusal.reason, refusal.message, error))
        else:
            self.problems.append(BadFile(path, name, subject, refusal.reason, None, error))
        if name not in self.missing:
            self.missing.append(name)


def _matched(name: str, entry: LinkMap) -> str:
    if name == entry.name:
        return "same path"
    return "same SONAME" if name == entry.soname else "asked for by this name before"


def freeze(mapper: Mapper, global_scope: Tuple[int, ...], opened: Tuple[int, ...]) -> Process:
    """The process that a Mapper has arrived at."""
    inside = set(global_scope)
    maps = tuple(entry._replace(scope=GLOBAL if index in inside else LOCAL) for index, entry in enumerate(mapper.maps))
    return Process(mapper.host, maps, global_scope, opened)

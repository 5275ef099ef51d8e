"""Where the loader looks for a name, and what it makes of each place.

glibc elf/dl-load.c: _dl_map_object, open_path, cache_rpath.
"""

import errno
import os
import stat
from typing import Dict, List, NamedTuple, Optional, Sequence, Set, Tuple

from . import dlerror, facts
from .facts import Lookup, Step
from .host import Host
from .ldcache import CACHE_IDS
from .process import LinkMap
from .tokens import Element, expand, split
from .verify import Candidate, open_verify

_MAX_SHADOWS = 20
"""How many bad files in a row are looked behind."""


class Found(NamedTuple):
    """A finished lookup, and the file that was taken (None when none was)."""

    lookup: Lookup
    candidate: Optional[Candidate]


class Searcher:
    """Lookups on one host. Keeps what glibc keeps for the life of a process: which directories do not exist."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self._absent: Dict[str, bool] = {}
        self._subdirectories: Dict[str, Tuple[str, ...]] = {}
        self._lists: Dict[Tuple[str, str], Tuple[Element, ...]] = {}
        text = "" if host.secure else host.environment.get("LD_LIBRARY_PATH", "")
        self._library_path = text
        self._ignored: Set[str] = set()
        self._steps: List[Step] = []
        self._errno = 0
        self._other_class = False

    def by_path(self, name: str, requester: Optional[LinkMap], subject: str) -> Found:
        """A name with a slash: tokens expanded, opened as it is, no search."""
        self._start()
        host = self.host
        path = name
        if requester is not None and "$" in name:
            program = requester.loader is None and requester.how == facts.START
            path = expand(
                name, requester.values(host), secure=host.secure, of_program=program, trusted=host.system_dirs
            )
        candidate = self._try(facts.PATH, None, None, path)
        return self._finish(name, subject, candidate, path, facts.PATH)

    def by_name(
        self, name: str, chain: Sequence[LinkMap], program: LinkMap, subject: str, *, secure_open: bool = False
    ) -> Found:
        """A name without a slash. `chain` is the requester, what loaded it, and so on up.

        `secure_open`: the cache is not used (LD_PRELOAD in secure mode).
        """
        self._start()
        host = self.host
        requester = chain[0] if chain else program
        found = (
            self._rpath(name, chain, program)
            or self._environment(name)
            or self._runpath(name, chain[0] if chain else None)
            or self._cache(name, requester, secure_open and host.secure)
            or self._default(name, requester)
        )
        if found is None:
            return self._finish(name, subject, None, None, "")
        stage, path, candidate = found
        return self._finish(name, subject, candidate, path, stage)

    def beyond(self, name: str, chain: Sequence[LinkMap], program: LinkMap, bad: str) -> Optional[str]:
        """The usable file that a search would come to if `bad` were not there; None when there is none."""
        kept = self._steps, self._errno, self._other_class
        self._ignored.add(bad)
        for _ in range(_MAX_SHADOWS):
            lookup, candidate = self.by_name(name, chain, program, "")
            if candidate is None or candidate.verdict == facts.FOUND:
                break
            self._ignored.add(lookup.steps[-1].candidate or "")
        self._ignored.clear()
        self._steps, self._errno, self._other_class = kept
        return lookup.path

    def _start(self) -> None:
        self._steps = []
        self._other_class = False

    def _finish(self, name: str, subject: str, candidate: Optional[Candidate], path: Optional[str], how: str) -> Found:
        steps = tuple(self._steps)
        if candidate is not None and candidate.verdict == facts.FOUND:
            self._errno = 0
            return Found(Lookup(name, subject, steps, path, how), candidate)
        if candidate is not None and candidate.verdict == facts.BAD_FILE:
            self._errno = candidate.errno
            return Found(Lookup(name, subject, steps, None, "", candidate.error), candidate)
        if self._other_class:
            error = dlerror.wrong_class(name, self.host.bits)
        else:
            error = dlerror.text(name, dlerror.CANNOT_OPEN, self._errno)
        return Found(Lookup(name, subject, steps, None, "", error), None)

    # --- stages. Each answers (stage, path, candidate) for a file that ends the search, else None -----------------

    def _rpath(self, name: str, chain: Sequence[LinkMap], program: LinkMap) -> Optional[Tuple[str, str, Candidate]]:
        first = chain[0] if chain else None
        if first is not None and first.elf is not None and first.elf.runpath is not None:
            detail = "the requester has DT_RUNPATH" + (", its own DT_RPATH is ignored" if first.elf.rpath else "")
            self._note(facts.RPATH, first.name, facts.DISABLED, detail)
            return None
        visited_program = False
        for entry in chain:
            elements = self._tag(facts.RPATH, entry)
            if elements:
                found = self._list(name, facts.RPATH, entry.name, elements)
                if found is not None:
                    return found
                visited_program = visited_program or entry is program
        if not visited_program and program not in chain:
            elements = self._tag(facts.RPATH, program)
            if elements:
                return self._list(name, facts.RPATH, program.name, elements)
        return None

    def _environment(self, name: str) -> Optional[Tuple[str, str, Candidate]]:
        host = self.host
        written = host.environment.get("LD_LIBRARY_PATH")
        if host.secure and written is not None:
            self._note(facts.LIBRARY_PATH, None, facts.DISABLED, "ignored in secure mode (AT_SECURE)")
            return None
        if not self._library_path:
            self._note(facts.LIBRARY_PATH, None, facts.NOT_SET if written is None else facts.EMPTY)
            return None
        key = ("", facts.LIBRARY_PATH)
        elements = self._lists.get(key)
        if elements is None:
            values = LinkMap("", (), None, 0, 0, os.path.dirname(host.executable), None, None, (), "", "").values(host)
            elements = self._lists[key] = split(self._library_path, ":;", values, trusted=host.system_dirs)
        return self._list(name, facts.LIBRARY_PATH, None, elements)

    def _runpath(self, name: str, requester: Optional[LinkMap]) -> Optional[Tuple[str, str, Candidate]]:
        if requester is None:
            return None
        elements = self._tag(facts.RUNPATH, requester)
        return self._list(name, facts.RUNPATH, requester.name, elements) if elements else None

    def _cache(self, name: str, requester: LinkMap, refused: bool) -> Optional[Tuple[str, str, Candidate]]:
        host = self.host
        if refused:
            self._note(facts.CACHE, None, facts.DISABLED, "not used for LD_PRELOAD in secure mode")
            return None
        entry, _ = host.cache.lookup(name, CACHE_IDS.get((host.machine, host.bits)), host.hwcaps, host.isa_bits)
        if host.cache.error:
            self._errno = host.cache.error
        if entry is None:
            self._note(facts.CACHE, None, facts.NO_ENTRY)
            return None
        refuses = requester.elf is not None and requester.elf.nodeflib
        if refuses and any(entry.path.startswith(directory + "/") for directory in host.system_dirs):
            detail = "the requester has DF_1_NODEFLIB and the entry is in a system directory"
            self._steps.append(Step(facts.CACHE, None, None, entry.path, facts.DISABLED, detail))
            return None
        candidate = self._try(facts.CACHE, None, None, entry.path)
        if candidate.verdict in (facts.FOUND, facts.BAD_FILE):
            return facts.CACHE, entry.path, candidate
        return None

    def _default(self, name: str, requester: LinkMap) -> Optional[Tuple[str, str, Candidate]]:
        if requester.elf is not None and requester.elf.nodeflib:
            self._note(facts.DEFAULT, None, facts.DISABLED, "the requester has DF_1_NODEFLIB")
            return None
        elements = tuple(Element(entry, entry + "/") for entry in self.host.system_dirs)
        return self._list(name, facts.DEFAULT, None, elements)

    # --- directories and files ------------------------------------------------------------------------------------

    def _tag(self, stage: str, entry: LinkMap) -> Tuple[Element, ...]:
        """The directories of an object's tag; () and a note when there are none."""
        file = entry.elf
        text = None if file is None else file.runpath if stage == facts.RUNPATH else file.rpath
        if text is None or (stage == facts.RPATH and file is not None and file.runpath is not None):
            detail = "dropped, the object has DT_RUNPATH as well" if text is not None else ""
            self._note(stage, entry.name, facts.NOT_SET, detail)
            return ()
        key = (entry.name, stage)
        elements = self._lists.get(key)
        if elements is None:
            host = self.host
            elements = split(
                text, ":", entry.values(host), secure=host.secure, of_program=entry.how == facts.START,
                trusted=host.system_dirs,
            ) if text else ()  # fmt: skip
            self._lists[key] = elements
        if not any(element.directory is not None for element in elements):
            self._note(stage, entry.name, facts.EMPTY)
            return ()
        return elements

    def _list(
        self, name: str, stage: str, owner: Optional[str], elements: Sequence[Element]
    ) -> Optional[Tuple[str, str, Candidate]]:
        """open_path: every directory with its hardware subdirectories first, then itself."""
        for element in elements:
            directory = element.directory
            if directory is None:
                self._steps.append(Step(stage, owner, element.written, None, facts.DROPPED, element.detail))
                continue
            exists = False
            for subdirectory in self._existing(directory):
                exists = True
                path = directory + subdirectory + name
                candidate = self._try(stage, owner, element.written, path)
                if candidate.verdict in (facts.FOUND, facts.BAD_FILE):
                    return stage, path, candidate
            if not exists:
                number = self._errno
                detail = "" if number == errno.ENOENT else os.strerror(number) if number else ""
                self._steps.append(Step(stage, owner, element.written, directory + name, facts.NO_DIRECTORY, detail))
            elif self._errno not in (errno.ENOENT, errno.EACCES) and not (
                # Since 2.39 a file in the place of a directory does not end the list (bug 31035).
                self._errno == errno.ENOTDIR and self.host.libc_version >= (2, 39)
            ):
                return None
        return None

    def _existing(self, directory: str) -> Tuple[str, ...]:
        """The subdirectories of `directory` that the loader tries, "" last; () when there is no such directory.

        A relative directory is never taken for missing: the working directory may change.
        """
        known = self._subdirectories.get(directory)
        if known is not None:
            return known
        host = self.host
        wanted = [f"glibc-hwcaps/{entry}/" for entry in host.hwcaps] + [f"{entry}/" for entry in host.legacy_hwcaps]
        base = host.real(directory)
        found: List[str] = []
        if self._is_directory(base):
            first: Dict[str, bool] = {}
            for entry in wanted:
                head = entry.partition("/")[0]
                if head not in first:
                    first[head] = self._is_directory(base + head)
                if first[head] and self._is_directory(base + entry):
                    found.append(entry)
            found.append("")
        elif not directory.startswith("/"):
            found.append("")
        self._subdirectories[directory] = result = tuple(found)
        return result

    def _is_directory(self, path: str) -> bool:
        try:
            status = os.stat(path)
        except OSError as error:
            self._errno = error.errno or errno.ENOENT
            return False
        except ValueError:
            self._errno = errno.ENOENT
            return False
        if stat.S_ISDIR(status.st_mode):
            return True
        self._errno = errno.ENOTDIR
        return False

    def _try(self, stage: str, owner: Optional[str], element: Optional[str], path: str) -> Candidate:
        candidate = open_verify(path, self.host) if path not in self._ignored else Candidate(facts.ABSENT, errno.ENOENT)
        self._errno = candidate.errno
        if candidate.verdict == facts.WRONG_CLASS:
            self._other_class = True
        verdict = candidate.verdict
        detail = candidate.reason
        if stage == facts.CACHE and verdict in (facts.ABSENT, facts.DANGLING_LINK):
            verdict = facts.STALE_ENTRY
        elif verdict == facts.BAD_FILE and candidate.error is not None:
            detail = candidate.error[len(path) + 2 :]
        self._steps.append(Step(stage, owner, element, path, verdict, detail))
        return candidate

    def _note(self, stage: str, owner: Optional[str], verdict: str, detail: str = "") -> None:
        self._steps.append(Step(stage, owner, None, None, verdict, detail))

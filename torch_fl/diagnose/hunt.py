"""Which directory on this machine holds a missing name, and proof that naming it would help.

Known places come first; the walk through whole trees is bounded by a time budget, and what was not searched is said.
Nothing is advised on the strength of a file name: every candidate is read, and every cure is tried in the model.
"""

import glob
import itertools
import os
import re
import stat
import time
from typing import Dict, Iterable, Iterator, List, NamedTuple, Sequence, Set, Tuple

from torch_fl._preload import catalog, elf, facts, places
from torch_fl._preload.host import Host
from torch_fl._preload.places import Considered, Sources

DEFAULT_BUDGET = 1.0
"""Seconds for the whole hunt. A warm scan reads some 300,000 directory entries in that time."""

_ENTRIES_IN_ONE_DIRECTORY = 20000
_USUAL_PLACES = tuple(
    f"{root}{below}" for root in ("/usr/local", "/usr/local/*", "/opt/*") for below in ("/lib", "/lib64", "/so")
)
_TREES_OF_SDKS = ("/opt", "/usr/local")
"""Where vendors install whole trees, their libraries some levels below."""
_ENVIRONMENT_SHAPES = ("lib/python*/site-packages", "lib/python*/dist-packages")


class Candidate(NamedTuple):
    """A file that might answer a missing name.

    place    label of the place where it was found
    usable   the model of the file says that the loader would accept it for this name
    verdict  what the file is, or why it is not usable, in a few words
    """

    name: str
    path: str
    place: str
    usable: bool
    verdict: str


class Copy(NamedTuple):
    """A file that could stand in for one that was loaded. `taken`: the file that the loader took under that name."""

    path: str
    taken: str


class Hunt(NamedTuple):
    """What was found, and every place that was looked at, with what was seen there.

    near   files of another version or another suffix, which do not answer the name
    """

    candidates: Tuple[Candidate, ...] = ()
    near: Tuple[Candidate, ...] = ()
    looked: Tuple[Considered, ...] = ()


# --- one file ----------------------------------------------------------------------------------------------------


def judge(path: str, name: str, place: str, host: Host) -> Candidate:
    """Read the file as the loader would and say whether it could answer `name`."""

    def no(why: str) -> Candidate:
        return Candidate(name, path, place, False, why)

    try:
        status = os.stat(path)
        if not stat.S_ISREG(status.st_mode):
            return no("not a regular file")
        if status.st_size == 0:
            return no("empty")
        image = elf.read(path)
    except OSError as error:
        return no(error.strerror or str(error))
    except elf.ElfError as error:
        return no(f"not a usable ELF file: {error.reason}")
    if (image.machine, image.bits, image.little_endian) != (host.machine, host.bits, host.little_endian):
        return no(f"built for another machine: {image.machine_name}, {image.bits} bits")
    end = max((segment.offset + segment.filesz for segment in image.segments), default=0)
    if end > image.size:
        return no(f"truncated: {image.size} bytes, and its headers speak of {end}")
    soname = f"SONAME {image.soname}" if image.soname else "no SONAME"
    return Candidate(name, path, place, True, f"{soname}, {image.machine_name}, {image.size} bytes, complete")


def is_near(filename: str, name: str) -> bool:
    """Whether a file has the stem of `name` and another version: libcudart.so.11.0 for libcudart.so.12."""
    stem, dot_so, _ = name.partition(".so")
    return bool(dot_so) and filename != name and re.fullmatch(re.escape(stem) + r"\.so(\.[^/]*)?", filename) is not None


# --- places ------------------------------------------------------------------------------------------------------


def _is_site(entry: str) -> bool:
    """Whether an entry of sys.path is a directory of installed packages, not one of Python's own or the current one."""
    return os.path.basename(entry.rstrip("/")) in ("site-packages", "dist-packages")


def _is_standard_library(entry: str) -> bool:
    """Whether an entry of sys.path holds the standard library: no package is installed there."""
    name = os.path.basename(entry.rstrip("/"))
    return name == "lib-dynload" or name.startswith("python3")


def dead_entries(lookups: Iterable[facts.Lookup]) -> Tuple[str, ...]:
    """RPATH and RUNPATH directories of the searches that do not exist on this machine, each once."""
    found: Dict[str, None] = {}
    for lookup in lookups:
        for step in lookup.steps:
            if step.stage in (facts.RPATH, facts.RUNPATH) and step.verdict == facts.NO_DIRECTORY and step.candidate:
                directory = os.path.dirname(step.candidate)
                found[os.path.normpath(directory.partition("/glibc-hwcaps/")[0])] = None
    return tuple(found)


def _package_roots(sources: Sources) -> Iterator[str]:
    """Entries of sys.path that hold packages. Path hooks of editable installations are entries too, not directories."""
    for entry in sources.search_path:
        if os.path.isabs(entry) and entry != "/" and (_is_site(entry) or not _is_standard_library(entry)):
            yield entry


def rerooted(dead: str, sources: Sources) -> Iterator[str]:
    """Directories of this machine with the tail of one that exists only where the file was built, or was installed.

    A run path relative to $ORIGIN leads from one package to the next, as long as both are below one entry of sys.path.
    """
    roots = list(_package_roots(sources))
    above = [entry for entry in roots if dead.startswith(os.path.join(entry, ""))]
    if above:
        own = max(above, key=len)
        yield from (os.path.join(entry, os.path.relpath(dead, own)) for entry in roots if entry != own)
    for marker in ("/site-packages/", "/dist-packages/"):
        _head, found, tail = dead.rpartition(marker)
        if found:
            yield from (os.path.join(entry, tail) for entry in roots)
            return
    parts = dead.strip("/").split("/")
    for length in range(min(3, len(parts)), 0, -1):
        yield os.path.join(sources.prefix, *parts[-length:])


def environments_beside(directories: Iterable[str]) -> Iterator[str]:
    """site-packages of environments that share a parent with one of `directories`, at most three levels up."""
    seen: Set[str] = set()
    for directory in directories:
        ancestor = directory
        for _ in range(4):
            ancestor = os.path.dirname(ancestor)
            if len(ancestor.strip("/")) == 0 or ancestor in seen:
                break
            seen.add(ancestor)
            for shape in _ENVIRONMENT_SHAPES:
                yield from sorted(glob.iglob(os.path.join(glob.escape(ancestor), "*", shape)))


def known_places(sources: Sources, lookups: Sequence[facts.Lookup]) -> Iterator[Tuple[str, str]]:
    """(label, directory) of the places where a missing library usually is, most telling first."""
    dead = dead_entries(lookups)
    for entry in dead:
        for directory in rerooted(entry, sources):
            yield "the run path's package, on sys.path", directory
    yield from places.package_places(sources)
    package = next((d for _, d in places.package_places(sources) if d and os.path.isdir(d)), None)
    yield from places.compat_places(sources, package)
    for requester in dict.fromkeys(lookup.requester for lookup in lookups):
        yield "beside the file that needs it", os.path.dirname(requester)
    for entry in _package_roots(sources):
        if os.path.isdir(os.path.join(entry, "torch", "lib")):
            yield "torch, on sys.path", os.path.join(entry, "torch", "lib")
    recorded = str(sources.record.get("XDNN_LIBRARY_DIR", ""))
    for site in environments_beside([*dead, *([recorded] if recorded else []), sources.prefix]):
        package = os.path.join(site, catalog.VENDOR_PACKAGE)
        for below in catalog.PACKAGE_SUBDIRECTORIES:
            yield "another environment", os.path.join(package, below) if below else package
        for pattern in catalog.COMPAT_BELOW_PACKAGE:
            for directory in sorted(glob.iglob(os.path.join(glob.escape(package), pattern))):
                yield "another environment", directory
    for pattern in _USUAL_PLACES:
        for directory in sorted(glob.iglob(pattern)):
            yield "usual place", directory
    yield "the interpreter's prefix", os.path.join(sources.prefix, "lib")


# --- the hunt ----------------------------------------------------------------------------------------------------


def hunt(
    names: Sequence[str],
    host: Host,
    sources: Sources,
    lookups: Sequence[facts.Lookup] = (),
    budget: float = DEFAULT_BUDGET,
) -> Hunt:
    """Look for files called `names` in the known places, then in all of site-packages, for at most `budget` seconds."""
    deadline = time.monotonic() + budget
    candidates: Dict[str, Candidate] = {}
    near: Dict[str, Candidate] = {}
    looked: List[Considered] = []
    seen: Set[str] = set()
    left_out = 0

    def look(label: str, directory: str) -> None:
        """List one directory and keep what answers, or nearly answers, a name."""
        directory = os.path.abspath(directory)
        real = os.path.realpath(directory)
        if directory in seen or real in seen:
            return
        seen.update((directory, real))
        try:
            with os.scandir(directory) as entries:
                present = [entry.name for entry in itertools.islice(entries, _ENTRIES_IN_ONE_DIRECTORY)]
        except FileNotFoundError:
            looked.append(Considered(label, directory, "no such directory"))
            return
        except OSError as error:
            looked.append(Considered(label, directory, error.strerror or str(error)))
            return
        found = [name for name in names if name in present]
        for name in found:
            path = os.path.join(directory, name)
            candidates.setdefault(path, judge(path, name, label, host))
        for name in names:
            for other in sorted(present):
                if name not in found and is_near(other, name):
                    path = os.path.join(directory, other)
                    near.setdefault(path, judge(path, name, label, host))
        looked.append(Considered(label, directory, "has " + ", ".join(found) if found else "has no such file"))

    for label, directory in known_places(sources, lookups):
        if not directory:
            continue
        if time.monotonic() > deadline:
            left_out += 1
            continue
        look(label, directory)
    for label, tree in _trees(sources):
        walked = _walk(tree, names, deadline)
        for path, name in walked.found:
            candidates.setdefault(path, judge(path, name, label, host))
        for path, name in walked.near:
            near.setdefault(path, judge(path, name, label, host))
        looked.append(Considered(label, tree, walked.verdict))
    if left_out:
        looked.append(Considered("not searched", "", f"{left_out} known directories, for want of time ({budget:g} s)"))
    return Hunt(tuple(candidates.values()), _distinct(near.values()), tuple(_brief(looked)))


def _trees(sources: Sources) -> Iterator[Tuple[str, str]]:
    """(label, directory) of the trees that are walked to the end, or to the end of the time."""
    for entry in filter(_is_site, sources.search_path):
        yield "site-packages", entry
    for root in _TREES_OF_SDKS:
        if os.path.isdir(root):
            yield "usual place, all below", root


def _distinct(near: Iterable[Candidate]) -> Tuple[Candidate, ...]:
    """Each file once, under its most telling name (libcudart.so.13 rather than libcudart.so), at most four."""
    files: Dict[Tuple[int, int], Candidate] = {}
    for candidate in near:
        try:
            status = os.stat(candidate.path)
        except OSError:
            continue
        known = files.get((status.st_dev, status.st_ino))
        if known is None or len(candidate.path) > len(known.path):
            files[status.st_dev, status.st_ino] = candidate
    return tuple(files.values())[:4]


def at_the_gap(place: Considered) -> Considered:
    """Of a directory that does not exist, the part of its path that is missing: it covers all that is below it."""
    if place.verdict != "no such directory":
        return place
    directory = place.directory
    while directory != "/" and not os.path.lexists(os.path.dirname(directory)):
        directory = os.path.dirname(directory)
    return place._replace(directory=directory)


def _brief(looked: Sequence[Considered]) -> Iterator[Considered]:
    """What a reader needs of the places: those that exist, and those that somebody named."""
    for item in looked:
        if item.verdict == "no such directory" and item.label in ("usual place", "another environment"):
            continue
        yield item


class _Walked(NamedTuple):
    """(path, name) of files that answer a name, and of files of another version; and what there is to say."""

    found: Tuple[Tuple[str, str], ...]
    near: Tuple[Tuple[str, str], ...]
    verdict: str


def _walk(tree: str, names: Sequence[str], deadline: float) -> _Walked:
    """Find `names` anywhere below a tree, following no links, until the deadline."""
    wanted = frozenset(names)
    stems = tuple(name.partition(".so")[0] + ".so" for name in names)
    found: List[Tuple[str, str]] = []
    near: List[Tuple[str, str]] = []
    pending = [tree]
    directories = 0
    while pending:
        if time.monotonic() > deadline:
            verdict = f"has no such file in the {directories} directories searched until the time was up"
            return _Walked(tuple(found), tuple(near), verdict)
        directory = pending.pop()
        directories += 1
        try:
            with os.scandir(directory) as entries:
                for entry in itertools.islice(entries, _ENTRIES_IN_ONE_DIRECTORY):
                    if entry.name in wanted:
                        found.append((entry.path, entry.name))
                    elif entry.name.startswith(stems):
                        near.extend((entry.path, name) for name in names if is_near(entry.name, name))
                    elif entry.is_dir(follow_symlinks=False) and entry.name != "__pycache__":
                        pending.append(entry.path)
        except OSError:
            continue
    if found:
        return _Walked(tuple(found), tuple(near), "has " + ", ".join(sorted({name for _, name in found})))
    return _Walked((), tuple(near), f"has no such file in any of its {directories} directories")

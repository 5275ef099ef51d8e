"""Where vendor libraries may be, in the order in which they are looked for. Pure in `Sources` and the files."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING, Callable, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple

from . import catalog, elf
from .host import Host
from .record import Record

IGNORED = "ignored in secure mode (AT_SECURE)"
"""Verdict on a variable where its directories do not count: its user is not the one whose rights the program has."""


if TYPE_CHECKING:
    Reader = Callable[[str], elf.Elf]


class Considered(Record):
    """One place that torch_fl looked at. `directory` is empty where the label alone gave none."""

    label: str
    directory: str
    verdict: str


class Sources(Record):
    """Where directories may come from. All plain data, so that a test or another machine can supply it.

    settings      environment variables that torch_fl itself reads, as they are now
    library_path  directories of LD_LIBRARY_PATH as the loader captured it when the process started
    search_path   sys.path
    prefix        sys.prefix
    record        the constants of torch_fl/_build_config.py, empty when it is not there
    secure        AT_SECURE: directories named by the environment are not honoured, as the loader would not
    mapped        SONAME -> path of libraries that are already mapped in this process
    """

    settings: Mapping[str, str]
    library_path: Tuple[str, ...]
    search_path: Tuple[str, ...]
    prefix: str
    record: Mapping[str, object]
    secure: bool
    mapped: Mapping[str, str]


def read_record(path: str) -> Dict[str, object]:
    """The constants of a _build_config.py, read without running it. Empty when the file is not there or not that."""
    import ast  # torch imports it as well, but not every preload comes before torch

    try:
        with open(path, encoding="utf-8") as file:
            tree = ast.parse(file.read())
    except (OSError, SyntaxError, ValueError):
        return {}
    found: Dict[str, object] = {}
    for node in tree.body:
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            try:
                found[node.targets[0].id] = ast.literal_eval(node.value)
            except ValueError:
                continue
    return found


def library_path(here: Host) -> Tuple[str, ...]:
    """LD_LIBRARY_PATH as the loader captured it: both separators, an empty element is the working directory.

    glibc elf/dl-load.c, _dl_init_paths and fillin_rpath. Empty when it is not set, and in secure mode.
    """
    given = here.environment.get("LD_LIBRARY_PATH", "")
    if not given or here.secure:
        return ()
    return tuple(element or here.cwd for element in given.replace(";", ":").split(":"))


def mapped_vendor_libraries(here: Host) -> Dict[str, str]:
    """SONAME -> path of the catalogue's libraries that are already mapped; the loader would reuse them by SONAME."""
    stems = {record.soname.partition(".so")[0] for record in catalog.LIBRARIES}
    found: Dict[str, str] = {}
    if not here.maps_name(stems):
        return found  # as nearly always; the loader's list would cost more than all the rest of the plan
    for mapped in here.mapped:
        if mapped.deleted or os.path.basename(mapped.path).partition(".so")[0] not in stems:
            continue
        try:
            soname = elf.read(mapped.path).soname
        except (elf.ElfError, OSError):
            continue
        if soname:
            found.setdefault(soname, mapped.path)
    return found


def package_places(sources: Sources) -> Iterator[Tuple[str, str]]:
    """(label, directory) where libxdnn_pytorch.so may be: said by the user, seen by the loader, installed, recorded."""
    for label, directory in named_by_user(sources):
        yield from _below(label, directory, catalog.PACKAGE_SUBDIRECTORIES)
    for entry in sources.search_path:
        package = os.path.join(entry, catalog.VENDOR_PACKAGE)
        if os.path.isdir(package):
            yield from _below("site-packages", package, catalog.PACKAGE_SUBDIRECTORIES)
        elif os.path.basename(entry) in ("site-packages", "dist-packages"):
            yield "site-packages", package
    yield "the build's record", str(sources.record.get("XDNN_LIBRARY_DIR", ""))


def compat_places(sources: Sources, package: Optional[str]) -> Iterator[Tuple[str, str]]:
    """(label, directory) where the CUDA-compat pair may be: said, seen by the loader, nested, recorded, usual."""
    yield from named_by_user(sources)
    for root in _package_roots(package):
        for pattern in catalog.COMPAT_BELOW_PACKAGE:
            for directory in directories_below(root, pattern):
                yield "nested in the vendor package", directory
    root = "" if sources.secure else sources.settings.get(catalog.COMPAT_ROOT_VARIABLE, "")
    yield from _below(catalog.COMPAT_ROOT_VARIABLE, root, catalog.COMPAT_BELOW_ROOT)
    nested = sources.record.get("DEPENDENCY_DIRS", ())
    for directory in nested if isinstance(nested, tuple) else ():
        yield "the build's record", str(directory)
    yield "the build's record", str(sources.record.get("XCUDART_LIBRARY_DIR", ""))
    for below in catalog.COMPAT_BELOW_PREFIX:
        yield "the interpreter's prefix", os.path.join(sources.prefix, below, "lib")
    for root in catalog.COMPAT_DEFAULT_ROOTS:
        yield "usual place", os.path.join(root, "lib")
    yield from sdk_places(sources)


def directories_below(root: str, pattern: str) -> Iterator[str]:
    """Existing directories `root`/`pattern`, sorted; one component of the pattern may be `*`.

    The glob module would compile regular expressions for this, 1 ms of an import that has 10.
    """
    before, star, after = pattern.partition("*")
    if not star:
        candidates = [os.path.join(root, pattern)]
    else:
        base = os.path.join(root, before)
        try:
            names = sorted(os.listdir(base))
        except OSError:
            return
        candidates = [os.path.join(base, name, after.lstrip("/")) for name in names]
    for directory in candidates:
        if os.path.isdir(directory):
            yield directory


def sdk_places(sources: Sources) -> Iterator[Tuple[str, str]]:
    """(label, directory) where the XPU SDK's libraries may be."""
    root = "" if sources.secure else sources.settings.get(catalog.SDK_ROOT_VARIABLE, "")
    yield from _below(catalog.SDK_ROOT_VARIABLE, root, catalog.SDK_BELOW_ROOT)
    yield "the build's record", str(sources.record.get("SDK_LIBRARY_DIR", ""))
    for root in catalog.SDK_DEFAULT_ROOTS:
        yield from _below("usual place", root, catalog.SDK_BELOW_ROOT)


def _below(label: str, root: str, subdirectories: Sequence[str]) -> Iterator[Tuple[str, str]]:
    """Each subdirectory of `root`; the label alone when there is no root, so that "not set" can be said of it."""
    if not root:
        yield label, ""
        return
    for below in subdirectories:
        yield label, os.path.join(root, below) if below else root


def named_by_user(sources: Sources) -> Iterator[Tuple[str, str]]:
    """(label, directory): the list that names vendor directories, then what the loader itself searches first."""
    variable = catalog.XDNN_DIRECTORIES_VARIABLE
    given = "" if sources.secure else sources.settings.get(variable, "")
    for directory in given.split(":"):
        yield variable, directory
    for directory in sources.library_path or ("",):
        yield "LD_LIBRARY_PATH", directory


def misnamed(sources: Sources) -> Iterator[Tuple[str, str]]:
    """(variable, directory) for each directory that a variable of ours names and that does not exist."""
    if sources.secure:
        return
    for variable in (catalog.XDNN_DIRECTORIES_VARIABLE, catalog.COMPAT_ROOT_VARIABLE, catalog.SDK_ROOT_VARIABLE):
        given = sources.settings.get(variable, "")
        for directory in given.split(":") if variable == catalog.XDNN_DIRECTORIES_VARIABLE else (given,):
            if directory and not os.path.isdir(directory):
                yield variable, directory


def _package_roots(package: Optional[str]) -> Iterator[str]:
    if package is not None:
        yield package
        if os.path.basename(package) == "lib":
            yield os.path.dirname(package)


def first_holding(
    places: Iterator[Tuple[str, str]], sonames: Sequence[str], *, secure: bool, read: Optional[Reader] = None
) -> Tuple[Optional[str], Tuple[Considered, ...]]:
    """The first directory that holds every name, and each place up to it with what was seen there.

    read   elf.read, where a file counts only if it also declares the name that it is called by
    """
    considered: Dict[Tuple[str, str], Considered] = {}
    for label, directory in places:
        if not directory:
            # Labels in capitals are variables; in secure mode their directories do not count (named_by_user).
            verdict = IGNORED if secure and label.isupper() else "not set"
            _note(considered, Considered(label, "", verdict))
            continue
        directory = os.path.abspath(directory)
        lacking = [soname for soname in sonames if not os.path.isfile(os.path.join(directory, soname))]
        others = [] if lacking or read is None else _of_another_soname(directory, sonames, read)
        if not lacking and not others:
            _note(considered, Considered(label, directory, "has it"))
            return directory, tuple(considered.values())
        verdict = "has no " + " and no ".join(lacking) if os.path.isdir(directory) else "no such directory"
        if others:
            verdict = "has " + " and ".join(others)
        _note(considered, Considered(label, directory, verdict))
    return None, tuple(considered.values())


def _of_another_soname(directory: str, sonames: Sequence[str], read: Reader) -> List[str]:
    """Files called by a name that they do not declare: opened by path, they answer to nobody who asks for that name."""
    found: List[str] = []
    for soname in sonames:
        try:
            declared = read(os.path.join(directory, soname)).soname
        except (elf.ElfError, OSError):
            continue  # said of the file itself, when it is its turn to be opened
        if declared != soname:
            found.append(f"{soname} with {f'SONAME {declared}' if declared else 'no SONAME'}")
    return found


def _note(considered: Dict[Tuple[str, str], Considered], place: Considered) -> None:
    """Append, once: the same directory reached by two labels is one place, and "not set" is said once a variable."""
    considered.setdefault(("", place.directory) if place.directory else (place.label, ""), place)


def writable_by_others(directory: str) -> bool:
    """True where a user other than root and the owner of this process could have placed the file."""
    try:
        info = os.stat(directory)
    except OSError:
        return False
    return bool(info.st_mode & stat.S_IWOTH) or info.st_uid not in (0, os.geteuid())

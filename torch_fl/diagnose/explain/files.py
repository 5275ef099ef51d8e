"""A file is there, and its contents are not those of a usable library."""

from __future__ import annotations

import os
from typing import Optional, Tuple

from torch_fl._preload import facts
from torch_fl.diagnose.escape import shell_word
from torch_fl.diagnose.explain import mismatch, words
from torch_fl.diagnose.finding import Evidence, Fact, Finding, Fix, Page, Severity, register

_CHECKS_SOURCE = "glibc elf/dl-load.c, open_verify and _dl_map_object_from_fd"

_REASONS = {
    "too-short": "shorter than an ELF header (64 bytes)",
    "not-elf": "does not begin with the ELF magic number",
    "unreadable": "cannot be read",
    "directory": "a directory",
    "cut-in-headers": "ends inside its program headers",
    "wrong-byte-order": "built for the other byte order",
    "bad-header": "has a header that the loader refuses",
    "os-abi": "built for another operating system ABI",
    "not-shared": "an object file or a core file, not a shared object",
    "executable": "an executable, not a library",
    "no-dynamic-section": "has no dynamic section, as a file of debug information has none",
    "no-segments": "has no loadable segments",
    "not-page-aligned": "has segments that are not aligned to the pages of this machine",
    "nodlopen": "linked with -z nodlopen",
    "link-loop": "a symbolic link that leads back to itself",
    "damaged": "has a dynamic section that the loader stumbles over",
    "io": "the system cannot read it as a file",
}


def _reinstall(path: str) -> str:
    return f"replace {path} by reinstalling the package that ships it"


def _asks(problem: facts.BadFile) -> Tuple[Evidence, ...]:
    """Who asks for the file; nothing when it is the target itself."""
    return (words.requested_by(problem.requester),) if problem.requester and problem.requester != problem.path else ()


def bad_file(problem: facts.BadFile, size: Optional[int], head: Optional[str], label: str = words.WOULD_SAY) -> Finding:
    """Choose among the codes of this module by what the file is.

    size   bytes, None when the file cannot be examined
    head   its first line, when that is text
    """
    if problem.shadows is not None:
        return shadowed_by_bad_file(problem, label)
    if problem.reason == "unreadable":
        return mismatch.unreadable_file(problem.path, problem.requester, "Permission denied", problem.error, label)
    if problem.reason == "too-short" and size == 0:
        return empty_file(problem, label)
    if problem.reason == "cut-in-headers":
        return truncated_file(
            facts.TruncatedFile(problem.path, 0, size or 0, problem.error, problem.crash), problem.requester, label
        )
    if problem.reason in ("wrong-byte-order", "os-abi"):
        return mismatch.wrong_architecture(
            problem.path, problem.requester, _REASONS[problem.reason], "", problem.error, label
        )
    if problem.reason in ("not-elf", "too-short", "directory"):
        return not_elf(problem, head, label)
    return not_loadable(problem, label)


register(
    Page(
        "empty-file",
        "the file has no bytes",
        "A file of the right name is there and is empty. The loader stops at it with `file too short`, also when a "
        "good file of that name is in a later directory.",
        "A candidate that is shorter than an ELF header ends the search at once.",
        _CHECKS_SOURCE,
        "Reinstall the package that ships the file. An installation that ran out of disk space leaves such files.",
    )
)


def empty_file(problem: facts.BadFile, label: str = words.WOULD_SAY) -> Finding:
    """A file of 0 bytes."""
    return Finding(
        "empty-file",
        Severity.ERROR,
        problem.path,
        f"{problem.path} is empty",
        (
            *_asks(problem),
            Evidence("file", (Fact(problem.path, "0 bytes"),)),
            *words.outcome_of(problem.error, problem.crash, label),
        ),
        "the file was created and never written; a full disk during installation does that",
        Fix(_reinstall(problem.path)),
    )


register(
    Page(
        "not-elf",
        "the file is something else than a library",
        "A file of the right name is there, and its contents are not those of a shared object: a text such as a "
        "git-lfs pointer, a linker script or a downloaded error page, or a directory. The loader stops at it.",
        "A candidate without the ELF magic number ends the search at once.",
        _CHECKS_SOURCE,
        "Put the real library there. A git-lfs pointer becomes the file with `git lfs pull`; a linker script belongs "
        "to the compiler, and the library that it names is the one to load.",
    )
)


_LFS = "the file is a git-lfs pointer: the repository was cloned without the contents of its large files"
_SCRIPT = "the file is a linker script: it tells a linker which library to use, and no loader reads it"
_PAGE = "the file is a web page: a download brought an error page instead of the library"


def _kind_of_text(head: Optional[str]) -> Optional[str]:
    """What a text is that often takes the place of a library, by its first line; None for any other."""
    line = head or ""
    if line.startswith("version https://git-lfs"):
        return _LFS
    if "GNU ld script" in line or line.startswith(("GROUP", "INPUT")):
        return _SCRIPT
    if line.lstrip().lower().startswith(("<!doctype", "<html")):
        return _PAGE
    return None


def not_elf(problem: facts.BadFile, head: Optional[str], label: str = words.WOULD_SAY) -> Finding:
    """Text, a directory, or other contents that are not ELF. `head`: the first line when it is text."""
    seen = _REASONS[problem.reason]
    cause = "something other than the library was written under its name"
    fix = _reinstall(problem.path)
    commands: Tuple[str, ...] = ()
    rows = [Fact(problem.path, seen)]
    kind = _kind_of_text(head)
    if kind is not None:  # the first line of any other text is nobody's business
        rows.append(Fact("first line", head or ""))
        cause = kind
    if kind == _LFS:
        fix = "fetch the contents of the large files of the repository that the file belongs to"
        commands = (f"git -C {shell_word(os.path.dirname(problem.path))} lfs pull",)
    elif kind == _SCRIPT:
        fix = "open the library that the script names instead"
    return Finding(
        "not-elf",
        Severity.ERROR,
        problem.path,
        f"{problem.path} is not an ELF file",
        (*_asks(problem), Evidence("file", tuple(rows)), *words.outcome_of(problem.error, problem.crash, label)),
        cause,
        Fix(fix, commands),
    )


register(
    Page(
        "truncated-file",
        "the file ends before its segments do",
        "The headers of the file speak of bytes that it does not have. Where only loaded data is cut off, the loader "
        "maps the file, touches a page behind its end, and the process ends with SIGBUS without a word.",
        "mmap(2) allows a mapping that reaches past the end of a file; touching a page there raises SIGBUS. The "
        "loader does not compare the segments with the size of the file.",
        "glibc elf/dl-map-segments.h, _dl_map_segments; manual page mmap(2), ERRORS",
        "Reinstall the package that ships the file, after making sure that the disk has room.",
    )
)


def truncated_file(problem: facts.TruncatedFile, requester: str = "", label: str = words.WOULD_SAY) -> Finding:
    """`needed_size` is 0 when even the headers are cut."""
    needed = f", and its headers speak of {problem.needed_size} bytes" if problem.needed_size else ""
    asks = (words.requested_by(requester),) if requester and requester != problem.path else ()
    return Finding(
        "truncated-file",
        Severity.ERROR,
        problem.path,
        f"{problem.path} is truncated",
        (
            *asks,
            Evidence("file", (Fact(problem.path, f"{problem.size} bytes{needed}"),)),
            *words.outcome_of(problem.error, problem.crash, label),
        ),
        "the file was not written to its end; an interrupted download or copy and a full disk do that",
        Fix(_reinstall(problem.path)),
    )


register(
    Page(
        "shadowed-by-bad-file",
        "an unusable file is found before a good one",
        "The search meets a file of the right name that is no usable library, and stops. A good file of that name is "
        "in a directory further along, and is never reached.",
        "Absent, unreadable and foreign candidates are passed over, but an empty, cut or non-ELF candidate ends the "
        "search with an error.",
        _CHECKS_SOURCE,
        "Remove the bad file, or put the directory of the good one before it.",
    )
)


def shadowed_by_bad_file(problem: facts.BadFile, label: str = words.WOULD_SAY) -> Finding:
    """`problem.shadows` is the good file."""
    good = problem.shadows or ""
    return Finding(
        "shadowed-by-bad-file",
        Severity.ERROR,
        problem.path,
        f"{problem.path} is unusable and is found before {good}",
        (
            *_asks(problem),
            Evidence(
                "candidates, in the loader's order",
                (Fact(problem.path, _REASONS.get(problem.reason, problem.reason)), Fact(good, "usable, not reached")),
            ),
            *words.outcome_of(problem.error, problem.crash, label),
        ),
        "the loader ends a search at a file that is no library instead of passing over it",
        Fix("move the unusable file out of the way", (_move_away(problem.path),)),
    )


def _move_away(path: str) -> str:
    return f"mv {shell_word(path)} {shell_word(path + '.unusable')}"


register(
    Page(
        "not-loadable",
        "the file is of a kind that cannot be loaded",
        "The file is one that dlopen() refuses: an executable, an object file, a file of debug information, a library "
        "linked with -z nodlopen, one with damaged headers, or no regular file at all.",
        "dlopen() takes shared objects (ET_DYN) with a dynamic section and loadable segments aligned to the page "
        "size of the machine.",
        _CHECKS_SOURCE,
        "Load the shared library itself; where the headers are damaged, reinstall the package. patchelf before 0.18 "
        "is known to leave segments that are not aligned.",
    )
)


def not_loadable(problem: facts.BadFile, label: str = words.WOULD_SAY) -> Finding:
    """The reasons of BadFile that the other codes do not cover."""
    return Finding(
        "not-loadable",
        Severity.ERROR,
        problem.path,
        f"{problem.path} is of a kind that cannot be loaded",
        (
            *_asks(problem),
            Evidence("file", (Fact(problem.path, _REASONS.get(problem.reason, problem.reason)),)),
            *words.outcome_of(problem.error, problem.crash, label),
        ),
        "another kind of file has taken the place of the library, or a tool damaged its headers",
        Fix(_reinstall(problem.path)),
    )

"""A library is not where the loader looks."""

from __future__ import annotations

import os
from typing import Dict, List, Optional, Sequence, Tuple

from torch_fl._preload import catalog, facts
from torch_fl._preload.places import IGNORED, Considered
from torch_fl.diagnose.cure import Cure, Imported
from torch_fl.diagnose.escape import shell_word
from torch_fl.diagnose.explain import words
from torch_fl.diagnose.finding import Evidence, Fact, Finding, Fix, Page, Severity, register
from torch_fl.diagnose.hunt import Candidate, Hunt
from torch_fl.diagnose.records import Listed

_SEARCH_RULE = (
    "A name without a slash is compared with the SONAMEs of what the process has loaded already, and then searched "
    "in this order: DT_RPATH of the object that asks and of those that loaded it (only if the asking object has no "
    "DT_RUNPATH), LD_LIBRARY_PATH as it was when the process started, DT_RUNPATH of the asking object alone, "
    "/etc/ld.so.cache, the system directories. Changing os.environ in a running process changes nothing."
)
_SEARCH_SOURCE = "glibc elf/dl-load.c, _dl_map_new_object and open_path; manual page ld.so(8)"


def _asked(problems: Sequence[facts.MissingLibrary]) -> Evidence:
    """Who asks: the chain of one missing name, or a line for each of several."""
    if len(problems) == 1:
        return words.requested_by(problems[0].requester, problems[0].chain)
    return Evidence("missing", tuple(Fact(p.name, f"needed by {p.requester}") for p in problems))


def _searches(problems: Sequence[facts.MissingLibrary]) -> Tuple[Evidence, ...]:
    """The searches, each told once: names looked for in the same places share one."""
    told: Dict[Tuple[Fact, ...], List[str]] = {}
    for problem in problems:
        told.setdefault(words.search(problem.lookup), []).append(problem.name)
    if len(told) == 1:
        return words.searched(problems[0].lookup)
    return tuple(Evidence(f"loader searched for {words.names(sought)}", rows) for rows, sought in told.items() if rows)


def _unusable(hunt: Hunt) -> Tuple[Evidence, ...]:
    """Files of the right name that would not load, each with the reason."""
    rows = tuple(Fact(c.path, c.verdict) for c in hunt.candidates if not c.usable)
    return (Evidence("found and not usable", rows),) if rows else ()


def _near(hunt: Hunt) -> Tuple[Evidence, ...]:
    rows = tuple(Fact(c.path, c.verdict) for c in hunt.near)
    return (Evidence("files with a similar name", rows),) if rows else ()


def _in_order(aside: Sequence[Fact]) -> Tuple[Evidence, ...]:
    return (Evidence("not the trouble", tuple(aside)),) if aside else ()


register(
    Page(
        "missing-library",
        "no directory holds a library that is needed",
        "A library names another one in its DT_NEEDED list, and no file of that name was found: neither where the "
        "loader searches nor in the further places that the finding lists under `torch_fl searched`.",
        _SEARCH_RULE,
        _SEARCH_SOURCE,
        "Install, or reinstall, the package that ships the file. For a component of the vendor's operator library "
        "that is the vendor torch package. If the file is in a place that was not searched, name its directory in "
        "FLAGOS_KUNLUNXIN_XDNN_LIB_DIR or put it first on LD_LIBRARY_PATH before Python starts.",
    )
)


def missing_library(
    problems: Sequence[facts.MissingLibrary],
    hunt: Hunt,
    package: Optional[str] = None,
    label: str = words.WOULD_SAY,
    aside: Sequence[Fact] = (),
    lost: Sequence[Listed] = (),
) -> Finding:
    """Names that nothing on this machine answers, all for one reason.

    package   directory of the vendor's package when there is one, else None
    label     whether the loader said the text or would say it
    aside     files that the loader's text names although they are in order
    lost      files of these names that an installer recorded, and that are not there
    """
    sought = [problem.name for problem in problems]
    cause, cure = _why_lost(lost[0]) if lost else _why_missing(sought, hunt, package)
    return Finding(
        "missing-library",
        Severity.ERROR,
        sought[0],
        f"{words.names(sought)} {words.is_are(sought)} in none of the directories searched",
        (
            _asked(problems),
            *_searches(problems),
            *words.own_search(hunt.looked),
            *_unusable(hunt),
            *_near(hunt),
            *_recorded(lost),
            *words.quoted(problems[0].error, label),
            *_in_order(aside),
        ),
        cause,
        _in_secure_mode(hunt.looked) or Fix(cure),
    )


def _recorded(lost: Sequence[Listed]) -> Tuple[Evidence, ...]:
    rows = tuple(Fact(entry.record, f"lists {entry.path}, which does not exist") for entry in lost)
    return (Evidence("installed files", rows),) if rows else ()


def _why_lost(entry: Listed) -> Tuple[str, str]:
    """Cause and cure in words, where the installer's list has the file."""
    return (
        f"{entry.name} was installed with {entry.package}, and was deleted or left behind when that was copied",
        f"copy {os.path.dirname(entry.path)} as well, or reinstall {entry.package.partition(' ')[0]}",
    )


def missing_path(problem: facts.MissingLibrary, label: str = words.WOULD_SAY) -> Finding:
    """A name with a slash: it is opened as it is, so there is one place, and nothing to hunt for."""
    asks = (words.requested_by(problem.requester, problem.chain),) if problem.requester else ()
    return Finding(
        "missing-library",
        Severity.ERROR,
        problem.name,
        f"{problem.name} does not exist",
        (*asks, *words.searched(problem.lookup), *words.quoted(problem.error, label)),
        "a name with a slash is opened as it stands; the loader does not look for it anywhere else",
        Fix("correct the path" if not problem.requester else "reinstall the package that ships the object that asks"),
    )


def _why_missing(sought: Sequence[str], hunt: Hunt, package: Optional[str]) -> Tuple[str, str]:
    """Cause and cure in words, by what is known of the first name."""
    record = catalog.library(sought[0])
    variable = catalog.XDNN_DIRECTORIES_VARIABLE
    if record is None:
        return (
            f"the package that ships {sought[0]} is not installed, or it is in a place that was not searched; "
            f"`find / -name {sought[0]}` decides between the two",
            f"install the package that ships {sought[0]}, or, before Python starts, put its directory on "
            "LD_LIBRARY_PATH",
        )
    if record.home == "package":
        here = f"the vendor torch package in {package} lacks" if package else ""
        what = "one of its component libraries" if len(sought) == 1 else f"{len(sought)} of its component libraries"
        return (
            f"{here} {what}" if here else "the vendor torch package was found in none of the places searched",
            f"reinstall the vendor torch package, or, before Python starts, set {variable} to the directory that holds "
            "the file",
        )
    if record.home == "cuda-compat":
        near = f"; {hunt.near[0].path} is another version and does not replace it" if hunt.near else ""
        return (
            f"{record.about} is in none of the places searched; the vendor torch package and xcudart carry it{near}",
            f"install xcudart or reinstall the vendor torch package, or, before Python starts, set "
            f"{catalog.COMPAT_ROOT_VARIABLE} to the directory that holds the file",
        )
    return (
        f"{sought[0]} comes with the XPU SDK, and the SDK is incomplete or is in none of the places searched",
        f"install the XPU SDK, or, before Python starts, set {catalog.SDK_ROOT_VARIABLE} to its root",
    )


register(
    Page(
        "not-on-search-path",
        "the library is on this machine, in a directory that is not searched",
        "The missing file exists here and is whole and built for this machine, but none of the places that the loader "
        "searches is its directory. Wheels that were built on another machine carry RUNPATH entries of that machine; "
        "virtual environments are not searched unless somebody names them.",
        _SEARCH_RULE,
        _SEARCH_SOURCE,
        "Put the directory on the path before Python starts, with the command that the finding shows. The command "
        "was tried in the model of the loader, on the whole target, before it was shown.",
    )
)


def not_on_search_path(
    problems: Sequence[facts.MissingLibrary],
    hunt: Hunt,
    cure: Cure,
    label: str = words.WOULD_SAY,
    aside: Sequence[Fact] = (),
    first: Optional[Imported] = None,
) -> Finding:
    """Names whose files are in directories that nobody searches. `cure` was shown to help, or says what comes next.

    first   a package whose import brings libraries in; it is the cure where it is what the files at hand belong to
    """
    sought = [problem.name for problem in problems]
    held = _held(sought, hunt.candidates, (first.directory,) if first else cure.directories)
    places = list(dict.fromkeys(os.path.dirname(candidate.path) for candidate in held))
    where = (
        f"{places[0]}, which is not searched"
        if len(places) == 1
        else f"{len(places)} directories that are not searched"
    )
    after: Tuple[Evidence, ...] = ()
    if first is not None and first.remaining:
        after = (Evidence(f"after `import {first.package}`, loader would say", (Fact("", first.remaining),)),)
    elif first is None and cure.remaining:
        after = (Evidence("with these directories searched, loader would say", (Fact("", cure.remaining),)),)
    return Finding(
        "not-on-search-path",
        Severity.ERROR,
        sought[0],
        f"{words.names(sought)} {words.is_are(sought)} in {where}",
        (
            _asked(problems),
            Evidence("found", tuple(Fact(c.path, c.verdict) for c in held)),
            *_searches(problems),
            *words.own_search(hunt.looked),
            *_unusable(hunt),
            *words.quoted(problems[0].error, label),
            *_in_order(aside),
            *after,
        ),
        _why_not_searched(problems, places) if first is None else _why_imported(problems, first),
        _import_before(first) if first is not None else _in_secure_mode(hunt.looked) or _fix(cure, places),
    )


def _held(sought: Sequence[str], candidates: Sequence[Candidate], chosen: Sequence[str]) -> List[Candidate]:
    """For each name the usable candidates in the directories that the cure names, else below them, else all."""
    held: List[Candidate] = []
    for name in sought:
        usable = [c for c in candidates if c.usable and c.name == name]
        inside = [c for c in usable if os.path.dirname(c.path) in chosen]
        below = [c for c in usable if any(c.path.startswith(directory + "/") for directory in chosen)]
        held += inside or below or usable
    return held


def _why_not_searched(problems: Sequence[facts.MissingLibrary], places: Sequence[str]) -> str:
    """Name a dead entry of the same tail when there is one: it tells where the entry came from."""
    for problem in problems:
        for step in problem.lookup.steps:
            dead = os.path.dirname(step.candidate) if step.candidate else None
            if step.verdict != facts.NO_DIRECTORY or step.stage not in (facts.RPATH, facts.RUNPATH) or not dead:
                continue
            for place in places:
                if os.path.basename(place) == os.path.basename(dead):
                    return (
                        f"{step.stage.upper()} of {os.path.basename(step.owner or '')} names {dead}, which was there "
                        f"when it was built and is not there now; {place} has the same name"
                    )
    which = "that directory" if len(places) == 1 else "those directories"
    return f"neither the objects that ask, nor LD_LIBRARY_PATH, nor the configuration of the loader names {which}"


def _why_imported(problems: Sequence[facts.MissingLibrary], first: Imported) -> str:
    user = os.path.basename((*problems[0].chain, problems[0].requester)[0])
    return f"{user} counts on {first.package} being imported before it, which loads the libraries in {first.directory}"


def _import_before(first: Imported) -> Fix:
    then = ", and cure what the loader would say then" if first.remaining else ""
    return Fix(f"import {first.package} before it in the same program{then}")


def _in_secure_mode(looked: Sequence[Considered]) -> Optional[Fix]:
    """What helps where no variable does; None where variables count."""
    if all(place.verdict != IGNORED for place in looked):
        return None
    return Fix(
        "start Python without setuid and without file capabilities, so that variables that name directories count, or "
        "install the vendor packages into this interpreter's site-packages"
    )


def _fix(cure: Cure, places: Sequence[str]) -> Fix:
    which = "the directory" if len(places) == 1 else "the directories"
    if not cure.works:
        return Fix(f"put {which} on LD_LIBRARY_PATH before Python starts, and cure what the loader would say then")
    variables = [change.variable for change in cure.changes]
    if "LD_PRELOAD" in variables:
        text = f"name {which}, and the libraries that have to come first, before Python starts"
    else:
        text = f"name {which} in {' and '.join(variables)} before Python starts"
    return Fix(text, tuple(words.export(c.variable, c.directories, c.keep) for c in cure.changes))


register(
    Page(
        "broken-link",
        "a symbolic link leads to a file that does not exist",
        "A file of the right name is in a directory that the loader searches, but it is a symbolic link whose target "
        "is gone. For the loader that is the same as no file at all, and it says `No such file or directory`.",
        "open(2) follows symbolic links and gives ENOENT for a dangling one, which makes the search go on to the next "
        "directory.",
        "glibc elf/dl-load.c, open_path; manual page path_resolution(7)",
        "Restore the target, or let the link point to the file that is there. A link that a package manager made is "
        "restored by reinstalling the package.",
    )
)


def broken_link(
    problem: facts.MissingLibrary,
    links: Sequence[Fact],
    replacement: Optional[str],
    label: str = words.WOULD_SAY,
    aside: Sequence[Fact] = (),
) -> Finding:
    """A name whose only file is a dangling link.

    links         each link on the way with what it points to
    aside         files that the loader's text names although they are in order
    replacement   a file beside the link with which the model says that everything loads, or None
    """
    link = links[0].where
    commands: Tuple[str, ...] = ()
    text = f"restore the file that {link} points to by reinstalling the package that ships it"
    if replacement is not None:
        text = "let the link point to the file that is there"
        target = os.path.relpath(replacement, os.path.dirname(link))
        commands = (f"ln -sfn {shell_word(target)} {shell_word(link)}",)
    return Finding(
        "broken-link",
        Severity.ERROR,
        link,
        f"{link} is a symbolic link to a file that does not exist",
        (
            words.requested_by(problem.requester, problem.chain),
            Evidence("link", tuple(links)),
            *words.searched(problem.lookup),
            *words.quoted(problem.error, label),
            *_in_order(aside),
        ),
        "the file behind the link was removed or renamed, or the link was copied without it",
        Fix(text, commands),
    )


register(
    Page(
        "split-pair",
        "no directory holds both libraries of the CUDA-compat runtime",
        "The driver and the runtime of the CUDA-compat layer are both on this machine, in different directories. "
        "torch_fl opens them only from one directory.",
        "The two are built together and call each other's internals. A driver of one release under a runtime of "
        "another loads without a word and fails later.",
        "docs/design.md, the plan",
        "Reinstall the package that carries both: the vendor torch package or xcudart. Copying one of them to the "
        "other is right only if both are of one release.",
    )
)


def split_pair(halves: Sequence[str], looked: Sequence[Considered], error: Optional[str], label: str) -> Finding:
    """`halves`: the files that were found, each without the other beside it."""
    return Finding(
        "split-pair",
        Severity.ERROR,
        catalog.CUDA_RUNTIME.soname,
        f"no directory holds both {' and '.join(catalog.COMPAT_PAIR)}",
        (
            Evidence("found", tuple(Fact(path, f"{_lacks(path)} is not beside it") for path in halves)),
            *words.own_search(looked),
            *words.quoted(error, label),
        ),
        "the two are built together and call each other's internals, so torch_fl takes both from one directory; a copy "
        "or a removal that was not finished leaves them apart",
        Fix("reinstall the vendor torch package or xcudart; either carries both"),
    )


def _lacks(path: str) -> str:
    return next(soname for soname in catalog.COMPAT_PAIR if soname != os.path.basename(path))

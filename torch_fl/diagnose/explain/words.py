"""What the explanations share: how a search, a chain and a quotation are said. Records in, Evidence out."""

from __future__ import annotations

import os
from itertools import groupby
from typing import Dict, Iterable, List, Optional, Sequence, Tuple

from torch_fl._preload import facts
from torch_fl._preload.places import Considered
from torch_fl.diagnose.escape import shell_word
from torch_fl.diagnose.finding import Evidence, Fact

SAID = "loader said"
WOULD_SAY = "loader would say"
"""Labels of a quotation: the text came from the loader, or the model says that it would."""


def count(number: int, noun: str) -> str:
    """`1 object`, `2 objects`, `2 libraries`."""
    if number == 1:
        return f"1 {noun}"
    return f"{number} {noun[:-1]}ies" if noun.endswith("ry") else f"{number} {noun}s"


def names(items: Sequence[str], most: int = 2) -> str:
    """`a`, `a and b`, or `a and 3 more` when there are more than `most`."""
    if len(items) > most:
        return f"{items[0]} and {len(items) - 1} more"
    return " and ".join(items)


def is_are(items: Sequence[str]) -> str:
    """The verb for `names(items)`."""
    return "is" if len(items) == 1 else "are"


def requested_by(requester: str, chain: Sequence[str] = ()) -> Evidence:
    """Who asks, the object that asks first, then what brought that one in, up to what was opened.

    chain   from the opened object to the requester
    """
    above = [path for path in chain if path != requester]
    rows = [Fact(requester, "")]
    below = requester
    for path in reversed(above):
        rows.append(Fact(path, f"needs {os.path.basename(below)}"))
        below = path
    return Evidence("needed by", tuple(rows))


def quoted(error: Optional[str], label: str = WOULD_SAY) -> Tuple[Evidence, ...]:
    """The loader's text, verbatim, as evidence; nothing when there is no text."""
    return (Evidence(label, (Fact("", error),)),) if error else ()


def process_ends(crash: Optional[str]) -> Tuple[Evidence, ...]:
    """What the reader of a crash sees: the loader has no words for it."""
    endings = {
        "sigbus": "nothing: the process ends with SIGBUS (exit status 135 in a shell)",
        "abort": "nothing: the process ends with SIGABRT (exit status 134 in a shell)",
        "exit": "a line that begins with `Inconsistency detected by ld.so`, and the process ends with status 127",
    }
    return (Evidence(WOULD_SAY, (Fact("", endings.get(crash, crash)),)),) if crash else ()


def outcome_of(error: Optional[str], crash: Optional[str], label: str = WOULD_SAY) -> Tuple[Evidence, ...]:
    """Either of the two above."""
    return quoted(error, label) or process_ends(crash)


# --- one search --------------------------------------------------------------------------------------------------

_WHOLE_STAGE = {
    facts.NOT_SET: "not set",
    facts.EMPTY: "set, and names no directory",
    facts.NO_ENTRY: "no entry",
    facts.NOT_LOADED: "no object of that name",
    facts.NOT_REACHED: "not reached",
}


def _place(step: facts.Step) -> str:
    """The name of the place a step looked at, as the loader's manual calls it."""
    if step.stage in (facts.RPATH, facts.RUNPATH):
        return f"{step.stage.upper()} of {os.path.basename(step.owner or '')}"
    return {
        facts.LOADED: "loaded before",
        facts.PATH: "the path itself",
        facts.LIBRARY_PATH: "LD_LIBRARY_PATH",
        facts.CACHE: "/etc/ld.so.cache",
        facts.DEFAULT: "system directories",
    }.get(step.stage, step.stage)


def _directory(step: facts.Step) -> str:
    return os.path.dirname(step.candidate) if step.candidate else (step.element or "")


def _of_candidate(step: facts.Step) -> str:
    """What was seen at the file that was tried."""
    path, detail = step.candidate or step.element or "", step.detail
    verdicts = {
        facts.FOUND: f"{path} is taken",
        facts.ALREADY_LOADED: f"{path} answers to that name",
        facts.ABSENT: f"{_directory(step)} has no such file",
        facts.NO_DIRECTORY: f"{_directory(step)} does not exist",
        facts.DANGLING_LINK: f"{path} is a symbolic link whose target does not exist",
        facts.UNREADABLE: f"{path} cannot be opened: {detail or 'Permission denied'}",
        facts.WRONG_CLASS: f"{path} is passed over: {detail or 'other ELF class'}",
        facts.WRONG_MACHINE: f"{path} is passed over: built for {detail or 'another architecture'}",
        facts.BAD_FILE: f"{path} ends the search: {detail or 'not a usable ELF file'}",
        facts.LIST_ENDED: f"{path} ends this list: {detail}",
        facts.STALE_ENTRY: f"names {path}, which does not exist",
        facts.DROPPED: f"{step.element} is ignored: {detail}",
    }
    return verdicts.get(step.verdict, f"{path} {step.verdict} {detail}".strip())


def _of_step(step: facts.Step) -> str:
    if step.verdict == facts.DISABLED:
        return f"does not apply: {step.detail}"
    if step.verdict in _WHOLE_STAGE:
        return _WHOLE_STAGE[step.verdict] + (f": {step.detail}" if step.detail else "")
    verdict = _of_candidate(step)
    if step.element and step.candidate and "$" in step.element:
        verdict += f" (written {step.element})"
    return verdict


def _is_hwcaps(step: facts.Step) -> bool:
    """Whether a step tried a subdirectory for one kind of processor, and found nothing there."""
    return step.verdict in (facts.ABSENT, facts.NO_DIRECTORY) and "/glibc-hwcaps/" in (step.candidate or "")


def search(lookup: facts.Lookup) -> Tuple[Fact, ...]:
    """Every place of a search in the loader's order, with those that did not apply and why.

    The system directories are one fact while none of them has anything to say. Subdirectories for one kind of
    processor are covered by the fact of their directory.
    """
    rows: List[Fact] = []
    for stage, group in groupby(lookup.steps, key=lambda step: step.stage):
        steps = [step for step in group if not _is_hwcaps(step)]
        silent = all(step.verdict in (facts.ABSENT, facts.NO_DIRECTORY) for step in steps)
        if stage == facts.DEFAULT and silent and steps:
            rows.append(Fact(", ".join(dict.fromkeys(map(_directory, steps))), "no such file"))
            continue
        if stage == facts.RPATH and len(steps) > 2 and all(step.verdict == facts.NOT_SET for step in steps):
            rows.append(Fact(_place(steps[0]), _of_step(steps[0])))
            rows.append(Fact(f"RPATH of the {len(steps) - 1} objects above it", "not set"))
            continue
        rows.extend(Fact(_place(step), _of_step(step)) for step in steps)
    return tuple(rows)


def searched(lookup: facts.Lookup) -> Tuple[Evidence, ...]:
    """The search as evidence; nothing when the model did not come as far as this search."""
    rows = search(lookup)
    return (Evidence("loader searched", rows),) if rows else ()


def own_search(looked: Iterable[Considered]) -> Tuple[Evidence, ...]:
    """What torch_fl looked at by itself, each place once; nothing when it did not look."""
    rows: Dict[Tuple[str, str], Fact] = {}
    for place in looked:
        if not place.directory:
            absent = place.verdict == "not set" and not place.label.isupper()
            verdict = "was not found" if absent else place.verdict
            rows.setdefault((place.label, ""), Fact(place.label, verdict))
            continue
        verdict = "does not exist" if place.verdict == "no such directory" else place.verdict
        rows.setdefault(("", place.directory), Fact(place.label, f"{place.directory} {verdict}"))
    return (Evidence("torch_fl searched", tuple(rows.values())),) if rows else ()


# --- commands ----------------------------------------------------------------------------------------------------


def export(variable: str, directories: Sequence[str], keep: bool = False) -> str:
    """An `export` line that puts `directories` into a colon-separated variable.

    keep   leave what the variable held before behind the new directories
    """
    value = shell_word(":".join(directories))
    return f"export {variable}={value}" + (f"${{{variable}:+:${variable}}}" if keep else "")

"""From what the model says to findings: one for each cause, each cure tried before it is advised."""

from __future__ import annotations

import os
import sys
from typing import Callable, Dict, List, Optional, Sequence, Tuple

from torch_fl._preload import catalog, elf, facts, places, plan, resolve
from torch_fl.diagnose import cure, hunt, predict, pyside, records
from torch_fl.diagnose.cure import Attempt, Change, Cure, Imported, Tried
from torch_fl.diagnose.explain import mismatch, trials, words
from torch_fl.diagnose.explain import places as explain_places
from torch_fl.diagnose.finding import Fact, Finding
from torch_fl.diagnose.hunt import Hunt
from torch_fl.diagnose.unfit import Question, foreign_libc, unfit

_MACHINES = {facts.WRONG_MACHINE: "built for {detail}", facts.WRONG_CLASS: "{detail}"}


Options = Callable[[Sequence[str], Hunt], List[Tuple[Change, ...]]]
"""Changes worth trying for some missing names, smallest first."""


# --- one target --------------------------------------------------------------------------------------------------


def target(question: Question, path: str, outcome: resolve.Outcome) -> List[Finding]:
    """Findings for dlopen(path) in a fresh process; none when it loads."""
    if outcome.loads:
        return []
    keep = bool(question.host.environment.get("LD_LIBRARY_PATH"))

    def attempt(changes: Tuple[Change, ...]) -> Tried:
        changed = predict.with_host_changes(question.host, changes)
        outcome = predict.file(changed, path)
        return Tried(predict.unstarted(changed) or outcome.error or _crash(outcome.crash), outcome.missing)

    def options(sought: Sequence[str], hunted: Hunt) -> List[Tuple[Change, ...]]:
        sets = cure.directory_sets(sought, hunted.candidates)
        alone = [(Change("LD_LIBRARY_PATH", chosen, keep),) for chosen in sets]
        preload = tuple(_compat_steps(question))
        return alone + [
            (*changes, Change("LD_PRELOAD", preload, bool(question.host.environment.get("LD_PRELOAD"))))
            for changes in alone
            if preload
        ]

    missing = [p for p in outcome.problems if isinstance(p, facts.MissingLibrary)]
    found = (
        []
        if foreign_libc(question.host, outcome)
        else absent(question, missing, attempt, options, first=_torch(question, path, missing))
    )
    found += unfit(question, path, outcome, attempt)
    return found or [trials.loader_refused(path, outcome.error, sys.executable, question.label(outcome.error))]


def _torch(question: Question, path: str, missing: Sequence[facts.MissingLibrary]) -> Optional[Imported]:
    """What `import torch` before it would do for a file that lacks a library of torch; None where it lacks none."""
    torch = pyside.find_torch() if missing else None
    if torch is None or torch.extension is None:
        return None
    directory = os.path.join(torch.directory, "lib")
    if not any(os.path.isfile(os.path.join(directory, problem.name)) for problem in missing):
        return None
    outcome = predict.after_torch(question.host, torch, path)
    return Imported("torch", directory, outcome.error or _crash(outcome.crash))


def _compat_steps(question: Question) -> List[str]:
    """What the plan opens up to the CUDA-compat pair: what a component needs before it without saying so."""
    steps = plan.make_plan(question.sources).steps
    last = max((n for n, step in enumerate(steps) if step.soname in catalog.COMPAT_PAIR), default=-1)
    return [step.path for step in steps[: last + 1]]


def _crash(crash: Optional[str]) -> str:
    return f"the process ends ({crash})" if crash else ""


# --- names without a file ----------------------------------------------------------------------------------------


def absent(
    question: Question,
    missing: Sequence[facts.MissingLibrary],
    attempt: Attempt,
    options: Options,
    considered: Sequence[places.Considered] = (),
    package: Optional[str] = None,
    aside: Sequence[Fact] = (),
    first: Optional[Imported] = None,
) -> List[Finding]:
    """Findings for names that no usable file answers.

    considered   what torch_fl looked at before
    package      directory of the vendor's package, None when there is none
    aside        files that the loader's text names although they are in order
    first        a package that brings some of the names in when it is imported before
    """
    found: List[Finding] = []
    rest: List[facts.MissingLibrary] = []
    for problem in missing:
        skipped = _skipped(question, problem)
        if skipped is not None:
            found.append(skipped)
        elif "/" in problem.name:
            found.append(explain_places.missing_path(problem, question.label(problem.error)))
        else:
            rest.append(problem)
    if not rest:
        return found
    sought = list(dict.fromkeys(problem.name for problem in rest))
    lookups = [problem.lookup for problem in rest]
    hunted = hunt.hunt(sought, question.host, question.sources, lookups, question.budget)
    hunted = hunted._replace(looked=tuple(map(hunt.at_the_gap, (*considered, *hunted.looked))))
    held = {candidate.name for candidate in hunted.candidates if candidate.usable}
    on_disk = [problem for problem in rest if problem.name in held]
    nowhere = [problem for problem in rest if problem.name not in held]
    if on_disk:
        names = [problem.name for problem in on_disk]
        best = cure.prove(options(names, hunted), attempt, names if nowhere else ()) or Cure((), False)
        label = question.label(on_disk[0].error)
        found.append(explain_places.not_on_search_path(on_disk, hunted, best, label, aside, first))
    for group in _by_home(nowhere, whole=package is None):
        names = [problem.name for problem in group]
        own = hunted._replace(near=tuple(c for c in hunted.near if c.name in names))
        lost = records.lost(names, [problem.requester for problem in group])
        label = question.label(group[0].error)
        found.append(explain_places.missing_library(group, own, package, label, aside, lost))
    return found


def _by_home(problems: Sequence[facts.MissingLibrary], whole: bool) -> List[List[facts.MissingLibrary]]:
    """Names that come from one package are missing for one reason; of others each has its own.

    whole   the vendor's package is not there at all, and with it the CUDA-compat runtime that it carries
    """
    groups: Dict[str, List[facts.MissingLibrary]] = {}
    for problem in problems:
        record = catalog.library(problem.name)
        home = record.home if record else problem.name
        carried = whole and home == "cuda-compat" and any(p.name == catalog.OP_LIBRARY.soname for p in problems)
        groups.setdefault("package" if carried else home, []).append(problem)
    for group in groups.values():
        group.sort(key=lambda problem: problem.name != catalog.OP_LIBRARY.soname)
    return list(groups.values())


def _skipped(question: Question, problem: facts.MissingLibrary) -> Optional[Finding]:
    """A file of that name was there and the loader passed over it: then the file is the finding, not its absence."""
    host, label = question.host, question.label(problem.error)
    for step in problem.lookup.steps:
        path = step.candidate
        if path is None:
            continue
        if step.verdict == facts.DANGLING_LINK:
            replacement = link_replacement(question, problem.name, path)
            return explain_places.broken_link(problem, link_chain(path), replacement, label)
        if step.verdict == facts.UNREADABLE:
            detail = step.detail or "Permission denied"
            return mismatch.unreadable_file(path, problem.requester, detail, problem.error, label, _blocking(path))
        if step.verdict in _MACHINES:
            built_for = _MACHINES[step.verdict].format(detail=step.detail)
            runs = f"{host.bits} bits, {elf.MACHINES.get(host.machine, str(host.machine))}"
            search = words.searched(problem.lookup)
            return mismatch.wrong_architecture(
                path, problem.requester, built_for, runs, problem.error, label, problem.chain, search
            )
    return None


def link_chain(path: str) -> Tuple[Fact, ...]:
    """Each link from `path` on, with what it points to; the last one points to nothing."""
    rows: List[Fact] = []
    while os.path.islink(path) and len(rows) < 40:
        target = os.readlink(path)
        following = os.path.normpath(os.path.join(os.path.dirname(path), target))
        gone = "" if os.path.lexists(following) else f"; {following} does not exist"
        rows.append(Fact(path, f"links to {target}{gone}"))
        path = following
    return tuple(rows)


def link_replacement(question: Question, name: str, link: str) -> Optional[str]:
    """The one file beside a dangling link that answers to `name` and loads in the model; None unless it is unique."""
    directory = os.path.dirname(link)
    fitting: List[str] = []
    try:
        present = sorted(os.listdir(directory))
    except OSError:
        return None
    for other in present:
        path = os.path.join(directory, other)
        if os.path.islink(path) or not hunt.is_near(other, name):
            continue
        candidate = hunt.judge(path, name, "beside the link", question.host)
        if candidate.usable and elf.read(path).soname == name and predict.file(question.host, path).loads:
            fitting.append(path)
    return fitting[0] if len(fitting) == 1 else None


def _blocking(path: str) -> Tuple[Fact, ...]:
    """The first directory above `path` that this user may not enter; nothing when it is the file itself."""
    parts = path.split("/")
    for length in range(2, len(parts)):
        directory = "/".join(parts[:length])
        if not os.access(directory, os.X_OK):
            return (Fact(directory, "may not be entered by this user"),)
    return ()

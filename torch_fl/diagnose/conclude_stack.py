"""The same for the whole stack, where torch_fl's own plan comes before the loader."""

from __future__ import annotations

import os
from typing import List, Mapping, Optional, Sequence, Tuple

from torch_fl._preload import catalog, facts, places, plan, resolve, torch_side
from torch_fl.diagnose import conclude, cure, predict, pyside, unimportable
from torch_fl.diagnose.cure import Change, Tried
from torch_fl.diagnose.explain import mismatch, python, stack, symbols, trials
from torch_fl.diagnose.explain import places as explain_places
from torch_fl.diagnose.finding import Fact, Finding
from torch_fl.diagnose.hunt import Candidate, Hunt
from torch_fl.diagnose.predict import StackPrediction
from torch_fl.diagnose.pyside import Installed
from torch_fl.diagnose.unfit import Question, unfit

EXTENSION = "torch_fl._C"
OWN_LIBRARY = "libtorch_fl.so"
"""Our own library beside torch_fl._C, in lib/: the one that needs the vendor's."""


# --- the Python side ---------------------------------------------------------------------------------------------


def extension(installed: Installed, environment: Mapping[str, str], text: str = "") -> List[Finding]:
    """Findings for torch_fl._C; none when this interpreter has one.

    environment   as it was when the process started
    text          what Python said, "" when it was not asked
    """
    directory = installed.directory
    if installed.extension is not None or directory is None:
        return []
    suffixes = list(pyside.SUFFIXES)
    present = pyside.extensions_of_others(directory)
    if present:
        return [python.python_tag_mismatch(EXTENSION, present, suffixes, installed.python, installed.version, text)]
    root = os.path.dirname(directory)
    checkout = root if os.path.isfile(os.path.join(root, "setup.py")) else None
    stray = _stray_builds(checkout) if checkout else ()
    hidden = None if stray else unimportable.explain(EXTENSION, environment)
    if hidden is not None:
        return [hidden]
    return [python.extension_not_built(directory, suffixes, stray, installed.python, checkout, text)]


def _stray_builds(checkout: str) -> Tuple[str, ...]:
    """Extensions that a plain build_ext left below build/."""
    found: List[str] = []
    build = os.path.join(checkout, "build")
    try:
        trees = sorted(os.listdir(build))
    except OSError:
        return ()
    for tree in trees:
        built = pyside.extension_file(os.path.join(build, tree, "torch_fl"))
        if built:
            found.append(built)
    return tuple(found)


def torch(installed: Installed, built: str, search_path: Sequence[str], text: str = "") -> List[Finding]:
    """Findings for torch. `built`: the version in the build record, "" without a record."""
    line = ".".join(built.split("+")[0].split(".")[:2]) if built else python.TORCH_LINE
    if installed.torch is None:
        return [python.torch_missing(installed.python, pyside.searched(search_path), line, text)]
    version = installed.torch.version
    if built and not torch_side.same_line(version, built):
        return [
            python.torch_mismatch(version, installed.torch.directory, built, installed.record_path, installed.python)
        ]
    old = torch_side.old_abi_library(installed.torch.directory)
    if old is not None:
        return [python.torch_old_abi(version, old, line, installed.python)]
    rival = torch_side.cuda_library(installed.torch.directory)
    if rival is not None:
        return [python.cuda_torch(version, rival, catalog.CUDA_RUNTIME.soname, line, installed.python)]
    return []


# --- the libraries -----------------------------------------------------------------------------------------------


def libraries(question: Question, installed: Installed, prediction: StackPrediction) -> List[Finding]:
    """Findings for the vendor's libraries, torch's and our own, from the plan and the prediction."""
    if not prediction.plan.complete:
        return _incomplete(question, installed, prediction)
    failed = prediction.failed
    if failed is not None:
        return _failed(question, installed, prediction, failed)
    if prediction.process is not None:
        copies = predict.copies(prediction.process, catalog.RUNTIME_COPIES)
        if len(copies) > 1:
            return [symbols.duplicate_library(catalog.RUNTIME.soname, copies)]
    return []


def useless_preloads(prediction: StackPrediction) -> List[Finding]:
    """A warning for each library that is opened first and serves nobody: the stack loads, with another copy of it."""
    found: List[Finding] = []
    process = prediction.process
    if process is None or not prediction.complete:
        return []
    for path, name, soname in _other_soname(prediction.plan):
        users = [entry.name for entry in process.maps if entry.elf is not None and name in entry.elf.needed]
        taken = process.find(name)
        if users and taken is not None:
            found.append(mismatch.no_soname(path, name, soname, users, taken.name))
    return found


def stale_run_paths(question: Question, installed: Installed) -> List[Finding]:
    """A warning for each of our own libraries whose run path names directories that are not there."""
    if installed.directory is None or installed.extension is None:
        return []
    found: List[Finding] = []
    own = os.path.join(installed.directory, "lib", OWN_LIBRARY)
    for path in (installed.extension, own):
        tag, entries = predict.run_paths(question.host, path)
        if any(not exists for _, exists in entries):
            found.append(stack.stale_rpath(path, tag, entries))
    return found


def _attempt(question: Question, installed: Installed, changes: Tuple[Change, ...]) -> Tried:
    """The whole stack in the model, with changes."""
    host = predict.with_host_changes(question.host, changes)
    sources = predict.with_source_changes(question.sources, host, changes)
    changed = predict.stack(host, sources, installed.torch, installed.extension)
    missing = tuple(item.soname for item in changed.plan.missing)
    failed = changed.failed
    if failed is not None:
        return Tried(failed.outcome.error or f"the process ends ({failed.outcome.crash})", missing)
    if not changed.plan.complete:
        names = [*missing, *(item.path for item in changed.plan.unreadable)]
        return Tried(f"{names[0]}: cannot open shared object file: No such file or directory", missing)
    return Tried("")


def _options(question: Question, sought: Sequence[str], hunted: Hunt) -> List[Tuple[Change, ...]]:
    """Directories go into the variable that torch_fl reads first; the runtime alone is found by the SDK's root."""
    settings = question.sources.settings
    options: List[Tuple[Change, ...]] = []
    for chosen in cure.directory_sets(sought, hunted.candidates, partial=True):
        named = tuple(d for d in chosen if not _only_runtime(d, hunted.candidates))
        roots = tuple(os.path.dirname(d) for d in chosen if d not in named)
        changes: List[Change] = []
        if named:
            variable = catalog.XDNN_DIRECTORIES_VARIABLE
            changes.append(Change(variable, named, bool(settings.get(variable))))
        if roots:
            changes.append(Change(catalog.SDK_ROOT_VARIABLE, roots[:1], False))
        options.append(tuple(changes))
    return options


def _only_runtime(directory: str, candidates: Sequence[Candidate]) -> bool:
    here = {c.name for c in candidates if os.path.dirname(c.path) == directory}
    return here == {catalog.RUNTIME.soname} and os.path.basename(directory) in catalog.SDK_BELOW_ROOT


def _incomplete(question: Question, installed: Installed, prediction: StackPrediction) -> List[Finding]:
    """Something that the plan needs is missing or cannot be read; then torch_fl opens nothing."""
    decided = prediction.plan
    bare = prediction.failed.outcome if prediction.failed else None
    found: List[Finding] = []
    for item in decided.unreadable:
        outcome = predict.file(question.host, item.path)
        found += unfit(question, item.path, outcome) or [
            trials.loader_refused(item.path, item.reason, installed.python)
        ]
    said = question.said or (bare.error if bare else None)
    problems: List[facts.MissingLibrary] = []
    considered: List[places.Considered] = []
    for missing in _really_missing(decided.missing):
        link = _dangling(missing)
        problem = _as_loader_problem(missing, bare, installed)
        if link is not None:
            quote = said or problem.error
            replacement = conclude.link_replacement(question, missing.soname, link)
            linked = problem._replace(error=quote)
            aside = _named_in_vain(quote, decided)
            chain = conclude.link_chain(link)
            found.append(explain_places.broken_link(linked, chain, replacement, question.label(quote), aside))
            continue
        problems.append(problem)
        considered.extend(missing.considered)
    if not problems:
        return found
    problems.sort(key=lambda problem: problem.name != catalog.OP_LIBRARY.soname)  # what needs the others comes first
    quote = said or problems[0].error
    problems = [problem._replace(error=quote if n == 0 else None) for n, problem in enumerate(problems)]
    absent = conclude.absent(
        question,
        problems,
        lambda changes: _attempt(question, installed, changes),
        lambda sought, hunted: _options(question, sought, hunted),
        considered,
        decided.package,
        _named_in_vain(quote, decided),
    )
    halves = _halves(decided.missing)
    if halves and not any(finding.fix.commands for finding in absent):
        return [*found, explain_places.split_pair(halves, decided.compat_search, quote, question.label(quote))]
    return found + absent


def _really_missing(missing: Sequence[plan.Missing]) -> Tuple[plan.Missing, ...]:
    """Without the half of the CUDA-compat pair that is there: the plan wants both in one directory."""
    absent = [item for item in missing if not _is_somewhere(item)]
    return tuple(absent or missing)


def _halves(missing: Sequence[plan.Missing]) -> Tuple[str, ...]:
    """Where the libraries of the CUDA-compat pair are, when nothing is missing but a directory that holds both."""
    if {item.soname for item in missing} != set(catalog.COMPAT_PAIR) or not all(map(_is_somewhere, missing)):
        return ()
    return tuple(path for item in missing for path in _places_of(item))


def _is_somewhere(item: plan.Missing) -> bool:
    return bool(_places_of(item))


def _places_of(item: plan.Missing) -> Tuple[str, ...]:
    paths = (os.path.join(place.directory, item.soname) for place in item.considered if place.directory)
    return tuple(path for path in paths if os.path.isfile(path))


def _dangling(item: plan.Missing) -> Optional[str]:
    """The first link of that name, in the places looked at, that leads nowhere."""
    for place in item.considered:
        path = os.path.join(place.directory, item.soname)
        if place.directory and os.path.islink(path) and not os.path.exists(path):
            return path
    return None


def _as_loader_problem(
    item: plan.Missing, bare: Optional[resolve.Outcome], installed: Installed
) -> facts.MissingLibrary:
    """What the loader would make of that name; without a prediction, what the plan knows of it."""
    for problem in bare.problems if bare else ():
        if isinstance(problem, facts.MissingLibrary) and problem.name == item.soname:
            return problem
    requester = item.needed_by[0] if item.needed_by else installed.extension or "torch_fl"
    return facts.MissingLibrary(item.soname, requester, (), facts.Lookup(item.soname, requester, (), None, ""), None)


def _named_in_vain(quote: Optional[str], decided: plan.Plan) -> Tuple[Fact, ...]:
    """The library that the loader's text names, when that one is there and another is missing."""
    if quote is None:
        return ()
    for step in decided.steps:
        if quote.startswith(f"{step.soname}: "):
            return (Fact(step.path, "present; torch_fl opens it by its path once nothing is missing"),)
    return ()


def _failed(
    question: Question, installed: Installed, prediction: StackPrediction, failed: predict.Opening
) -> List[Finding]:
    """The plan is complete, and one of the loads fails all the same."""
    missing = [p for p in failed.outcome.problems if isinstance(p, facts.MissingLibrary)]
    found: List[Finding] = []
    for path, name, soname in _other_soname(prediction.plan):
        users = [p.requester for p in missing if p.name == name]
        if users:
            found.append(mismatch.no_soname(path, name, soname, users))
            missing = [p for p in missing if p.name != name]
    found += conclude.absent(
        question,
        missing,
        lambda changes: _attempt(question, installed, changes),
        lambda sought, hunted: [
            (Change("LD_LIBRARY_PATH", chosen, bool(question.host.environment.get("LD_LIBRARY_PATH"))),)
            for chosen in cure.directory_sets(sought, hunted.candidates)
        ],
    )
    found += unfit(question, failed.path, failed.outcome)
    return found or [
        trials.loader_refused(failed.path, failed.outcome.error, installed.python, question.label(failed.outcome.error))
    ]


def _other_soname(decided: plan.Plan) -> List[Tuple[str, str, Optional[str]]]:
    """(path, name, SONAME) of planned files that would not answer to the name they are opened for."""
    return [(step.path, step.soname, step.declared) for step in decided.steps if not step.answers]

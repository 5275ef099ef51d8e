"""From what the model says to findings: one for each cause, each cure tried before it is advised."""

from __future__ import annotations

import os
from typing import Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

from torch_fl._preload import catalog, elf, facts, places, plan, resolve
from torch_fl._preload.host import Host
from torch_fl.diagnose import hunt, predict
from torch_fl.diagnose.explain import files, refusals, symbols, trials, words
from torch_fl.diagnose.explain import places as explain_places
from torch_fl.diagnose.finding import Fact, Finding
from torch_fl.diagnose.hunt import Change, Cure, Hunt, Tried

_MACHINES = {facts.WRONG_MACHINE: "built for {detail}", facts.WRONG_CLASS: "{detail}"}


class Question(NamedTuple):
    """What a diagnosis starts from.

    host      the process that the question is about
    sources   where torch_fl would look for vendor libraries
    said      the loader's own text when there is one already; else None
    budget    seconds that the hunt may take
    """

    host: Host
    sources: places.Sources
    said: Optional[str] = None
    budget: float = hunt.DEFAULT_BUDGET

    def label(self, error: Optional[str]) -> str:
        """Whether the loader said that text, or would say it."""
        return words.SAID if error is not None and error == self.said else words.WOULD_SAY


Attempt = Callable[[Tuple[Change, ...]], Tried]
"""Tries changes in the model."""

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
        sets = hunt.directory_sets(sought, hunted.candidates)
        alone = [(Change("LD_LIBRARY_PATH", chosen, keep),) for chosen in sets]
        preload = tuple(_compat_steps(question))
        return alone + [
            (*changes, Change("LD_PRELOAD", preload, bool(question.host.environment.get("LD_PRELOAD"))))
            for changes in alone
            if preload
        ]

    missing = [p for p in outcome.problems if isinstance(p, facts.MissingLibrary)]
    found = absent(question, missing, attempt, options)
    found += unfit(question, path, outcome)
    return found or [trials.loader_refused(path, outcome.error, question.label(outcome.error))]


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
) -> List[Finding]:
    """Findings for names that no usable file answers.

    considered   what torch_fl looked at before
    package      directory of the vendor's package, None when there is none
    aside        files that the loader's text names although they are in order
    """
    found: List[Finding] = []
    rest: List[facts.MissingLibrary] = []
    for problem in missing:
        skipped = _skipped(question, problem)
        if skipped is None:
            rest.append(problem)
        else:
            found.append(skipped)
    if not rest:
        return found
    sought = list(dict.fromkeys(problem.name for problem in rest))
    lookups = [problem.lookup for problem in rest]
    hunted = hunt.hunt(sought, question.host, question.sources, lookups, question.budget)
    hunted = hunted._replace(looked=(*considered, *hunted.looked))
    held = {candidate.name for candidate in hunted.candidates if candidate.usable}
    on_disk = [problem for problem in rest if problem.name in held]
    nowhere = [problem for problem in rest if problem.name not in held]
    if on_disk:
        names = [problem.name for problem in on_disk]
        cure = hunt.prove(options(names, hunted), attempt, names if nowhere else ()) or Cure((), False)
        label = question.label(on_disk[0].error)
        found.append(explain_places.not_on_search_path(on_disk, hunted, cure, label, aside))
    for group in _by_home(nowhere, whole=package is None):
        names = [problem.name for problem in group]
        own = hunted._replace(near=tuple(c for c in hunted.near if c.name in names))
        found.append(explain_places.missing_library(group, own, package, question.label(group[0].error), aside))
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
            return files.unreadable_file(path, problem.requester, detail, problem.error, label, _blocking(path))
        if step.verdict in _MACHINES:
            built_for = _MACHINES[step.verdict].format(detail=step.detail)
            runs = f"{host.bits} bits, {elf.MACHINES.get(host.machine, str(host.machine))}"
            search = words.searched(problem.lookup)
            return files.wrong_architecture(
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


# --- files that are there ----------------------------------------------------------------------------------------


def unfit(question: Question, root: str, outcome: resolve.Outcome) -> List[Finding]:
    """Findings for files that are there and do not do: damaged, foreign, refused, or without a symbol or version."""
    runs = f"{question.host.libc} {'.'.join(map(str, question.host.libc_version))}"
    foreign = [p for p in outcome.problems if isinstance(p, facts.ForeignLibc)]
    if foreign:
        return [refusals.foreign_libc(foreign[0], runs, outcome.error or "", question.label(outcome.error))]
    found: List[Finding] = []
    for problem in outcome.problems:
        if not problem.fatal:
            continue
        label = question.label(problem.error)
        if isinstance(problem, facts.BadFile):
            found.append(files.bad_file(problem, *_glance(problem.path), label))
        elif isinstance(problem, facts.TruncatedFile):
            found.append(files.truncated_file(problem, "", label))
        elif isinstance(problem, facts.OrphanVersion):
            found.append(symbols.orphan_version(problem, label))
        elif isinstance(problem, facts.UnversionedProvider):
            found.append(symbols.unversioned_provider(problem, label))
        elif isinstance(problem, facts.Refused):
            found.append(refusals.refused(problem, label))
    for provider, lacking in symbols.by_provider(outcome.problems).items():
        how = _how_found(outcome, provider)
        found.append(
            symbols.version_not_found(provider, lacking, how, _defined(provider), question.label(lacking[0].error))
        )
    if not found and not outcome.missing:
        for problem in outcome.problems:
            if isinstance(problem, facts.UndefinedSymbols):
                found.append(_undefined(question, root, outcome, problem))
    return found


def _glance(path: str) -> Tuple[Optional[int], Optional[str]]:
    """Size of a file, and its first line when it is text."""
    try:
        if not os.path.isfile(path):
            return None, None
        size = os.path.getsize(path)
        with open(path, "rb") as stream:
            head = stream.read(200)
    except OSError:
        return None, None
    line = head.split(b"\n")[0]
    printable = bool(line) and all(32 <= byte < 127 or byte == 9 for byte in line)
    return size, line.decode("ascii") if printable else None


def _how_found(outcome: resolve.Outcome, path: str) -> str:
    """In words, which step of the search led to a loaded object."""
    ways = {
        facts.START: "loaded with the interpreter",
        facts.PRELOAD: "loaded through LD_PRELOAD",
        facts.LOADED: "loaded before",
        facts.PATH: "named by its path",
        facts.RPATH: "found through RPATH",
        facts.RUNPATH: "found through RUNPATH",
        facts.LIBRARY_PATH: "found through LD_LIBRARY_PATH",
        facts.CACHE: "found through /etc/ld.so.cache",
        facts.DEFAULT: "found in a system directory",
        facts.TARGET: "the file that is opened",
    }
    how = next((item.how for item in outcome.objects if item.path == path), facts.LOADED)
    return ways.get(how, how)


def _defined(path: str) -> Tuple[str, ...]:
    """The version names that a file defines; () when it cannot be read."""
    try:
        return tuple(version.name for version in elf.read(path).versions.defined if not version.base)
    except (OSError, elf.ElfError):
        return ()


def _undefined(question: Question, root: str, outcome: resolve.Outcome, problem: facts.UndefinedSymbols) -> Finding:
    """Order, when some library at hand defines the symbols; else nothing does."""
    try:
        needed: Tuple[str, ...] = elf.read(problem.requester).needed
    except (OSError, elf.ElfError):
        needed = ()
    chain = _chain(outcome, problem.requester)
    scope = _scope(outcome, root)
    label = question.label(problem.error)
    problem = _with_vendor_providers(question, problem)
    providers = [p for symbol in problem.symbols for p in symbol.providers if p.why in ("local-scope", "not-loaded")]
    if not providers:
        return symbols.undefined_symbol(problem, chain, needed, scope, label)
    preload = _preload_cure(question, root, [provider.path for provider in providers])
    return symbols.symbol_order(problem, chain, needed, scope, preload, label)


def _chain(outcome: resolve.Outcome, path: str) -> Tuple[str, ...]:
    """From the opened object to `path`, each needed by the one before."""
    above = {item.path: item.needed_by for item in outcome.objects}
    chain = [path]
    while above.get(chain[0]) and above[chain[0]][0] not in chain:
        chain.insert(0, above[chain[0]][0])
    return tuple(chain)


def _scope(outcome: resolve.Outcome, root: str) -> Tuple[Fact, ...]:
    """The two scopes that were looked through, in the loader's order."""
    common = len(outcome.process.global_scope)
    return (
        Fact("global scope", f"{words.count(common, 'object')}, none of which defines it"),
        Fact(f"scope of {os.path.basename(root)}", f"{words.count(len(outcome.objects), 'object')}, none defines it"),
    )


def _with_vendor_providers(question: Question, problem: facts.UndefinedSymbols) -> facts.UndefinedSymbols:
    """Add what the catalogue knows of undeclared needs, where the file of the provider really defines the symbol."""
    known = {need.symbol: need.provider for need in catalog.HIDDEN_NEEDS}
    if not any(item.symbol in known and not item.providers for item in problem.symbols):
        return problem
    steps = {step.soname: step.path for step in plan.make_plan(question.sources).steps}
    completed: List[facts.Undefined] = []
    for item in problem.symbols:
        path = steps.get(known.get(item.symbol, ""))
        if path is not None and not item.providers and _defines(path, item.symbol):
            item = item._replace(providers=(facts.Provider(path, "not-loaded", None),))
        completed.append(item)
    return problem._replace(symbols=tuple(completed))


def _defines(path: str, symbol: str) -> bool:
    try:
        return any(s.section != 0 for s in elf.read(path).symbols.lookup(symbol.encode()))
    except (OSError, elf.ElfError):
        return False


def _preload_cure(question: Question, root: str, providers: Sequence[str]) -> Optional[Change]:
    """LD_PRELOAD with which the model loads `root`: the providers, or what the plan opens up to them; or None."""
    steps = [step.path for step in plan.make_plan(question.sources).steps]
    wanted = tuple(dict.fromkeys(providers))
    options = [wanted]
    if all(path in steps for path in wanted):
        options.append(tuple(steps[: max(steps.index(path) for path in wanted) + 1]))
    for option in options:
        change = Change("LD_PRELOAD", option, bool(question.host.environment.get("LD_PRELOAD")))
        changed = predict.with_host_changes(question.host, (change,))
        if not predict.unstarted(changed) and predict.file(changed, root).loads:
            return change
    return None

"""Files that are there and do not do: damaged, foreign, refused, or without a symbol or version."""

import os
from typing import List, NamedTuple, Optional, Sequence, Tuple

from torch_fl._preload import catalog, elf, facts, places, plan, resolve
from torch_fl._preload.host import Host
from torch_fl.diagnose import hunt, predict, providers
from torch_fl.diagnose.cure import Attempt, Change
from torch_fl.diagnose.explain import files, refusals, symbols, versions, words
from torch_fl.diagnose.finding import Fact, Finding


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


def unfit(question: Question, root: str, outcome: resolve.Outcome, attempt: Optional[Attempt] = None) -> List[Finding]:
    """Findings for files that are there and do not do: damaged, foreign, refused, or without a symbol or version.

    attempt   tries changes on all that is to load; without it nothing is advised that only this file would prove
    """
    runs = f"{question.host.libc} {'.'.join(map(str, question.host.libc_version))}"
    foreign = foreign_libc(question.host, outcome)
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
            found.append(versions.orphan_version(problem, label))
        elif isinstance(problem, facts.UnversionedProvider):
            found.append(versions.unversioned_provider(problem, label))
        elif isinstance(problem, facts.Refused):
            found.append(refusals.refused(problem._replace(detail=_detail(question.host, problem)), label))
    for provider, lacking in versions.by_provider(outcome.problems).items():
        how = _how_found(outcome, provider)
        found.append(
            versions.version_not_found(provider, lacking, how, _defined(provider), question.label(lacking[0].error))
        )
    if not found and not outcome.missing:
        for problem in outcome.problems:
            if isinstance(problem, facts.UndefinedSymbols):
                found.append(_undefined(question, root, outcome, problem, attempt))
    return found


def foreign_libc(host: Host, outcome: resolve.Outcome) -> List[facts.ForeignLibc]:
    """Objects of a load that were linked against another C library than the one of the process."""
    return [p for p in outcome.problems if isinstance(p, facts.ForeignLibc) and p.libc != host.libc]


def _detail(host: Host, problem: facts.Refused) -> str:
    """What was compared, in words; the model's own word where it has one."""
    if problem.reason == "noexec-mount":
        return f"{os.path.dirname(problem.path)} is on a file system mounted with noexec"
    if problem.reason == "address-space":
        return f"needs more address space than the limit of {host.address_space} bytes"
    if problem.reason == "executable-stack":
        version = ".".join(map(str, host.libc_version))
        return f"PT_GNU_STACK asks for an executable stack, or is not there; {host.libc} {version}"
    return problem.detail


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


def _undefined(
    question: Question,
    root: str,
    outcome: resolve.Outcome,
    problem: facts.UndefinedSymbols,
    attempt: Optional[Attempt],
) -> Finding:
    """Order, when some library at hand defines the symbols; another copy, when one does; else nothing does."""
    try:
        needed: Tuple[str, ...] = elf.read(problem.requester).needed
    except (OSError, elf.ElfError):
        needed = ()
    chain = _chain(outcome, problem.requester)
    scope = _scope(outcome, root)
    label = question.label(problem.error)
    problem = _with_vendor_providers(question, problem)
    known = _served_elsewhere(problem)
    if known:
        return symbols.symbol_order(problem, chain, needed, scope, _preload_cure(question, root, known), label)
    copies = providers.other_copies(question.host, question.sources, outcome, problem, question.budget)
    if not copies and attempt is not None:
        exported, left_out = providers.exporters(question.host, outcome, problem)
        preload = _preload_cure(question, root, _served_elsewhere(exported))
        if preload is not None:
            return symbols.symbol_order(exported, chain, needed, scope, preload, label)
        if left_out:
            scope += (
                Fact("not searched", f"{words.count(left_out, 'library')} known to the loader, for want of time"),
            )
    taken = tuple(
        Fact(item.path, _how_found(outcome, item.path)) for item in providers.used(outcome, problem.requester)
    )
    change = _copy_cure(question, copies, attempt) if attempt is not None else None
    return symbols.undefined_symbol(problem, chain, needed, scope, label, taken, copies, change)


def _served_elsewhere(problem: facts.UndefinedSymbols) -> List[str]:
    """Libraries that define one of the symbols, and that are not loaded, or not visible."""
    return [p.path for s in problem.symbols for p in s.providers if p.why in ("local-scope", "not-loaded")]


def _copy_cure(question: Question, copies: Sequence[hunt.Copy], attempt: Attempt) -> Optional[Change]:
    """The change of one variable with which another copy comes first and everything loads; None when none does."""
    given = question.host.environment
    options = [
        Change("LD_LIBRARY_PATH", (os.path.dirname(c.path),), bool(given.get("LD_LIBRARY_PATH"))) for c in copies
    ]
    options += [Change("LD_PRELOAD", (copy.path,), bool(given.get("LD_PRELOAD"))) for copy in copies]
    return next((change for change in options if not attempt((change,)).error), None)


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
        Fact("global scope", f"{words.count(common, 'object')}, none defines it"),
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
        if path is not None and not item.providers and providers.defines(path, item):
            item = item._replace(providers=(facts.Provider(path, "not-loaded", None),))
        completed.append(item)
    return problem._replace(symbols=tuple(completed))


def _preload_cure(question: Question, root: str, libraries: Sequence[str]) -> Optional[Change]:
    """LD_PRELOAD with which the model loads `root`: the providers, or what the plan opens up to them; or None."""
    if not libraries:
        return None
    steps = [step.path for step in plan.make_plan(question.sources).steps]
    wanted = tuple(dict.fromkeys(libraries))
    options = [wanted]
    if all(path in steps for path in wanted):
        options.append(tuple(steps[: max(steps.index(path) for path in wanted) + 1]))
    for option in options:
        change = Change("LD_PRELOAD", option, bool(question.host.environment.get("LD_PRELOAD")))
        changed = predict.with_host_changes(question.host, (change,))
        if not predict.unstarted(changed) and predict.file(changed, root).loads:
            return change
    return None

"""The check-up of the stack: an ordered tuple of checks. One that crashes is reported as crashed and ends nothing."""

import glob
import os
import sys
from typing import Callable, List, NamedTuple, Optional, Sequence, Tuple

from torch_fl._preload import catalog, places
from torch_fl._version import VERSION
from torch_fl.diagnose import compare, conclude_stack, predict, pyside, trial
from torch_fl.diagnose.examination import Examination, describe
from torch_fl.diagnose.explain import stack, words
from torch_fl.diagnose.finding import (
    CheckResult,
    Fact,
    Finding,
    Outcome,
    PlannedLibrary,
    Prediction,
    Report,
    Severity,
)

_RUNTIME_FILES = catalog.RUNTIME.soname.partition(".so")[0] + ".so*"
_CONTAINER_MARKS = ("/.dockerenv", "/run/.containerenv")


class Result(NamedTuple):
    """What a check says: its line, and the findings behind it."""

    outcome: Outcome
    summary: str
    findings: Tuple[Finding, ...] = ()


def _ok(summary: str) -> Result:
    return Result(Outcome.OK, summary)


def _skipped(summary: str) -> Result:
    return Result(Outcome.SKIPPED, summary)


def _found(found: Sequence[Finding], otherwise: str) -> Result:
    """The findings, or the line of a check without any. A check with nothing but warnings is still ok."""
    if not found:
        return _ok(otherwise)
    errors = [f for f in found if f.severity is Severity.ERROR]
    if not errors:
        return Result(Outcome.OK, f"{otherwise}; {words.count(len(found), 'warning')}", tuple(found))
    return Result(Outcome.FOUND, ", ".join(dict.fromkeys(f.code for f in errors)), tuple(found))


def build_record(case: Examination) -> Result:
    """What the build says of itself."""
    record = case.sources.record
    if case.installed.directory is None:
        return _skipped("torch_fl is not installed in this interpreter")
    if not record:
        return _skipped(f"{case.installed.record_path} is not there: nothing has been built")
    versions = [
        f"{what} {record[name]}"
        for name, what in (("TORCH_VERSION", "torch"), ("XPU_SDK_VERSION", "XPU SDK"))
        if name in record
    ]
    accelerator = str(record.get("ACCELERATOR", "unknown accelerator"))
    return _ok(f"{accelerator}, built with {' and '.join(versions)}" if versions else accelerator)


def interpreter(case: Examination) -> Result:
    """Which Python runs, and whether it has the extension."""
    found = conclude_stack.extension(case.installed, case.here.environment)
    extension = case.installed.extension
    name = f", {os.path.basename(extension)}" if extension else ""
    return _found(found, f"{case.installed.version}, {case.installed.python}{name}")


def torch(case: Examination) -> Result:
    """Whether the torch that would be imported is there and of the right line."""
    built = str(case.sources.record.get("TORCH_VERSION", ""))
    found = conclude_stack.torch(case.installed, built, sys.path)
    installed = case.installed.torch
    return _found(found, f"{installed.version} in {installed.directory}" if installed else "")


def environment(case: Examination) -> Result:
    """The loader's variables as they were when this process started."""
    given = case.here.environment.get("LD_LIBRARY_PATH")
    directories = places.library_path(case.here)
    gone = [d for d in directories if not os.path.isdir(d)]
    if given is None:
        parts = ["LD_LIBRARY_PATH is not set"]
    elif case.here.secure:
        parts = ["LD_LIBRARY_PATH is set and ignored: the process runs in secure mode"]
    else:
        lost = f", {len(gone)} of which {'does' if len(gone) == 1 else 'do'} not exist" if gone else ""
        noun = "directory" if len(directories) == 1 else "directories"
        parts = [f"LD_LIBRARY_PATH names {len(directories)} {noun}{lost}"]
    if case.here.libc == "musl":
        parts.append("the C library is musl, and the predictions follow the rules of glibc")
    parts += [f"{name} is set" for name in ("LD_PRELOAD", "LD_AUDIT") if case.here.environment.get(name)]
    if case.here.environment.get(catalog.VENDOR_HOOK_SWITCH) != "1":
        hooks = [
            entry for entry in pyside.searched(sys.path) if os.path.isfile(os.path.join(entry, catalog.VENDOR_HOOK))
        ]
        parts += [f"{catalog.VENDOR_HOOK} in {entry} is active" for entry in hooks]
    parts += [f"{name} names {named}, which is not a directory" for name, named in places.misnamed(case.sources)]
    return _ok("; ".join(parts))


def sdk(case: Examination) -> Result:
    """Where the XPU SDK's libraries are."""
    lacking = [m.soname for m in case.prediction.plan.missing if _home(m.soname) == "sdk"]
    for _, directory in places.sdk_places(case.sources):
        if directory and glob.glob(os.path.join(glob.escape(directory), _RUNTIME_FILES)):
            if lacking and not (case.attempt and case.attempt.loads):
                return Result(Outcome.FOUND, f"{directory} lacks {', '.join(lacking)}")
            return _ok(directory)
    return _skipped(f"in none of the usual places, and {catalog.SDK_ROOT_VARIABLE} names none")


def _home(soname: str) -> str:
    record = catalog.library(soname)
    return record.home if record else ""


def vendor_package(case: Examination) -> Result:
    """Where the vendor's operator library is."""
    decided = case.prediction.plan
    if decided.package is None:
        return Result(Outcome.FOUND, f"{catalog.OP_LIBRARY.soname} is in none of the places searched")
    return _ok(decided.package)


def libraries(case: Examination) -> Result:
    """Every library, their order and their symbols, in the model: torch_fl's plan, torch, torch_fl._C."""
    decided = case.prediction.plan
    warnings: Sequence[Finding] = ()
    if not case.foreseen:  # else the dead entries are part of what is told there
        warnings = [
            *conclude_stack.useless_preloads(case.prediction),
            *conclude_stack.stale_run_paths(case.question, case.installed),
        ]
    if case.attempt is not None and case.attempt.loads and not case.prediction.complete:
        return Result(Outcome.OK, "the prediction was wrong: see the trial", tuple(warnings))
    objects = {o.path for opening in case.prediction.openings for o in opening.outcome.objects}
    opened = words.count(len(decided.steps), "library")
    line = (
        f"{opened} of the vendor to be opened first, {words.count(len(objects), 'object')} in all, every symbol found"
    )
    rivals = [rivals.soname for rivals in decided.rivals if rivals.others]
    if rivals:
        line += f"; other copies passed over: {', '.join(rivals)}"
    if not case.prediction.complete and not case.foreseen:
        line = f"{opened} of the vendor would load; torch_fl._C was not examined"
    return _found([*case.foreseen, *warnings], line)


def trial_load(case: Examination) -> Result:
    """The stack in a child process, compared with the prediction."""
    attempt = case.attempt
    if attempt is None:
        return _skipped(case.why_no_trial)
    foretold = _stack_prediction(case)
    if attempt.loads:
        seen = f"import torch_fl works, {words.count(int(attempt.facts['devices']), 'device')}, {attempt.seconds:.1f} s"
        if case.prediction.complete:
            return _ok(seen)
        return Result(Outcome.OK, seen, (compare.differs(case, "torch_fl", foretold, attempt, "check --json"),))
    if attempt.stage == "device count" and attempt.exception is not None:
        return _ok(f"import torch_fl works, and asking for the devices fails, {attempt.seconds:.1f} s")

    def again() -> Optional[trial.Attempt]:
        changed = compare.profiling(case)
        return case.try_stack(changed) if changed and compare.profiler_is_off(attempt) else None

    found = compare.unforeseen("torch_fl", foretold, attempt, again)
    if found is None and foretold.loads:
        found = compare.differs(case, "torch_fl", foretold, attempt, "check --json")
    return _found([found] if found else [], "") if found else Result(Outcome.FOUND, "fails, as predicted")


def _stack_prediction(case: Examination) -> Prediction:
    failed = case.prediction.failed
    if failed is not None:
        return predict.prediction(failed.outcome)
    return Prediction(case.prediction.complete)


def devices(case: Examination) -> Result:
    """Device nodes and the driver. Missing nodes are an error only when the runtime itself has no device."""
    nodes = sorted(glob.glob(catalog.DEVICE_NODES))
    states = sorted(glob.glob(catalog.DRIVER_STATE))
    seen = words.count(len(nodes), "node") if nodes else f"no {catalog.DEVICE_NODES}"
    attempt = case.attempt
    count = attempt.facts.get("devices") if attempt is not None else None
    failed = attempt is not None and attempt.stage == "device count" and not attempt.loads
    if attempt is None or (count is None and not failed):
        why = "no trial was made" if attempt is None else "the trial did not come that far"
        return _ok(f"{seen}; {why}") if nodes else _skipped(f"{seen}, and {why} to ask the runtime")
    if count:
        return _ok(f"the runtime has {words.count(count, 'device')}; {seen}")
    rows = [Fact(node, _node(node)) for node in nodes] or [Fact(catalog.DEVICE_NODES, "no such device node")]
    rows += [Fact(state, "present") for state in states] or [Fact(catalog.DRIVER_STATE, "no such file")]
    mark = next((path for path in _CONTAINER_MARKS if os.path.exists(path)), None)
    container = f"{mark} exists" if mark else None
    return _found([stack.driver_missing(rows, count, attempt.error if attempt else None, container)], "")


def _node(path: str) -> str:
    return "present" if os.access(path, os.R_OK | os.W_OK) else "may not be opened by this user"


class Check(NamedTuple):
    """A name for the report, and what to do."""

    name: str
    run: Callable[[Examination], Result]


STACK: Tuple[Check, ...] = (
    Check("build record", build_record),
    Check("interpreter", interpreter),
    Check("torch", torch),
    Check("environment", environment),
    Check("XPU SDK", sdk),
    Check("vendor package", vendor_package),
    Check("libraries", libraries),
    Check("trial load", trial_load),
    Check("devices", devices),
)


def run(case: Examination, checks: Sequence[Check] = STACK) -> Report:
    """All checks in order, whatever becomes of each."""
    results: List[CheckResult] = []
    found: List[Finding] = []
    for check in checks:
        try:
            with case.progress(f"checking: {check.name}"):
                result = check.run(case)
        except Exception as trouble:
            result = Result(Outcome.CRASHED, f"{type(trouble).__name__}: {trouble}")
        results.append(CheckResult(check.name, result.outcome, result.summary))
        found.extend(result.findings)
    return Report(VERSION, describe(case), tuple(results), (), tuple(found), _planned(case))


def _planned(case: Examination) -> Tuple[PlannedLibrary, ...]:
    """The plan, for the report; nothing when it could not be made."""
    try:
        decided = case.prediction.plan
    except Exception:  # the check that crashed on it has said so
        return ()
    rivals = {record.path: record for record in decided.rivals}
    rows: List[PlannedLibrary] = []
    for step in decided.steps:
        others = rivals[step.path].others if step.path in rivals else ()
        loader = rivals[step.path].loader if step.path in rivals else step.path
        copies = tuple(Fact(copy.path, copy.label) for copy in others)
        rows.append(PlannedLibrary(step.soname, step.path, step.why, step.is_global, step.needed_by, copies, loader))
    return tuple(rows)

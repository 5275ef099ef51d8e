"""The check-up: an ordered tuple of checks. A check that crashes is reported as crashed and ends nothing."""

from __future__ import annotations

import glob
import os
import sys
from functools import cached_property
from typing import Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

from torch_fl._preload import catalog, facts, hook, host, places
from torch_fl._version import VERSION
from torch_fl.diagnose import conclude, conclude_stack, predict, pyside, trial
from torch_fl.diagnose.conclude import Question
from torch_fl.diagnose.conclude_stack import Installed
from torch_fl.diagnose.escape import shell_word
from torch_fl.diagnose.explain import stack, trials, words
from torch_fl.diagnose.failure import interpreter_version
from torch_fl.diagnose.finding import CheckResult, Fact, Finding, Outcome, Prediction, Report, Severity, TargetReport

SHOWN_VARIABLES: Tuple[str, ...] = (
    "LD_LIBRARY_PATH",
    "LD_PRELOAD",
    "LD_AUDIT",
    "LD_BIND_NOW",
    "GLIBC_TUNABLES",
    "PYTHONPATH",
    "PYTHONHOME",
    "VIRTUAL_ENV",
    "CONDA_PREFIX",
    catalog.XDNN_DIRECTORIES_VARIABLE,
    catalog.SDK_ROOT_VARIABLE,
    catalog.COMPAT_ROOT_VARIABLE,
    catalog.OP_ROOT_VARIABLE,
    catalog.OP_LIBRARY_VARIABLE,
    catalog.LOAD_VARIABLE,
    catalog.ACCELERATOR_VARIABLE,
    "XPU_VISIBLE_DEVICES",
    "CUDA_VISIBLE_DEVICES",
    trials.PROFILER_VARIABLE,
)
"""The only variables that a report shows. The environment is never dumped: it holds secrets."""

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


class Examination:
    """What the checks look at, each fact gathered once, when the first check asks for it.

    directory   the torch_fl package that is examined, None when this interpreter has none
    trials      whether children may load things
    timeout     seconds for one child
    """

    def __init__(
        self,
        directory: Optional[str],
        trials_wanted: bool = True,
        timeout: float = trial.DEFAULT_TIMEOUT,
        progress: Callable[[str], None] = lambda line: None,
    ) -> None:
        self.trials_wanted = trials_wanted
        self.timeout = timeout
        self.progress = progress
        self.here = host.current()
        self.fresh = self.here.replace(mapped=())
        self.sources: places.Sources = hook.sources(directory or "/nonexistent")._replace(mapped={})
        self.installed = Installed(
            directory,
            pyside.extension_file(directory) if directory else None,
            pyside.find_torch(),
            sys.executable,
            interpreter_version(),
        )

    @cached_property
    def prediction(self) -> predict.StackPrediction:
        """The whole stack in the model."""
        return predict.stack(self.fresh, self.sources, self.installed.torch, self.installed.extension)

    @cached_property
    def why_no_trial(self) -> str:
        """Why the stack cannot be tried, "" when it can."""
        if not self.trials_wanted:
            return "not wanted (--no-trial)"
        if self.installed.directory is None:
            return "torch_fl is not installed in this interpreter"
        if self.installed.torch is None:
            return "torch is not installed"
        if self.installed.extension is None:
            return "torch_fl._C is not there to be imported"
        if self.sources.settings.get(catalog.LOAD_VARIABLE) == "0":
            return f"{catalog.LOAD_VARIABLE}=0 tells torch_fl to load nothing"
        return ""

    @cached_property
    def attempt(self) -> Optional[trial.Attempt]:
        """The trial of the stack, None when it cannot be made."""
        if self.why_no_trial:
            return None
        self.progress("importing torch_fl in a child process")
        return trial.use_stack(self.here.environment, self.timeout)

    @cached_property
    def question(self) -> Question:
        """What the findings start from; the trial's text is quoted as the loader's own."""
        return Question(self.fresh, self.sources, self.attempt.error if self.attempt else None)

    @cached_property
    def foreseen(self) -> Tuple[Finding, ...]:
        """What the model finds wrong with the libraries; dropped when the trial shows that they load."""
        if self.attempt is not None and self.attempt.loads:
            return ()
        return tuple(conclude_stack.libraries(self.question, self.installed, self.prediction))


# --- the checks --------------------------------------------------------------------------------------------------


def build_record(case: Examination) -> Result:
    """What the build says of itself."""
    record = case.sources.record
    if case.installed.directory is None:
        return _skipped("torch_fl is not installed in this interpreter")
    if not record:
        return _skipped(f"{case.installed.record_path} is not there: nothing has been built")
    parts = [str(record.get("ACCELERATOR", "unknown accelerator"))]
    for name, what in (("TORCH_VERSION", "torch"), ("XPU_SDK_VERSION", "XPU SDK")):
        if record.get(name):
            parts.append(f"built with {what} {record[name]}")
    return _ok(", ".join(parts))


def interpreter(case: Examination) -> Result:
    """Which Python runs, and whether it has the extension."""
    found = conclude_stack.extension(case.installed)
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
    parts += [f"{name} is set" for name in ("LD_PRELOAD", "LD_AUDIT") if case.here.environment.get(name)]
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
    warnings = conclude_stack.stale_run_paths(case.question, case.installed, case.prediction.failed is None)
    decided = case.prediction.plan
    if case.attempt is not None and case.attempt.loads and not case.prediction.complete:
        return Result(Outcome.OK, "the prediction was wrong: see the trial", tuple(warnings))
    objects = {o.path for opening in case.prediction.openings for o in opening.outcome.objects}
    opened = words.count(len(decided.steps), "library")
    line = (
        f"{opened} of the vendor to be opened first, {words.count(len(objects), 'object')} in all, every symbol found"
    )
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
        return Result(Outcome.OK, seen, (_differs(case, "torch_fl", foretold, attempt, "check --json"),))
    if attempt.stage == "device count" and attempt.exception is not None:
        return _ok(f"import torch_fl works, and asking for the devices fails, {attempt.seconds:.1f} s")
    found = unforeseen("torch_fl", foretold, attempt)
    if found is None and foretold.loads:
        found = _differs(case, "torch_fl", foretold, attempt, "check --json")
    return _found([found] if found else [], "") if found else Result(Outcome.FOUND, "fails, as predicted")


def unforeseen(subject: str, foretold: Prediction, attempt: trial.Attempt) -> Optional[Finding]:
    """A failed trial that no loader model could foresee: the doing of code that runs while something is loaded."""
    if attempt.ended_early:
        if foretold.crash is not None or not foretold.loads:
            return None
        if attempt.exit is None:
            return trials.load_hangs(subject, attempt)
        if attempt.exit < 0:
            return trials.vendor_crashes(subject, attempt)
        return None if attempt.error is not None else trials.vendor_exits(subject, attempt)
    if foretold.loads and attempt.exception not in ("OSError", "ImportError", "LoadError"):
        return trials.import_fails(subject, attempt)
    return None


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
            result = check.run(case)
        except Exception as trouble:
            result = Result(Outcome.CRASHED, f"{type(trouble).__name__}: {trouble}")
        results.append(CheckResult(check.name, result.outcome, result.summary))
        found.extend(result.findings)
    return Report(VERSION, describe(case), tuple(results), (), tuple(found))


# --- targets -----------------------------------------------------------------------------------------------------


def examine(case: Examination, targets: Sequence[str]) -> Report:
    """A prediction and a trial for each file."""
    results: List[CheckResult] = []
    reports: List[TargetReport] = []
    found: List[Finding] = []
    for path in targets:
        try:
            report, findings = one_target(case, path)
        except Exception as trouble:
            results.append(CheckResult(path, Outcome.CRASHED, f"{type(trouble).__name__}: {trouble}"))
            continue
        reports.append(report)
        found.extend(findings)
        outcome = Outcome.FOUND if any(f.severity is Severity.ERROR for f in findings) else Outcome.OK
        codes = ", ".join(dict.fromkeys(f.code for f in findings))
        loads = report.trial.loads if report.trial else report.prediction.loads
        results.append(CheckResult(path, outcome, codes or ("loads" if loads else "does not load")))
    return Report(VERSION, describe(case), tuple(results), tuple(reports), tuple(found))


def one_target(case: Examination, path: str) -> Tuple[TargetReport, List[Finding]]:
    """The prediction for dlopen(path), a trial of it, and what follows from both."""
    outcome = predict.file(case.fresh, path)
    foretold = predict.prediction(outcome)
    attempt: Optional[trial.Attempt] = None
    if case.trials_wanted:
        case.progress(f"opening {path} in a child process")
        attempt = trial.open_file(path, case.here.environment, case.timeout)
    report = TargetReport(path, foretold, attempt.result if attempt else None, predict.object_reports(outcome))
    if attempt is not None and not agree(foretold, attempt):
        special = unforeseen(path, foretold, attempt)
        return report, [special or _differs(case, path, foretold, attempt, f"check --json {shell_word(path)}")]
    question = Question(case.fresh, case.sources, attempt.error if attempt else None)
    return report, conclude.target(question, path, outcome)


def agree(foretold: Prediction, attempt: trial.Attempt) -> bool:
    """Whether the trial had the outcome that was predicted, to the letter of the loader's text."""
    if foretold.crash == "sigbus":
        return attempt.exit == -7
    if foretold.crash == "abort":
        return attempt.exit == -6
    if foretold.crash is not None:
        return attempt.ended_early and attempt.exit == 127
    return foretold.loads == attempt.loads and (attempt.loads or foretold.error == attempt.error)


def _differs(case: Examination, subject: str, foretold: Prediction, attempt: trial.Attempt, command: str) -> Finding:
    version = ".".join(map(str, case.here.libc_version))
    rows = (
        Fact("C library", f"{case.here.libc} {version}"),
        Fact("interpreter", f"{case.installed.version}, {case.installed.python}"),
        Fact("torch_fl", VERSION),
    )
    run_again = f"{shell_word(case.installed.python)} -m torch_fl.diagnose {command} > torch_fl-report.json"
    return trials.prediction_differs(subject, foretold, attempt, rows, run_again)


def describe(case: Examination) -> Dict[str, object]:
    """The environment of a report: interpreter and machine, and the variables of the allow-list that are set."""
    here = case.here
    return {
        "python": case.installed.python,
        "python_version": case.installed.version,
        "machine": os.uname().machine,
        "libc": f"{here.libc} {'.'.join(map(str, here.libc_version))}",
        "secure_mode": here.secure,
        "package": case.installed.directory,
        "variables": {name: here.environment[name] for name in SHOWN_VARIABLES if name in here.environment},
    }


def way_of(found: facts.Object) -> str:
    """How an object of a load was found, in the words of the model."""
    return found.how

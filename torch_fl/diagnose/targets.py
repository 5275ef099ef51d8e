"""Targets: a prediction and a trial for each file."""

from __future__ import annotations

from typing import TYPE_CHECKING, List, Optional, Sequence, Tuple

from torch_fl._version import VERSION
from torch_fl.diagnose import predict
from torch_fl.diagnose.escape import shell_word
from torch_fl.diagnose.examination import Examination, describe
from torch_fl.diagnose.finding import CheckResult, Finding, Outcome, Report, Severity, TargetReport

if TYPE_CHECKING:
    from torch_fl.diagnose.trial import Attempt


def examine(case: Examination, targets: Sequence[str], unimportable: Sequence[Finding] = ()) -> Report:
    """A prediction and a trial for each file. `unimportable`: what was found of modules that have none."""
    results = [CheckResult(finding.subject, Outcome.FOUND, finding.code) for finding in unimportable]
    reports: List[TargetReport] = []
    found: List[Finding] = list(unimportable)
    for path in targets:
        try:
            with case.progress(f"examining {path}"):
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
    if not case.trials_wanted and outcome.loads:
        return TargetReport(path, foretold, None, predict.object_reports(outcome)), []
    from torch_fl.diagnose import compare, conclude, trial  # a third of the command's time, so only where it is needed
    from torch_fl.diagnose.unfit import Question

    attempt: Optional[Attempt] = None
    if case.trials_wanted:
        with case.progress(f"opening {path} in a child process"):
            attempt = trial.open_file(path, case.here.environment, case.timeout)
    report = TargetReport(path, foretold, attempt.result if attempt else None, predict.object_reports(outcome))
    if attempt is not None and not compare.agree(foretold, attempt):
        first = attempt

        def again() -> Optional[Attempt]:
            changed = compare.profiling(case)
            return trial.open_file(path, changed, case.timeout) if changed and compare.profiler_is_off(first) else None

        special = compare.unforeseen(path, foretold, attempt, again)
        return report, [special or compare.differs(case, path, foretold, attempt, f"check --json {shell_word(path)}")]
    question = Question(case.fresh, case.sources, attempt.error if attempt else None)
    return report, conclude.target(question, path, outcome)

"""A trial beside a prediction: whether they agree, and what a disagreement is."""

from __future__ import annotations

import sys
from typing import Callable, Dict, Optional

from torch_fl._preload import catalog
from torch_fl._version import VERSION
from torch_fl.diagnose import trial
from torch_fl.diagnose.escape import shell_word
from torch_fl.diagnose.examination import Examination
from torch_fl.diagnose.explain import trials
from torch_fl.diagnose.finding import Fact, Finding, Prediction


def agree(foretold: Prediction, attempt: trial.Attempt) -> bool:
    """Whether the trial had the outcome that was predicted, to the letter of the loader's text."""
    if foretold.crash == "sigbus":
        return attempt.exit == -7
    if foretold.crash == "abort":
        return attempt.exit == -6
    if foretold.crash is not None:
        return attempt.ended_early and attempt.exit == 127
    return foretold.loads == attempt.loads and (attempt.loads or foretold.error == attempt.error)


def differs(case: Examination, subject: str, foretold: Prediction, attempt: trial.Attempt, command: str) -> Finding:
    version = ".".join(map(str, case.here.libc_version))
    rows = (
        Fact("C library", f"{case.here.libc} {version}"),
        Fact("interpreter", f"{case.installed.version}, {case.installed.python}"),
        Fact("torch_fl", VERSION),
    )
    run_again = f"{shell_word(case.installed.python)} -m torch_fl.diagnose {command} > torch_fl-report.json"
    return trials.prediction_differs(subject, foretold, attempt, rows, run_again)


def unforeseen(
    subject: str, foretold: Prediction, attempt: trial.Attempt, again: Callable[[], Optional[trial.Attempt]]
) -> Optional[Finding]:
    """A failed trial that no loader model could foresee: the doing of code that runs while something is loaded.

    again   makes a second trial, with the profiler of the runtime enabled; None when that was enabled already
    """
    if attempt.ended_early:
        if foretold.crash is not None or not foretold.loads:
            return None
        if attempt.exit is None:
            return trials.load_hangs(subject, attempt)
        if attempt.exit < 0:
            return trials.vendor_crashes(subject, attempt)
        return None if attempt.error is not None else trials.vendor_exits(subject, attempt, _cured(again))
    if foretold.loads and attempt.exception not in ("OSError", "ImportError", "LoadError"):
        return trials.import_fails(subject, attempt, sys.executable)
    return None


def profiler_is_off(attempt: trial.Attempt) -> bool:
    """Whether the runtime said so before it ended the process."""
    return trials.PROFILER_TEXT in attempt.output


def _cured(again: Callable[[], Optional[trial.Attempt]]) -> bool:
    second = again()
    return second is not None and not second.ended_early


def profiling(case: Examination) -> Dict[str, str]:
    """The environment with the profiler of the runtime enabled; empty when it is enabled already."""
    if case.here.environment.get(catalog.PROFILER_VARIABLE) == "1":
        return {}
    return {**case.here.environment, catalog.PROFILER_VARIABLE: "1"}

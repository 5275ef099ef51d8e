"""Report -> workflow commands of GitHub Actions: each finding becomes an annotation of the run.

The escapes are those of actions/toolkit, packages/core/src/command.ts: without them a name in a message could end it,
and begin a command of its own.
"""

from __future__ import annotations

from torch_fl.diagnose import render_text
from torch_fl.diagnose.escape import visible
from torch_fl.diagnose.finding import CheckResult, Finding, Outcome, Report


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def _command(name: str, title: str, file: str, message: str) -> str:
    properties = f"title={_property(title)}" + (f",file={_property(file)}" if file else "")
    return f"::{name} {properties}::{_data(message)}"


def _annotation(item: Finding) -> str:
    """The code is the title; the rest of the finding, its evidence too, since nothing else is left of a run."""
    _, _, message = render_text.finding(item).partition("]: ")
    file = visible(item.subject) if item.subject.startswith("/") else ""
    return _command(item.severity.value, item.code, file, message)


def _crash(check: CheckResult) -> str:
    """It makes the step fail, so it has to be seen where the findings are."""
    return _command("error", "check crashed", "", f"{visible(check.name)}: {visible(check.summary)}")


def report(item: Report) -> str:
    """One line per finding and per check that crashed, and after them the verdict, which is no annotation."""
    crashed = [check for check in item.checks if check.outcome is Outcome.CRASHED]
    lines = [*map(_annotation, item.findings), *map(_crash, crashed), render_text.summary(item)]
    return "\n".join(lines) + "\n"

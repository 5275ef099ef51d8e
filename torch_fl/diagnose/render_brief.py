"""Report -> a few lines for a chat or the title of a ticket. ASCII, and nothing of the environment's variables."""

from __future__ import annotations

import os
import textwrap
from typing import Iterable, List

from torch_fl.diagnose import render_text
from torch_fl.diagnose.escape import visible
from torch_fl.diagnose.finding import Finding, Outcome, Report, Severity

LINES = 12
WIDTH = 100
"""Of a line; one that is a single path, or the command, is never broken and may be longer."""

_LINES_OF_ONE = 4
"""Of one finding, so that none can push the others out."""

_KEPT_BLANK = "\0"
"""Stands for a blank inside a path while lines are broken. Escaped text has no such character."""


def _ascii(text: str) -> str:
    return visible(text).encode("ascii", "backslashreplace").decode("ascii")


def _paths(item: Finding) -> List[str]:
    """Paths that the message may name and that hold a blank, the longest first."""
    named = [item.subject, *(fact.where for evidence in item.evidence for fact in evidence.facts)]
    absolute = [path for path in named if path.startswith("/")]
    return sorted({p for path in absolute for p in (path, os.path.dirname(path)) if " " in p}, key=len, reverse=True)


def _lines(text: str, whole: Iterable[str] = ()) -> List[str]:
    """`text` in lines that are broken at blanks, but at none inside one of `whole`."""
    text = _ascii(text)
    for path in map(_ascii, whole):
        text = text.replace(path, path.replace(" ", _KEPT_BLANK))
    broken = textwrap.wrap(text, WIDTH, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
    return [line.replace(_KEPT_BLANK, " ") for line in broken]


def _finding(item: Finding) -> List[str]:
    lines = _lines(f"{item.severity.value}[{item.code}]: {item.message}", _paths(item))
    return lines if len(lines) <= _LINES_OF_ONE else [*lines[: _LINES_OF_ONE - 1], "  ..."]


def _first_command(findings: List[Finding]) -> List[str]:
    """The first that cures something; else the one that explains the first finding.

    A command for a name that is not ASCII cannot be spelled here, and one that is spelled wrongly is no command.
    """
    if not findings:
        return []
    cures = [command for item in findings for command in item.fix.commands]
    explained = f"python -m torch_fl.diagnose explain {findings[0].code}"
    return [f"$ {cures[0] if cures and cures[0].isascii() and cures[0].isprintable() else explained}"]


def _versions(item: Report) -> str:
    known = item.environment
    torch = known.get("torch_version")
    parts = [known.get("python_version"), f"torch {torch}" if torch else "no torch", known.get("libc")]
    return ", ".join(str(part) for part in [*parts, known.get("machine")] if part)


def report(item: Report) -> str:
    """Verdict, versions, findings (errors first), the first command to run. What does not fit is counted."""
    findings = sorted(item.findings, key=lambda found: found.severity is not Severity.ERROR)
    blocks = [_finding(found) for found in findings]
    blocks += [_lines(f"crashed: the check {c.name}") for c in item.checks if c.outcome is Outcome.CRASHED]
    head = [render_text.summary(item), *_lines(_versions(item))]
    command = _first_command(findings)
    room = LINES - len(head) - len(command)
    told: List[str] = []
    for number, block in enumerate(blocks):
        left = len(blocks) - number
        if len(told) + len(block) + (left > 1) > room:
            told.append(f"and {left} more")
            break
        told += block
    return "\n".join([*map(_ascii, head), *told, *command]) + "\n"

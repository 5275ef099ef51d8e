"""Report -> text for people. Nothing is coloured or wrapped; every name is escaped here."""

from __future__ import annotations

from typing import Iterable, List, Sequence

from torch_fl.diagnose.escape import visible
from torch_fl.diagnose.finding import Evidence, Finding, Outcome, Report, Severity, TargetReport

_WIDEST_PLACE = 90
"""Places longer than this do not push the other verdicts to the right."""


def _columns(rows: Sequence[Sequence[str]], indent: str) -> List[str]:
    """Rows of (place, verdict), the verdicts aligned. A row without verdict is its place alone."""
    width = max((len(place) for place, verdict in rows if len(place) <= _WIDEST_PLACE and verdict), default=0)
    return [f"{indent}{place:<{width}}  {verdict}" if verdict else f"{indent}{place}" for place, verdict in rows]


def _evidence(evidence: Evidence) -> List[str]:
    rows = [(visible(fact.where), visible(fact.verdict)) for fact in evidence.facts]
    if len(rows) == 1 and not all(rows[0]):
        return [f"  {visible(evidence.label)}: {''.join(rows[0])}"]
    return [f"  {visible(evidence.label)}:", *_columns([r if r[0] else (r[1], "") for r in rows], "    ")]


def finding(item: Finding) -> str:
    """One finding: what, where, what was seen, why, what to do."""
    lines = [f"{item.severity.value}[{item.code}]: {visible(item.message)}"]
    for evidence in item.evidence:
        lines += _evidence(evidence)
    lines.append(f"  cause: {visible(item.cause)}")
    lines.append(f"  help: {visible(item.fix.text)}")
    lines += [f"    $ {command}" for command in map(visible, item.fix.commands)]
    return "\n".join(lines)


def findings(items: Iterable[Finding]) -> str:
    """Several findings, one blank line apart."""
    return "\n\n".join(finding(item) for item in items)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def summary(report: Report) -> str:
    """The first line: the verdict, and what was counted."""
    errors = sum(f.severity is Severity.ERROR for f in report.findings)
    warnings = len(report.findings) - errors
    crashed = sum(c.outcome is Outcome.CRASHED for c in report.checks)
    parts = [_count(errors, "error")] if errors else []
    parts += [_count(warnings, "warning")] if warnings else []
    parts += [f"{_count(crashed, 'check')} crashed"] if crashed else []
    verdict = "broken" if errors else "not fully examined" if crashed else "healthy"
    subject = f"{_count(len(report.targets), 'target')}," if report.targets else "the stack is"
    counted = f" ({', '.join(parts)})" if parts else ""
    return f"torch_fl {visible(report.version)}: {subject} {verdict}{counted}"


def _target(target: TargetReport) -> List[str]:
    lines = [visible(target.path)]
    prediction = target.prediction
    if prediction.loads:
        lines.append(f"  predicted: loads, with {_count(len(target.objects), 'object')}")
    elif prediction.crash:
        lines.append(f"  predicted: ends the process ({prediction.crash})")
    else:
        lines.append(f"  predicted: fails: {visible(prediction.error or 'no text')}")
    trial = target.trial
    if trial is None:
        lines.append("  trial:     not made")
    elif trial.loads:
        lines.append("  trial:     loads")
    else:
        ended = "timed out" if trial.exit is None else f"exit status {trial.exit}"
        lines.append(f"  trial:     fails: {visible(trial.error) if trial.error else ended}")
    return lines


def report(item: Report) -> str:
    """The whole check-up, ending in a newline: verdict, targets, one line per check, findings."""
    blocks = [summary(item)]
    checks = [c for c in item.checks if not item.targets or c.outcome is Outcome.CRASHED]
    if checks:
        names = [visible(check.name) for check in checks]
        width = max(map(len, names))
        blocks[0] += "".join(
            f"\n  {name:<{width}}  {check.outcome.value:<7}  {visible(check.summary)}".rstrip()
            for name, check in zip(names, checks)
        )
    blocks += ["\n".join(_target(target)) for target in item.targets]
    blocks += [finding(f) for f in item.findings]
    return "\n\n".join(blocks) + "\n"

"""The records of a diagnosis, and the registry of its codes. A leaf: imports nothing of ours.

Each field is defined by its reader. Strings hold names exactly as they were found; whoever writes them somewhere
(a terminal, JSON, a page) escapes them there.
"""

import re
from enum import Enum
from typing import Any, Dict, NamedTuple, Optional, Tuple

SCHEMA = 1
"""Number of the JSON contract. Adding a key keeps it; changing or dropping one raises it."""

_KEBAB = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")


class Severity(Enum):
    """ERROR: something does not work. WARNING: it works, and this will bite later."""

    ERROR = "error"
    WARNING = "warning"


class Page(NamedTuple):
    """The long explanation of one code: what `explain CODE` prints and a section of docs/diagnostics.md.

    code      the name, kebab case; names the bad thing and never changes meaning
    title     one line for the table of contents
    meaning   what is wrong, for someone who has just met the code
    rule      the rule of the loader, of Python or of the vendor's stack that makes it so
    source    where that rule is written down: file and function, manual page, or standard
    cure      what to do, in general terms; the finding itself carries the command for this machine
    """

    code: str
    title: str
    meaning: str
    rule: str
    source: str
    cure: str


PAGES: Dict[str, Page] = {}
"""Every code a Finding may carry, in the order of registration. Filled while `explain` is imported."""


def register(page: Page) -> Page:
    """Add a code to the registry. ValueError: not kebab case, or registered before."""
    if not _KEBAB.fullmatch(page.code):
        raise ValueError(f"not a kebab-case code: {page.code!r}")
    if page.code in PAGES:
        raise ValueError(f"code registered twice: {page.code}")
    PAGES[page.code] = page
    return page


class Fact(NamedTuple):
    """One thing that was looked at: the place, and what was seen there. No inference."""

    where: str
    verdict: str


class Evidence(NamedTuple):
    """Facts under one heading, in the order in which the loader, or torch_fl, came across them."""

    label: str
    facts: Tuple[Fact, ...]


class Fix(NamedTuple):
    """What to do: an imperative sentence, and commands that can be pasted as they stand."""

    text: str
    commands: Tuple[str, ...] = ()


class _Finding(NamedTuple):
    code: str
    severity: Severity
    subject: str
    message: str
    evidence: Tuple[Evidence, ...]
    cause: str
    fix: Fix


class Finding(_Finding):
    """One cause of trouble. Raises ValueError for a code that is not registered.

    code       for scripts and for `explain CODE`
    severity   whether the check-up fails because of it
    subject    the file or name that the statement is about
    message    a statement about the subject, lower case, no full stop, without the cure
    evidence   what was looked at, and nothing else
    cause      why; may infer, and then says what would decide it
    fix        what to do
    """

    __slots__ = ()

    def __new__(
        cls,
        code: str,
        severity: Severity,
        subject: str,
        message: str,
        evidence: Tuple[Evidence, ...],
        cause: str,
        fix: Fix,
    ) -> "Finding":
        if code not in PAGES:
            raise ValueError(f"code is not registered: {code!r}")
        return super().__new__(cls, code, severity, subject, message, evidence, cause, fix)

    def to_dict(self) -> Dict[str, Any]:
        """The finding as schema 1 has it."""
        return {
            "code": self.code,
            "severity": self.severity.value,
            "subject": self.subject,
            "message": self.message,
            "evidence": [
                {"label": e.label, "facts": [{"where": f.where, "verdict": f.verdict} for f in e.facts]}
                for e in self.evidence
            ],
            "cause": self.cause,
            "fix": {"text": self.fix.text, "commands": list(self.fix.commands)},
        }


class Outcome(Enum):
    """OK: looked, nothing wrong. FOUND: see the findings. SKIPPED: could not look. CRASHED: our own trouble."""

    OK = "ok"
    FOUND = "found"
    SKIPPED = "skipped"
    CRASHED = "crashed"


class CheckResult(NamedTuple):
    """One line of the check-up."""

    name: str
    outcome: Outcome
    summary: str

    def to_dict(self) -> Dict[str, Any]:
        """The check as schema 1 has it."""
        return {"name": self.name, "outcome": self.outcome.value, "summary": self.summary}


class Prediction(NamedTuple):
    """What the model says dlopen() would do.

    loads   whether a handle would be returned
    error   the text dlerror() would return in the C locale; None when it loads or when the process would end
    crash   None, or how the process would end: "sigbus", "abort" or "exit"
    """

    loads: bool
    error: Optional[str] = None
    crash: Optional[str] = None


TRIAL_TIMEOUT = 120.0
"""Seconds for one child, unless the user says otherwise. A cold import of torch from a network disk takes most of a
minute."""


class TrialResult(NamedTuple):
    """What a child process saw.

    loads   whether the load succeeded
    error   the loader's text, or the exception's, as the child reported it; None when it reported none
    exit    exit status of the child; negative for a signal, None on a timeout
    """

    loads: bool
    error: Optional[str]
    exit: Optional[int]


class ObjectReport(NamedTuple):
    """One object of the dependency graph.

    name        the string that asked for it
    path        the file the loader would map; None when there is none
    how         the step of the search that decided
    needed_by   paths of the objects that ask for it, in load order
    scope       "global" or "local": who else can use its symbols
    """

    name: str
    path: Optional[str]
    how: str
    needed_by: Tuple[str, ...]
    scope: str


class TargetReport(NamedTuple):
    """Everything known of one target."""

    path: str
    prediction: Prediction
    trial: Optional[TrialResult]
    objects: Tuple[ObjectReport, ...]

    def to_dict(self) -> Dict[str, Any]:
        """The target as schema 1 has it."""
        return {
            "path": self.path,
            "prediction": self.prediction._asdict(),
            "trial": None if self.trial is None else self.trial._asdict(),
            "objects": [{**o._asdict(), "needed_by": list(o.needed_by)} for o in self.objects],
        }


class PlannedLibrary(NamedTuple):
    """A vendor library that torch_fl opens before torch_fl._C.

    why        the place that it was taken from, in words
    others     copies of it that were passed over: (path, place)
    loader     the copy that the loader by itself would take; None for none
    """

    soname: str
    path: str
    why: str
    is_global: bool
    needed_by: Optional[str]
    others: Tuple[Fact, ...]
    loader: Optional[str]

    def to_dict(self) -> Dict[str, Any]:
        """As in the JSON report."""
        return {
            "soname": self.soname,
            "path": self.path,
            "why": self.why,
            "global": self.is_global,
            "needed_by": self.needed_by,
            "others": [{"path": other.where, "why": other.verdict} for other in self.others],
            "loader": self.loader,
        }


class Report(NamedTuple):
    """A whole check-up.

    plan          what torch_fl opens, in order; empty for targets
    environment   facts of interpreter and machine, and the allow-listed variables; strings only, or maps of strings
    """

    version: str
    environment: Dict[str, Any]
    checks: Tuple[CheckResult, ...]
    targets: Tuple[TargetReport, ...]
    findings: Tuple[Finding, ...]
    plan: Tuple[PlannedLibrary, ...] = ()

    @property
    def broken(self) -> bool:
        """Whether at least one finding is an error."""
        return any(f.severity is Severity.ERROR for f in self.findings)

    def to_dict(self) -> Dict[str, Any]:
        """The report as schema 1 has it."""
        return {
            "schema": SCHEMA,
            "tool": {"name": "torch_fl.diagnose", "version": self.version},
            "status": "broken" if self.broken else "ok",
            "environment": self.environment,
            "checks": [c.to_dict() for c in self.checks],
            "plan": [p.to_dict() for p in self.plan],
            "targets": [t.to_dict() for t in self.targets],
            "findings": [f.to_dict() for f in self.findings],
        }

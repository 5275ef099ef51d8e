"""The records of a report, and the registry of codes."""

from __future__ import annotations

import pytest

import torch_fl.diagnose.explain  # noqa: F401  (registers the codes)
from torch_fl.diagnose.finding import (
    PAGES,
    CheckResult,
    Evidence,
    Fact,
    Finding,
    Fix,
    ObjectReport,
    Outcome,
    Page,
    PlannedLibrary,
    Prediction,
    Report,
    Severity,
    TargetReport,
    TrialResult,
    register,
)


def finding(code: str = "missing-library", severity: Severity = Severity.ERROR) -> Finding:
    evidence = (Evidence("needed by", (Fact("/a.so", ""),)),)
    return Finding(
        code, severity, "libb.so", "libb.so is gone", evidence, "it was removed", Fix("put it back", ("cp",))
    )


def report(*found: Finding) -> Report:
    target = TargetReport(
        "/a.so",
        Prediction(False, "libb.so: cannot open", None),
        TrialResult(False, "libb.so: cannot open", 0),
        (ObjectReport("libb.so", None, "", ("/a.so",), "local"),),
    )
    other = Fact("/c/libb.so", "usual place")
    planned = PlannedLibrary("libb.so", "/b/libb.so", "XPU_ROOT", False, None, (other,), "/c/libb.so")
    checks = (CheckResult("torch", Outcome.OK, "2.13"),)
    return Report("1.2.3", {"python": "/bin/python"}, checks, (target,), found, (planned,))


def test_the_json_contract_to_the_key() -> None:
    """Scripts rely on these keys: adding one keeps schema 1, changing or dropping one raises it."""
    assert report(finding()).to_dict() == {
        "schema": 1,
        "tool": {"name": "torch_fl.diagnose", "version": "1.2.3"},
        "status": "broken",
        "environment": {"python": "/bin/python"},
        "checks": [{"name": "torch", "outcome": "ok", "summary": "2.13"}],
        "plan": [
            {
                "soname": "libb.so",
                "path": "/b/libb.so",
                "why": "XPU_ROOT",
                "global": False,
                "needed_by": None,
                "others": [{"path": "/c/libb.so", "why": "usual place"}],
                "loader": "/c/libb.so",
            }
        ],
        "targets": [
            {
                "path": "/a.so",
                "prediction": {"loads": False, "error": "libb.so: cannot open", "crash": None},
                "trial": {"loads": False, "error": "libb.so: cannot open", "exit": 0},
                "objects": [{"name": "libb.so", "path": None, "how": "", "needed_by": ["/a.so"], "scope": "local"}],
            }
        ],
        "findings": [
            {
                "code": "missing-library",
                "severity": "error",
                "subject": "libb.so",
                "message": "libb.so is gone",
                "evidence": [{"label": "needed by", "facts": [{"where": "/a.so", "verdict": ""}]}],
                "cause": "it was removed",
                "fix": {"text": "put it back", "commands": ["cp"]},
            }
        ],
    }


def test_status_counts_errors_only() -> None:
    assert report().to_dict()["status"] == "ok"
    assert report(finding("stale-rpath", Severity.WARNING)).to_dict()["status"] == "ok"
    assert report(finding("stale-rpath", Severity.WARNING), finding()).to_dict()["status"] == "broken"


def test_a_trial_that_was_not_made_is_null() -> None:
    assert TargetReport("/a.so", Prediction(True), None, ()).to_dict()["trial"] is None


def test_a_code_must_be_registered() -> None:
    with pytest.raises(ValueError, match="no-such-code"):
        finding("no-such-code")


@pytest.mark.parametrize("code", ["Missing", "missing_library", "missing library", "-x", "x-", "", "a--b"])
def test_a_code_is_kebab_case(code: str) -> None:
    with pytest.raises(ValueError, match="kebab"):
        register(Page(code, "", "", "", "", ""))
    assert code not in PAGES


def test_a_code_is_registered_once() -> None:
    with pytest.raises(ValueError, match="twice"):
        register(PAGES["missing-library"])


def test_the_first_codes_are_there() -> None:
    """Codes never change meaning; those that were published stay."""
    assert set(PAGES) >= {
        "missing-library", "not-on-search-path", "symbol-order", "undefined-symbol", "version-not-found",
        "wrong-architecture", "not-elf", "truncated-file", "empty-file", "broken-link", "unreadable-file",
        "shadowed-by-bad-file", "no-soname", "duplicate-library", "stale-rpath", "static-tls", "executable-stack",
        "isa-level", "map-refused", "torch-mismatch", "python-tag-mismatch", "extension-not-built", "musl-object",
        "torch-missing", "vendor-exits", "driver-missing",
    }  # fmt: skip

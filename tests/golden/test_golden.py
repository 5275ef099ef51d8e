"""Every code has a constructor, a golden text, a golden JSON, a section in docs/diagnostics.md and a test that
provokes it; this walks the registry. After a wanted change: UPDATE_GOLDEN=1 pytest tests/golden, then read the diff."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from tests.golden.cases import CASES
from torch_fl.diagnose import pages, render_brief, render_github, render_json, render_text
from torch_fl.diagnose.finding import PAGES, Finding, Report

HERE = Path(__file__).parent
EXPECTED = HERE / "expected"
ROOT = HERE.parents[1]
UPDATE = bool(os.environ.get("UPDATE_GOLDEN"))

CODES = sorted(PAGES)


def compare(path: Path, text: str) -> None:
    if UPDATE:
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert path.is_file(), f"{path.name} is not there: run UPDATE_GOLDEN=1 pytest tests/golden and read it"
    assert text == path.read_text(encoding="utf-8")


@pytest.mark.parametrize("code", CODES)
def test_text(code: str) -> None:
    compare(EXPECTED / f"{code}.txt", render_text.finding(CASES[code]()) + "\n")


@pytest.mark.parametrize("code", CODES)
def test_json(code: str) -> None:
    report = Report("0.0.0", {}, (), (), (CASES[code](),))
    compare(EXPECTED / f"{code}.json", render_json.report(report))
    assert json.loads(render_json.report(report))["findings"][0]["code"] == code


SENT_ON = (
    "missing-library",
    "not-on-search-path",
    "stale-rpath",
    "symbol-order",
    "version-not-found",
    "driver-missing",
)
"""Codes whose findings are also kept as they look in a CI run and in a chat: long ones, a warning, a device."""

SERVER = {
    "python": "/srv/venv/bin/python",
    "python_version": "CPython 3.10.14",
    "torch_version": "2.13.0",
    "machine": "x86_64",
    "libc": "glibc 2.35",
    "variables": {"LD_LIBRARY_PATH": "/srv/secret"},
}


@pytest.mark.parametrize("code", SENT_ON)
@pytest.mark.parametrize("form", ["github", "brief"])
def test_what_is_sent_on(code: str, form: str) -> None:
    report = Report("0.0.0", SERVER, (), (), (CASES[code](),))
    render = {"github": render_github.report, "brief": render_brief.report}[form]
    compare(EXPECTED / f"{code}.{form}", render(report))


def test_every_code_has_a_case_and_no_case_is_left_over() -> None:
    assert sorted(CASES) == CODES
    for code, build in CASES.items():
        assert build().code == code
    assert {path.stem for path in EXPECTED.iterdir()} == set(CODES)


def test_every_code_is_provoked_on_real_files() -> None:
    """`@provokes("code")` marks the test that makes a real machine produce it."""
    source = "".join(path.read_text(encoding="utf-8") for path in sorted((ROOT / "tests").rglob("test_*.py")))
    marked = set(re.findall(r'^@provokes\("([a-z-]+)"\)', source, re.MULTILINE))
    assert marked == set(CODES)


def test_the_document_is_what_the_package_says() -> None:
    document = ROOT / "docs" / "diagnostics.md"
    if UPDATE:
        document.write_text(pages.document(), encoding="utf-8")
    assert document.read_text(encoding="utf-8") == pages.document()


@pytest.mark.parametrize("code", CODES)
def test_page_is_complete(code: str) -> None:
    for text in PAGES[code]:
        assert text.strip() == text
        assert text


HEDGES = re.compile(r"\b(typically|probably|might|maybe|perhaps|usually|seems?|please|sorry|we|you|your|I|my|our)\b")


def sentences(finding: Finding) -> list[str]:
    return [finding.message, finding.cause, finding.fix.text]


@pytest.mark.parametrize("code", CODES)
def test_grammar(code: str) -> None:
    """The rules of docs/design.md that a machine can check."""
    finding = CASES[code]()
    for text in sentences(finding):
        assert not text.endswith("."), f"full stop: {text}"
        assert "?" not in text, f"question: {text}"
        assert not HEDGES.search(text), f"{HEDGES.search(text)}: {text}"
        assert "..." not in text.replace("/...", ""), f"shortened: {text}"
        assert "illegal" not in text
    first = finding.message
    assert first[0] in "/_" or first[0].islower() or first.startswith(("RUNPATH of", "RPATH of")), first
    for verb in ("install ", "reinstall", "export ", "set ", "run "):
        assert verb not in first, f"the first line names a cure: {first}"
    assert len(finding.fix.commands) <= 2
    assert finding.evidence
    for evidence in finding.evidence:
        assert evidence.facts, f"evidence without facts: {evidence.label}"
    quotes = [e for e in finding.evidence if e.label in ("loader said", "loader would say")]
    assert len(quotes) <= 1, "the loader is quoted once"

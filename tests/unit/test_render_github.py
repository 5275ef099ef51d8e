"""Annotations of GitHub Actions: read back as its runner reads them, whatever the names in them try."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Dict, List, NamedTuple

import pytest

import torch_fl.diagnose.explain  # noqa: F401  (registers the codes)
from tests.child import minimal_environment
from tests.elfkit import make_so
from torch_fl.diagnose import escape, render_github
from torch_fl.diagnose.finding import CheckResult, Evidence, Fact, Finding, Fix, Outcome, Report, Severity

ROOT = Path(__file__).resolve().parents[2]


class Command(NamedTuple):
    """One workflow command, unescaped."""

    name: str
    properties: Dict[str, str]
    message: str


def unescaped(text: str, *, in_property: bool) -> str:
    """As the runner does it: the percent sign last."""
    text = text.replace("%0D", "\r").replace("%0A", "\n")
    if in_property:
        text = text.replace("%3A", ":").replace("%2C", ",")
    return text.replace("%25", "%")


def commands(text: str) -> List[Command]:
    """What the runner would carry out: lines that begin with two colons, and the older ##[...] anywhere in others."""
    found = []
    for line in re.split(r"\r\n|\r|\n", text):
        if not line.lstrip().startswith("::"):
            assert "##[" not in line, line
            continue
        head, _, message = line.lstrip()[2:].partition("::")
        name, _, properties = head.partition(" ")
        pairs = [pair.partition("=") for pair in properties.split(",") if pair]
        values = {key: unescaped(value, in_property=True) for key, _, value in pairs}
        found.append(Command(name, values, unescaped(message, in_property=False)))
    return found


HOSTILE = [
    "/a\n::error title=fake::nothing is wrong",
    "/a\r\n::stop-commands::x",
    "/a::set-output name=x::y",
    "/a%0A::error::fake",
    "/a%250A%3A%2C",
    "/a,line=1,title=fake:b",
    "/##[error]a",
    "/a\x1b[31mred",
    "/a\u202egnp.so",
    "/a\u2028::error::b",
    "/a\udcff.so",
]


def item(name: str, severity: Severity = Severity.ERROR) -> Finding:
    evidence = (Evidence(name, (Fact(name, name), Fact("", name))),)
    return Finding("missing-library", severity, name, name, evidence, name, Fix(name, (name,)))


@pytest.mark.parametrize("name", HOSTILE, ids=ascii)
def test_a_name_ends_no_command_and_begins_none(name: str) -> None:
    crash = CheckResult(name, Outcome.CRASHED, name)
    text = render_github.report(Report("1.2.3", {name: name}, (crash,), (), (item(name), item(name, Severity.WARNING))))
    error, warning, crashed = commands(text)
    shown = escape.visible(name)
    for command, severity in ((error, "error"), (warning, "warning")):
        assert (command.name, command.properties) == (severity, {"title": "missing-library", "file": shown})
        first, *rest = command.message.split("\n")
        assert first == shown
        assert f"  cause: {shown}" in rest
        assert f"    $ {shown}" in rest
    assert crashed == ("error", {"title": "check crashed"}, f"{shown}: {shown}")
    assert text.splitlines()[3:] == ["torch_fl 1.2.3: the stack is broken (1 error, 1 warning, 1 check crashed)"]
    assert all(character.isprintable() or character == "\n" for character in text)


def test_a_subject_that_is_no_path_names_no_file() -> None:
    (command,) = commands(render_github.report(Report("1", {}, (), (), (item("libxpu_blas.so"),))))
    assert command.properties == {"title": "missing-library"}


def check(*targets: bytes) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "torch_fl.diagnose", "check", "--format", "github", *targets],
        env=minimal_environment(PYTHONPATH=str(ROOT)), cwd="/", capture_output=True, timeout=60, check=False,
    )  # fmt: skip


def test_a_real_run(tmp_path: Path) -> None:
    fine = make_so(tmp_path / "fine.so")
    broken = os.path.join(bytes(tmp_path), b"a,b:c%0A\n::error::d\xff.so")
    os.rename(make_so(tmp_path / "b.so", needed=["libgone.so.1"]), broken)
    (tmp_path / "c.so").write_text("no library")
    done = check(bytes(fine), broken, bytes(tmp_path / "c.so"))
    assert (done.returncode, done.stderr) == (1, b"")
    text = done.stdout.decode()
    missing, no_elf = commands(text)
    assert missing.properties["title"] == "missing-library"
    assert missing.message.startswith("libgone.so.1 is in none of the directories searched\n")
    assert f"  needed by: {tmp_path}/a,b:c%0A\\x0a::error::d\\xff.so\n" in missing.message
    assert no_elf.properties == {"title": "not-elf", "file": str(tmp_path / "c.so")}
    *_, last = text.splitlines()
    assert re.fullmatch(r"torch_fl \S+: 3 targets, broken \(2 errors\)", last)


def test_nothing_wrong_is_the_verdict_alone(tmp_path: Path) -> None:
    done = check(bytes(make_so(tmp_path / "fine.so")))
    assert done.returncode == 0
    assert re.fullmatch(rb"torch_fl \S+: 1 target, healthy\n", done.stdout)

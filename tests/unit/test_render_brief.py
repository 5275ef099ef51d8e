"""The summary for a chat: how long it may be, what is never in it, and that its command can be pasted."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import List, Tuple

import pytest

import torch_fl.diagnose.explain  # noqa: F401  (registers the codes)
from tests.child import minimal_environment
from tests.elfkit import make_so
from torch_fl.diagnose import render_brief
from torch_fl.diagnose.examination import SHOWN_VARIABLES
from torch_fl.diagnose.finding import CheckResult, Evidence, Fact, Finding, Fix, Outcome, Report, Severity

ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENT = {
    "python": "/srv/venv/bin/python",
    "python_version": "CPython 3.11.7",
    "torch_version": "2.13.0+cpu",
    "machine": "x86_64",
    "libc": "glibc 2.36",
    "variables": {"LD_LIBRARY_PATH": "/secret"},
}
VERSIONS = "CPython 3.11.7, torch 2.13.0+cpu, glibc 2.36, x86_64"


def item(
    message: str,
    *commands: str,
    code: str = "missing-library",
    severity: Severity = Severity.ERROR,
    where: Tuple[str, ...] = (),
) -> Finding:
    evidence = (Evidence("found", tuple(Fact(place, "") for place in where)),)
    return Finding(code, severity, "libb.so", message, evidence, "cause", Fix("help", commands))


def brief(*found: Finding, checks: Tuple[CheckResult, ...] = ()) -> List[str]:
    text = render_brief.report(Report("1.2.3", ENVIRONMENT, checks, (), found))
    assert text.endswith("\n")
    return text[:-1].split("\n")


def test_nothing_wrong() -> None:
    assert brief() == ["torch_fl 1.2.3: the stack is healthy", VERSIONS]


def test_errors_come_first_and_the_first_command_that_cures_is_theirs() -> None:
    warning = item("b is old", "export B=1", code="stale-rpath", severity=Severity.WARNING)
    assert brief(warning, item("a is gone"), item("c is gone", "export C=1", "export D=2")) == [
        "torch_fl 1.2.3: the stack is broken (2 errors, 1 warning)",
        VERSIONS,
        "error[missing-library]: a is gone",
        "error[missing-library]: c is gone",
        "warning[stale-rpath]: b is old",
        "$ export C=1",
    ]


def test_without_a_cure_the_first_finding_is_explained() -> None:
    assert brief(item("a is gone"))[-1] == "$ python -m torch_fl.diagnose explain missing-library"


def test_a_check_that_crashed_is_named() -> None:
    crashed = CheckResult("torch", Outcome.CRASHED, "KeyError: /secret")
    assert brief(checks=(crashed,)) == [
        "torch_fl 1.2.3: the stack is not fully examined (1 check crashed)", VERSIONS, "crashed: the check torch"
    ]  # fmt: skip


def test_a_path_that_does_not_fit_has_a_line_of_its_own() -> None:
    long = "/" + "directory/" * 12 + "libb.so"
    assert brief(item(f"{long} is not an ELF file", f"ls {long}"))[2:] == [
        "error[missing-library]:", f"  {long}", "  is not an ELF file", f"$ ls {long}"
    ]  # fmt: skip


def test_a_path_with_blanks_stays_together() -> None:
    path = "/srv/my own files/" + "and more of them/" * 3 + "libb.so"
    directory = path.rpartition("/")[0]
    message = f"libb.so is in {directory}, which is not searched"
    assert brief(item(message, where=(path,)))[2:-1] == [
        "error[missing-library]: libb.so is in", f"  {directory}, which is not searched"
    ]  # fmt: skip


@pytest.mark.parametrize("number", [1, 8, 9, 10, 40])
def test_what_does_not_fit_is_counted(number: int) -> None:
    lines = brief(*(item(f"lib{n}.so is gone") for n in range(number)))
    told = sum("is gone" in line for line in lines)
    assert len(lines) <= 12
    assert told == (number if number <= 9 else 8)
    assert (f"and {number - 8} more" in lines) == (number > 9)
    assert lines[-1].startswith("$ ")


def test_one_long_finding_does_not_push_the_others_out() -> None:
    lines = brief(item("word " * 300), *(item(f"lib{n}.so is gone") for n in range(30)))
    assert len(lines) == 12
    assert lines[5] == "  ..."
    assert lines[6] == "error[missing-library]: lib0.so is gone"
    assert max(map(len, lines)) <= 100


HOSTILE = [
    "/a\x1b[31mred",
    "/a\nerror[fake]: x",
    "/a\u202egnp.so",
    "/张/é.so",
    "/a\udcff.so",
    "/a\0b\\x00 c",
    "/a\u00a0b",
]


@pytest.mark.parametrize("name", HOSTILE, ids=ascii)
def test_it_is_printable_ascii_and_one_name_is_one_word(name: str) -> None:
    crashed = CheckResult(name, Outcome.CRASHED, name)
    lines = brief(item(f"{name} is gone", f"ls {name}", where=(name,)), checks=(crashed,))
    assert len(lines) == 5
    assert all(line.isascii() and line.isprintable() for line in lines), lines
    # a command that cannot be spelled is not given: a wrong one is worse than none
    assert lines[-1] == "$ python -m torch_fl.diagnose explain missing-library"


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "torch_fl.diagnose", "check", *arguments],
        env=minimal_environment(**{**environment, "PYTHONPATH": f"{ROOT}:{environment.get('PYTHONPATH', '')}"}),
        cwd="/", capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


@pytest.mark.parametrize("stack", [False, True], ids=["a target", "the stack"])
def test_a_real_run_has_no_value_of_the_environment(stack: bool, tmp_path: Path) -> None:
    targets = [] if stack else [str(make_so(tmp_path / "a.so", needed=["libgone.so.1"]))]
    harmless = ("LD_PRELOAD", "LD_AUDIT", "GLIBC_TUNABLES", "PYTHONHOME", "FLAGOS_LOAD")  # these have a meaning
    variables = {name: f"/hush-{n}" for n, name in enumerate(SHOWN_VARIABLES) if name not in harmless}
    variables.update(HTTPS_PROXY="http://me:hush@proxy", TOKEN="hush")
    done = run("--no-trial", "--brief", *targets, **variables)
    assert done.stderr == ""
    lines = done.stdout.splitlines()
    assert len(lines) <= 12
    assert "hush" not in done.stdout
    if not stack:
        assert done.returncode == 1
        assert lines[2] == "error[missing-library]: libgone.so.1 is in none of the directories searched"
    assert "hush" in run("--no-trial", "--json", *targets, **variables).stdout, "the variables were there to be shown"


def test_its_command_can_be_pasted(tmp_path: Path) -> None:
    """Run by a shell it leads from a target that does not load to one that does."""
    make_so(tmp_path / "else where" / "libb.so", soname="libb.so", source="int b;")
    target = make_so(tmp_path / "a.so", needed=["libb.so"])
    environment = {"FLAGOS_KUNLUNXIN_XDNN_LIB_DIR": str(tmp_path / "else where")}
    done = run("--brief", str(target), **environment)
    *_, command = done.stdout.splitlines()
    assert command.startswith("$ export LD_LIBRARY_PATH="), done.stdout
    script = f'{command[2:]}\nexec "$0" -c \'import ctypes, sys; ctypes.CDLL(sys.argv[1])\' "$1"'
    subprocess.run(["bash", "-c", script, sys.executable, target], env=minimal_environment(), check=True)

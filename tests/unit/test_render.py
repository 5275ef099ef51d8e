"""What a reader sees: the layout to the character, and names that try to act on the terminal."""

from __future__ import annotations

import json
import shlex
import subprocess
from pathlib import Path

import pytest

import torch_fl.diagnose.explain  # noqa: F401  (registers the codes)
from torch_fl.diagnose import escape, render_json, render_text
from torch_fl.diagnose.finding import (
    CheckResult,
    Evidence,
    Fact,
    Finding,
    Fix,
    Outcome,
    Prediction,
    Report,
    Severity,
    TargetReport,
    TrialResult,
)

EVIDENCE = (
    Evidence("needed by", (Fact("/site/torch_xmlir/libxdnn_pytorch.so", ""),)),
    Evidence(
        "loader searched",
        (
            Fact("RUNPATH of libxdnn_pytorch.so", "not set"),
            Fact("LD_LIBRARY_PATH", "/usr/local/xpu/so has no such file"),
            Fact("/etc/ld.so.cache", "no entry"),
            Fact("/lib, /usr/lib", "no such file"),
        ),
    ),
    Evidence("torch_fl searched", (Fact("FLAGOS_KUNLUNXIN_XDNN_LIB_DIR", "not set"),)),
    Evidence("loader said", (Fact("", "libxpu_blas.so: cannot open shared object file: No such file or directory"),)),
)
SAMPLE = Finding(
    "missing-library",
    Severity.ERROR,
    "libxpu_blas.so",
    "libxpu_blas.so is in none of the directories searched",
    EVIDENCE,
    "the vendor torch package in this environment lacks one of its component libraries",
    Fix("name the directory that holds the file", ("export FLAGOS_KUNLUNXIN_XDNN_LIB_DIR=/path/to/directory",)),
)


def test_the_sample_of_the_design() -> None:
    assert render_text.finding(SAMPLE) == (
        "error[missing-library]: libxpu_blas.so is in none of the directories searched\n"
        "  needed by: /site/torch_xmlir/libxdnn_pytorch.so\n"
        "  loader searched:\n"
        "    RUNPATH of libxdnn_pytorch.so  not set\n"
        "    LD_LIBRARY_PATH                /usr/local/xpu/so has no such file\n"
        "    /etc/ld.so.cache               no entry\n"
        "    /lib, /usr/lib                 no such file\n"
        "  torch_fl searched:\n"
        "    FLAGOS_KUNLUNXIN_XDNN_LIB_DIR  not set\n"
        "  loader said: libxpu_blas.so: cannot open shared object file: No such file or directory\n"
        "  cause: the vendor torch package in this environment lacks one of its component libraries\n"
        "  help: name the directory that holds the file\n"
        "    $ export FLAGOS_KUNLUNXIN_XDNN_LIB_DIR=/path/to/directory"
    )


def of(*found: Finding, targets: tuple[TargetReport, ...] = (), checks: tuple[CheckResult, ...] = ()) -> Report:
    return Report("1.2.3", {}, checks, targets, found)


CHECKS = (
    CheckResult("torch", Outcome.OK, "2.13.0"),
    CheckResult("trial load", Outcome.SKIPPED, "not wanted (--no-trial)"),
)


def test_a_healthy_report_is_a_summary_and_a_line_per_check() -> None:
    assert render_text.report(of(checks=CHECKS)) == (
        "torch_fl 1.2.3: the stack is healthy\n"
        "  torch       ok       2.13.0\n"
        "  trial load  skipped  not wanted (--no-trial)\n"
    )


def test_the_summary_counts() -> None:
    warning = Finding("stale-rpath", Severity.WARNING, "a", "a is old", (), "age", Fix("wait"))
    crashed = CheckResult("torch", Outcome.CRASHED, "ValueError: x")
    assert render_text.summary(of(SAMPLE, warning)) == "torch_fl 1.2.3: the stack is broken (1 error, 1 warning)"
    assert render_text.summary(of(warning)) == "torch_fl 1.2.3: the stack is healthy (1 warning)"
    assert render_text.summary(of(checks=(crashed,))) == (
        "torch_fl 1.2.3: the stack is not fully examined (1 check crashed)"
    )


def test_targets() -> None:
    error = "libb.so: cannot open"
    loads = TargetReport("/a.so", Prediction(True), TrialResult(True, None, 0), ())
    fails = TargetReport("/b.so", Prediction(False, error), TrialResult(False, error, 0), ())
    dies = TargetReport("/c.so", Prediction(False, None, "sigbus"), TrialResult(False, None, -7), ())
    late = TargetReport("/d.so", Prediction(True), TrialResult(False, None, None), ())
    text = render_text.report(of(targets=(loads, fails, dies, late)))
    assert text.startswith("torch_fl 1.2.3: 4 targets, healthy\n\n/a.so\n  predicted: loads")
    assert f"/b.so\n  predicted: fails: {error}\n  trial:     fails: {error}\n" in text
    assert "/c.so\n  predicted: ends the process (sigbus)\n  trial:     fails: exit status -7\n" in text
    assert "/d.so\n  predicted: loads, with 0 objects\n  trial:     fails: timed out\n" in text


HOSTILE = [
    "/a\x1b[31mred",
    "/a\nerror[fake]: nothing is wrong",
    "/a\r\x08\x7f",
    "/a\u202egnp.so",
    "/a\u2066\u2069\u200f",
    "/a\u2028b\u2029c",
    "/a\udcff.so",
    "/a\x9b31m",
    "/\ufeff\U000e0041",
]


@pytest.mark.parametrize("name", HOSTILE, ids=ascii)
def test_names_cannot_act_on_a_terminal(name: str) -> None:
    evidence = (Evidence(name, (Fact(name, name), Fact("", name), Fact(name, ""))),)
    item = Finding("missing-library", Severity.ERROR, name, name, evidence, name, Fix(name, (name,)))
    target = TargetReport(name, Prediction(False, name), TrialResult(False, name, 0), ())
    check = CheckResult(name, Outcome.CRASHED, name)
    text = render_text.report(Report(name, {name: name}, (check,), (target,), (item,)))
    assert all(character.isprintable() or character == "\n" for character in text), ascii(text)
    assert "\nerror[fake]" not in text
    text.encode("utf-8")


@pytest.mark.parametrize("name", HOSTILE, ids=ascii)
def test_json_is_valid_and_plain_ascii(name: str) -> None:
    item = Finding("missing-library", Severity.ERROR, name, name, (), name, Fix(name, (name,)))
    text = render_json.report(Report("1", {name: name}, (), (), (item,)))
    assert text.isascii()
    assert "\x1b" not in text
    read = json.loads(text)["findings"][0]["subject"]
    read.encode("utf-8")  # no lone surrogate, which other readers of JSON refuse
    if not any("\ud800" <= character <= "\udfff" for character in name):
        assert read == name


@pytest.mark.parametrize("name", ["/plain/a.so", "/with space/a.so", "/it's/a.so", "/$HOME/`id`;&|<>*?", *HOSTILE])
def test_a_word_of_a_shell_command_is_that_word(name: str) -> None:
    word = escape.shell_word(name)
    assert all(character.isprintable() for character in word)
    done = subprocess.run(["bash", "-c", f"printf %s {word}"], capture_output=True, check=True)
    assert done.stdout == name.encode("utf-8", "surrogateescape")


def test_ordinary_words_stay_readable() -> None:
    assert escape.shell_word("/usr/local/xpu/so") == "/usr/local/xpu/so"
    assert shlex.split(escape.shell_word("/a b")) == ["/a b"]
    assert escape.visible("/home/张/é.so") == "/home/张/é.so"


def test_paths_are_never_shortened_or_wrapped() -> None:
    long = "/" + "x" * 300 + "/libb.so"
    evidence = (Evidence("file", (Fact(long, "absent"), Fact("/a", "b"))),)
    item = Finding("missing-library", Severity.ERROR, long, "gone", evidence, "c", Fix("d"))
    assert f"    {long}  absent\n    /a  b\n" in render_text.finding(item)


def test_nothing_is_coloured() -> None:
    assert "\x1b" not in render_text.report(of(SAMPLE, checks=CHECKS))


def test_a_document_is_written_for_every_terminal(tmp_path: Path) -> None:
    """A stream that cannot show a character gets its escape, not an exception."""
    import io

    from torch_fl.diagnose import cli

    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.stdout", stream)
        cli._write("/home/张/a.so\n")
        stream.flush()
    assert raw.getvalue() == b"/home/\\u5f20/a.so\n"

"""The command line: what goes where, the exit status, what is offered, and what is never done."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.child import minimal_environment
from tests.elfkit import make_so
from torch_fl.diagnose.finding import PAGES

ROOT = Path(__file__).resolve().parents[2]


def diagnose(
    *arguments: str | Path, python: Sequence[str] = (sys.executable,), **environment: str
) -> subprocess.CompletedProcess[str]:
    variables = minimal_environment(PYTHONPATH=str(ROOT), **environment)
    return subprocess.run(
        [*python, "-m", "torch_fl.diagnose", *map(str, arguments)],
        env=variables,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        cwd="/",
        timeout=120,
    )


@pytest.fixture
def healthy(tmp_path: Path) -> Path:
    return make_so(tmp_path / "healthy.so", source="int f(void) {return 1;}")


@pytest.fixture
def broken(tmp_path: Path) -> Path:
    return make_so(tmp_path / "broken.so", needed=["libgone.so.1"])


def test_exit_status(healthy: Path, broken: Path) -> None:
    assert diagnose("check", healthy).returncode == 0
    assert diagnose("check", broken).returncode == 1
    assert diagnose("check", healthy, broken).returncode == 1
    assert diagnose("check", "no.such.module.anywhere").returncode == 2
    assert diagnose("check", "--no-such-option").returncode == 2
    assert diagnose("explain", "no-such-code").returncode == 2


def test_data_go_to_stdout_and_trouble_to_stderr(healthy: Path) -> None:
    good = diagnose("check", healthy)
    assert good.stdout
    assert good.stderr == ""
    bad = diagnose("check", "no.such.module.anywhere")
    assert bad.stdout == ""
    assert bad.stderr == (
        "torch_fl.diagnose: error: no.such.module.anywhere is neither a file nor a module that this interpreter "
        "can import\n"
    )


def test_check_is_what_no_command_means(broken: Path) -> None:
    assert diagnose(broken).stdout == diagnose("check", broken).stdout


def test_several_targets_keep_their_order(healthy: Path, broken: Path) -> None:
    report = json.loads(diagnose("check", "--json", broken, healthy).stdout)
    assert [target["path"] for target in report["targets"]] == [str(broken), str(healthy)]
    assert [check["outcome"] for check in report["checks"]] == ["found", "ok"]


def test_json_has_the_keys_of_schema_1(broken: Path) -> None:
    report = json.loads(diagnose("check", "--json", broken).stdout)
    assert set(report) == {"schema", "tool", "status", "environment", "checks", "plan", "targets", "findings"}
    assert (report["schema"], report["status"]) == (1, "broken")
    (target,) = report["targets"]
    assert set(target) == {"path", "prediction", "trial", "objects"}
    assert target["prediction"] == {
        "loads": False,
        "error": "libgone.so.1: cannot open shared object file: No such file or directory",
        "crash": None,
    }
    assert target["trial"] == {"loads": False, "error": target["prediction"]["error"], "exit": 0}
    assert {"name": "libgone.so.1", "path": None, "how": "", "needed_by": [str(broken)], "scope": "local"} in target[
        "objects"
    ]
    for item in target["objects"]:
        assert set(item) == {"name", "path", "how", "needed_by", "scope"}
    (finding,) = report["findings"]
    assert set(finding) == {"code", "severity", "subject", "message", "evidence", "cause", "fix"}


def test_a_module_is_found_without_importing_it(tmp_path: Path) -> None:
    """Its parent packages would run code of the patient."""
    package = tmp_path / "patient"
    package.mkdir()
    (package / "__init__.py").write_text("raise SystemExit('patient was imported')\n")
    from importlib.machinery import EXTENSION_SUFFIXES

    target = make_so(package / f"native{EXTENSION_SUFFIXES[0]}", needed=["libgone.so.1"])
    variables = minimal_environment(PYTHONPATH=f"{tmp_path}:{ROOT}")
    done = subprocess.run(
        [sys.executable, "-m", "torch_fl.diagnose", "check", "--json", "patient.native"],
        env=variables, capture_output=True, text=True, check=False, cwd="/",
    )  # fmt: skip
    assert json.loads(done.stdout)["targets"][0]["path"] == str(target), done.stderr


@pytest.mark.parametrize(
    ("module", "text"),
    [("json", "json is Python code"), ("sys", "sys is built into the interpreter"), ("a..b", "a..b ")],
)
def test_a_module_that_is_no_extension(module: str, text: str) -> None:
    done = diagnose("check", module)
    assert done.returncode == 2
    assert text in done.stderr
    assert "Traceback" not in done.stderr


def test_an_extension_of_python_itself() -> None:
    done = diagnose("check", "_ctypes")
    if "built into" in done.stderr:
        pytest.skip("_ctypes is built into this interpreter")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("command", ["snapshot", "show", "diff"])
def test_later_commands_are_refused(command: str) -> None:
    done = diagnose(command, "x")
    assert done.returncode == 2
    assert f"unknown command: {command}" in done.stderr


@pytest.mark.parametrize("option", ["--html=x", "--root=/", "--python=x", "--from-log=x"])
def test_later_options_are_refused(option: str) -> None:
    done = diagnose("check", option)
    assert done.returncode == 2
    assert "unrecognized arguments" in done.stderr


@pytest.mark.parametrize("form", ["json", "brief"])
def test_a_short_form_is_the_same(broken: Path, form: str) -> None:
    short, long = diagnose("check", f"--{form}", broken), diagnose("check", "--format", form, broken)
    assert (short.stdout, short.returncode) == (long.stdout, long.returncode)
    assert short.returncode == 1
    assert short.stdout != diagnose("check", broken).stdout == diagnose("check", "--format=text", broken).stdout


@pytest.mark.parametrize("options", [["--json", "--brief"], ["--json", "--format", "text"], ["--format", "xml"]])
def test_one_format_at_a_time(broken: Path, options: list[str]) -> None:
    done = diagnose("check", *options, broken)
    assert (done.returncode, done.stdout) == (2, "")
    assert "torch_fl.diagnose: error: argument --" in done.stderr


@pytest.mark.parametrize("form", ["text", "json", "github", "brief"])
def test_the_format_does_not_change_the_exit_status(healthy: Path, broken: Path, form: str) -> None:
    assert diagnose("check", "--format", form, healthy).returncode == 0
    assert diagnose("check", "--format", form, broken).returncode == 1


def test_help_offers_what_there_is() -> None:
    for arguments in (["--help"], ["check", "--help"]):
        done = diagnose(*arguments)
        assert done.returncode == 0
        assert "check" in done.stdout
        for later in ("snapshot", "--html", "--root", "--python ", "--from-log"):
            assert later not in done.stdout
    for option in ("--no-trial", "--format {text,json,github,brief}", "--json", "--brief"):
        assert option in diagnose("check", "--help").stdout
    assert "python -m torch_fl.diagnose schema" in diagnose("--help").stdout


def test_version() -> None:
    from torch_fl._version import VERSION

    assert diagnose("--version").stdout == f"torch_fl.diagnose {VERSION}\n"


@pytest.mark.parametrize("code", ["missing-library", "symbol-order"])
def test_explain(code: str) -> None:
    done = diagnose("explain", code)
    assert done.returncode == 0
    assert done.stdout.startswith(f"## {code}\n")
    for part in ("What it means.", "The rule.", "Where the rule is written down.", "The cure."):
        assert part in done.stdout
    document = (ROOT / "docs" / "diagnostics.md").read_text()
    assert done.stdout in document


def test_explain_without_a_code_lists_them() -> None:
    listed = [line.split()[0] for line in diagnose("explain").stdout.splitlines()]
    import torch_fl.diagnose.explain  # noqa: F401

    assert listed == sorted(PAGES)


def test_no_trial_starts_no_process_and_opens_nothing(broken: Path, tmp_path: Path) -> None:
    """An audit hook sees every process that Python starts and every library that it opens."""
    watch = (
        "import sys, runpy\n"
        "seen = []\n"
        "sys.addaudithook(lambda event, args: seen.append(event) if event in "
        "('subprocess.Popen', 'os.fork', 'os.exec', 'os.posix_spawn', 'os.system', 'ctypes.dlopen') else None)\n"
        "sys.argv = ['diagnose', 'check', '--no-trial', sys.argv[1]]\n"
        "try:\n    runpy.run_module('torch_fl.diagnose', run_name='__main__')\n"
        "except SystemExit as end:\n    print(end.code, seen, 'ctypes' in sys.modules)\n"
    )
    variables = minimal_environment(PYTHONPATH=str(ROOT), FLAGOS_LOAD="0")
    done = subprocess.run(
        [sys.executable, "-c", watch, str(broken)], env=variables, capture_output=True, text=True, check=False, cwd="/"
    )
    assert done.stdout.splitlines()[-1] == "1 [] False", done.stdout + done.stderr


def test_a_trial_runs_the_code_of_the_target(tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    source = (
        "int symlink(const char *, const char *);"
        f'__attribute__((constructor)) static void begin(void) {{symlink("x", "{mark}");}}'
    )
    target = make_so(tmp_path / "a.so", source=source)
    assert diagnose("check", "--no-trial", target).returncode == 0
    assert not mark.is_symlink()
    assert diagnose("check", target).returncode == 0
    assert mark.is_symlink()


def test_it_does_not_import_torch(broken: Path) -> None:
    done = diagnose("check", "--no-trial", broken, python=(sys.executable, "-X", "importtime"))
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines() if "|" in line}
    assert "torch_fl.diagnose.cli" in imported
    assert not {name for name in imported if name.split(".")[0] in ("torch", "torch_xmlir", "elftools", "packaging")}
    assert "torch_fl.flagos" not in imported


def test_a_reader_that_goes_away(broken: Path) -> None:
    command = f"{sys.executable} -m torch_fl.diagnose check {broken} | head -c 1"
    done = subprocess.run(
        ["bash", "-c", command],
        env=minimal_environment(PYTHONPATH=str(ROOT)),
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr


def test_a_terminal_that_knows_no_unicode(tmp_path: Path) -> None:
    target = make_so(tmp_path / "张.so", needed=["libgone.so.1"])
    done = diagnose("check", target, PYTHONIOENCODING="ascii")
    assert done.returncode == 1
    assert "\\u5f20.so" in done.stdout


def test_the_caller_s_directory_is_not_trusted_for_libraries(tmp_path: Path) -> None:
    """A libxdnn_pytorch.so below ./lib is nobody's vendor library."""
    make_so(tmp_path / "lib" / "libxdnn_pytorch.so", soname="libxdnn_pytorch.so")
    done = subprocess.run(
        [sys.executable, "-m", "torch_fl.diagnose", "check", "--json", "--no-trial"],
        env=minimal_environment(PYTHONPATH=str(ROOT)), capture_output=True, text=True, check=False, cwd=tmp_path,
    )  # fmt: skip
    assert str(tmp_path) not in json.dumps([c["summary"] for c in json.loads(done.stdout)["checks"]])


OLD = Path.home() / ".pyenv" / "versions" / "3.8.18" / "bin" / "python"


@pytest.mark.skipif(not (OLD.is_file() or shutil.which("python3.8")), reason="there is no Python 3.8 on this machine")
def test_python_3_8(broken: Path) -> None:
    python = str(OLD) if OLD.is_file() else str(shutil.which("python3.8"))
    done = diagnose("check", "--json", broken, python=(python, "-W", "error"))
    assert done.returncode == 1, done.stderr
    report = json.loads(done.stdout)
    assert [finding["code"] for finding in report["findings"]] == ["missing-library"]
    assert report["targets"][0]["trial"]["error"] == report["targets"][0]["prediction"]["error"]
    assert diagnose(python=(python, "-W", "error")).returncode == 1

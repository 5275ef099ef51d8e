"""Any extension module that the loader refuses is explained, in the process where it happens."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from tests import child
from tests.elfkit import make_so

SUFFIX = sysconfig.get_config_var("EXT_SUFFIX")
HOOKED = """
import torch_fl.diagnose as diagnose
diagnose.install_import_hook()
diagnose.install_import_hook()
"""
ENVIRONMENT = {"FLAGOS_LOAD": "0", "PATH": "/usr/bin:/bin"}


@pytest.fixture
def broken(tmp_path: Path) -> Path:
    """A package whose extension needs a library that lies in a directory that nobody searches."""
    package = tmp_path / "site" / "patient"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    make_so(tmp_path / "hidden" / "libneeded.so.1", soname="libneeded.so.1")
    make_so(package / f"_ext{SUFFIX}", needed=["libneeded.so.1"])
    return tmp_path


def hooked(broken: Path, code: str) -> child.ChildResult:
    return child.run(HOOKED + code, env={**ENVIRONMENT, "PYTHONPATH": str(broken / "site")})


def diagnose_run(place: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "torch_fl.diagnose", "run", *arguments],
        cwd=place,
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(place / "site"), **environment},
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_type_name_path_and_cause_are_those_of_the_original(broken: Path) -> None:
    done = hooked(
        broken,
        """
try:
    import patient._ext
except ImportError as error:
    cause = error.__cause__
    print(type(error) is type(cause), error.name == cause.name == "_ext", error.path == cause.path, error.path)
    print(cause)
    print(str(error))
""",
    ).check()
    first, original, *text = done.stdout.splitlines()
    path = broken / "site" / "patient" / f"_ext{SUFFIX}"
    assert first == f"True True True {path}"
    assert original == "libneeded.so.1: cannot open shared object file: No such file or directory"
    assert text[0] == original
    explained = "\n".join(text)
    assert "missing-library" in explained or "not-on-search-path" in explained
    assert str(path) in explained


def test_what_loads_and_what_is_not_there_is_as_ever(broken: Path) -> None:
    done = hooked(
        broken,
        """
import _ctypes, json, importlib.util
print(_ctypes.__spec__.loader.__class__.__mro__[1].__name__, _ctypes.dlopen is not None)
print(importlib.util.find_spec("patient.nothing"))
try:
    import patient.nothing
except ModuleNotFoundError as error:
    print(error, error.__cause__)
""",
    ).check()
    assert done.stdout.splitlines()[1:] == ["None", "No module named 'patient.nothing' None"]


def test_what_a_module_raises_itself_is_not_touched(broken: Path) -> None:
    (broken / "site" / "own.py").write_text("raise ImportError('my own', name='x', path='y')\n")
    done = hooked(
        broken, "try:\n    import own\nexcept ImportError as e:\n    print(e, e.name, e.path, e.__cause__)\n"
    ).check()
    assert done.stdout.strip() == "my own x y None"


def test_the_hook_goes_away_again(broken: Path) -> None:
    done = hooked(
        broken,
        """
import sys
before = len(sys.meta_path)
diagnose.uninstall_import_hook()
print(before - len(sys.meta_path))
try:
    import patient._ext
except ImportError as error:
    print(error, error.__cause__)
""",
    ).check()
    text = "libneeded.so.1: cannot open shared object file: No such file or directory None"
    assert done.stdout.splitlines() == ["1", text]


def test_a_crash_of_the_diagnosis_leaves_the_loaders_text(broken: Path) -> None:
    done = hooked(
        broken,
        """
from torch_fl.diagnose import run
def explode(path, said):
    raise RuntimeError("boom")
run.explanation = explode
try:
    import patient._ext
except ImportError as error:
    print(error)
""",
    ).check()
    assert done.stdout.startswith("libneeded.so.1: cannot open shared object file")
    assert "the diagnosis crashed, which is a defect of torch_fl: RuntimeError: boom" in done.stdout


def test_run_is_the_program_as_python_runs_it(tmp_path: Path) -> None:
    (tmp_path / "beside.py").write_text("here = 1\n")
    (tmp_path / "program.py").write_text(
        "import beside, sys\nprint(__name__, sys.argv, sys.path[0], beside.here)\nsys.exit(7)\n"
    )
    ours = diagnose_run(tmp_path, "program.py", "--json", "-m", "x")
    theirs = subprocess.run(
        [sys.executable, "program.py", "--json", "-m", "x"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (ours.stdout, ours.returncode) == (theirs.stdout, theirs.returncode) != ("", 0)


def test_run_m_is_python_m(tmp_path: Path) -> None:
    package = tmp_path / "site" / "pack"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "__main__.py").write_text("import sys\nprint(__name__, sys.argv)\n")
    ours = diagnose_run(tmp_path, "-m", "pack", "a", "-b")
    theirs = subprocess.run(
        [sys.executable, "-m", "pack", "a", "-b"],
        cwd=tmp_path,
        env={"PYTHONPATH": str(tmp_path / "site"), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert ours.stdout == theirs.stdout, ours.stderr
    assert ours.returncode == 0


def test_run_explains_on_stderr_and_fails(broken: Path) -> None:
    (broken / "program.py").write_text("import patient._ext\n")
    done = diagnose_run(broken, "program.py")
    assert done.returncode == 1
    assert "libneeded.so.1: cannot open shared object file: No such file or directory\n\n" in done.stderr
    assert "The above exception was the direct cause" in done.stderr
    assert str(broken / "site" / "patient" / f"_ext{SUFFIX}") in done.stderr


def test_a_program_under_run_can_import_torch_fl_itself(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(
        "import torch_fl, torch_fl.diagnose\nprint(torch_fl.flagos.device_count(), torch_fl.diagnose.__name__)\n"
    )
    done = diagnose_run(tmp_path, "program.py")
    assert done.stdout == "2 torch_fl.diagnose\n", done.stderr


@pytest.mark.parametrize("arguments", [(), ("-m",), ("--json",), ("nowhere.py",)])
def test_nothing_to_run_is_exit_2_and_one_line(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    done = diagnose_run(tmp_path, *arguments)
    assert done.returncode == 2
    assert done.stderr.startswith("torch_fl.diagnose: error: ")
    assert "Traceback" not in done.stderr


def test_the_programs_own_error_is_its_own(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text("raise ValueError('mine')\n")
    done = diagnose_run(tmp_path, "program.py")
    assert done.returncode == 1
    assert done.stderr.endswith("ValueError: mine\n")

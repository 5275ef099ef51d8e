"""What is said of installations as public bug reports describe them (reported.py), beside what the loader says."""

from __future__ import annotations

import json
import platform
import re
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest

from tests import child
from tests.golden.machine import provokes
from tests.loader import reported
from tests.loader.reported import SHAPES, Build, Place, Shape, library, make, name, whole

ROOT = Path(__file__).resolve().parents[2]
BARE = """
import importlib, sys
try:
    for module in sys.argv[1:]:
        importlib.import_module(module)
except ImportError as error:
    print(error)
else:
    print("imported")
"""
HOOKED = "import torch_fl.diagnose; torch_fl.diagnose.install_import_hook()\n" + BARE

broken_or_not = pytest.mark.parametrize("build", SHAPES, ids=name)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return make(tmp_path)


def environment(shape: Shape) -> dict[str, str]:
    path = ":".join(map(str, (*shape.python_path, ROOT)))
    return child.minimal_environment(PYTHONPATH=path, FLAGOS_LOAD="0", **shape.environment)


def python(place: Place, shape: Shape, code: str, *modules: str) -> str:
    """What a fresh interpreter of the place prints when it imports the shape's module."""
    done = child.run(code, env=environment(shape), python=place.python, args=modules or [shape.module], cwd="/")
    return done.check().stdout.strip()


def check(place: Place, shape: Shape, *targets: Path | str) -> dict[str, Any]:
    command = [place.python, "-m", "torch_fl.diagnose", "check", "--json", *(targets or (shape.target,))]
    done = subprocess.run(command, env=environment(shape), cwd="/", capture_output=True, text=True, timeout=120)
    assert done.returncode == (1 if shape.code else 0), done
    return json.loads(done.stdout)


def follow(place: Place, shape: Shape, commands: list[str]) -> str:
    """What the import prints in a shell in which the commands were given before."""
    script = "\n".join([*commands, 'exec "$0" -c "$1" "$2"'])
    done = subprocess.run(
        ["bash", "-ec", script, place.python, BARE, shape.module],
        env=environment(shape), cwd="/", capture_output=True, text=True, check=True,
    )  # fmt: skip
    return done.stdout.strip()


def described(finding: dict[str, Any]) -> list[tuple[str, str, str]]:
    return [(e["label"], fact["where"], fact["verdict"]) for e in finding["evidence"] for fact in e["facts"]]


@broken_or_not
def test_the_check_up_of_the_file(place: Place, build: Build) -> None:
    shape = build(place)
    report = check(place, shape)
    said = python(place, shape, BARE)
    assert report["targets"][0]["prediction"]["error"] == (said if shape.code else None)
    assert [finding["code"] for finding in report["findings"]] == ([shape.code] if shape.code else []), report
    if not shape.code:
        assert said == "imported"
        return
    (finding,) = report["findings"]
    seen = described(finding)
    assert finding["message"] == shape.message, finding
    assert ("loader said", "", said) in seen
    for label, where, part in shape.seen:
        assert [s for s in seen if s[:2] == (label, str(where)) and part in s[2]], (label, where, part, seen)
    assert shape.cause in finding["cause"]
    assert bool(finding["fix"]["commands"]) == shape.cured, finding["fix"]
    if shape.cured:
        assert follow(place, shape, finding["fix"]["commands"]) == "imported"
    if shape.after:
        assert python(place, shape, BARE, shape.after, shape.module) == "imported"


# --- modules that Python does not find ----------------------------------------------------------------------------


class Start(NamedTuple):
    """How an interpreter is started."""

    place: Place
    cwd: Path
    python_path: tuple[Path, ...] = ()
    variables: Mapping[str, str] = MappingProxyType({})

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        path = ":".join(map(str, (*self.python_path, ROOT)))
        env = child.minimal_environment(PYTHONPATH=path, **self.variables)
        command = [self.place.python, *arguments]
        return subprocess.run(command, env=env, cwd=self.cwd, capture_output=True, text=True, timeout=60)


class Unfound(NamedTuple):
    """A module whose file is there, for another interpreter or behind another copy of its package.

    seen     a file, and what is seen of it
    help     how the advice begins
    healed   a start in which the advice was followed; None where it is not a matter of the start
    """

    start: Start
    code: str
    message: str
    seen: tuple[Path, str]
    help: str
    healed: Start | None = None


def another_python(place: Place) -> Unfound:  # vllm-project/vllm #1814, SELinuxProject/selinux #503
    other = place.extension("vllm._C", suffix=".cpython-36m-x86_64-linux-gnu.so")
    message = f"vllm._C is built for another Python than CPython {platform.python_version()}"
    seen = (other, "of another interpreter")
    return Unfound(Start(place, place.root), "python-tag-mismatch", message, seen, "install vllm for this interpreter")


def hidden(start: Start, healed: Start, first: Path, suffix: str | None, help: str) -> Unfound:
    """A package before the installed one, with an extension of that suffix or none."""
    built = start.place.extension("vllm._C")
    (first / "vllm").mkdir(parents=True)
    (first / "vllm" / "__init__.py").touch()
    seen = (built, "for this interpreter, and not reached")
    if suffix:
        seen = (start.place.extension("vllm._C", site=first, suffix=suffix), "of another interpreter")
    message = f"vllm is imported from {first}/vllm, which has no _C and hides the copy that has one"
    return Unfound(start, "shadowed-package", message, seen, help, healed)


def source_checkout(place: Place) -> Unfound:  # vllm-project/vllm #4229, Ascend/pytorch #24
    checkout = place.root / "checkout"
    return hidden(Start(place, checkout), Start(place, place.root), checkout, None, "start Python in another directory")


def module_system_of_another_python(place: Place) -> Unfound:  # ContinuumIO/anaconda-issues #314
    software = place.root / "software" / "numpy" / "1.9.0"
    start = Start(place, place.root, (software,))
    suffix = ".cpython-27mu-x86_64-linux-gnu.so"
    return hidden(start, Start(place, place.root), software, suffix, f"take {software} out of PYTHONPATH")


def home_directory_before_the_installation(place: Place) -> Unfound:  # spinalcordtoolbox/spinalcordtoolbox #3067
    conda = whole(place.root / "conda")
    home = {"PYTHONHOME": str(conda.prefix), "PYTHONUSERBASE": str(conda.root / "home")}
    first = conda.root / "home" / conda.site.relative_to(conda.prefix)
    healed = Start(conda, place.root, (), {**home, "PYTHONNOUSERSITE": "1"})
    suffix = ".cpython-36m-x86_64-linux-gnu.so"
    return hidden(Start(conda, place.root, (), home), healed, first, suffix, "start Python with -s")


UNFOUND = (another_python, source_checkout, module_system_of_another_python, home_directory_before_the_installation)


@provokes("shadowed-package")
@pytest.mark.parametrize("build", UNFOUND, ids=name)
def test_a_module_that_python_does_not_find(place: Place, build: Callable[[Place], Unfound]) -> None:
    case = build(place)
    importing, checking = ("-c", BARE, "vllm._C"), ("-m", "torch_fl.diagnose", "check", "--json", "vllm._C")
    said, done = case.start.run(*importing), case.start.run(*checking)
    assert done.returncode == 1, done
    (finding,) = json.loads(done.stdout)["findings"]
    seen = [fact[1:] for fact in described(finding)]
    assert (finding["code"], finding["message"]) == (case.code, case.message)
    assert (str(case.seen[0]), case.seen[1]) in seen
    assert ("", said.stdout.strip()) in seen
    assert finding["fix"]["text"].startswith(case.help)
    if case.healed is not None:
        assert case.healed.run(*importing).stdout.strip() == "imported"
        assert case.healed.run(*checking).returncode == 0


def test_a_module_that_is_not_there_at_all_stays_a_wrong_target(place: Place) -> None:
    place.extension("vllm._C")
    done = Start(place, place.root).run("-m", "torch_fl.diagnose", "check", "vllm._nothing")
    assert (done.returncode, done.stdout) == (2, "")
    assert "vllm._nothing is neither a file nor a module that this interpreter can import" in done.stderr


# --- in a program -------------------------------------------------------------------------------------------------


@broken_or_not
def test_the_import_in_a_program(place: Place, build: Build) -> None:
    shape = build(place)
    bare, hooked = python(place, shape, BARE), python(place, shape, HOOKED)
    if not shape.code:
        assert hooked == bare == "imported"
        return
    first, blank, *explained = hooked.splitlines()
    assert (first, blank) == (bare, "")
    assert explained[0] == f"error[{shape.code}]: {shape.message}"


def program(place: Place, shape: Shape, *lines: str) -> subprocess.CompletedProcess[str]:
    """A program of these lines under `python -m torch_fl.diagnose run`."""
    path = place.root / "program.py"
    path.write_text("\n".join(lines) + "\n")
    command = [place.python, "-m", "torch_fl.diagnose", "run", path]
    return subprocess.run(command, env=environment(shape), cwd="/", capture_output=True, text=True, timeout=120)


class Program(NamedTuple):
    """What a program makes of a failed import, and its last own line."""

    title: str
    build: Build
    lines: tuple[str, ...]
    ends: str


SWALLOWING = (
    # vllm-project/vllm-ascend #262
    Program(
        "plugin-whose-error-is-swallowed",
        reported.library_of_the_environment_itself,
        ("try: import paddle.core_avx", "except ImportError: pass", "raise RuntimeError('no device type')"),
        "RuntimeError: no device type",
    ),
    # pytorch/vision #9337
    Program(
        "operator-of-an-extension-that-did-not-load",
        reported.release_that_no_longer_exports_a_symbol,
        ("try:", "    import torch._C", "except ImportError:", "    ops = None", "ops.nms"),
        "AttributeError: 'NoneType' object has no attribute 'nms'",
    ),
    # MooreThreads/torch_musa #102
    Program(
        "three-layers-of-raising-again",
        reported.kernel_library_that_was_never_built,
        ("def load():", "    try:", "        import vllm_ascend.vllm_ascend_C", "    except ImportError as error:",
         "        raise ImportError('Please try running Python from a different directory!') from error",
         "try:", "    load()", "except ImportError:", "    raise RuntimeError('a backend extension does not load')"),
        "RuntimeError: a backend extension does not load",
    ),
    # SELinuxProject/selinux #503
    Program(
        "exit-without-a-traceback",
        reported.kernel_library_that_was_never_built,
        ("import sys", "try:", "    import vllm_ascend.vllm_ascend_C", "except ImportError:", "    sys.exit(1)"),
        "",
    ),
)  # fmt: skip


@pytest.mark.parametrize("case", SWALLOWING, ids=lambda case: case.title)
def test_a_program_that_hides_the_loaders_word(place: Place, case: Program) -> None:
    """Whatever it ends with, the finding stands on stderr once, and its own last line as ever."""
    shape = case.build(place)
    said, done = python(place, shape, BARE), program(place, shape, *case.lines)
    assert done.returncode == 1
    assert done.stderr.count(f"error[{shape.code}]: {shape.message}") == 1, done.stderr
    assert said in done.stderr
    assert case.ends in done.stderr.splitlines() or not case.ends


def test_a_program_that_goes_on_and_succeeds_is_left_alone(place: Place) -> None:
    shape = reported.kernel_library_that_was_never_built(place)
    lines = ("try:", "    import vllm_ascend.vllm_ascend_C", "except ImportError:", "    print('slow path')")
    done = program(place, shape, *lines)
    assert (done.returncode, done.stdout, done.stderr) == (0, "slow path\n", "")


# python/cpython #100567
def test_a_variable_that_is_set_too_late(place: Place) -> None:
    """The running loader does not see it, and the finding shows what the loader saw; its command then cures."""
    shape = reported.library_of_the_environment_itself(place)
    late = f"import os; os.environ['LD_LIBRARY_PATH'] = {str(place.prefix / 'lib')!r}\n"
    said = python(place, shape, late + HOOKED)
    assert said.splitlines()[2] == f"error[{shape.code}]: {shape.message}"
    assert re.search(r"^ *LD_LIBRARY_PATH +not set$", said, re.MULTILINE), said
    (command,) = [line.strip()[2:] for line in said.splitlines() if line.strip().startswith("$ export")]
    assert follow(place, shape, [command]) == "imported"


# open-mpi/ompi #3705
def test_a_plugin_whose_host_was_opened_locally(place: Place) -> None:
    core = library(place.root / "mpi" / "libmpi.so.20", "mca_base_register")
    target = place.extension("ompi.mca_coll", "mca_base_register")
    shape = Shape("ompi.mca_coll", target)
    opened = f"import ctypes; ctypes.CDLL({str(core)!r}, mode=ctypes.RTLD_{{}})\n"
    said = python(place, shape, opened.format("LOCAL") + HOOKED).splitlines()
    assert (
        said[0]
        == python(place, shape, opened.format("LOCAL") + BARE)
        == f"{target}: undefined symbol: mca_base_register"
    )
    assert said[2] == (
        f"error[symbol-order]: {target.name} needs mca_base_register from a library that is not loaded with global "
        "visibility"
    )
    assert any(f"defined by {core}: loaded RTLD_LOCAL" in line for line in said), said
    (command,) = [line.strip()[2:] for line in said if line.strip().startswith("$ export")]
    assert follow(place, shape, [command]) == "imported"
    assert python(place, shape, opened.format("GLOBAL") + HOOKED) == "imported"


# meta-pytorch/torchcodec #637
def test_variants_for_versions_of_which_another_one_is_installed(place: Place) -> None:
    """One error in the program; the check-up of the variants says of each what it wants and what there is."""
    installed = library(place.site / "ffmpeg" / "lib" / "libavutil.so.56")
    wanted = {major: f"libavutil.so.{major}" for major in (57, 58, 59)}
    variants = [place.extension(f"torchcodec.core{n}", needed=[soname]) for n, soname in wanted.items()]
    shape = Shape("torchcodec.core57", variants[0], "missing-library")
    report = check(place, shape, *variants)
    for variant, soname, finding in zip(variants, wanted.values(), report["findings"], strict=True):
        assert finding["message"] == f"{soname} is in none of the directories searched"
        assert ("needed by", str(variant), "") in described(finding)
        near = [s for s in described(finding) if s[0] == "files with a similar name"]
        assert [s[1] for s in near] == [str(installed)], finding

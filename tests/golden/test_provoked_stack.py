"""Each code about the stack as a whole: torch_fl's own plan, torch, the extension, the devices.

torch_fl is this checkout's Python with a stand-in extension, so that the whole import runs for real in a child.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests import child
from tests.child import minimal_environment
from tests.elfkit import make_so
from tests.golden.machine import (
    NOT_THE_CHECKOUT,
    RUNPATH,
    SUFFIX,
    CheckUp,
    Machine,
    check,
    facts_of,
    make_library,
    provokes,
    set_devices,
    set_torch,
)
from torch_fl._preload import elf


def outcome(report: CheckUp, name: str) -> tuple[str, str]:
    """(outcome, summary) of one check."""
    (found,) = [c for c in report.report["checks"] if c["name"] == name]
    return found["outcome"], found["summary"]


# --- a healthy stack ---------------------------------------------------------------------------------------------


def test_a_healthy_stack_has_no_finding(machine: Machine) -> None:
    report = machine.check()
    assert report.codes == [], report.report
    assert {c["outcome"] for c in report.report["checks"]} == {"ok"}
    assert outcome(report, "trial load")[1].startswith("import torch_fl works, 2 devices")
    assert machine.import_it().check().stdout == "2\n"


def test_no_trial_runs_no_child(machine: Machine) -> None:
    report = machine.check("--no-trial")
    assert report.codes == []
    assert outcome(report, "trial load") == ("skipped", "not wanted (--no-trial)")
    assert outcome(report, "devices")[0] == "skipped"


# --- libraries ---------------------------------------------------------------------------------------------------


def test_a_deleted_component(machine: Machine) -> None:
    (machine.vendor.package / "libxpu_dnn.so").unlink()
    finding = machine.check().only("missing-library")
    assert finding["subject"] == "libxpu_dnn.so"
    asking = [os.path.normpath(where) for where, _ in facts_of(finding, "needed by")]
    assert asking == [
        f"{machine.vendor.package}/libxdnn_pytorch.so",
        str(machine.stack.library),
        str(machine.stack.extension),
    ]
    assert ("LD_LIBRARY_PATH", "not set") in facts_of(finding, "loader searched")
    looked = facts_of(finding, "torch_fl searched")
    assert ("FLAGOS_KUNLUNXIN_XDNN_LIB_DIR", "not set") in looked
    # The loader trips over another component first; that one is in order, and is said to be.
    assert facts_of(finding, "loader said")[0][1].startswith("libxpu_blas.so: cannot open shared object file")
    assert facts_of(finding, "not the trouble")[0][0] == f"{machine.vendor.package}/libxpu_blas.so"
    assert "lacks one of its component libraries" in finding["cause"]


def test_the_import_error_says_the_same(machine: Machine) -> None:
    (machine.vendor.package / "libxpu_dnn.so").unlink()
    text = machine.error()
    first, _, rest = text.partition("\n")
    assert first == "LoadError: torch_fl does not load: libxpu_dnn.so is in none of the directories searched"
    assert "error[missing-library]: libxpu_dnn.so is in none of the directories searched" in rest
    assert rest.rstrip().endswith(f"{sys.executable} -m torch_fl.diagnose")


def test_the_import_error_is_an_import_error_with_findings(machine: Machine) -> None:
    (machine.vendor.package / "libxpu_dnn.so").unlink()
    snippet = (
        f"{NOT_THE_CHECKOUT}\n"
        "try:\n    import torch_fl\n"
        "except ImportError as error:\n"
        "    codes = [finding.code for finding in error.findings]\n"
        "    print(type(error).__name__, error.name, codes, type(error.__cause__).__name__)\n"
        "print('torch_xmlir' in sys.modules)"
    )
    result = child.run(snippet, env=minimal_environment(PYTHONPATH=str(machine.stack.site))).check()
    assert result.stdout == "LoadError _C ['missing-library'] ImportError\nFalse\n"


def test_a_package_in_another_environment(machine: Machine) -> None:
    other = machine.root / "other-venv" / "lib" / "python3.10" / "site-packages" / "torch_xmlir"
    other.parent.mkdir(parents=True)
    machine.vendor.package.rename(other)
    finding = machine.check().the("not-on-search-path")
    assert finding["subject"] == "libxdnn_pytorch.so"
    assert finding["fix"]["commands"] == [f"export FLAGOS_KUNLUNXIN_XDNN_LIB_DIR={other}"]
    assert machine.import_it(FLAGOS_KUNLUNXIN_XDNN_LIB_DIR=str(other)).check().stdout == "2\n"


def test_no_vendor_stack_at_all_is_one_cause(machine: Machine) -> None:
    shutil.rmtree(machine.vendor.package)
    shutil.rmtree(machine.vendor.sdk)
    report = machine.check()
    finding = report.the("missing-library")
    assert finding["subject"] == "libxdnn_pytorch.so"
    assert "the vendor torch package was found in none of the places searched" in finding["cause"]
    assert outcome(report, "vendor package")[0] == "found"


def test_the_compat_runtime_is_gone(machine: Machine) -> None:
    """The SDK's CUDA-11-shaped one is no substitute, and its driver half is not called missing."""
    shutil.rmtree(machine.vendor.compat)
    finding = machine.check().the("missing-library")
    assert finding["subject"] == "libcudart.so.12"
    assert facts_of(finding, "files with a similar name")[0][0] == f"{machine.vendor.sdk}/so/libcudart.so.11.0"
    assert "libxpucuda.so" not in finding["message"]


def test_a_broken_link_in_the_vendor_tree(machine: Machine) -> None:
    path = machine.vendor.compat / "libcudart.so.12"
    path.rename(machine.vendor.compat / "libcudart.so.12.9.1.kunlun")
    path.symlink_to("libcudart.so.12.9.0.kunlun")
    finding = machine.check().only("broken-link")
    assert finding["subject"] == str(path)


def test_a_component_that_needs_a_library_of_the_system(machine: Machine) -> None:
    """The plan is complete, and opening it is refused: the word about that is quoted, not the one that follows."""
    path = make_so(machine.vendor.package / "libxpu_dnn.so", soname="libxpu_dnn.so", needed=["libnuma.so.77"])
    finding = machine.check().only("missing-library")
    assert finding["subject"] == "libnuma.so.77"
    assert facts_of(finding, "needed by") == [(str(path), "")]
    assert facts_of(finding, "loader would say")[0][1].startswith("libnuma.so.77: cannot open shared object file")
    assert "loader said: libnuma.so.77: cannot open shared object file" in machine.error()


def test_a_compat_runtime_without_the_hidden_symbol(machine: Machine) -> None:
    make_so(
        machine.vendor.compat / "libcudart.so.12",
        soname="libcudart.so.12",
        needed=["libxpucuda.so", "libxpurt.so.2"],
        source="int cudaMalloc(void) {return 0;}",
    )
    finding = machine.check().only("undefined-symbol")
    assert finding["subject"] == f"{machine.vendor.package}/libxpu_blas.so"
    assert facts_of(finding, "undefined")[0][0] == "cudaGetDriverEntryPoint"
    assert "different builds" in finding["cause"]


def test_a_truncated_component(machine: Machine) -> None:
    path = machine.vendor.package / "libxpu_dnn.so"
    path.write_bytes(path.read_bytes()[:700])
    assert machine.check().findings[0]["subject"] == str(path)


@provokes("no-soname")
def test_a_component_without_a_soname(machine: Machine) -> None:
    path = make_so(machine.vendor.package / "libxpu_dnn.so", source="int dnn;")
    finding = machine.check().only("no-soname")
    assert finding["subject"] == str(path)
    assert facts_of(finding, "asked for by") == [
        (f"{machine.vendor.package}/libxdnn_pytorch.so", "needs libxpu_dnn.so")
    ]


def test_a_preload_that_serves_nobody_is_said_although_the_stack_loads(machine: Machine) -> None:
    useless = make_so(machine.vendor.package / "libxpuml.so.1", source="int xpuml;")
    found = {"LD_LIBRARY_PATH": str(machine.vendor.sdk / "so")}
    report = machine.check(**found)
    finding = report.only("no-soname")
    assert (report.status, finding["severity"], finding["subject"]) == (0, "warning", str(useless))
    taken = f"{machine.vendor.sdk}/so/libxpuml.so.1"
    assert facts_of(finding, "loaded for that name") == [(taken, "by the loader's own search")]
    done = machine.import_it(**found).check()
    assert done.stdout == "2\n"
    assert f"torch_fl opened {useless} for libxpuml.so.1, and it does not answer to that name" in done.stderr


def test_the_report_has_the_plan_with_the_copies_that_are_passed_over(machine: Machine) -> None:
    rows = {row["soname"]: row for row in machine.check("--no-trial").report["plan"]}
    runtime, operators = rows["libxpurt.so.2"], rows["libxdnn_pytorch.so"]
    assert runtime["path"] == f"{machine.vendor.compat}/libxpurt.so.2"
    assert runtime["why"] == "beside the CUDA-compat runtime"
    other = f"{machine.vendor.sdk}/so/libxpurt.so.2"
    assert runtime["others"] == [{"path": other, "why": "the build's record"}]
    assert os.path.realpath(runtime["loader"]) == other  # first in the run path of libtorch_fl.so
    assert (operators["why"], operators["others"]) == ("site-packages", [])
    assert [row["soname"] for row in rows.values() if row["global"]] == ["libcudart.so.12"]


@provokes("duplicate-library")
def test_two_copies_of_the_runtime(machine: Machine) -> None:
    own = make_so(machine.root / "own" / "libxpurt.so", soname="libxpurt.so", source="int xpu_current_device;")
    make_library(machine.stack, f"{RUNPATH}:{own.parent}", needed=["libxpurt.so"])
    finding = machine.check("--no-trial").only("duplicate-library")
    assert [where for where, _ in facts_of(finding, "copies")] == [f"{machine.vendor.compat}/libxpurt.so.2", str(own)]


@provokes("stale-rpath")
def test_a_wheel_from_another_machine_works_and_warns(machine: Machine) -> None:
    make_library(machine.stack, "/build/xpu/so:/build/site-packages/torch_xmlir")
    report = machine.check()
    finding = report.only("stale-rpath")
    assert finding["severity"] == "warning"
    assert finding["message"] == "RUNPATH of libtorch_fl.so names 2 directories that do not exist"
    assert report.status == 0
    assert outcome(report, "trial load")[0] == "ok"


# --- Python's side -----------------------------------------------------------------------------------------------


@provokes("extension-not-built")
def test_no_extension(machine: Machine) -> None:
    machine.stack.extension.unlink()
    finding = machine.check().only("extension-not-built")
    assert facts_of(finding, "Python searched")[0] == (str(machine.stack.extension), "no such file")
    assert "error[extension-not-built]" in machine.error()


def test_a_checkout_that_was_built_without_inplace(machine: Machine) -> None:
    stray = machine.stack.site / "build" / "lib.linux-x86_64" / "torch_fl" / f"_C{SUFFIX}"
    stray.parent.mkdir(parents=True)
    machine.stack.extension.rename(stray)
    (machine.stack.site / "setup.py").touch()
    finding = machine.check().only("extension-not-built")
    assert facts_of(finding, "found") == [(str(stray), "built, in a place where no import looks")]
    command = f"cd {machine.stack.site} && {sys.executable} setup.py build_ext --inplace"
    assert finding["fix"]["commands"] == [command]


@provokes("python-tag-mismatch")
def test_an_extension_of_another_python(machine: Machine) -> None:
    other = machine.stack.package / "_C.cpython-36m-x86_64-linux-gnu.so"
    machine.stack.extension.rename(other)
    finding = machine.check().only("python-tag-mismatch")
    assert facts_of(finding, "found") == [(str(other), "of another interpreter")]


@provokes("torch-missing")
def test_no_torch(machine: Machine) -> None:
    """-S leaves out site-packages, and with it the torch that the tests' own environment has."""
    shutil.rmtree(machine.stack.site / "torch")
    bare = [sys.executable, "-S", "-m", "torch_fl.diagnose", "check", "--json"]
    done = subprocess.run(
        bare,
        env=minimal_environment(PYTHONPATH=str(machine.stack.site)),
        capture_output=True,
        text=True,
        check=False,
        cwd="/",
    )
    assert done.returncode == 1, done.stderr
    report = CheckUp(json.loads(done.stdout), 1, done.stderr)
    finding = report.only("torch-missing")
    assert (str(machine.stack.site), "has no torch") in facts_of(finding, "Python searched")
    assert finding["fix"]["commands"] == [f"{sys.executable} -m pip install 'torch==2.13.*'"]


@provokes("torch-mismatch")
def test_another_line_of_torch(machine: Machine) -> None:
    set_torch(machine.stack, "2.12.1")
    finding = machine.check("--no-trial").only("torch-mismatch")
    assert finding["message"] == "torch 2.12.1 is installed, and torch_fl was built for torch 2.13.0+cpu"


def test_another_patch_version_of_torch_is_fine(machine: Machine) -> None:
    set_torch(machine.stack, "2.13.1")
    assert machine.check("--no-trial").codes == []


@provokes("cuda-torch")
def test_a_cuda_build_of_torch_with_the_same_soname(machine: Machine) -> None:
    library = machine.stack.site / "torch" / "lib" / "libc10_cuda.so"
    make_so(library, needed=["libcudart.so.12"])
    finding = machine.check("--no-trial").only("cuda-torch")
    assert (str(library), "needs libcudart.so.12") in facts_of(finding, "looked at")


def test_a_cuda_build_of_torch_with_another_soname_is_fine(machine: Machine) -> None:
    make_so(machine.stack.site / "torch" / "lib" / "libc10_cuda.so", needed=["libcudart.so.13"])
    assert machine.check("--no-trial").codes == []


def test_a_torch_with_the_string_of_before_gcc_5(machine: Machine) -> None:
    library = machine.stack.site / "torch" / "lib" / "libc10.so"
    make_so(library, source="int _ZN3c105ErrorC1ENS_14SourceLocationESs;")
    finding = machine.check("--no-trial").only("torch-mismatch")
    assert (str(library), "_GLIBCXX_USE_CXX11_ABI=0") in facts_of(finding, "compared")
    assert "error[torch-mismatch]" in machine.error()


def test_a_checkout_without_an_extension_in_front_of_an_installed_package(machine: Machine, tmp_path: Path) -> None:
    checkout = tmp_path / "checkout"
    shutil.copytree(machine.stack.package, checkout / "torch_fl", ignore=shutil.ignore_patterns("*.so"))
    (checkout / "setup.py").touch()
    finding = check(python_path=[checkout, machine.stack.site]).only("shadowed-package")
    assert (str(machine.stack.extension), "for this interpreter, and not reached") in facts_of(
        finding, "Python searched"
    )
    assert finding["fix"]["text"] == f"take {checkout} out of PYTHONPATH"
    variables = minimal_environment(PYTHONPATH=f"{checkout}:{machine.stack.site}")
    shadowed = child.run(f"{NOT_THE_CHECKOUT}import torch_fl", env=variables)
    assert f"torch_fl is imported from {checkout / 'torch_fl'}, which has no _C and hides the copy" in shadowed.stderr
    assert "circular" not in shadowed.stderr
    assert machine.import_it().check().stdout == "2\n"


# --- the process -------------------------------------------------------------------------------------------------

IN_ANOTHER_INTERPRETER = """
import sys
sys.path[:0] = [SITE]
try:
    import torch_fl
except ImportError as error:
    print([f.code for f in error.findings], str(error).splitlines()[0])
"""


@provokes("sub-interpreter")
def test_a_sub_interpreter_is_refused_before_anything_is_opened(machine: Machine) -> None:
    module = "_interpreters" if sys.version_info >= (3, 13) else "_xxsubinterpreters"
    code = IN_ANOTHER_INTERPRETER.replace("SITE", repr(str(machine.stack.site)))
    snippet = (
        f"import {module} as interpreters\n"
        f"interpreters.run_string(interpreters.create(), {code!r})\n"
        "print(any('xpu' in line for line in open('/proc/self/maps')))\n"
    )
    refused, opened = child.run(snippet, env=minimal_environment(), cwd="/").check().stdout.splitlines()
    assert refused == (
        "['sub-interpreter'] torch_fl does not load: torch_fl is imported in a sub-interpreter, "
        "where PyTorch does not work"
    )
    assert opened == "False"


@provokes("privateuse-taken")
def test_a_torch_whose_privateuse1_is_another_backends(machine: Machine) -> None:
    set_torch(machine.stack, "2.13.0", owner="npu")
    text = machine.error()
    assert text.startswith("LoadError: torch_fl does not load: the backend npu has PyTorch's PrivateUse1 device")
    assert "no module is registered" in text


# --- devices and vendor code -------------------------------------------------------------------------------------


@provokes("driver-missing")
@pytest.mark.parametrize("devices", ["0", "1 / 0"])
def test_no_device(machine: Machine, devices: str) -> None:
    if Path("/dev/xpu0").exists():
        pytest.skip("this machine has a card")
    set_devices(machine.stack, devices)
    report = machine.check()
    finding = report.only("driver-missing")
    counted = dict(facts_of(finding, "looked at"))["device count"]
    assert counted == ("0" if devices == "0" else "failed")
    assert finding["severity"] == "error"


@provokes("import-fails")
def test_python_code_that_raises(machine: Machine) -> None:
    with (machine.stack.package / "flagos" / "__init__.py").open("a") as file:
        file.write("raise RuntimeError('no kernel for aten::add')\n")
    finding = machine.check().only("import-fails")
    assert facts_of(finding, "Python said") == [("", "no kernel for aten::add")]
    assert "error: " not in finding["message"]


def test_vendor_code_that_exits_during_the_import(machine: Machine) -> None:
    source = "void exit(int); __attribute__((constructor)) static void begin(void) {exit(9);} int bkcl;"
    make_so(machine.vendor.package / "libxpujitc.so", soname="libxpujitc.so", source=source)
    finding = machine.check().only("vendor-exits")
    assert finding["message"] == "loading torch_fl ends the process with exit status 9"
    assert facts_of(finding, "trial")[0] == ("stage", "importing torch_fl")


@provokes("loader-refused")
def test_a_text_that_nothing_explains(machine: Machine) -> None:
    """A relocation type that no loader knows: the import fails, the model has nothing to say, the text stands."""
    make_library(machine.stack, source="int x; int *p = &x;")
    data = bytearray(machine.stack.library.read_bytes())
    data[elf.read(str(machine.stack.library)).tags[7] + 8] = 0x7F
    machine.stack.library.write_bytes(bytes(data))
    text = machine.error()
    assert "error[loader-refused]" in text
    assert "unexpected reloc type 0x" in text
    report = machine.check()
    assert report.only("prediction-differs")["severity"] == "error"


# --- the check-up survives ---------------------------------------------------------------------------------------


def test_it_works_where_torch_fl_is_not_installed(tmp_path: Path) -> None:
    """The directory by itself, copied to a machine without torch_fl, and run by an interpreter without torch."""
    place = tmp_path / "copied" / "torch_fl"
    root = Path(__file__).resolve().parents[2] / "torch_fl"
    for part in ("_preload", "diagnose"):
        shutil.copytree(root / part, place / part, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(root / "_version.py", place)
    target = make_so(tmp_path / "user.so", needed=["libgone.so.1"])
    command = [sys.executable, "-S", str(place / "diagnose"), "check"]
    stack = subprocess.run(command, env=minimal_environment(), capture_output=True, text=True, check=False, cwd="/")
    assert stack.returncode == 1, stack.stderr
    assert "torch_fl is not installed in this interpreter" in stack.stdout
    assert "error[missing-library]" in stack.stdout
    single = subprocess.run(
        [*command, str(target)], env=minimal_environment(), capture_output=True, text=True, check=False, cwd="/"
    )
    assert single.returncode == 1
    assert "loader said: libgone.so.1: cannot open shared object file" in single.stdout


def test_the_directory_of_a_torch_fl_that_is_on_no_path(machine: Machine) -> None:
    """`python .../torch_fl/diagnose` examines the package it belongs to, and tries that one."""
    place = machine.root / "elsewhere"
    place.mkdir()
    machine.stack.package.rename(place / "torch_fl")
    shutil.copytree(machine.vendor.package, place / "torch_xmlir")
    (machine.root / "elsewhere" / "xpu").symlink_to(machine.vendor.sdk)
    done = subprocess.run(
        [sys.executable, str(place / "torch_fl" / "diagnose"), "check", "--json"],
        env=minimal_environment(PYTHONPATH=str(machine.stack.site)),
        capture_output=True, text=True, check=False, cwd="/",
    )  # fmt: skip
    report = CheckUp(json.loads(done.stdout), done.returncode, done.stderr)
    assert report.report["environment"]["package"] == str(place / "torch_fl")
    assert outcome(report, "trial load")[0] == "ok", report.report


def test_a_check_that_crashes_ends_nothing(machine: Machine) -> None:
    """A record that is no record: a list where a name is expected."""
    (machine.stack.package / "_build_config.py").write_text("DEPENDENCY_DIRS = (1, 2)\nTORCH_VERSION = ['2', '13']\n")
    report = machine.check()
    assert len(report.report["checks"]) == 9


def test_nothing_of_the_vendor_is_imported(machine: Machine) -> None:
    (machine.vendor.package / "__init__.py").write_text("raise SystemExit('torch_xmlir was imported')\n")
    assert machine.check().codes == []


def test_environment_is_read_through_an_allow_list(machine: Machine) -> None:
    report = machine.check("--no-trial", AWS_SECRET_ACCESS_KEY="hunter2", XPU_VISIBLE_DEVICES="0")
    assert "hunter2" not in str(report.report)
    assert report.report["environment"]["variables"]["XPU_VISIBLE_DEVICES"] == "0"
    assert os.environ.get("HOME", "") not in report.report["environment"]["variables"].values()

"""Machines with a fault: small real libraries in a temporary directory, and the check-up run on them as a user would.

The vendor's tree is made here from one-line libraries in the loader shape of the P800 stack, so that these tests need
neither a built torch_fl nor the emulated SDK. Nothing is opened in the pytest process.
"""

from __future__ import annotations

import importlib.machinery
import json
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import pytest

from tests.child import ChildResult, minimal_environment, run
from tests.elfkit import make_so

ROOT = Path(__file__).resolve().parents[2]
SUFFIX = importlib.machinery.EXTENSION_SUFFIXES[0]
Test = TypeVar("Test", bound=Callable[..., None])


def provokes(code: str) -> Callable[[Test], Test]:
    """Mark the test that makes a machine produce `code`; tests/golden/test_golden.py counts these marks."""
    return lambda test: test


class CheckUp(NamedTuple):
    """The report as JSON, the exit status, and what went to stderr."""

    report: dict[str, Any]
    status: int
    stderr: str

    @property
    def findings(self) -> list[dict[str, Any]]:
        return self.report["findings"]

    @property
    def codes(self) -> list[str]:
        return [finding["code"] for finding in self.findings]

    def the(self, code: str) -> dict[str, Any]:
        """The one finding of that code; every other finding is shown when it is not there."""
        found = [finding for finding in self.findings if finding["code"] == code]
        assert len(found) == 1, json.dumps(self.report, indent=1)
        return found[0]

    def only(self, code: str) -> dict[str, Any]:
        """The one finding there is."""
        assert self.codes == [code], json.dumps(self.report, indent=1)
        return self.findings[0]


def check(
    *targets: Path | str,
    options: Sequence[str] = (),
    prefix: Sequence[str] = (),
    python_path: Sequence[Path | str] = (),
    **environment: str,
) -> CheckUp:
    """`python -m torch_fl.diagnose check --json`, run in an environment of its own.

    prefix        a command that runs the interpreter, such as prlimit
    python_path   PYTHONPATH; the checkout comes last unless one of the entries has a torch_fl of its own
    """
    own = any(Path(entry, "torch_fl").is_dir() for entry in python_path)
    path = os.pathsep.join(map(str, python_path if own else (*python_path, ROOT)))
    done = subprocess.run(
        [*prefix, sys.executable, "-m", "torch_fl.diagnose", "check", "--json", *options, *map(str, targets)],
        env=minimal_environment(PYTHONPATH=path, **environment),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        cwd="/",
        check=False,
    )
    assert done.stdout.startswith("{"), done.stderr
    report = json.loads(done.stdout)
    assert done.returncode == (1 if report["status"] == "broken" else 0), (done.returncode, report, done.stderr)
    return CheckUp(report, done.returncode, done.stderr)


def follow(finding: dict[str, Any], target: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Do what a finding advises, in a shell, and then load the target in that shell's environment."""
    load = f"exec {sys.executable} -S -c 'import ctypes, os, sys; ctypes.CDLL(sys.argv[1], mode=os.RTLD_NOW)' {target}"
    script = "\n".join([*finding["fix"]["commands"], load])
    return subprocess.run(
        ["bash", "-ec", script], env=minimal_environment(**environment), capture_output=True, text=True, check=False
    )


def facts_of(finding: dict[str, Any], label: str) -> list[tuple[str, str]]:
    """(where, verdict) of the evidence with that label."""
    found = [e for e in finding["evidence"] if e["label"] == label]
    assert len(found) == 1, finding["evidence"]
    return [(fact["where"], fact["verdict"]) for fact in found[0]["facts"]]


# --- the vendor's tree -------------------------------------------------------------------------------------------


class Vendor(NamedTuple):
    """sdk: the XPU SDK's root; package: torch_xmlir; compat: the CUDA-compat runtime nested in it."""

    sdk: Path
    package: Path

    @property
    def compat(self) -> Path:
        return self.package / "xhpc" / "xblas" / "dependency_so"


def vendor_tree(root: Path) -> Vendor:
    """One-line libraries with the SONAMEs, DT_NEEDED lists and hidden symbol of the vendor's stack."""
    vendor = Vendor(root / "xpu", root / "site" / "torch_xmlir")
    runtime = "int xpu_device_count(int *n) {*n = 2; return 0;}"
    for directory in (vendor.sdk / "so", vendor.compat):
        make_so(directory / "libxpurt.so.2", soname="libxpurt.so.2", source=runtime)
        make_so(directory / "libxpucuda.so", soname="libxpucuda.so", needed=["libxpurt.so.2"], source="int cuInit;")
    make_so(vendor.sdk / "so" / "libxpuml.so.1", soname="libxpuml.so.1", source="int xpuml;")
    make_so(
        vendor.compat / "libcudart.so.12",
        soname="libcudart.so.12",
        needed=["libxpucuda.so", "libxpurt.so.2"],
        source="int cudaGetDriverEntryPoint(void) {return 0;}",
    )
    make_so(
        vendor.sdk / "so" / "libcudart.so.11.0",
        soname="libcudart.so.11.0",
        needed=["libxpucuda.so", "libxpurt.so.2"],
        source="int cudaMalloc(void) {return 0;}",
    )
    package = vendor.package
    make_so(package / "libxpujitc.so", soname="libxpujitc.so", source="int jitc;")
    make_so(
        package / "libxpu_blas.so",
        soname="libxpu_blas.so",
        needed=["libxpujitc.so"],
        source="int cudaGetDriverEntryPoint(void); int blas(void) {return cudaGetDriverEntryPoint();}",
    )
    for name in ("libxpu_dnn.so", "libxpu_flash_attention.so"):
        make_so(package / name, soname=name, source=f"int {name[3:-3]};")
    make_so(
        package / "libxdnn_pytorch.so",
        soname="libxdnn_pytorch.so",
        needed=["libxpu_blas.so", "libxpu_dnn.so", "libxpu_flash_attention.so", "libcudart.so.12", "libxpuml.so.1"],
        source="int xdnn(void) {return 0;}",
    )
    return vendor


# --- torch and torch_fl ------------------------------------------------------------------------------------------

_EXTENSION = """
#include <Python.h>
static PyObject *none(PyObject *self, PyObject *args) {Py_RETURN_NONE;}
static PyMethodDef methods[] = {{"_register_operators", none, METH_VARARGS, ""}, {0}};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_C", "", -1, methods};
PyMODINIT_FUNC PyInit__C(void) {return PyModule_Create(&module);}
"""

_FLAGOS = """
def device_count():
    return DEVICES
def register():
    pass
"""


class Stack(NamedTuple):
    """site: a directory for PYTHONPATH with a stand-in torch and this checkout's torch_fl; package: torch_fl in it."""

    site: Path

    @property
    def package(self) -> Path:
        return self.site / "torch_fl"

    @property
    def extension(self) -> Path:
        return self.package / f"_C{SUFFIX}"

    @property
    def library(self) -> Path:
        return self.package / "lib" / "libtorch_fl.so"


RUNPATH = "$ORIGIN/../../../xpu/so:$ORIGIN/../../torch_xmlir:$ORIGIN/../../torch_xmlir/xhpc/xblas/dependency_so"


def make_library(stack: Stack, runpath: str = RUNPATH, source: str = "", needed: Sequence[str] = ()) -> None:
    """libtorch_fl.so, with further C and further names in DT_NEEDED."""
    names = ["libxdnn_pytorch.so", "libxpurt.so.2", *needed]
    make_so(stack.library, soname="libtorch_fl.so", needed=names, runpath=runpath, source=source)


def set_torch(stack: Stack, version: str, owner: str = "privateuseone") -> None:
    """The version of the stand-in torch, and the name that its PrivateUse1 device has."""
    (stack.site / "torch" / "version.py").write_text(f"__version__ = '{version}'\n")
    (stack.site / "torch" / "__init__.py").write_text(
        "import sys\nfrom .version import __version__\n_C = sys.modules[__name__]\n"
        f"def _get_privateuse1_backend_name():\n    return '{owner}'\n"
    )


def set_devices(stack: Stack, expression: str) -> None:
    """What device_count() returns, as a Python expression."""
    (stack.package / "flagos" / "__init__.py").write_text(_FLAGOS.replace("DEVICES", expression))


def write_record(root: Path) -> None:
    """The build record, with the paths of this tree."""
    (root / "site" / "torch_fl" / "_build_config.py").write_text(
        "ACCELERATOR = 'kunlunxin'\nTORCH_VERSION = '2.13.0+cpu'\nXPU_SDK_VERSION = '5.37.1'\n"
        f"XDNN_LIBRARY_DIR = '{root}/site/torch_xmlir'\nSDK_LIBRARY_DIR = '{root}/xpu/so'\n"
    )


def stack_tree(root: Path) -> Stack:
    """A torch_fl with the Python part of this checkout, a compiled part of a few lines, and a torch of the same kind.

    All of it, with the vendor's tree, lies below `root` and may be copied elsewhere; then write_record anew.
    """
    headers = sysconfig.get_path("include")
    if not Path(headers, "Python.h").is_file():
        pytest.skip("Python.h is not there: install the interpreter's development files")
    stack = Stack(root / "site")
    ignored = shutil.ignore_patterns("__pycache__", "*.so", "lib", "flagos", "_build_config.py", "*.conf")
    shutil.copytree(ROOT / "torch_fl", stack.package, ignore=ignored)
    (stack.package / "flagos").mkdir()
    set_devices(stack, "2")
    (stack.package / "configs").mkdir(exist_ok=True)
    (stack.package / "configs" / "backends_kunlunxin.conf").write_text("")
    write_record(root)
    make_library(stack)
    make_so(
        stack.extension, needed=["libtorch_fl.so"], runpath="$ORIGIN/lib", source=_EXTENSION, flags=[f"-I{headers}"]
    )
    place = stack.site / "torch"
    make_so(place / "lib" / "libtorch_global_deps.so", soname="libtorch_global_deps.so")
    make_so(place / f"_C{SUFFIX}", source="int torch;")
    set_torch(stack, "2.13.0")
    return stack


NOT_THE_CHECKOUT = "import sys; sys.path.remove(''); "
"""`python -c` puts the working directory first, which is this checkout while the tests run."""


class Machine(NamedTuple):
    """A stack below one directory, and what its user does."""

    root: Path

    @property
    def vendor(self) -> Vendor:
        return Vendor(self.root / "xpu", self.root / "site" / "torch_xmlir")

    @property
    def stack(self) -> Stack:
        return Stack(self.root / "site")

    def check(self, *options: str, **environment: str) -> CheckUp:
        """The check-up of this torch_fl. PYTHONPATH names its site, where its vendor package is as well."""
        return check(options=options, python_path=[self.stack.site], **environment)

    def import_it(self, **environment: str) -> ChildResult:
        """`import torch_fl` in a child."""
        variables = minimal_environment(PYTHONPATH=str(self.stack.site), **environment)
        return run(f"{NOT_THE_CHECKOUT}import torch_fl; print(torch_fl.flagos.device_count())", env=variables)

    def error(self, **environment: str) -> str:
        """What `import torch_fl` says when it fails, without the traceback."""
        result = self.import_it(**environment)
        assert result.rc == 1, result
        assert "LoadError: " in result.stderr, result.stderr
        return result.stderr[result.stderr.index("LoadError: ") :]

"""A wheel that travels: built here, installed into another environment at another place.

The SDK of the build is gone there: the children run in a mount namespace in which the directory that the build found
its SDK in is empty, so that nothing of it can be used by accident.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from elftools.elf.elffile import ELFFile
from jsonschema import Draft202012Validator
from packaging.tags import sys_tags
from packaging.utils import parse_wheel_filename

from tests.child import ChildResult, minimal_environment

ROOT = Path(__file__).resolve().parents[2]
SDK = ROOT / "build" / "sdk"
VENDOR = "torch_xmlir"
USE = """
import sys, torch
print(torch.ones(8, 8, device="flagos").sum().item(), torch.flagos.device_count(), torch.flagos.__file__)
assert "torch_xmlir" not in sys.modules
"""
USED = (sys.base_prefix, sys.prefix, str(ROOT))
USUAL_SDK = Path("/usr/local/xre" if any(path.startswith("/opt/") for path in USED) else "/opt/xre")
"""One of the places where an XPU SDK may be; the namespace has a file system of its own in the directory above."""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The wheel of this checkout, built as docs/installation.md says."""
    destination = tmp_path_factory.mktemp("wheel")
    roots = {"XPU_ROOT": "xpu", "XDNN_ROOT": f"site-packages/{VENDOR}", "XCUDART_ROOT": "xcudart"}
    command = [sys.executable, "-m", "pip", "wheel", "--no-build-isolation", "--no-deps", "--no-index"]
    leftovers = [f"lib.{sysconfig.get_platform()}-{sys.implementation.cache_tag}", f"bdist.{sysconfig.get_platform()}"]
    _remove(leftovers)
    try:
        done = subprocess.run(
            [*command, "--wheel-dir", destination, ROOT],
            env={**os.environ, **{name: str(SDK / below) for name, below in roots.items()}},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        (built,) = destination.glob("*.whl")
        yield built
    finally:
        _remove(leftovers)


def _remove(names: list[str]) -> None:
    """setuptools would put files of an earlier build into the wheel."""
    for name in names:
        shutil.rmtree(ROOT / "build" / name, ignore_errors=True)


class Environment(NamedTuple):
    """A virtual environment with the wheel in it; the rest of the tests' environment is linked, torch_fl left out."""

    root: Path

    @property
    def python(self) -> Path:
        return self.root / "bin" / "python"

    @property
    def site(self) -> Path:
        return self.root / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"

    def run(self, *arguments: str, sdk: bool = True, **variables: str) -> ChildResult:
        """The interpreter with nothing but `variables` set. `sdk`: the XPU SDK is in its usual place."""
        script = """
            mount -t tmpfs none "$0"
            mount -t tmpfs none "$1"
            [ "$2" = no ] || { mkdir -p "$2" && cp -a "$3"/. "$2"; }
            shift 3
            exec "$@"
        """
        places = [str(SDK), str(USUAL_SDK.parent), str(USUAL_SDK / "so") if sdk else "no", str(self.root / "xpu-so")]
        inside = ["unshare", "-rm", "sh", "-ec", script, *places, str(self.python), *arguments]
        done = subprocess.run(
            inside, env=minimal_environment(**variables), cwd="/", capture_output=True, text=True, check=False
        )
        return ChildResult(done.returncode, done.stdout, done.stderr)


@pytest.fixture
def installed(wheel: Path, tmp_path: Path) -> Environment:
    environment = Environment(tmp_path / "another place" / "venv")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment.root], check=True)
    for entry in Path(sysconfig.get_path("purelib")).iterdir():
        if not entry.name.startswith(("torch_fl", "__editable__", "_virtualenv", "distutils-precedence")):
            (environment.site / entry.name).symlink_to(entry)
    pip = [sys.executable, "-m", "pip", "--python", environment.python, "install", "--no-deps", "--no-index"]
    subprocess.run([*pip, wheel], check=True, capture_output=True)
    shutil.copytree(SDK / "xpu" / "so", environment.root / "xpu-so", symlinks=True)
    return environment


def place_vendor_package(directory: Path) -> Path:
    return Path(shutil.copytree(SDK / "site-packages" / VENDOR, directory / VENDOR, symlinks=True))


def test_it_works_where_the_vendor_package_is_in_the_same_environment(installed: Environment) -> None:
    place_vendor_package(installed.site)
    done = installed.run("-c", USE).check()
    assert done.stdout.split(maxsplit=2)[:2] == ["64.0", "2"]
    assert done.stdout.strip().endswith(f"{installed.site}/torch_fl/flagos/__init__.py")
    assert done.stderr == ""


def test_it_works_after_the_whole_environment_has_moved(installed: Environment, tmp_path: Path) -> None:
    place_vendor_package(installed.site)
    moved = Environment(installed.root.rename(tmp_path / "moved"))
    assert moved.run("-c", USE).check().stdout.startswith("64.0 2 ")


def test_elsewhere_it_says_what_to_set_and_that_works(installed: Environment, tmp_path: Path) -> None:
    other = Environment(tmp_path / "third")
    other.site.mkdir(parents=True)
    package = place_vendor_package(other.site)
    refused = installed.run("-c", "import torch_fl")
    assert refused.rc == 1
    first = refused.stderr[refused.stderr.index("LoadError: ") :].splitlines()[0]
    scattered = "libxdnn_pytorch.so and libcudart.so.12 are in 2 directories that are not searched"
    assert first == f"LoadError: torch_fl does not load: {scattered}"
    assert f"{package}/libxdnn_pytorch.so  SONAME libxdnn_pytorch.so" in refused.stderr
    assert f"$ export FLAGOS_KUNLUNXIN_XDNN_LIB_DIR={package}" in refused.stderr
    assert installed.run("-c", USE, FLAGOS_KUNLUNXIN_XDNN_LIB_DIR=str(package)).check().stdout.startswith("64.0 2 ")


def test_without_an_sdk_it_says_which_root_to_set_and_that_works(installed: Environment, tmp_path: Path) -> None:
    place_vendor_package(installed.site)
    root = tmp_path / "sdk"
    shutil.copytree(installed.root / "xpu-so", root / "so", symlinks=True)
    refused = installed.run("-c", "import torch_fl", sdk=False)
    assert refused.rc == 1
    assert "LoadError: torch_fl does not load: libxpuml.so.1 is in none of the directories searched" in refused.stderr
    assert "help: install the XPU SDK, or, before Python starts, set XPU_ROOT to its root" in refused.stderr
    assert installed.run("-c", USE, sdk=False, XPU_ROOT=str(root)).check().stdout.startswith("64.0 2 ")


VENDOR_HOOK = """
import builtins, ctypes, glob, os, sys
original = builtins.__import__
def hooked(name, *rest, **more):
    if name == "torch" and "torch" not in sys.modules:
        builtins.__import__ = original
        below = os.path.join(os.path.dirname(__file__), "torch_xmlir", "xhpc", "*", "dependency_so")
        for soname in ("libxpurt.so.2", "libxpucuda.so", "libcudart.so.12"):
            ctypes.CDLL(glob.glob(os.path.join(below, soname))[0], mode=ctypes.RTLD_GLOBAL)
        module = original(name, *rest, **more)
        try:
            original("torch_xmlir")
        except Exception as error:
            print("WARNING: import hook error:", error)
        return module
    return original(name, *rest, **more)
if os.environ.get("DISABLE_XPYTORCH") != "1":
    builtins.__import__ = hooked
"""


@pytest.mark.parametrize("disabled", ["0", "1"])
def test_it_works_beside_the_vendors_own_import_hook(installed: Environment, disabled: str) -> None:
    place_vendor_package(installed.site)
    (installed.site / "vendor_hook.py").write_text(VENDOR_HOOK)
    (installed.site / "torch_xmlir.pth").write_text("import vendor_hook\n")
    done = installed.run("-c", USE, DISABLE_XPYTORCH=disabled).check()
    *vendor, result = done.stdout.splitlines()
    assert result.startswith("64.0 2 ")
    assert [line.partition(":")[0] for line in vendor] == ([] if disabled == "1" else ["WARNING"])
    report = json.loads(installed.run("-m", "torch_fl.diagnose", "--json", DISABLE_XPYTORCH=disabled).stdout)
    (environment,) = [check["summary"] for check in report["checks"] if check["name"] == "environment"]
    assert ("torch_xmlir.pth" in environment) == (disabled == "0")
    assert report["status"] == "ok"


def test_the_check_up_agrees(installed: Environment) -> None:
    place_vendor_package(installed.site)
    done = installed.run("-m", "torch_fl.diagnose", "--json")
    report = json.loads(done.stdout)
    assert (done.rc, report["status"]) == (0, "ok"), report
    assert {finding["code"] for finding in report["findings"]} == {"stale-rpath"}
    schema = json.loads(installed.run("-m", "torch_fl.diagnose", "schema").check().stdout)
    Draft202012Validator(schema).validate(report)


# --- what is in it -----------------------------------------------------------------------------------------------


def test_no_file_of_the_sdk_or_the_vendor_is_in_it(wheel: Path) -> None:
    theirs = {path.name for path in SDK.rglob("*") if path.is_file()} - {"__init__.py"}
    contents = {hashlib.sha256(path.read_bytes()).hexdigest() for path in SDK.rglob("*") if path.is_file()}
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        mine = {hashlib.sha256(archive.read(name)).hexdigest() for name in names if archive.getinfo(name).file_size}
    assert theirs & {Path(name).name for name in names} == set()
    assert contents & mine == set()
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    assert {name for name in names if ".so" in name} == {
        f"torch_fl/_C{suffix}",
        "torch_fl/lib/libtorch_fl.so",
        "torch_fl/lib/libtorch_fl_autoload.so",
    }
    assert {name for name in names if ".so" not in name and not name.endswith(".py") and ".dist-info/" not in name} == {
        "torch_fl/_C.pyi",
        "torch_fl/configs/backends_kunlunxin.conf",
        "torch_fl/diagnose/schema-1.json",
        "torch_fl/py.typed",
    }
    assert {name.partition("/")[0] for name in names if ".dist-info/" not in name} == {
        "torch_fl",
        "torch_fl_autoload.py",
    }


def test_its_tag_and_its_needs_are_those_of_the_document(wheel: Path) -> None:
    document = (ROOT / "docs" / "installation.md").read_text(encoding="utf-8")
    tags = parse_wheel_filename(wheel.name)[3]
    assert tags <= set(sys_tags())
    assert {str(tag) for tag in tags} == set(re.findall(r"`(cp311-cp311-\w+)`", document))
    needed: set[str] = set()
    own: set[str] = set()
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            if ".so" not in name:
                continue
            own.add(Path(name).name)
            with archive.open(name) as file:
                dynamic = ELFFile(file).get_section_by_name(".dynamic")
                needed |= {tag.needed for tag in dynamic.iter_tags("DT_NEEDED")}
    (listed,) = re.findall(r"<!-- needs of the wheel -->\n(.*?)\n\n", document, re.DOTALL)
    assert set(re.findall(r"`(\S+?)`", listed)) == needed - own

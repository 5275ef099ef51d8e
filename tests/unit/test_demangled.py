"""C++ names beside raw ones: equal to c++filt's where the library is there, and nothing where it is not."""

from __future__ import annotations

import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from types import ModuleType

import pytest

import torch_fl.diagnose.explain  # noqa: F401  (registers the codes)
from torch_fl._preload import elf, facts
from torch_fl.diagnose.demangled import demangled
from torch_fl.diagnose.explain import symbols
from torch_fl.diagnose.render_text import findings

NAME = "_ZN3c106detail4_strERSoPKw"


def finding(*names: str) -> str:
    wanted = tuple(facts.Undefined(name, None, ()) for name in names)
    problem = facts.UndefinedSymbols("/x/a.so", wanted, f"/x/a.so: undefined symbol: {names[0]}")
    return findings([symbols.undefined_symbol(problem, (), (), ())])


def test_a_finding_has_both_names() -> None:
    said = finding(NAME, "plain_c")
    assert NAME in said
    assert "c10::detail::_str(std::basic_ostream<char, std::char_traits<char> >&, wchar_t const*)" in said
    assert demangled("plain_c") is None


def test_without_the_library_the_raw_name_stands_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "demangle", None)
    said = finding(NAME)
    assert NAME in said
    assert "in C++" not in said
    assert "demangle" not in said


def test_another_package_of_that_name_does_no_harm(monkeypatch: pytest.MonkeyPatch) -> None:
    other = ModuleType("demangle")
    monkeypatch.setitem(sys.modules, "demangle", other)
    assert demangled(NAME) is None
    other.demangle = lambda symbol: symbol  # takes no style
    assert demangled(NAME) is None


def test_names_are_those_of_cxxfilt() -> None:
    """Every tenth name that torch's Python library wants; of enormous ones a few may be spelled otherwise."""
    program = shutil.which("c++filt")
    assert program, "c++filt of the GNU binutils is missing"
    path = Path(sysconfig.get_paths()["platlib"]) / "torch/lib/libtorch_python.so"
    names = [entry.name.decode() for entry in elf.read(str(path)).symbols.undefined()][::10]
    names = [name for name in names if name.startswith("_Z")]
    assert len(names) > 100
    done = subprocess.run([program], input="\n".join(names), capture_output=True, text=True, check=True)
    other = [name for name, said in zip(names, done.stdout.splitlines()) if demangled(name) != said]
    assert len(other) <= len(names) // 1000, other

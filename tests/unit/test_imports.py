"""Who may import whom, and who alone may touch what: the rules of docs/design.md, read from the source."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.elfkit import make_so

PACKAGE = Path(__file__).resolve().parents[2] / "torch_fl"
DIAGNOSE_LAYERS = (
    {"demangled", "escape", "finding", "trial_child", "pyside"},
    {"hunt", "progress", "records", "trial"},
    {"cure"},
    {"explain"},
    {"predict"},
    {"providers"},
    {"unfit"},
    {"conclude", "unimportable"},
    {"conclude_stack"},
    {"render_text", "render_json", "pages"},
    {"render_brief", "render_github"},
    {"failure"},
    {"examination"},
    {"compare"},
    {"checks", "targets", "run"},
    {"cli"},
    {"__main__"},
)
"""A module may import from the sets before its own. `__init__` composes: it may import anything."""

PRELOAD_ONLY_DOWN = {
    # module: what of _preload it may import
    "catalog": {"record"},
    "errors": set(),
    "plan": {"catalog", "elf", "places", "record"},
    "places": {"catalog", "elf", "host", "record"},
    "load": {"plan", "process_image", "record"},
    "rivals": {"places", "plan"},
    "symbol_edges": {"elf", "elf_format", "elf_symbols", "facts", "lookup", "plan", "process", "resolve"},
    "torch_side": {"catalog", "elf", "elf_format"},
    "hook": {"catalog", "host", "load", "plan", "places", "record", "resolve", "symbol_edges", "torch_side"},
    "finder": {"hook"},
}

STANDARD_LIBRARY_ONLY = ("_preload", "diagnose")
OPTIONAL = {"demangle", "elftools", "packaging"}


def modules(folder: str = "") -> list[Path]:
    found = sorted(p for p in (PACKAGE / folder).rglob("*.py") if p.name != "_build_config.py")
    assert found, f"no modules below {PACKAGE / folder}"
    return found


def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def imported(path: Path) -> Iterator[str]:
    """Absolute dotted names of everything a module imports, anywhere in it; `from a import b` gives a.b."""
    package = ("torch_fl", *path.relative_to(PACKAGE).parent.parts)
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = [] if node.level == 0 else list(package[: len(package) - node.level + 1])
            module = ".".join([*base, *([node.module] if node.module else [])])
            yield from (f"{module}.{alias.name}" for alias in node.names)


def files_that_import(name: str) -> set[str]:
    return {
        str(path.relative_to(PACKAGE))
        for path in modules()
        if any(target == name or target.startswith(name + ".") for target in imported(path))
    }


def test_ctypes_has_two_users() -> None:
    assert files_that_import("ctypes") <= {"_preload/load.py", "diagnose/trial_child.py"}


def test_subprocess_has_one_user() -> None:
    assert files_that_import("subprocess") <= {"diagnose/trial.py", "diagnose/run.py"}


def test_torch_is_imported_where_the_device_is_registered() -> None:
    allowed = re.compile(r"__init__\.py|flagos/|_codegen/|diagnose/trial_child\.py|_routes\.py")
    assert {name for name in files_that_import("torch") if not allowed.match(name)} == set()


def test_preload_never_imports_diagnose() -> None:
    offenders = {
        str(path): target
        for path in modules("_preload")
        for target in imported(path)
        if target.startswith("torch_fl.diagnose")
    }
    assert offenders == {}


def test_init_imports_diagnose_only_after_a_failure() -> None:
    for node in tree(PACKAGE / "__init__.py").body:
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            assert "diagnose" not in ast.unparse(node)


@pytest.mark.parametrize("folder", STANDARD_LIBRARY_ONLY)
def test_third_party_packages_are_not_needed(folder: str) -> None:
    known = set(sys.stdlib_module_names) | {"torch_fl", "__future__"}
    for path in modules(folder):
        if path.name == "trial_child.py":  # it runs in the child, where the examined torch is the point
            continue
        strangers = {target.split(".")[0] for target in imported(path)} - known - OPTIONAL
        assert strangers == set(), f"{path} imports {strangers}"


@pytest.mark.parametrize("module", sorted(PRELOAD_ONLY_DOWN))
def test_preload_imports_go_down(module: str) -> None:
    allowed = PRELOAD_ONLY_DOWN[module]
    used = set()
    for target in imported(PACKAGE / "_preload" / f"{module}.py"):
        if target.startswith("torch_fl._preload."):
            used.add(target.split(".")[2])
    assert used - allowed == set()


def layer_of(module: str) -> int:
    for number, layer in enumerate(DIAGNOSE_LAYERS):
        if module in layer:
            return number
    raise AssertionError(f"diagnose/{module} has no place in the order: add it to DIAGNOSE_LAYERS")


def test_diagnose_imports_go_down() -> None:
    for path in modules("diagnose"):
        inside = path.relative_to(PACKAGE / "diagnose").parts
        own = inside[0] if len(inside) > 1 else path.stem
        if own == "__init__":
            continue
        for target in imported(path):
            parts = target.split(".")
            if parts[:2] == ["torch_fl", "diagnose"] and len(parts) > 2 and parts[2] != own:
                assert layer_of(parts[2]) < layer_of(own), f"{path} imports {target}"


def test_every_sentence_for_users_is_in_explain() -> None:
    """A Finding is built nowhere else, so its sentences are written nowhere else."""
    for path in modules("diagnose"):
        if "explain" in path.parts:
            continue
        calls = [n for n in ast.walk(tree(path)) if isinstance(n, ast.Call) and ast.unparse(n.func) == "Finding"]
        assert calls == [], f"{path} builds a Finding"


def literals(path: Path) -> Iterator[str]:
    """Every string constant that is not a docstring."""
    module = tree(path)
    documented = {
        ast.get_docstring(node, clean=False)
        for node in ast.walk(module)
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef))
    }
    for node in ast.walk(module):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value not in documented:
            yield node.value


def test_environment_and_proc_are_read_in_one_place() -> None:
    owners = {"_preload/host.py", "_preload/process_image.py", "_preload/machine.py", "diagnose/trial_child.py"}
    for path in modules():
        name = str(path.relative_to(PACKAGE))
        if name in owners or not name.startswith(STANDARD_LIBRARY_ONLY):
            continue
        source = path.read_text(encoding="utf-8")
        assert "os.environ" not in source.replace("os.environ in", ""), f"{name} reads os.environ"
        assert "os.getenv" not in source, f"{name} reads the environment"
        if name != "_preload/catalog.py":
            assert [text for text in literals(path) if text.startswith("/proc/")] == [], f"{name} names a file of /proc"


def test_vendor_names_are_in_the_catalogue() -> None:
    """No code decides by a vendor's name that is written down twice. Prose that mentions one is free to."""
    vendor = re.compile(r"(lib(xpu|xdnn|cudart|bkcl)[\w.]*|torch_xmlir|xcudart|X(PU|DNN|CUDART)_ROOT)")
    for path in modules():
        name = str(path.relative_to(PACKAGE))
        if name == "_preload/catalog.py" or not name.startswith(STANDARD_LIBRARY_ONLY):
            continue
        assert [text for text in literals(path) if vendor.fullmatch(text)] == [], f"{name} has a vendor's name"


def test_a_load_that_succeeds_imports_little(tmp_path: Path) -> None:
    """Every module that the healthy path does not need is imported where it is needed, and only then."""
    code = """
import sys
before = set(sys.modules)
from torch_fl._preload import host, load, places, plan
here = host.current()
places.mapped_vendor_libraries(here), places.library_path(here)
plan.make_plan(places.Sources({}, (), (), sys.prefix, {}, False, {}))
print(*sorted(set(sys.modules) - before))
"""
    env = {"PYTHONPATH": str(PACKAGE.parent), "FLAGOS_LOAD": "0", "PATH": "/usr/bin:/bin"}
    done = subprocess.run([sys.executable, "-S", "-c", code], env=env, capture_output=True, text=True, check=True)
    new = set(done.stdout.split())
    assert not new & {"subprocess", "importlib.metadata", "dataclasses", "ctypes", "inspect", "ast", "elftools"}
    ours = {name.rpartition(".")[2] for name in new if name.startswith("torch_fl._preload.")}
    on_the_way = {"catalog", "elf", "elf_format", "host", "load", "places", "plan", "process_image"}
    assert ours == {"errors", "finder", "hook", "record", "torch_side", *on_the_way}


def test_a_prediction_imports_only_the_standard_library(tmp_path: Path) -> None:
    """Also of a whole symbol check: no child process, no metadata of packages, nothing of others."""
    code = """
import sys
from torch_fl._preload import host, resolve
outcome = resolve.dlopen(resolve.fresh(host.current().replace(mapped=())), sys.argv[1])
assert outcome.loads, outcome.error
print(*sorted(sys.modules))
"""
    path = make_so(tmp_path / "a.so", needed=["libc.so.6"])
    env = {"PYTHONPATH": str(PACKAGE.parent), "FLAGOS_LOAD": "0", "PATH": "/usr/bin:/bin"}
    command = [sys.executable, "-S", "-c", code, str(path)]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    new = {name.partition(".")[0] for name in done.stdout.split()}
    assert new <= set(sys.stdlib_module_names) | {"torch_fl", "__main__"}
    assert not set(done.stdout.split()) & {"subprocess", "importlib.metadata", "dataclasses", "ctypes"}

"""The published schema of the JSON report: what real runs write satisfies it, and a report that was bent does not."""

from __future__ import annotations

import copy
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from jsonschema import Draft202012Validator

from tests.child import minimal_environment
from tests.demo.travelled import Travelled, make
from tests.elfkit import make_so, truncate
from torch_fl.diagnose import render_json

ROOT = Path(__file__).resolve().parents[2]
SCHEMA = json.loads(render_json.schema())
VALIDATOR = Draft202012Validator(SCHEMA)


class Run(NamedTuple):
    """What is run, the codes it must find, and the copied tree whose torch_fl runs, if it is not the checkout's."""

    arguments: tuple[str | bytes, ...]
    codes: frozenset[str] = frozenset()
    tree: Travelled | None = None
    python: tuple[str, ...] = (sys.executable,)
    path: str = str(ROOT)


def run(item: Run) -> dict[str, Any]:
    variables = item.tree.environment(LC_ALL="C") if item.tree else minimal_environment(PYTHONPATH=item.path)
    command = [*item.python, "-m", "torch_fl.diagnose", "check", "--json", *item.arguments]
    done = subprocess.run(command, env=variables, cwd="/", capture_output=True, timeout=120, check=False)
    assert done.stderr == b"", done.stderr
    report: dict[str, Any] = json.loads(done.stdout)
    assert {finding["code"] for finding in report["findings"]} == item.codes
    return report


def healthy_stack(directory: Path) -> Run:
    return Run((), tree=make(directory / "moved"))


def other_copies(directory: Path) -> Run:
    """The plan tells what it passed over."""
    tree = make(directory / "moved")
    library = next(tree.package.glob("libxpu_dnn.so"))
    (tree.site / "libxpu_dnn.so").write_bytes(library.read_bytes())
    return Run((), tree=tree)


def broken_stack(directory: Path) -> Run:
    tree = make(directory / "moved")
    (tree.package / "libxpu_dnn.so").unlink()
    return Run((), frozenset({"missing-library"}), tree=tree)


def neither_torch_nor_torch_fl(directory: Path) -> Run:
    """-S: no site-packages. What cannot be known is null."""
    return Run(("--no-trial",), frozenset({"torch-missing"}), python=(sys.executable, "-S"))


def loads(directory: Path) -> Run:
    needed = make_so(directory / "libb.so", soname="libb.so", source="int b;")
    return Run((bytes(make_so(directory / "a.so", needed=[needed], runpath="$ORIGIN")),))


def loads_without_trial(directory: Path) -> Run:
    return Run(("--no-trial", bytes(make_so(directory / "a.so"))))


def does_not_load(directory: Path) -> Run:
    return Run((bytes(make_so(directory / "a.so", needed=["libgone.so.1"])),), frozenset({"missing-library"}))


def ends_the_process(directory: Path) -> Run:
    cut = truncate(make_so(directory / "a.so", source="char data[200000] = {1}; char *p = data;"), 20_000)
    return Run((bytes(cut),), frozenset({"truncated-file"}))


def hangs(directory: Path) -> Run:
    source = "unsigned sleep(unsigned); __attribute__((constructor)) static void begin(void) {sleep(60);}"
    target = make_so(directory / "a.so", source=source, needed=["libc.so.6"])
    return Run(("--timeout", "0.5", bytes(target)), frozenset({"load-hangs"}))


def several_at_once(directory: Path) -> Run:
    fine, broken = make_so(directory / "a.so"), make_so(directory / "b.so", needed=["libgone.so.1"])
    (directory / "c.so").write_text("no library")
    targets = (fine, broken, directory / "c.so", directory / "absent.so")
    return Run(tuple(map(bytes, targets)), frozenset({"missing-library", "not-elf"}))


HOSTILE = (b"a\nb.so", b"\x1b[31m.so", b"caf\xe9\xff.so", "\u202egnp.so".encode(), b"a b.so", "张.so".encode())


def hostile_names(directory: Path) -> Run:
    plain = make_so(directory / "plain.so", needed=["lib\x1b[31m\n::error::.so"])
    targets = [os.path.join(bytes(directory), name) for name in HOSTILE]
    for target in targets:
        os.link(plain, target)
    return Run(tuple(targets), frozenset({"missing-library"}))


def no_library_for_this_interpreter(directory: Path) -> Run:
    (directory / "patient").mkdir()
    (directory / "patient" / "__init__.py").touch()
    make_so(directory / "patient" / "native.cpython-36m-x86_64-linux-gnu.so")
    return Run(("patient.native",), frozenset({"python-tag-mismatch"}), path=f"{ROOT}:{directory}")


RUNS: tuple[Callable[[Path], Run], ...] = (
    healthy_stack,
    other_copies,
    broken_stack,
    neither_torch_nor_torch_fl,
    loads,
    loads_without_trial,
    does_not_load,
    ends_the_process,
    hangs,
    several_at_once,
    hostile_names,
    no_library_for_this_interpreter,
)


def wrong(report: object) -> list[str]:
    return [f"{error.json_path}: {error.message}" for error in VALIDATOR.iter_errors(report)]


@pytest.mark.parametrize("arrange", RUNS, ids=lambda arrange: arrange.__name__)
def test_real_reports_satisfy_it(arrange: Callable[[Path], Run], tmp_path: Path) -> None:
    assert wrong(run(arrange(tmp_path))) == []


def test_it_is_a_schema_and_the_command_prints_it() -> None:
    Draft202012Validator.check_schema(SCHEMA)
    done = subprocess.run(
        [sys.executable, "-m", "torch_fl.diagnose", "schema"],
        env=minimal_environment(PYTHONPATH=str(ROOT)), cwd="/", capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert json.loads(done.stdout) == SCHEMA
    assert (ROOT / "torch_fl" / "diagnose" / "schema-1.json").read_text() == done.stdout


# --- bent ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """Between them they have every key."""
    arranged = (broken_stack, other_copies, several_at_once)
    return [run(arrange(tmp_path_factory.mktemp("bent"))) for arrange in arranged]


Place = tuple[Any, ...]


def places(value: Any, here: Place = ()) -> Iterator[Place]:
    """Every place below `value`; of a list the first item stands for all."""
    if isinstance(value, dict):
        for key in value:
            yield (*here, key)
            yield from places(value[key], (*here, key))
    elif isinstance(value, list) and value:
        yield (*here, 0)
        yield from places(value[0], (*here, 0))


def bent(report: dict[str, Any], place: Place, change: Callable[[Any, Any], None]) -> dict[str, Any]:
    """A copy in which `change` was done to the container of a place."""
    result = copy.deepcopy(report)
    container: Any = result
    for key in place[:-1]:
        container = container[key]
    change(container, place[-1])
    return result


def another_type(container: Any, key: Any) -> None:
    container[key] = 3.5 if isinstance(container[key], (dict, list)) else {}


def no_such_value(container: Any, key: Any) -> None:
    container[key] = 2 if isinstance(container[key], bool) else str(container[key]) + " no such value"


def required(schema: Any) -> Iterator[str]:
    if isinstance(schema, dict):
        yield from schema.get("required", ()) if isinstance(schema.get("required", ()), list) else ()
        for value in schema.values():
            yield from required(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from required(value)


def test_a_missing_key_is_refused(reports: list[dict[str, Any]]) -> None:
    dropped = set()
    for report in reports:
        for place in places(report):
            if isinstance(place[-1], str) and place[:-1] != ("environment", "variables"):
                assert wrong(bent(report, place, lambda container, key: container.pop(key))), place
                dropped.add(place[-1])
    assert dropped == set(required(SCHEMA))


def test_a_changed_type_is_refused(reports: list[dict[str, Any]]) -> None:
    for report in reports:
        for place in places(report):
            assert wrong(bent(report, place, another_type)), place


@pytest.mark.parametrize(
    "key", ["schema", "status", "outcome", "severity", "scope", "crash", "code", "global", "loads"]
)
def test_a_value_that_is_not_in_the_contract_is_refused(reports: list[dict[str, Any]], key: str) -> None:
    found = [(report, place) for report in reports for place in places(report) if place[-1] == key]
    assert found
    for report, place in found:
        assert wrong(bent(report, place, no_such_value)), place


def test_the_status_is_that_of_the_findings(reports: list[dict[str, Any]]) -> None:
    for report in reports:
        other = "ok" if report["status"] == "broken" else "broken"
        assert wrong({**report, "status": other})


def test_a_key_more_is_allowed_everywhere(reports: list[dict[str, Any]]) -> None:
    def add(container: Any, key: Any) -> None:
        if isinstance(container, dict):
            container["of a later version"] = "x"

    for report in reports:
        for place in places(report):
            assert wrong(bent(report, place, add)) == [], place


def test_the_design_names_every_key() -> None:
    """docs/design.md has the contract in words; what the environment holds is left to the schema there."""
    text = (ROOT / "docs" / "design.md").read_text(encoding="utf-8")
    shown = text.partition("**JSON, schema 1.**")[2].partition("`plan` is")[0]
    named = set(re.findall(r'"(\w+)"', shown))
    assert set(required(SCHEMA)) - set(SCHEMA["$defs"]["environment"]["required"]) <= named

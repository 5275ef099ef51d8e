"""The plan: which copy of each vendor library, in which order, and what is said when one is missing.

Trees are made of real libraries with the vendor's names and DT_NEEDED lists (one line of C each).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.elfkit import make_so
from torch_fl._preload import places, plan, rivals

PAIR = ("libxpucuda.so", "libcudart.so.12")
COMPONENTS = ("libxpu_blas.so", "libxpu_dnn.so", "libxpu_flash_attention.so")


class Tree:
    """A vendor tree below `root`: the package, its nested CUDA-compat directory and the SDK's so/."""

    def __init__(self, root: Path) -> None:
        self.sdk, self.package = root / "xpu", root / "site-packages" / "torch_xmlir"
        self.compat = self.package / "xhpc" / "xblas" / "dependency_so"
        for directory in (self.sdk / "so", self.compat):
            directory.mkdir(parents=True)
        library(self.sdk / "so", "libxpuml.so.1")
        library(self.sdk / "so", "libxpurt.so.2")
        library(self.compat, "libxpurt.so.2")
        library(self.compat, "libxpucuda.so", "libxpurt.so.2")
        library(self.compat, "libcudart.so.12", "libxpucuda.so", "libxpurt.so.2")
        library(self.package, "libxpujitc.so")
        library(self.package, "libxpu_blas.so", "libxpujitc.so")
        library(self.package, "libxpu_dnn.so")
        library(self.package, "libxpu_flash_attention.so")
        library(self.package, "libxdnn_pytorch.so", *COMPONENTS, "libcudart.so.12", "libxpuml.so.1")


def library(directory: Path, soname: str, *needed: str) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / soname
    make_so(path, soname=soname, needed=list(needed))
    return path


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path)


@pytest.fixture
def sources(tree: Tree) -> Callable[..., places.Sources]:
    """A process that finds the tree through the build's record; keyword arguments replace single facts."""

    def build(**facts: object) -> places.Sources:
        record = {
            "XDNN_LIBRARY_DIR": str(tree.package),
            "SDK_LIBRARY_DIR": str(tree.sdk / "so"),
            "DEPENDENCY_DIRS": (str(tree.compat),),
        }
        base = places.Sources({}, (), (), "/nowhere", record, False, {})
        return base._replace(**facts)

    return build


def order(made: plan.Plan) -> list[str]:
    return [step.soname for step in made.steps]


def test_the_compat_runtime_comes_before_every_component_and_the_op_library_last(
    sources: Callable[..., places.Sources],
) -> None:
    made = plan.make_plan(sources())
    assert made.complete
    names = order(made)
    assert names[:3] == ["libxpurt.so.2", *PAIR]
    assert names[-1] == "libxdnn_pytorch.so"
    assert names.index("libxpujitc.so") < names.index("libxpu_blas.so")
    assert sorted(names) == sorted(set(names))


def test_paths_are_absolute_and_each_file_answers_its_soname(
    sources: Callable[..., places.Sources], tree: Tree
) -> None:
    made = plan.make_plan(sources())
    assert all(os.path.isabs(step.path) and os.path.basename(step.path) == step.soname for step in made.steps)
    assert {step.path for step in made.steps if step.soname in PAIR} == {str(tree.compat / name) for name in PAIR}


def test_a_directory_with_half_of_the_pair_is_passed_over(
    sources: Callable[..., places.Sources], tmp_path: Path, tree: Tree
) -> None:
    half = tmp_path / "half"
    library(half, "libcudart.so.12")
    made = plan.make_plan(sources(library_path=(str(half),)))
    assert made.compat == str(tree.compat)
    assert places.Considered("LD_LIBRARY_PATH", str(half), "has no libxpucuda.so") in made.compat_search


def test_the_runtime_stays_with_the_pair(sources: Callable[..., places.Sources], tree: Tree) -> None:
    path = {step.soname: step.path for step in plan.make_plan(sources()).steps}
    assert path["libxpurt.so.2"] == str(tree.compat / "libxpurt.so.2")


def test_the_runtime_comes_from_the_sdk_when_the_pair_has_none(
    sources: Callable[..., places.Sources], tree: Tree
) -> None:
    (tree.compat / "libxpurt.so.2").unlink()
    path = {step.soname: step.path for step in plan.make_plan(sources()).steps}
    assert path["libxpurt.so.2"] == str(tree.sdk / "so" / "libxpurt.so.2")


def test_what_the_user_names_beats_the_loader_path_site_packages_and_the_record(
    sources: Callable[..., places.Sources], tmp_path: Path
) -> None:
    said, seen, installed = (Tree(tmp_path / name) for name in ("said", "seen", "installed"))
    everything = {
        "settings": {"FLAGOS_KUNLUNXIN_XDNN_LIB_DIR": f"/nowhere:{said.package}"},
        "library_path": (str(seen.package),),
        "search_path": (str(installed.package.parent),),
    }
    assert plan.make_plan(sources(**everything)).package == str(said.package)
    del everything["settings"]
    assert plan.make_plan(sources(**everything)).package == str(seen.package)
    del everything["library_path"]
    made = plan.make_plan(sources(**everything))
    assert made.package == str(installed.package)
    assert made.compat == str(installed.compat)


def test_a_component_that_the_catalogue_does_not_know_is_loaded_too(
    sources: Callable[..., places.Sources], tree: Tree
) -> None:
    library(tree.package, "libxpu_next.so", "libxpujitc.so")
    library(tree.package, "libxdnn_pytorch.so", *COMPONENTS, "libxpu_next.so", "libcudart.so.12")
    names = order(plan.make_plan(sources()))
    assert names.index("libxpujitc.so") < names.index("libxpu_next.so") < names.index("libxdnn_pytorch.so")


def test_a_missing_component_is_named_with_who_needs_it_and_every_place(
    sources: Callable[..., places.Sources], tree: Tree
) -> None:
    (tree.package / "libxpu_dnn.so").unlink()
    made = plan.make_plan(sources())
    (missing,) = made.missing
    assert missing.soname == "libxpu_dnn.so"
    assert missing.needed_by == (str(tree.package / "libxdnn_pytorch.so"),)
    labels = [place.label for place in missing.considered]
    assert labels == [
        "the vendor package", "FLAGOS_KUNLUNXIN_XDNN_LIB_DIR", "LD_LIBRARY_PATH", "XPU_ROOT", "the build's record",
        *["usual place"] * 6,
    ]  # fmt: skip
    assert missing.considered[0] == places.Considered("the vendor package", str(tree.package), "has no libxpu_dnn.so")


def test_nothing_is_planned_twice_when_libraries_need_each_other(
    sources: Callable[..., places.Sources], tree: Tree
) -> None:
    library(tree.package, "libxpujitc.so", "libxpu_blas.so")
    assert order(plan.make_plan(sources())).count("libxpu_blas.so") == 1


def test_in_secure_mode_directories_named_by_the_environment_are_not_used(
    sources: Callable[..., places.Sources], tmp_path: Path, tree: Tree
) -> None:
    said = Tree(tmp_path / "said")
    settings = {"FLAGOS_KUNLUNXIN_XDNN_LIB_DIR": str(said.package), "XPU_ROOT": str(said.sdk)}
    assert plan.make_plan(sources(settings=settings, secure=True)).package == str(tree.package)


def test_a_library_that_is_already_mapped_is_taken_as_it_is(
    sources: Callable[..., places.Sources], tmp_path: Path
) -> None:
    elsewhere = library(tmp_path / "elsewhere", "libxpurt.so.2")
    path = {s.soname: s.path for s in plan.make_plan(sources(mapped={"libxpurt.so.2": str(elsewhere)})).steps}
    assert path["libxpurt.so.2"] == str(elsewhere)


def test_a_file_that_is_not_elf_makes_the_plan_incomplete(sources: Callable[..., places.Sources], tree: Tree) -> None:
    (tree.package / "libxpu_dnn.so").write_text("version https://git-lfs.github.com/spec/v1\n")
    made = plan.make_plan(sources())
    assert not made.complete
    assert [item.path for item in made.unreadable] == [str(tree.package / "libxpu_dnn.so")]


def test_a_directory_that_others_can_write_is_said(sources: Callable[..., places.Sources], tree: Tree) -> None:
    tree.package.chmod(0o777)
    assert plan.make_plan(sources()).writable_by_others == (str(tree.package),)


def test_the_record_is_read_and_never_run(tmp_path: Path) -> None:
    path = tmp_path / "_build_config.py"
    path.write_text("RPATH = ('/a', '/b')\nBAD = open('/etc/hostname').read()\nACCELERATOR = 'kunlunxin'\n")
    assert places.read_record(str(path)) == {"RPATH": ("/a", "/b"), "ACCELERATOR": "kunlunxin"}
    assert places.read_record(str(tmp_path / "absent.py")) == {}


def test_rivals_are_the_copies_further_on_and_what_the_loader_would_take(
    tree: Tree, sources: Callable[..., places.Sources], tmp_path: Path
) -> None:
    second = tmp_path / "second" / "lib"
    for name in PAIR:
        library(second, name)
    linked = tmp_path / "linked"
    linked.mkdir()
    (linked / "libxpuml.so.1").symlink_to(tree.sdk / "so" / "libxpuml.so.1")
    facts = sources(settings={"XCUDART_ROOT": str(second.parent)}, library_path=(str(linked),))
    loader = {"libxpu_dnn.so": str(second / "libxpu_dnn.so"), "libcudart.so.12": None}
    library(second, "libxpu_dnn.so")
    made = rivals.with_rivals(plan.make_plan(facts), facts, loader)
    found = {record.soname: record for record in made.rivals}
    assert set(found) == {"libxpurt.so.2", *PAIR, "libxpu_dnn.so"}  # a link to the chosen file is no copy
    cudart = found["libcudart.so.12"]
    assert (cudart.path, cudart.why) == (str(tree.compat / "libcudart.so.12"), "nested in the vendor package")
    assert cudart.others == (plan.Copy("XCUDART_ROOT", str(second / "libcudart.so.12")),)
    assert cudart.loader is None
    assert found["libxpu_dnn.so"].loader == str(second / "libxpu_dnn.so")


def test_a_library_that_is_mapped_already_is_chosen_and_said(
    tree: Tree, sources: Callable[..., places.Sources], tmp_path: Path
) -> None:
    mapped = library(tmp_path / "mapped", "libxpurt.so.2")
    facts = sources(mapped={"libxpurt.so.2": str(mapped)})
    made = rivals.with_rivals(plan.make_plan(facts), facts, {})
    (record,) = [record for record in made.rivals if record.soname == "libxpurt.so.2"]
    assert (record.path, record.why) == (str(mapped), plan.ALREADY_MAPPED)
    assert {copy.path for copy in record.others} == {
        str(tree.compat / "libxpurt.so.2"),
        str(tree.sdk / "so" / "libxpurt.so.2"),
    }

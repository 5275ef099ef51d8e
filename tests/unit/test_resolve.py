"""What callers read from an Outcome: objects, lookups with every step, all problems, and what-if questions."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests import elfkit
from tests.elfkit import make_so, write_text
from torch_fl._preload import facts, host, resolve
from torch_fl._preload.facts import BadFile, ForeignLibc, MissingLibrary, SkippedCandidate
from torch_fl._preload.host import Host
from torch_fl._preload.order import relocation_order
from torch_fl._preload.resolve import DEPENDENCIES, GLOBAL, LOCAL, VERSIONS


def here(**env: str) -> Host:
    return host.current().replace(environment=env, mapped=(), cwd="/")


def opened(path: Path, **env: str) -> resolve.Outcome:
    return resolve.dlopen(resolve.fresh(here(**env)), str(path))


def verdicts(outcome: resolve.Outcome, name: str) -> list[tuple[str, str]]:
    lookup = next(entry for entry in outcome.lookups if entry.name == name)
    return [(step.stage, step.verdict) for step in lookup.steps]


def test_objects_in_the_loaders_order_with_their_requesters(tmp_path: Path) -> None:
    deep = make_so(tmp_path / "libdeep.so", soname="libdeep.so")
    one = make_so(tmp_path / "libone.so", soname="libone.so", needed=[deep], runpath="$ORIGIN")
    two = make_so(tmp_path / "libtwo.so", soname="libtwo.so", needed=[deep], runpath="$ORIGIN")
    root = make_so(tmp_path / "a.so", needed=[one, two], runpath="$ORIGIN")
    outcome = opened(root)
    assert [entry.name for entry in outcome.objects] == [str(root), "libone.so", "libtwo.so", "libdeep.so"]
    assert [entry.how for entry in outcome.objects] == [facts.TARGET, *[facts.RUNPATH] * 3]
    assert outcome.objects[3].needed_by == (str(one), str(two))
    assert {entry.scope for entry in outcome.objects} == {LOCAL}
    assert all(entry.is_new for entry in outcome.objects)
    assert (outcome.loads, outcome.error, outcome.crash, outcome.problems) == (True, None, None, ())


def test_a_global_open_makes_everything_in_its_list_global(tmp_path: Path) -> None:
    inner = make_so(tmp_path / "libone.so", soname="libone.so")
    root = make_so(tmp_path / "a.so", needed=[inner], runpath="$ORIGIN")
    process = resolve.fresh(here())
    outcome = resolve.dlopen(process, str(root), GLOBAL)
    assert {entry.scope for entry in outcome.objects} == {GLOBAL}
    assert [outcome.process.maps[index].name for index in outcome.process.global_scope[-2:]] == [str(root), str(inner)]
    assert len(process.maps) == len(outcome.process.maps) - 2, "the process that was given is as before"


def test_every_stage_is_told_in_the_loaders_order(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    root = make_so(tmp_path / "a.so", needed=["libgone.so"], runpath=f"{tmp_path}/none:{tmp_path}/empty")
    outcome = opened(root, LD_LIBRARY_PATH=str(tmp_path / "empty"))
    assert verdicts(outcome, "libgone.so") == [
        (facts.RPATH, facts.DISABLED),
        (facts.LIBRARY_PATH, facts.ABSENT),
        (facts.RUNPATH, facts.NO_DIRECTORY),
        (facts.RUNPATH, facts.ABSENT),
        (facts.CACHE, facts.NO_ENTRY),
        *[(facts.DEFAULT, facts.ABSENT)] * len(here().system_dirs),
    ]


def test_stages_that_do_not_apply_say_why(tmp_path: Path) -> None:
    root = make_so(tmp_path / "a.so", needed=["libgone.so"], flags=["-Wl,-z,nodefaultlib"])
    steps = next(entry for entry in opened(root).lookups if entry.name == "libgone.so").steps
    told = {step.stage: (step.verdict, step.detail) for step in steps}
    assert told[facts.LIBRARY_PATH] == (facts.NOT_SET, "")
    assert told[facts.RUNPATH][0] == facts.NOT_SET
    assert told[facts.DEFAULT] == (facts.DISABLED, "the requester has DF_1_NODEFLIB")
    secure = here(LD_LIBRARY_PATH="/x").replace(secure=True)
    steps = resolve.dlopen(resolve.fresh(secure), str(root)).lookups[-1].steps
    assert (facts.LIBRARY_PATH, facts.DISABLED) in [(step.stage, step.verdict) for step in steps]


def test_all_missing_names_are_found_though_the_loader_stops_at_the_first(tmp_path: Path) -> None:
    inner = make_so(tmp_path / "libone.so", soname="libone.so", needed=["libdeep.so.3"])
    root = make_so(tmp_path / "a.so", needed=["libgone.so", inner, "libelse.so.1"], runpath="$ORIGIN")
    outcome = opened(root)
    assert outcome.missing == ("libgone.so", "libelse.so.1", "libdeep.so.3")
    assert outcome.error == "libgone.so: cannot open shared object file: No such file or directory"
    last = outcome.problems[-1]
    assert isinstance(last, MissingLibrary)
    assert last.chain == (str(root), str(inner))
    assert last.lookup.name == "libdeep.so.3"


def test_what_if_another_library_path(tmp_path: Path) -> None:
    make_so(tmp_path / "found/libgone.so", soname="libgone.so")
    root = make_so(tmp_path / "a.so", needed=["libgone.so"])
    base = here()
    assert not resolve.dlopen(resolve.fresh(base), str(root)).loads
    cured = base.replace(environment={"LD_LIBRARY_PATH": str(tmp_path / "found")})
    assert resolve.dlopen(resolve.fresh(cured), str(root)).loads


def test_a_bad_file_tells_which_good_one_it_shadows(tmp_path: Path) -> None:
    bad = write_text(tmp_path / "first/libb.so", "version https://git-lfs.github.com/spec/v1\n" * 3)
    write_text(tmp_path / "second/libb.so", "")
    good = make_so(tmp_path / "third/libb.so", soname="libb.so")
    root = make_so(tmp_path / "a.so", needed=["libb.so"])
    outcome = opened(root, LD_LIBRARY_PATH=":".join(str(tmp_path / name) for name in ("first", "second", "third")))
    problem = outcome.problems[0]
    assert isinstance(problem, BadFile)
    assert (problem.path, problem.reason, problem.shadows) == (str(bad), "not-elf", str(good))


def test_a_skipped_file_is_a_problem_even_when_a_good_one_follows(tmp_path: Path) -> None:
    bad = elfkit.patch(make_so(tmp_path / "first/libb.so"), elf_class=1)
    good = make_so(tmp_path / "second/libb.so", soname="libb.so")
    root = make_so(tmp_path / "a.so", needed=["libb.so"])
    outcome = opened(root, LD_LIBRARY_PATH=f"{tmp_path}/first:{tmp_path}/second")
    assert outcome.loads
    problem = outcome.problems[0]
    assert isinstance(problem, SkippedCandidate)
    assert (problem.path, problem.reason, problem.found) == (str(bad), facts.WRONG_CLASS, str(good))


def test_an_object_for_musl_is_told(tmp_path: Path) -> None:
    outcome = opened(make_so(tmp_path / "a.so", needed=["libc.musl-x86_64.so.1"]))
    assert ForeignLibc(str(tmp_path / "a.so"), "musl", "libc.musl-x86_64.so.1") in outcome.problems
    assert isinstance(resolve.dlopen(resolve.fresh(here().replace(libc="musl")), "x").problems[0], ForeignLibc)


def test_depth_decides_how_much_is_read(tmp_path: Path) -> None:
    root = make_so(tmp_path / "a.so", source="int gone(void); int use(void) { return gone(); }")
    process = resolve.fresh(here())
    assert resolve.dlopen(process, str(root), depth=DEPENDENCIES).loads
    assert resolve.dlopen(process, str(root), depth=VERSIONS).loads
    assert not resolve.dlopen(process, str(root)).loads
    with pytest.raises(ValueError, match="depth"):
        resolve.dlopen(process, str(root), depth="deep")
    with pytest.raises(ValueError, match="visible"):
        resolve.dlopen(process, str(root), "everywhere")


def test_secure_mode_drops_origin_outside_the_system_directories(tmp_path: Path) -> None:
    make_so(tmp_path / "libb.so", soname="libb.so")
    root = make_so(tmp_path / "a.so", needed=["libb.so"], runpath="x$ORIGIN")
    secure = here().replace(secure=True)
    outcome = resolve.dlopen(resolve.fresh(secure), str(root))
    assert (facts.RUNPATH, facts.EMPTY) in verdicts(outcome, "libb.so")
    refused = make_so(tmp_path / "c.so", needed=["$ORIGIN/libb.so"])
    said = resolve.dlopen(resolve.fresh(secure), str(refused)).error
    assert said == "$ORIGIN/libb.so: DST not allowed in SUID/SGID programs"


def test_nothing_outside_the_host_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_so(tmp_path / "libb.so", soname="libb.so")
    root = make_so(tmp_path / "a.so", needed=["libb.so"])
    base = here()
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    assert not resolve.dlopen(resolve.fresh(base), str(root)).loads
    assert not resolve.dlopen(resolve.fresh(base), "a.so").loads
    assert not resolve.dlopen(resolve.fresh(base), "./a.so").loads


def test_an_older_glibc_ends_a_list_at_a_file_in_a_directorys_place(tmp_path: Path) -> None:
    make_so(tmp_path / "good/libb.so", soname="libb.so")
    write_text(tmp_path / "file", "x")
    root = make_so(tmp_path / "a.so", needed=["libb.so"])
    base = here(LD_LIBRARY_PATH=f"file:{tmp_path}/good").replace(cwd=str(tmp_path))
    for version, loads in (((2, 38), False), ((2, 39), True)):
        assert resolve.dlopen(resolve.fresh(base.replace(libc_version=version)), str(root)).loads == loads


def test_a_program_that_is_no_python_and_one_that_is_gone(tmp_path: Path) -> None:
    assert resolve.fresh(here().replace(executable=os.path.realpath("/bin/sh"))).find("libc.so.6") is not None
    nothing = resolve.fresh(here().replace(executable=str(tmp_path / "gone")))
    assert [entry.elf for entry in nothing.maps] == [None, None]
    assert not resolve.dlopen(nothing, str(tmp_path / "a.so")).loads


def test_relocation_order_of_both_algorithms() -> None:
    needed = {0: (1, 2), 1: (3,), 2: (1,), 3: ()}
    for depth_first in (True, False):
        order = relocation_order([0, 1, 2, 3], lambda index: needed[index], root_first=True, depth_first=depth_first)
        assert order == [3, 1, 2, 0]


@pytest.mark.parametrize("name", ["/", "//", ".", "x\0y", "/" + "a" * 5000, "$ORIGIN", "${", "ü/\udcff", "a" * 300])
def test_any_name_gives_an_outcome(name: str) -> None:
    outcome = resolve.dlopen(resolve.fresh(here()), name)
    assert not outcome.loads

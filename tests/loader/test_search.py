"""Where a name is found: one test for each rule of the search, the model against a real child."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests import elfkit
from tests.elfkit import make_so
from tests.loader.truth import PYTHON, Open, Result, child_host, compare, environment, predicted, real
from torch_fl._preload import host, resolve

Lib = Callable[..., Path]


def b(path: Path, value: int = 1, **more: object) -> Path:
    """A library `libb.so` that anyone may need."""
    return make_so(path, soname="libb.so", source=f"int b(void) {{ return {value}; }}", **more)  # type: ignore[arg-type]


def loads(results: list[Result]) -> bool:
    return results[-1].loads


def names(result: Result, directory: Path) -> set[str]:
    """Which files below `directory` are mapped, by relative path."""
    keys = {}
    for path in directory.rglob("*"):
        if path.is_file():
            status = path.stat()
            key = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x} {status.st_ino}"
            keys[key] = str(path.relative_to(directory))
    return {keys[key] for key in result.mapped if key in keys}


# --- RPATH and RUNPATH --------------------------------------------------------------------------------------------


def test_c01_rpath_of_an_ancestor_serves_its_descendants(tmp_path: Path) -> None:
    b(tmp_path / "deep/libb.so")
    middle = make_so(tmp_path / "deep/libm.so", soname="libm.so", needed=["libb.so"])
    root = make_so(tmp_path / "a.so", needed=[middle], rpath=str(tmp_path / "deep"))
    assert loads(compare([str(root)]))


def test_c02_runpath_is_not_inherited(tmp_path: Path) -> None:
    b(tmp_path / "deep/libb.so")
    middle = make_so(tmp_path / "deep/libmid.so", soname="libmid.so", needed=["libb.so"])
    root = make_so(tmp_path / "a.so", needed=[middle], runpath=str(tmp_path / "deep"))
    assert compare([str(root)])[0].error == "libb.so: cannot open shared object file: No such file or directory"


def test_c03_the_requesters_own_runpath_disables_the_rpath_chain(tmp_path: Path) -> None:
    b(tmp_path / "deep/libb.so")
    middle = make_so(tmp_path / "deep/libmid.so", soname="libmid.so", needed=["libb.so"], runpath="/nonexistent")
    root = make_so(tmp_path / "a.so", needed=[middle], rpath=str(tmp_path / "deep"))
    assert not loads(compare([str(root)]))


def test_an_ancestors_runpath_drops_its_rpath_but_the_walk_goes_on(tmp_path: Path) -> None:
    b(tmp_path / "deep/libb.so")
    middle = make_so(tmp_path / "mid/libmid.so", soname="libmid.so", needed=["libb.so"], rpath=str(tmp_path / "none"))
    upper = make_so(tmp_path / "deep/libup.so", soname="libup.so", needed=[middle], runpath=str(tmp_path / "mid"))
    root = make_so(tmp_path / "a.so", needed=[upper], rpath=str(tmp_path / "deep"))
    assert loads(compare([str(root)]))


def test_c04_library_path_beats_runpath(tmp_path: Path) -> None:
    b(tmp_path / "one/libb.so", 1)
    b(tmp_path / "two/libb.so", 2)
    root = make_so(tmp_path / "a.so", needed=["libb.so"], runpath=str(tmp_path / "one"))
    result = compare([str(root)], environment(LD_LIBRARY_PATH=str(tmp_path / "two")))
    assert names(result[0], tmp_path) == {"a.so", "two/libb.so"}


def test_c05_rpath_beats_library_path(tmp_path: Path) -> None:
    b(tmp_path / "one/libb.so", 1)
    b(tmp_path / "two/libb.so", 2)
    root = make_so(tmp_path / "a.so", needed=["libb.so"], rpath=str(tmp_path / "one"))
    result = compare([str(root)], environment(LD_LIBRARY_PATH=str(tmp_path / "two")))
    assert names(result[0], tmp_path) == {"a.so", "one/libb.so"}


def test_c51_rpath_beside_runpath_is_dropped(tmp_path: Path) -> None:
    b(tmp_path / "one/libb.so", 1)
    root = make_so(tmp_path / "a.so", needed=["libb.so"], runpath="/nonexistent:/filler/filler/filler/filler")
    # The SONAME slot becomes a DT_RPATH that shares the text of DT_RUNPATH but for its tail.
    make_so(tmp_path / "a.so", soname=str(tmp_path / "one"), needed=["libb.so"], runpath="/nonexistent")
    elfkit.patch_dynamic(root, 14, new_tag=15)
    assert not loads(compare([str(root)]))


def test_an_empty_rpath_is_ignored(tmp_path: Path) -> None:
    b(tmp_path / "libb.so")
    root = make_so(tmp_path / "a.so", soname="", needed=["libb.so"], rpath="/x")
    data = root.read_bytes().replace(b"\0/x\0", b"\0\0x\0")
    root.write_bytes(data)
    assert not loads(compare([str(root)], cwd=tmp_path))


def test_an_empty_element_of_runpath_is_the_working_directory(tmp_path: Path) -> None:
    b(tmp_path / "libb.so")
    root = make_so(tmp_path / "a.so", needed=["libb.so"], runpath="/nonexistent:")
    assert loads(compare([str(root)], cwd=tmp_path))


def test_trailing_slashes_and_repeats_do_not_matter(tmp_path: Path) -> None:
    b(tmp_path / "one/libb.so")
    root = make_so(tmp_path / "a.so", needed=["libb.so"], runpath=f"{tmp_path}/none//:{tmp_path}/one///:{tmp_path}/one")
    assert loads(compare([str(root)]))


def test_c47_a_relative_runpath_starts_at_the_working_directory(tmp_path: Path) -> None:
    b(tmp_path / "one/libb.so")
    root = make_so(tmp_path / "a.so", needed=["libb.so"], runpath="one")
    assert loads(compare([str(root)], cwd=tmp_path))
    assert not loads(compare([str(root)], cwd="/"))


# --- LD_LIBRARY_PATH ----------------------------------------------------------------------------------------------


def test_library_path_in_order(tmp_path: Path) -> None:
    b(tmp_path / "one/libb.so", 1)
    b(tmp_path / "two/libb.so", 2)
    root = make_so(tmp_path / "a.so", needed=["libb.so"])
    result = compare([str(root)], environment(LD_LIBRARY_PATH=f"{tmp_path}/two:{tmp_path}/one"))
    assert names(result[0], tmp_path) == {"a.so", "two/libb.so"}


def test_c12_an_empty_element_is_the_working_directory(tmp_path: Path) -> None:
    b(tmp_path / "libb.so")
    root = make_so(tmp_path / "sub/a.so", needed=["libb.so"])
    assert loads(compare([str(root)], environment(LD_LIBRARY_PATH=f"{tmp_path}/none:"), cwd=tmp_path))
    assert not loads(compare([str(root)], environment(LD_LIBRARY_PATH=f"{tmp_path}/none"), cwd=tmp_path))


def test_an_empty_library_path_is_no_list(tmp_path: Path) -> None:
    b(tmp_path / "libb.so")
    root = make_so(tmp_path / "sub/a.so", needed=["libb.so"])
    assert not loads(compare([str(root)], environment(LD_LIBRARY_PATH=""), cwd=tmp_path))


def test_c13_semicolons_separate_too(tmp_path: Path) -> None:
    b(tmp_path / "one/libb.so")
    root = make_so(tmp_path / "a.so", needed=["libb.so"])
    assert loads(compare([str(root)], environment(LD_LIBRARY_PATH=f"{tmp_path}/none;{tmp_path}/one")))


def test_semicolons_do_not_separate_a_runpath(tmp_path: Path) -> None:
    b(tmp_path / "one/libb.so")
    root = make_so(tmp_path / "a.so", needed=["libb.so"], runpath=f"{tmp_path}/none;{tmp_path}/one")
    assert not loads(compare([str(root)]))


def test_a_tilde_is_literal(tmp_path: Path) -> None:
    b(tmp_path / "one/libb.so")
    root = make_so(tmp_path / "a.so", needed=["libb.so"])
    assert not loads(compare([str(root)], environment(LD_LIBRARY_PATH="~/one", HOME=str(tmp_path))))


def test_a_file_in_the_place_of_a_directory_is_passed_over(tmp_path: Path) -> None:
    b(tmp_path / "one/libb.so")
    elfkit.write_text(tmp_path / "file", "x")
    root = make_so(tmp_path / "a.so", needed=["libb.so"])
    assert loads(compare([str(root)], environment(LD_LIBRARY_PATH=f"{tmp_path}/file:{tmp_path}/one")))


def test_a_file_in_the_place_of_a_relative_directory(tmp_path: Path) -> None:
    b(tmp_path / "one/libb.so")
    elfkit.write_text(tmp_path / "file", "x")
    root = make_so(tmp_path / "a.so", needed=["libb.so"])
    compare([str(root)], environment(LD_LIBRARY_PATH=f"file:{tmp_path}/one"), cwd=tmp_path)


# --- hardware subdirectories --------------------------------------------------------------------------------------


def test_c06_glibc_hwcaps_wins_inside_a_directory(tmp_path: Path) -> None:
    b(tmp_path / "one/libb.so", 1)
    b(tmp_path / "one/glibc-hwcaps/x86-64-v2/libb.so", 2)
    root = make_so(tmp_path / "a.so", needed=["libb.so"], runpath=str(tmp_path / "one"))
    compare([str(root)])


def test_c07_a_file_that_is_only_in_glibc_hwcaps(tmp_path: Path) -> None:
    b(tmp_path / "one/glibc-hwcaps/x86-64-v3/libb.so")
    root = make_so(tmp_path / "a.so", needed=["libb.so"], runpath=str(tmp_path / "one"))
    compare([str(root)])


def test_a_level_that_the_processor_lacks_is_not_searched(tmp_path: Path) -> None:
    b(tmp_path / "one/glibc-hwcaps/x86-64-v4/libb.so")
    root = make_so(tmp_path / "a.so", needed=["libb.so"], runpath=str(tmp_path / "one"))
    compare([str(root)])


@pytest.mark.parametrize("subdirectory", ["tls", "x86_64", "tls/x86_64", "haswell", "avx512_1", "tls/x86_64/x86_64"])
def test_legacy_subdirectories_before_glibc_2_37(tmp_path: Path, subdirectory: str) -> None:
    b(tmp_path / "one" / subdirectory / "libb.so")
    root = make_so(tmp_path / "a.so", needed=["libb.so"], runpath=str(tmp_path / "one"))
    compare([str(root)])


# --- tokens -------------------------------------------------------------------------------------------------------


def test_c08_lib_token(tmp_path: Path) -> None:
    token = host.current().lib_token
    b(tmp_path / token / "libb.so")
    root = make_so(tmp_path / "a.so", needed=["libb.so"], runpath=f"{tmp_path}/$LIB")
    assert loads(compare([str(root)]))


@pytest.mark.parametrize("token", ["$ORIGIN", "${ORIGIN}"])
def test_c09_origin(tmp_path: Path, token: str) -> None:
    b(tmp_path / "one/libb.so")
    root = make_so(tmp_path / "a.so", needed=["libb.so"], runpath=f"{token}/one")
    assert loads(compare([str(root)]))


@pytest.mark.parametrize("text", ["$ORIGINX", "$ORIGIN_", "${ORIGIN", "$origin", "$$ORIGIN"])
def test_c10_what_is_no_token_stays_literal(tmp_path: Path, text: str) -> None:
    b(tmp_path / text / "libb.so")
    root = make_so(tmp_path / "a.so", needed=["libb.so"], runpath=f"{tmp_path}/{text}")
    compare([str(root)])


def test_a_braced_token_may_be_followed_by_a_letter(tmp_path: Path) -> None:
    b(tmp_path / "hereX/libb.so")
    root = make_so(tmp_path / "here/a.so", needed=["libb.so"], runpath="${ORIGIN}X")
    assert loads(compare([str(root)]))


def test_c11_platform(tmp_path: Path) -> None:
    b(tmp_path / (host.current().platform or "none") / "libb.so")
    root = make_so(tmp_path / "a.so", needed=["libb.so"], runpath=f"{tmp_path}/$PLATFORM")
    assert loads(compare([str(root)]))


def test_origin_in_library_path_is_the_executables_directory(tmp_path: Path) -> None:
    b(tmp_path / "libb.so")
    root = make_so(tmp_path / "sub/a.so", needed=["libb.so"])
    up = "/.." * len(Path(PYTHON).parent.parts)
    assert loads(compare([str(root)], environment(LD_LIBRARY_PATH=f"$ORIGIN{up}{tmp_path}")))


def test_c30_origin_in_needed(tmp_path: Path) -> None:
    b(tmp_path / "one/libb.so")
    root = make_so(tmp_path / "a.so", needed=["$ORIGIN/one/libb.so"])
    assert loads(compare([str(root)]))


def test_origin_in_the_name_given_to_dlopen_is_the_callers(tmp_path: Path) -> None:
    b(tmp_path / "libb.so")
    up = "/.." * 30
    assert loads(compare([f"$ORIGIN{up}{tmp_path}/libb.so"]))


def test_c44_origin_of_a_linked_file_is_the_links_directory(tmp_path: Path) -> None:
    b(tmp_path / "real/libb.so")
    root = make_so(tmp_path / "real/a.so", needed=["libb.so"], runpath="$ORIGIN")
    (tmp_path / "farm").mkdir()
    (tmp_path / "farm/a.so").symlink_to(root)
    assert not loads(compare([str(tmp_path / "farm/a.so")]))
    assert loads(compare([str(root)]))


def test_c45_dots_behind_origin_leave_a_linked_directory(tmp_path: Path) -> None:
    b(tmp_path / "store/libb.so")
    make_so(tmp_path / "store/pkg/a.so", needed=["libb.so"], runpath="$ORIGIN/..")
    (tmp_path / "venv").mkdir()
    (tmp_path / "venv/pkg").symlink_to(tmp_path / "store/pkg")
    assert loads(compare([str(tmp_path / "venv/pkg/a.so")]))


# --- names with a slash -------------------------------------------------------------------------------------------


def test_c28_an_absolute_needed_name(tmp_path: Path) -> None:
    target = make_so(tmp_path / "one/libb.so", source="int b(void) {return 1;}")
    root = make_so(tmp_path / "a.so", needed=[str(target)])
    assert loads(compare([str(root)]))


def test_c29_an_absolute_needed_name_that_is_gone_is_not_searched_for(tmp_path: Path) -> None:
    b(tmp_path / "two/libb.so")
    root = make_so(tmp_path / "a.so", needed=[f"{tmp_path}/one/libb.so"])
    result = compare([str(root)], environment(LD_LIBRARY_PATH=str(tmp_path / "two")))
    assert result[0].error is not None
    assert result[0].error.startswith(f"{tmp_path}/one/libb.so: cannot open")


def test_c31_a_relative_needed_name_starts_at_the_working_directory(tmp_path: Path) -> None:
    b(tmp_path / "one/libb.so")
    root = make_so(tmp_path / "a.so", needed=["one/libb.so"])
    assert loads(compare([str(root)], cwd=tmp_path))
    assert not loads(compare([str(root)], environment(LD_LIBRARY_PATH=str(tmp_path)), cwd="/"))


def test_a_relative_path_keeps_its_spelling_in_messages(tmp_path: Path) -> None:
    make_so(tmp_path / "one/a.so", source="int missing(void); int a(void) {return missing();}")
    result = compare(["one/../one/a.so"], cwd=tmp_path)
    assert result[0].error == "one/../one/a.so: undefined symbol: missing"


# --- cache and system directories ---------------------------------------------------------------------------------


def test_a_system_library_comes_from_the_cache(tmp_path: Path) -> None:
    root = make_so(tmp_path / "a.so", needed=["libz.so.1", "libstdc++.so.6"])
    assert loads(compare([str(root)]))


def test_c32_nodefaultlib_refuses_the_system_directories(tmp_path: Path) -> None:
    root = make_so(tmp_path / "a.so", needed=["libbz2.so.1.0"], flags=["-Wl,-z,nodefaultlib"])
    assert compare([str(root)])[0].error == "libbz2.so.1.0: cannot open shared object file"


def test_nodefaultlib_still_uses_the_library_path(tmp_path: Path) -> None:
    b(tmp_path / "one/libb.so")
    root = make_so(tmp_path / "a.so", needed=["libb.so"], flags=["-Wl,-z,nodefaultlib"])
    assert loads(compare([str(root)], environment(LD_LIBRARY_PATH=str(tmp_path / "one"))))


def test_nodefaultlib_with_directories_that_lack_the_file(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    root = make_so(tmp_path / "a.so", needed=["libbz2.so.1.0"], flags=["-Wl,-z,nodefaultlib"])
    compare([str(root)], environment(LD_LIBRARY_PATH=str(tmp_path / "one")))


def test_a_name_that_differs_in_leading_zeros_is_the_same_to_the_cache() -> None:
    compare(["libz.so.01"])
    compare(["libz.so.001"])


# --- what is loaded already ---------------------------------------------------------------------------------------


def test_c14_the_soname_of_a_loaded_object_answers(tmp_path: Path) -> None:
    target = b(tmp_path / "elsewhere/other-name.so")
    root = make_so(tmp_path / "a.so", needed=["libb.so"])
    first = make_so(tmp_path / "first.so", needed=[str(target), root.name], runpath="$ORIGIN")
    assert loads(compare([str(first)]))


@pytest.mark.parametrize("visible", [resolve.LOCAL, resolve.GLOBAL])
def test_c35_an_object_opened_before_by_path_answers_to_its_soname(tmp_path: Path, visible: str) -> None:
    target = b(tmp_path / "elsewhere/libb.so.1.2.3")
    root = make_so(tmp_path / "a.so", needed=["libb.so"])
    assert loads(compare([Open(str(target), visible), Open(str(root))]))


def test_c36_without_a_soname_it_does_not(tmp_path: Path) -> None:
    target = make_so(tmp_path / "elsewhere/libb.so", source="int b(void) {return 1;}")
    root = make_so(tmp_path / "a.so", needed=["libb.so"])
    assert not loads(compare([Open(str(target), resolve.GLOBAL), Open(str(root))]))


def test_c15_a_sibling_that_comes_first_serves_a_later_one(tmp_path: Path) -> None:
    b(tmp_path / "one/libb.so")
    second = make_so(tmp_path / "libsecond.so", soname="libsecond.so", needed=["libb.so"])
    root = make_so(tmp_path / "a.so", needed=[tmp_path / "one/libb.so", second], runpath=f"{tmp_path}:{tmp_path}/one")
    assert loads(compare([str(root)]))


def test_c16_a_sibling_that_comes_too_late_does_not(tmp_path: Path) -> None:
    b(tmp_path / "one/libb.so")
    third = make_so(tmp_path / "libthird.so", soname="libthird.so", needed=["libb.so"])
    second = make_so(tmp_path / "libsecond.so", soname="libsecond.so", needed=[third], runpath=str(tmp_path))
    last = make_so(
        tmp_path / "liblast.so", soname="liblast.so", needed=[tmp_path / "one/libb.so"], runpath=f"{tmp_path}/one"
    )
    deep = make_so(tmp_path / "libdeep.so", soname="libdeep.so", needed=[last], runpath=str(tmp_path))
    deeper = make_so(tmp_path / "libdeeper.so", soname="libdeeper.so", needed=[deep], runpath=str(tmp_path))
    root = make_so(tmp_path / "a.so", needed=[second, deeper], runpath=str(tmp_path))
    assert not loads(compare([str(root)]))


def test_c46_a_hard_link_is_the_same_object(tmp_path: Path) -> None:
    target = make_so(tmp_path / "one/libb.so", source="int b(void) {return 1;}")
    (tmp_path / "two").mkdir()
    os.link(target, tmp_path / "two/libb.so")
    result = compare([str(target), str(tmp_path / "two/libb.so")])
    assert len(result[1].mapped) == 1


def test_a_copy_is_a_second_object(tmp_path: Path) -> None:
    target = b(tmp_path / "one/libb.so")
    elfkit.copy(target, tmp_path / "two/libb.so")
    result = compare([str(target), str(tmp_path / "two/libb.so")])
    assert len(result[1].mapped) == 2


def test_a_needed_name_that_is_no_soname_maps_a_second_copy(tmp_path: Path) -> None:
    target = b(tmp_path / "one/libb.so")
    elfkit.copy(target, tmp_path / "two/libcopy.so")
    root = make_so(tmp_path / "a.so", needed=["libcopy.so"], runpath=str(tmp_path / "two"))
    assert len(compare([str(target), str(root)])[1].mapped) == 3


def test_opening_the_same_path_twice(tmp_path: Path) -> None:
    target = b(tmp_path / "libb.so")
    assert loads(compare([str(target), str(target), "libb.so"]))


def test_a_name_asked_for_before_answers_even_if_the_file_has_no_soname(tmp_path: Path) -> None:
    make_so(tmp_path / "one/libb.so", source="int b(void) {return 1;}")
    first = make_so(tmp_path / "first.so", needed=["libb.so"], runpath=str(tmp_path / "one"))
    second = make_so(tmp_path / "second.so", needed=["libb.so"])
    assert loads(compare([str(first), str(second)]))


def test_objects_of_the_interpreter_itself_answer(tmp_path: Path) -> None:
    root = make_so(tmp_path / "a.so", needed=["libc.so.6", "ld-linux-x86-64.so.2"])
    assert loads(compare([str(root)], environment(LD_LIBRARY_PATH=str(tmp_path))))


def test_a_bare_name_is_searched_with_the_callers_tags_and_the_library_path(tmp_path: Path) -> None:
    b(tmp_path / "libb.so")
    assert loads(compare(["libb.so"], environment(LD_LIBRARY_PATH=str(tmp_path))))
    assert not loads(compare(["libb.so"]))


def test_a_failed_load_leaves_nothing_behind(tmp_path: Path) -> None:
    b(tmp_path / "one/libb.so")
    root = make_so(tmp_path / "a.so", needed=["libb.so", "libgone.so"], runpath=str(tmp_path / "one"))
    other = make_so(tmp_path / "c.so", needed=["libb.so"])
    assert not loads(compare([str(root), str(other)]))


# --- filters ------------------------------------------------------------------------------------------------------


def test_c48_a_missing_auxiliary_is_ignored(tmp_path: Path) -> None:
    root = make_so(tmp_path / "a.so", flags=["-Wl,-f,libgone.so"])
    assert loads(compare([str(root)]))


def test_c49_a_missing_filter_is_fatal(tmp_path: Path) -> None:
    root = make_so(tmp_path / "a.so", flags=["-Wl,-F,libgone.so"])
    assert not loads(compare([str(root)]))


def test_a_present_filtee_comes_before_what_it_filters(tmp_path: Path) -> None:
    b(tmp_path / "libb.so")
    root = make_so(tmp_path / "a.so", flags=["-Wl,-F,libb.so"], runpath="$ORIGIN")
    assert loads(compare([str(root)]))
    outcome = resolve.dlopen(resolve.fresh(child_host(environment())), str(root))
    assert [os.path.basename(entry.path) for entry in outcome.objects] == ["libb.so", "a.so"]


def test_a_damaged_auxiliary_is_ignored(tmp_path: Path) -> None:
    elfkit.write_text(tmp_path / "libb.so", "not a library, but long enough to be read as a header" * 2)
    root = make_so(tmp_path / "a.so", flags=["-Wl,-f,libb.so"], runpath="$ORIGIN")
    assert loads(compare([str(root)]))


# --- the program itself -------------------------------------------------------------------------------------------

PROGRAM = r"""
#include <dlfcn.h>
#include <stdio.h>
int main(int n, char **names) {
    for (int i = 1; i < n; ++i) {
        void *found = dlopen(names[i], RTLD_NOW);
        printf("%s\n", found ? "" : dlerror());
    }
    return 0;
}
"""


def program_says(program: Path, opens: list[Path], env: dict[str, str]) -> list[str | None]:
    import subprocess

    command = [str(program), *map(str, opens)]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    return [line or None for line in done.stdout.split("\n")[:-1]]


def model_says(program: Path, opens: list[Path], env: dict[str, str]) -> list[str | None]:
    process = resolve.fresh(child_host(env, python=program))
    said = []
    for path in opens:
        outcome = resolve.dlopen(process, str(path))
        process = outcome.process
        said.append(outcome.error)
    return said


@pytest.mark.parametrize(("tag", "found"), [("--disable-new-dtags", True), ("--enable-new-dtags", False)])
def test_c42_c43_the_executables_rpath_serves_everyone_its_runpath_nobody(
    tmp_path: Path, tag: str, found: bool
) -> None:
    b(tmp_path / "env/lib/libb.so")
    program = elfkit.make_program(tmp_path / "env/bin/program", PROGRAM, flags=[f"-Wl,{tag},-rpath,$ORIGIN/../lib"])
    root = make_so(tmp_path / "a.so", needed=["libb.so"])
    said = program_says(program, [root], environment())
    assert (said == [None]) == found
    assert model_says(program, [root], environment()) == said


def test_the_executables_rpath_beats_library_path(tmp_path: Path) -> None:
    b(tmp_path / "lib/libb.so")
    make_so(tmp_path / "other/libb.so", soname="libb.so", source="int gone(void); int b(void) {return gone();}")
    program = elfkit.make_program(
        tmp_path / "bin/program", PROGRAM, flags=["-Wl,--disable-new-dtags,-rpath,$ORIGIN/../lib"]
    )
    root = make_so(tmp_path / "a.so", needed=["libb.so"])
    env = environment(LD_LIBRARY_PATH=str(tmp_path / "other"))
    said = program_says(program, [root], env)
    assert said == [None]
    assert model_says(program, [root], env) == said


def test_the_executable_is_looked_up_once_when_it_is_in_the_chain(tmp_path: Path) -> None:
    b(tmp_path / "lib/libb.so")
    middle = make_so(tmp_path / "lib/libmid.so", soname="libmid.so", source="int mid(void) {return 0;}")
    program = elfkit.make_program(
        tmp_path / "bin/program", PROGRAM, needed=[middle], flags=["-Wl,--disable-new-dtags,-rpath,$ORIGIN/../lib"]
    )
    root = make_so(tmp_path / "a.so", needed=["libmid.so", "libb.so", "libgone.so"])
    said = program_says(program, [root], environment())
    assert model_says(program, [root], environment()) == said


def test_preloaded_objects_are_there_from_the_start(tmp_path: Path) -> None:
    target = make_so(tmp_path / "pre/libpre.so", soname="libb.so", source="int b(void) {return 7;}")
    root = make_so(tmp_path / "a.so", needed=["libb.so"], source="int b(void); int a(void) {return b();}")
    env = environment(LD_PRELOAD=str(target))
    truth = real([Open(str(root))], env)
    model = predicted([Open(str(root))], child_host(env))
    assert truth[0].loads
    assert model[0].loads
    assert truth[0].mapped == model[0].mapped


def test_a_preload_that_does_not_exist_is_ignored(tmp_path: Path) -> None:
    root = b(tmp_path / "libb.so")
    assert loads(compare([str(root)], environment(LD_PRELOAD=f"{tmp_path}/gone.so:libgone.so")))


def test_the_loader_by_another_path_is_the_same_object() -> None:
    interpreter = host.current().interpreter
    assert interpreter is not None
    assert loads(compare([os.path.realpath(interpreter), interpreter]))


def test_the_empty_name_is_the_program_and_the_vdso_answers_to_its_name() -> None:
    assert loads(compare(["", "linux-vdso.so.1"]))


def test_the_running_program_by_its_path_is_no_library() -> None:
    assert not loads(compare([PYTHON]))

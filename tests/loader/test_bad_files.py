"""Candidates that cannot be used: which are passed over, which end the search, and in which words."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from tests import elfkit
from tests.elfkit import make_so, patch, patch_segment, truncate, write_text
from tests.loader.truth import child_host, compare, environment
from torch_fl._preload import facts, resolve
from torch_fl._preload.facts import BadFile, SkippedCandidate, TruncatedFile

LFS_POINTER = (
    "version https://git-lfs.github.com/spec/v1\n"
    "oid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 12345\n"
)
LINKER_SCRIPT = "/* GNU ld script */\nOUTPUT_FORMAT(elf64-x86-64)\nGROUP ( /lib/libc.so.6 /usr/lib/libc_nonshared.a )\n"


def good(path: Path) -> Path:
    return make_so(path, soname="libb.so", source="int b(void) { return 1; } int data = 7; int more[400];")


def needs_b(path: Path) -> Path:
    return make_so(path, needed=["libb.so"])


def both_ways(tmp_path: Path, bad: Path) -> tuple[str | None, str | None]:
    """The text when the bad file is opened by path, and when it is the only candidate in a search."""
    by_path = compare([str(bad)])[-1].error
    root = needs_b(tmp_path / "root.so")
    in_search = compare([str(root)], environment(LD_LIBRARY_PATH=str(bad.parent)))[-1].error
    return by_path, in_search


def first_then_good(tmp_path: Path, bad: Path) -> bool:
    """Whether a search that meets the bad file first arrives at a good one."""
    good(tmp_path / "second/libb.so")
    root = needs_b(tmp_path / "root.so")
    return compare([str(root)], environment(LD_LIBRARY_PATH=f"{bad.parent}:{tmp_path}/second"))[-1].loads


# --- passed over --------------------------------------------------------------------------------------------------


def test_c17_a_32_bit_file_first_is_passed_over(tmp_path: Path) -> None:
    assert first_then_good(tmp_path, patch(good(tmp_path / "first/libb.so"), elf_class=1))


def test_c18_only_a_32_bit_file(tmp_path: Path) -> None:
    by_path, in_search = both_ways(tmp_path, patch(good(tmp_path / "first/libb.so"), elf_class=1))
    assert by_path == f"{tmp_path}/first/libb.so: wrong ELF class: ELFCLASS32"
    assert in_search == "libb.so: wrong ELF class: ELFCLASS32"


def test_c19_another_machines_file_first_is_passed_over(tmp_path: Path) -> None:
    assert first_then_good(tmp_path, patch(good(tmp_path / "first/libb.so"), machine=183))


def test_c20_only_another_machines_file(tmp_path: Path) -> None:
    by_path, in_search = both_ways(tmp_path, patch(good(tmp_path / "first/libb.so"), machine=183))
    assert by_path == f"{tmp_path}/first/libb.so: cannot open shared object file: No such file or directory"
    assert in_search == "libb.so: cannot open shared object file: No such file or directory"


def test_a_skipped_candidate_is_reported_with_its_machine(tmp_path: Path) -> None:
    bad = patch(good(tmp_path / "first/libb.so"), machine=183)
    env = environment(LD_LIBRARY_PATH=str(bad.parent))
    outcome = resolve.dlopen(resolve.fresh(child_host(env)), str(needs_b(tmp_path / "root.so")))
    skipped = [problem for problem in outcome.problems if isinstance(problem, SkippedCandidate)]
    assert [(entry.path, entry.reason, entry.detail) for entry in skipped] == [
        (str(bad), facts.WRONG_MACHINE, "aarch64")
    ]


def test_c25_a_dangling_link_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "first").mkdir()
    (tmp_path / "first/libb.so").symlink_to("libb.so.1.2.3")
    assert first_then_good(tmp_path, tmp_path / "first/libb.so")


def test_only_a_dangling_link(tmp_path: Path) -> None:
    (tmp_path / "first").mkdir()
    (tmp_path / "first/libb.so").symlink_to("libb.so.1.2.3")
    both_ways(tmp_path, tmp_path / "first/libb.so")


# --- the end of a list --------------------------------------------------------------------------------------------


def test_c24_a_link_loop_ends_the_list_it_is_in(tmp_path: Path) -> None:
    (tmp_path / "first").mkdir()
    (tmp_path / "first/libb.so").symlink_to("libb.so")
    assert not first_then_good(tmp_path, tmp_path / "first/libb.so")


def test_a_link_loop_does_not_end_the_next_list(tmp_path: Path) -> None:
    (tmp_path / "first").mkdir()
    (tmp_path / "first/libb.so").symlink_to("libb.so")
    good(tmp_path / "second/libb.so")
    root = make_so(tmp_path / "root.so", needed=["libb.so"], runpath=str(tmp_path / "second"))
    assert compare([str(root)], environment(LD_LIBRARY_PATH=str(tmp_path / "first")))[-1].loads


def test_a_link_loop_by_path(tmp_path: Path) -> None:
    (tmp_path / "libb.so").symlink_to("libb.so")
    assert compare([str(tmp_path / "libb.so")])[-1].error == (
        f"{tmp_path}/libb.so: cannot open shared object file: Too many levels of symbolic links"
    )


def test_a_name_that_is_too_long(tmp_path: Path) -> None:
    name = "lib" + "x" * 260 + ".so"
    compare([str(tmp_path / name)])
    compare([name], environment(LD_LIBRARY_PATH=str(tmp_path)))


def test_a_file_as_a_component_of_the_path(tmp_path: Path) -> None:
    good(tmp_path / "libb.so")
    assert compare([f"{tmp_path}/libb.so/x.so"])[-1].error == (
        f"{tmp_path}/libb.so/x.so: cannot open shared object file: Not a directory"
    )


# --- fatal at once ------------------------------------------------------------------------------------------------


def test_c22_an_empty_file_shadows_a_good_one(tmp_path: Path) -> None:
    bad = write_text(tmp_path / "first/libb.so", "")
    assert both_ways(tmp_path, bad) == (f"{bad}: file too short",) * 2
    assert not first_then_good(tmp_path, bad)


def test_a_short_text_is_too_short(tmp_path: Path) -> None:
    bad = write_text(tmp_path / "first/libb.so", "INPUT(libreal.so)\n")
    assert both_ways(tmp_path, bad) == (f"{bad}: file too short",) * 2


@pytest.mark.parametrize("text", [LFS_POINTER, LINKER_SCRIPT, "<!DOCTYPE html>" + "x" * 100])
def test_c21_a_text_shadows_a_good_one(tmp_path: Path, text: str) -> None:
    bad = write_text(tmp_path / "first/libb.so", text)
    assert both_ways(tmp_path, bad) == (f"{bad}: invalid ELF header",) * 2
    assert not first_then_good(tmp_path, bad)


def test_c23_a_directory_shadows_a_good_file(tmp_path: Path) -> None:
    bad = tmp_path / "first/libb.so"
    bad.mkdir(parents=True)
    assert both_ways(tmp_path, bad) == (f"{bad}: cannot read file data: Is a directory",) * 2
    assert not first_then_good(tmp_path, bad)


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"data": 2}, "ELF file data encoding not little-endian"),
        ({"data": 0}, "ELF file data encoding not little-endian"),
        ({"ident_version": 2}, "ELF file version ident does not match current one"),
        ({"osabi": 9}, "ELF file OS ABI invalid"),
        ({"osabi": 255}, "ELF file OS ABI invalid"),
        ({"abi_version": 1}, "ELF file ABI version invalid"),
        ({"osabi": 3, "abi_version": 9}, "ELF file ABI version invalid"),
        ({"padding": 1}, "nonzero padding in e_ident"),
        ({"version": 3}, "ELF file version does not match current one"),
        ({"type": 1}, "only ET_DYN and ET_EXEC can be loaded"),
        ({"type": 4}, "only ET_DYN and ET_EXEC can be loaded"),
        ({"phentsize": 48}, "ELF file's phentsize not the expected size"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
def test_c50_a_damaged_header_is_fatal(tmp_path: Path, fields: dict[str, int], text: str) -> None:
    bad = patch(good(tmp_path / "first/libb.so"), **fields)
    assert both_ways(tmp_path, bad) == (f"{bad}: {text}",) * 2
    assert not first_then_good(tmp_path, bad)


@pytest.mark.parametrize(
    "fields",
    [{"osabi": 3}, {"osabi": 3, "abi_version": 1}, {"osabi": 3, "abi_version": 2}, {"osabi": 3, "abi_version": 3},
     {"osabi": 3, "abi_version": 4}, {"osabi": 3, "abi_version": 5}, {"osabi": 2}, {"osabi": 6}, {"osabi": 12}],
)  # fmt: skip
def test_abi_versions_at_the_limit(tmp_path: Path, fields: dict[str, int]) -> None:
    compare([str(patch(good(tmp_path / "libb.so"), **fields))])


def test_two_wrongs_are_worded_in_the_loaders_order(tmp_path: Path) -> None:
    compare([str(patch(good(tmp_path / "libb.so"), machine=183, version=3))])
    compare([str(patch(good(tmp_path / "libb.so"), elf_class=1, data=2))])
    compare([str(patch(good(tmp_path / "libb.so"), osabi=9, abi_version=9, padding=1))])
    compare([str(patch(good(tmp_path / "libb.so"), machine=183, type=1))])
    compare([str(patch(good(tmp_path / "libb.so"), type=1, phentsize=1))])


# --- cut off ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 4, 16, 63])
def test_cut_in_the_header(tmp_path: Path, size: int) -> None:
    bad = truncate(good(tmp_path / "first/libb.so"), size)
    assert both_ways(tmp_path, bad) == (f"{bad}: file too short",) * 2


@pytest.mark.parametrize("size", [64, 100, 300])
def test_cut_in_the_program_headers(tmp_path: Path, size: int) -> None:
    bad = truncate(good(tmp_path / "first/libb.so"), size)
    assert both_ways(tmp_path, bad) == (f"{bad}: cannot read file data",) * 2


@pytest.mark.parametrize("size", [600, 1000, 4096, 8192, 9000])
def test_c41_cut_behind_the_headers_kills_the_process(tmp_path: Path, size: int) -> None:
    bad = truncate(good(tmp_path / "first/libb.so"), size)
    assert compare([str(bad)])[-1].crash == "sigbus"
    outcome = resolve.dlopen(resolve.fresh(child_host(environment())), str(bad))
    assert any(isinstance(problem, TruncatedFile) for problem in outcome.problems)


def test_cut_in_the_section_headers_does_no_harm(tmp_path: Path) -> None:
    target = good(tmp_path / "libb.so")
    end = max(
        struct.unpack_from("<Q", target.read_bytes(), at + 8)[0]
        + struct.unpack_from("<Q", target.read_bytes(), at + 32)[0]
        for at in range(64, 64 + 56 * struct.unpack_from("<H", target.read_bytes(), 56)[0], 56)
    )
    assert compare([str(truncate(target, end))])[-1].loads


def test_headers_that_lie_outside_the_file(tmp_path: Path) -> None:
    compare([str(patch(good(tmp_path / "libb.so"), phoff=1 << 20))])
    compare([str(patch(good(tmp_path / "libb.so"), phoff=1 << 63))])
    compare([str(patch(good(tmp_path / "libb.so"), phnum=2000))])


# --- verified, then refused ---------------------------------------------------------------------------------------


def test_no_loadable_segments(tmp_path: Path) -> None:
    bad = patch(good(tmp_path / "first/libb.so"), phnum=0)
    assert both_ways(tmp_path, bad) == (
        f"{bad}: object file has no loadable segments",
        "libb.so: object file has no loadable segments",
    )


def test_no_dynamic_section(tmp_path: Path) -> None:
    bad = patch_segment(good(tmp_path / "first/libb.so"), 2, type=0)
    assert both_ways(tmp_path, bad) == (
        f"{bad}: object file has no dynamic section",
        "libb.so: object file has no dynamic section",
    )


def test_an_empty_dynamic_section_as_in_a_debug_file(tmp_path: Path) -> None:
    compare([str(patch_segment(good(tmp_path / "libb.so"), 2, filesz=0))])


def test_segments_that_are_not_page_aligned(tmp_path: Path) -> None:
    bad = good(tmp_path / "first/libb.so")
    patch_segment(bad, 1, 1, offset=0x1100)
    assert both_ways(tmp_path, bad) == (
        f"{bad}: ELF load command address/offset not page-aligned",
        "libb.so: ELF load command address/offset not page-aligned",
    )


def test_an_alignment_that_is_no_power_of_two_does_no_harm(tmp_path: Path) -> None:
    compare([str(patch_segment(good(tmp_path / "libb.so"), 1, 0, align=0x1001))])


def test_a_segment_beyond_the_address_space(tmp_path: Path) -> None:
    bad = good(tmp_path / "libb.so")
    compare([str(patch_segment(bad, 1, 3, memsz=1 << 48))])


@pytest.mark.parametrize("flag", ["-pie", "-no-pie"])
def test_an_executable(tmp_path: Path, flag: str) -> None:
    program = elfkit.make_program(tmp_path / "program.so", "int main(void) {return 0;}", flags=[flag, "-fPIE"])
    error = compare([str(program)])[-1].error
    assert error is not None
    assert "cannot dynamically load" in error


def test_an_object_file(tmp_path: Path) -> None:
    target = tmp_path / "libb.so"
    elfkit._run([elfkit.CC, "-c", "-o", str(target), "-x", "c", "-"], "int b(void) {return 1;}")
    assert compare([str(target)])[-1].error == f"{target}: only ET_DYN and ET_EXEC can be loaded"


def test_nodlopen(tmp_path: Path) -> None:
    bad = make_so(tmp_path / "libb.so", flags=["-Wl,-z,nodlopen"])
    assert compare([str(bad)])[-1].error == f"{bad}: shared object cannot be dlopen()ed"


def test_nodlopen_as_a_dependency(tmp_path: Path) -> None:
    make_so(tmp_path / "libb.so", soname="libb.so", flags=["-Wl,-z,nodlopen"])
    root = needs_b(tmp_path / "root.so")
    compare([str(root)], environment(LD_LIBRARY_PATH=str(tmp_path)))


def test_an_executable_stack(tmp_path: Path) -> None:
    compare([str(make_so(tmp_path / "libb.so", flags=["-Wl,-z,execstack"]))])


def test_a_bad_file_further_down_names_itself(tmp_path: Path) -> None:
    bad = write_text(tmp_path / "libb.so", LFS_POINTER)
    root = make_so(tmp_path / "root.so", needed=["libb.so", "libgone.so"])
    env = environment(LD_LIBRARY_PATH=str(tmp_path))
    assert compare([str(root)], env)[-1].error == f"{bad}: invalid ELF header"
    outcome = resolve.dlopen(resolve.fresh(child_host(env)), str(root))
    assert outcome.missing == ("libb.so", "libgone.so")
    assert [problem.reason for problem in outcome.problems if isinstance(problem, BadFile)] == ["not-elf"]

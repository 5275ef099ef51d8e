"""Rules that changed between glibc releases, each asked of Hosts of 2.28 to 2.42 that differ in nothing else.

What the running release does is compared with the loader in tests/loader; this is about where the keys are.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any, List, Optional, Tuple

import pytest

from tests import elfwriter
from tests.elfkit import make_so, patch_segment, write_text
from tests.elfwriter import Define, Object, Want, needed
from torch_fl._preload import host, machine, resolve
from torch_fl._preload.facts import Refused
from torch_fl._preload.host import Host
from torch_fl._preload.machine import Processor
from torch_fl._preload.preconditions import surplus

RELEASES: Tuple[Tuple[int, int], ...] = tuple((2, minor) for minor in range(28, 43))
PT_LOAD, DT_RELRSZ, DT_RELR = 1, 35, 36


def here(version: Tuple[int, int], **facts: Any) -> Host:
    settings = {"environment": {}, "mapped": (), "cwd": "/", "libc_version": version}
    return host.current().replace(**{**settings, **facts})


def outcomes(path: Path, **facts: Any) -> List[Tuple[Tuple[int, int], resolve.Outcome]]:
    return [(version, resolve.dlopen(resolve.fresh(here(version, **facts)), str(path))) for version in RELEASES]


def loading(path: Path, **facts: Any) -> Tuple[Tuple[int, int], ...]:
    """The releases on which the file loads."""
    return tuple(version for version, outcome in outcomes(path, **facts) if outcome.loads)


def since(minor: int) -> Tuple[Tuple[int, int], ...]:
    return tuple(version for version in RELEASES if version >= (2, minor))


def before(minor: int) -> Tuple[Tuple[int, int], ...]:
    return tuple(version for version in RELEASES if version < (2, minor))


def test_position_independent_executables_are_refused_since_2_30(tmp_path: Path) -> None:
    """2.30 (bug 24323, dl-load.c: DF_1_PIE); before that dlopen took them for libraries."""
    path = elfwriter.write(tmp_path / "a.so", Object(flags_1=0x08000000))
    assert loading(path) == before(30)
    assert outcomes(path)[-1][1].error == f"{path}: cannot dynamically load position-independent executable"


def test_the_tls_surplus_has_tunables_since_2_32() -> None:
    """2.32 (dl-tls.c, _dl_tls_static_surplus_init): before, TLS_STATIC_SURPLUS was a constant."""
    tunables = {"glibc.rtld.optional_static_tls": "0x400"}
    grown = tuple(version for version in RELEASES if surplus(here(version, tunables=tunables)) == 1664 + 512)
    assert grown == since(32)
    assert {surplus(here(version)) for version in RELEASES} == {1664}


def test_glibc_hwcaps_came_with_2_33(tmp_path: Path) -> None:
    """2.33 (dl-hwcaps.c): glibc-hwcaps/x86-64-v2 and so on, before the directory itself."""
    assert tuple(version for version in RELEASES if machine.hwcaps(version, 2) == ("x86-64-v2",)) == since(33)
    assert {machine.hwcaps(version, 3) for version in before(33)} == {()}
    make_so(tmp_path / "glibc-hwcaps/x86-64-v2/libb.so", soname="libb.so")
    path = make_so(tmp_path / "a.so", needed=["libb.so"], runpath="$ORIGIN")
    assert loading(path, isa_level=2) == since(33)


def test_alignment_below_a_page_is_allowed_since_2_35(tmp_path: Path) -> None:
    """2.35 (bug 28676, dl-load.c): p_align only has to agree with the address; before, it had to be whole pages."""
    path = patch_segment(make_so(tmp_path / "a.so"), PT_LOAD, align=0x10)
    assert loading(path) == since(35)
    assert outcomes(path)[0][1].error == f"{path}: ELF load command alignment not page-aligned"


def test_a_chain_is_relocated_in_one_order_by_both_algorithms(tmp_path: Path) -> None:
    """2.35 (bug 17645, dl-sort-maps.c) sorts depth first, which changes nothing here."""
    for name, links in (("c", ()), ("b", ("libc0.so",)), ("a", ("libb0.so",))):
        wants = [Want(f"gone_{name}")]
        thing = Object(f"lib{name}0.so", needed(*links), wants=wants, runpath="$ORIGIN")
        elfwriter.write(tmp_path / f"lib{name}0.so", thing)
    deepest = {outcome.error for _, outcome in outcomes(tmp_path / "liba0.so")}
    assert deepest == {f"{tmp_path}/libc0.so: undefined symbol: gone_c"}, "a chain has one order in all releases"


def test_relr_is_known_since_2_36(tmp_path: Path) -> None:
    """2.36 (dl-version.c): DT_RELR without the need for GLIBC_ABI_DT_RELR is refused; older releases do not look."""
    thing = Object(
        links=needed("libc.so.6"), extra_needs=[("libc.so.6", "GLIBC_2.2.5")], extra_tags=[(DT_RELR, 0), (DT_RELRSZ, 0)]
    )  # fmt: skip
    path = elfwriter.write(tmp_path / "a.so", thing)
    text = f"{path}: DT_RELR without GLIBC_ABI_DT_RELR dependency"
    told = []
    for version, outcome in outcomes(path):
        if any(isinstance(problem, Refused) and problem.error == text for problem in outcome.problems):
            told.append(version)
    assert tuple(told) == since(36)


def test_processor_levels_are_checked_since_2_33(tmp_path: Path) -> None:
    """2.33 (sysdeps/x86/isa-level.c, dl_isa_level_check): GNU_PROPERTY_X86_ISA_1_NEEDED counts."""
    path = make_so(tmp_path / "a.so", flags=["-Wl,-z,x86-64-v3"])
    assert loading(path, isa_level=1) == before(33)
    assert loading(path, isa_level=3) == RELEASES


def test_legacy_subdirectories_ended_with_2_37(tmp_path: Path) -> None:
    """2.37 (dl-hwcaps.c): tls/ and the platform's directories are no longer tried."""
    cpu = Processor("Other", ())
    searched = tuple(v for v in RELEASES if "tls" in machine.legacy_hwcaps(62, v, "x86_64", cpu))
    assert searched == before(37)
    make_so(tmp_path / "tls/libb.so", soname="libb.so")
    path = make_so(tmp_path / "a.so", needed=["libb.so"], runpath="$ORIGIN")
    assert loading(path) == before(37)


def test_a_file_in_a_directorys_place_no_longer_ends_a_list_since_2_39(tmp_path: Path) -> None:
    """2.39 (dl-load.c, open_path): ENOTDIR means no such directory."""
    write_text(tmp_path / "file", "x")
    make_so(tmp_path / "good/libb.so", soname="libb.so")
    path = make_so(tmp_path / "a.so", needed=["libb.so"])
    library_path = {"LD_LIBRARY_PATH": f"file:{tmp_path}/good"}
    assert loading(path, environment=library_path, cwd=str(tmp_path)) == since(39)


def test_a_library_that_lost_its_versions_ends_the_process_before_2_41(tmp_path: Path) -> None:
    """2.41 (commit bdaf500353, dl-lookup.c): the assertion in check_match is gone, the symbol is accepted."""
    elfwriter.write(tmp_path / "libv.so", Object("libv.so", defines=[Define("s")]))
    thing = Object(links=needed("libv.so"), runpath="$ORIGIN", wants=[Want("s", "V1", "libv.so")])
    path = elfwriter.write(tmp_path / "a.so", thing)
    assert loading(path) == since(41)
    assert {outcome.crash for version, outcome in outcomes(path) if version < (2, 41)} == {"exit"}


@pytest.mark.parametrize(("tunable", "loads"), [(None, before(41)), ("1", before(41)), ("2", RELEASES)])
def test_executable_stacks_are_refused_since_2_41(
    tmp_path: Path, tunable: Optional[str], loads: Tuple[Tuple[int, int], ...]
) -> None:
    """2.41 (dl-load.c): dlopen never makes the stack executable; glibc.rtld.execstack=2 (2.42, Debian's 2.41) does."""
    path = make_so(tmp_path / "a.so", flags=["-Wl,-z,execstack"])
    given = {"GLIBC_TUNABLES": f"glibc.rtld.execstack={tunable}"} if tunable else {}
    assert loading(path, environment=given, stack_executable=False) == loads
    for version, outcome in outcomes(path, environment=given, stack_executable=False):
        refused = [problem for problem in outcome.problems if isinstance(problem, Refused)]
        assert bool(refused) == (version not in loads)
        if refused:
            assert refused[0].reason == "executable-stack"
            text = "cannot enable executable stack as shared object requires: Invalid argument"
            assert outcome.error == f"{path}: {text}"


def test_every_key_in_the_source_has_a_test() -> None:
    """A release that the model compares with is one that this file names."""
    directory = Path(os.path.dirname(host.__file__))
    keyed = set()
    for path in directory.glob("*.py"):
        source = path.read_text(encoding="utf-8")
        keyed |= {int(minor) for minor in re.findall(r"version\s*(?:>=|<)\s*\(2, (\d+)\)", source)}
    own = Path(__file__).read_text(encoding="utf-8")
    supported = {minor for minor in keyed if 28 < minor <= 42}
    assert {minor for minor in supported if f"_2_{minor}" not in own} == set()

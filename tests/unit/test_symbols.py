"""The parts of the symbol model by themselves: matching, static TLS, tokens, texts, which release changed what."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import elfwriter
from tests.elfkit import make_so
from tests.elfwriter import Define, Object, Want, needed
from torch_fl._preload import dlerror, facts, host, preconditions, resolve
from torch_fl._preload.facts import OrphanVersion, UndefinedSymbols, UnversionedProvider, VersionNotFound
from torch_fl._preload.host import Host
from torch_fl._preload.preconditions import StaticTls, static_tls_at_start, surplus
from torch_fl._preload.tokens import Values, count, expand, split

VALUES = Values("/o", "lib64", None)


def opened(path: Path, base: Host | None = None) -> resolve.Outcome:
    here = base or host.current().replace(environment={}, mapped=(), cwd="/")
    return resolve.dlopen(resolve.fresh(here), str(path))


# --- problems -----------------------------------------------------------------------------------------------------


def test_one_record_for_all_undefined_symbols_of_a_file_in_relocation_order(tmp_path: Path) -> None:
    wants = [Want("called", call=True), Want("first"), Want("unused", relocated=False), Want("weak", weak=True)]
    path = elfwriter.write(tmp_path / "a.so", Object(wants=wants))
    (problem,) = opened(path).problems
    assert isinstance(problem, UndefinedSymbols)
    assert [entry.symbol for entry in problem.symbols] == ["first", "called"]
    assert problem.error == f"{path}: undefined symbol: first"


def test_every_missing_version_is_a_problem_the_first_is_the_error(tmp_path: Path) -> None:
    elfwriter.write(tmp_path / "libv.so", Object("libv.so", defines=[Define("s", "V1")], versions=["V1"]))
    thing = Object(
        links=needed("libv.so"), runpath="$ORIGIN", wants=[Want("s", "V1", "libv.so")],
        extra_needs=[("libv.so", "V7"), ("libv.so", "V8")], weak_needs=[("libv.so", "V9")],
    )  # fmt: skip
    path = elfwriter.write(tmp_path / "a.so", thing)
    outcome = opened(path)
    assert [(type(entry), getattr(entry, "version", None)) for entry in outcome.problems] == [
        (VersionNotFound, "V7"), (VersionNotFound, "V8"),
    ]  # fmt: skip
    assert outcome.error == f"{tmp_path}/libv.so: version `V7' not found (required by {path})"


def test_a_provider_with_another_version_and_one_that_hides_it_are_named(tmp_path: Path) -> None:
    defines = [Define("s", "V1"), Define("h", None, visibility=2)]
    elfwriter.write(tmp_path / "libv.so", Object("libv.so", defines=defines, versions=["V1", "V2"]))
    thing = Object(links=needed("libv.so"), runpath="$ORIGIN", wants=[Want("s", "V2", "libv.so"), Want("h")])
    outcome = opened(elfwriter.write(tmp_path / "a.so", thing))
    (problem,) = outcome.problems
    assert isinstance(problem, UndefinedSymbols)
    told = {entry.symbol: [(p.why, p.version) for p in entry.providers] for entry in problem.symbols}
    assert told == {"s": [("other-version", "V1")], "h": [("hidden", None)]}


def test_an_orphan_need_and_a_lost_version_table_end_the_process(tmp_path: Path) -> None:
    orphan = elfwriter.write(tmp_path / "o.so", Object(extra_needs=[("libgone.so", "V1")]))
    assert opened(orphan).problems == (OrphanVersion(str(orphan), "libgone.so"),)
    assert opened(orphan).crash == "exit"
    elfwriter.write(tmp_path / "libv.so", Object("libv.so", defines=[Define("s")]))
    thing = Object(links=needed("libv.so"), runpath="$ORIGIN", wants=[Want("s", "V1", "libv.so")])
    path = elfwriter.write(tmp_path / "a.so", thing)
    assert opened(path).problems == (UnversionedProvider(f"{tmp_path}/libv.so", str(path), "s", "V1"),)


def test_a_rule_follows_the_hosts_release(tmp_path: Path) -> None:
    here = host.current().replace(environment={}, mapped=(), cwd="/")
    program = make_so(tmp_path / "pie.so", flags=["-Wl,-z,execstack"])
    by_release = {
        version: resolve.dlopen(resolve.fresh(here.replace(libc_version=version)), str(program)).loads
        for version in ((2, 28), (2, 36), (2, 40), (2, 41), (2, 42))
    }
    assert by_release == {(2, 28): True, (2, 36): True, (2, 40): True, (2, 41): False, (2, 42): False}
    allowed = here.replace(libc_version=(2, 42), environment={"GLIBC_TUNABLES": "glibc.rtld.execstack=2"})
    assert resolve.dlopen(resolve.fresh(allowed), str(program)).loads


# --- static TLS ---------------------------------------------------------------------------------------------------


def test_the_surplus_follows_its_tunables() -> None:
    plain = Host()
    assert surplus(plain) == 1664
    assert surplus(plain.replace(tunables={"glibc.rtld.optional_static_tls": "0x400"})) == 1664 + 512
    assert surplus(plain.replace(tunables={"glibc.rtld.nns": "nonsense"})) == 1664
    assert surplus(plain.replace(libc_version=(2, 31), tunables={"glibc.rtld.nns": "9"})) == 1664


def test_blocks_fill_the_rest_and_alignment_counts() -> None:
    start = static_tls_at_start(Host(), [(144, 8)])
    assert start == StaticTls(144, 1856, 64)
    assert start.fits(1713, 1) is None
    assert start.fits(16, 128) is None
    after = start.fits(100, 64)
    assert after is not None
    assert after.used >= 244
    assert (after.size, after.align) == (1856, 64)


# --- tokens and lists ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "result"),
    [("$ORIGIN", "/o"), ("${ORIGIN}/x", "/o/x"), ("a$ORIGIN:b", "a/o:b"), ("$ORIGINX", "$ORIGINX"),
     ("$LIB/$LIB", "lib64/lib64"), ("$PLATFORM", ""), ("x/$PLATFORM/y", ""), ("$$ORIGIN", "$/o"),
     ("${LIB}64", "lib6464"), ("${LIB", "${LIB"), ("$", "$"), ("plain", "plain"),
     ("$ORIGIN_", "$ORIGIN_"), ("$origin", "$origin")],
)  # fmt: skip
def test_expansion(text: str, result: str) -> None:
    assert expand(text, VALUES) == result


def test_secure_mode_accepts_origin_only_in_front_and_in_trusted_places() -> None:
    inside = Values("/usr/lib/app", "lib", None)
    assert expand("$ORIGIN/x", inside, secure=True) == "/usr/lib/app/x"
    assert expand("/x$ORIGIN", inside, secure=True) == ""
    assert expand("$ORIGINAL", inside, secure=True) == "$ORIGINAL"
    trusted = ["/usr/lib"]
    assert expand("$ORIGIN/x", inside, secure=True, of_program=True, trusted=trusted) == "/usr/lib/app/x"
    assert expand("$ORIGIN/../../../home", inside, secure=True, of_program=True, trusted=trusted) == ""


def test_lists() -> None:
    elements = split("/a:/b//::/a/:$PLATFORM:/", ":", VALUES)
    assert [entry.directory for entry in elements] == ["/a/", "/b/", "", None, None, "/"]
    assert [entry.directory for entry in split("/a;/b:/c", ":;", VALUES)] == ["/a/", "/b/", "/c/"]
    assert [entry.directory for entry in split("/a;/b", ":", VALUES)] == ["/a;/b/"]
    assert count("$ORIGIN/${LIB}/$NONE") == 2


# --- texts --------------------------------------------------------------------------------------------------------


def test_texts_are_glibcs() -> None:
    assert dlerror.text("x", dlerror.CANNOT_OPEN, 2) == "x: cannot open shared object file: No such file or directory"
    assert dlerror.text("x", dlerror.CANNOT_OPEN) == "x: cannot open shared object file"
    assert dlerror.wrong_class("x", 64) == "x: wrong ELF class: ELFCLASS32"
    assert dlerror.undefined_symbol("f", "s", "V") == "f: undefined symbol: s, version V"
    assert dlerror.version_not_found("p", "V", "f") == "p: version `V' not found (required by f)"


def test_texts_are_in_the_running_loader() -> None:
    """Every constant of dlerror.py occurs in ld.so of this machine, but for what older releases said."""
    interpreter = host.current().interpreter
    assert interpreter is not None
    image = Path(interpreter).read_bytes()
    older = {dlerror.SEGMENT_ALIGNMENT, dlerror.NOT_BIG_ENDIAN}
    constants = {value for name, value in vars(dlerror).items() if name.isupper() and isinstance(value, str)}
    assert [text for text in sorted(constants - older) if text.encode() not in image] == []


def test_isa_needs_are_read_from_the_property_note(tmp_path: Path) -> None:
    from torch_fl._preload import elf

    for level, bits in ((2, 0b10), (3, 0b100), (4, 0b1000)):
        path = make_so(tmp_path / f"v{level}.so", flags=[f"-Wl,-z,x86-64-v{level}"])
        assert preconditions.isa_needed(elf.read(str(path))) == bits
    assert preconditions.isa_needed(elf.read(str(make_so(tmp_path / "plain.so")))) == 0


def test_stages_and_verdicts_have_distinct_names() -> None:
    names = [value for name, value in vars(facts).items() if name.isupper() and isinstance(value, str)]
    assert len(names) == len(set(names))

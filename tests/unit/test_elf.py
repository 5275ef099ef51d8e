"""elf.py against pyelftools on real files, and on files that are none."""

from __future__ import annotations

import os
import sysconfig
from pathlib import Path

import pytest
from elftools.elf.dynamic import DynamicSegment
from elftools.elf.elffile import ELFFile
from elftools.elf.gnuversions import GNUVerDefSection, GNUVerNeedSection

from tests import elfwriter
from tests.elfkit import make_so, patch
from torch_fl._preload import elf
from torch_fl._preload.elf_symbols import gnu_hash, sysv_hash

SITE = Path(os.environ.get("TORCH_FL_SITE", sysconfig.get_paths()["platlib"]))


def corpus() -> list[Path]:
    """Objects of several linkers: wheels (patchelf), the system, torch's own."""
    found = sorted((SITE / "numpy").rglob("*.so"))[:12]
    found += sorted((SITE / "scipy.libs").glob("*.so*")) + sorted((SITE / "torch/lib").glob("libc10.so"))
    found += [SITE / "torch/lib/libtorch_python.so", *sorted((SITE / "torch").glob("_C.*.so"))]
    found += [Path(name) for name in ("/lib/x86_64-linux-gnu/libc.so.6", "/lib/x86_64-linux-gnu/libm.so.6")]
    found += [Path(name).resolve() for name in ("/lib/x86_64-linux-gnu/libstdc++.so.6", "/bin/sh")]
    return [path for path in found if path.exists()]


def dynamic_of(file: ELFFile) -> DynamicSegment:
    return next(segment for segment in file.iter_segments() if isinstance(segment, DynamicSegment))


@pytest.mark.parametrize("path", corpus(), ids=lambda path: path.name)
def test_every_dynamic_entry_and_segment(path: Path) -> None:
    found = elf.read(str(path))
    with path.open("rb") as stream:
        file = ELFFile(stream)
        tags = [(tag.entry.d_tag, tag.entry.d_val, tag) for tag in dynamic_of(file).iter_tags()]
        assert [value for _, value in found.entries] == [value for _, value, _ in tags[: len(found.entries)]]
        assert found.needed == tuple(tag.needed for name, _, tag in tags if name == "DT_NEEDED")
        assert found.soname == next((tag.soname for name, _, tag in tags if name == "DT_SONAME"), None)
        assert found.runpath == next((tag.runpath for name, _, tag in tags if name == "DT_RUNPATH"), None)
        assert found.rpath == next((tag.rpath for name, _, tag in tags if name == "DT_RPATH"), None)
        for mine, theirs in zip(found.segments, file.iter_segments()):
            header = theirs.header
            assert mine[1:] == (
                header.p_flags, header.p_offset, header.p_vaddr, header.p_filesz, header.p_memsz, header.p_align,
            )  # fmt: skip
        assert (found.bits, found.little_endian) == (file.elfclass, file.little_endian)
        assert found.machine_name == file.header.e_machine[3:].lower().replace("_", "-").replace("x86-64", "x86-64")


@pytest.mark.parametrize("path", corpus(), ids=lambda path: path.name)
def test_every_version(path: Path) -> None:
    found = elf.read(str(path)).versions
    with path.open("rb") as stream:
        file = ELFFile(stream)
        needed, defined = [], []
        for section in file.iter_sections():
            if isinstance(section, GNUVerNeedSection):
                for need, nodes in section.iter_versions():
                    needed.append((need.name, [(n.name, n["vna_hash"], n["vna_other"] & 0x7FFF) for n in nodes]))
            elif isinstance(section, GNUVerDefSection):
                for definition, names in section.iter_versions():
                    defined.append((next(iter(names)).name, definition["vd_hash"], definition["vd_ndx"]))
    assert [(need.file, [node[:3] for node in need.nodes]) for need in found.needed] == needed
    assert [definition[:3] for definition in found.defined] == defined


@pytest.mark.parametrize("path", corpus(), ids=lambda path: path.name)
def test_every_symbol(path: Path) -> None:
    symbols = elf.read(str(path)).symbols
    with path.open("rb") as stream:
        section = ELFFile(stream).get_section_by_name(".dynsym")
        theirs = list(section.iter_symbols())
    undefined = [s.name for s in theirs if s["st_shndx"] == "SHN_UNDEF" and s.name and s["st_info"].bind != "STB_LOCAL"]
    assert [entry.name.decode() for entry in symbols.undefined()] == undefined
    defined = [
        (index, s.name, s["st_value"])
        for index, s in enumerate(theirs)
        if s["st_shndx"] != "SHN_UNDEF" and s["st_info"].bind != "STB_LOCAL"
    ]
    assert [(entry.number, entry.name.decode(), entry.value) for entry in symbols.defined()] == defined
    for index, name, _ in defined[:: max(1, len(defined) // 200)]:
        assert index in [entry.number for entry in symbols.lookup(name.encode())]
    assert list(symbols.lookup(b"no symbol has this name")) == []


def test_hashes_are_those_of_the_standard() -> None:
    from elftools.elf.hash import ELFHashTable, GNUHashTable

    for name in ("", "a", "printf", "_ZN2at4_ops10add_Tensor4callERKNS_6TensorES4_RKN3c106ScalarE", "x" * 2000, "ü"):
        assert gnu_hash(name.encode()) == GNUHashTable.gnu_hash(name)
        assert sysv_hash(name.encode()) == ELFHashTable.elf_hash(name)


def test_relocations_are_in_the_loaders_order() -> None:
    path = SITE / "torch/lib/libc10.so"
    mine = [(entry.offset, entry.type, entry.symbol) for entry in elf.read(str(path)).symbols.relocations()]
    with path.open("rb") as stream:
        file = ELFFile(stream)
        theirs = []
        for name in (".rela.dyn", ".rela.plt"):
            for entry in file.get_section_by_name(name).iter_relocations():
                if entry["r_info_sym"]:
                    theirs.append((entry["r_offset"], entry["r_info_type"], entry["r_info_sym"]))
    assert mine == theirs


def test_an_elf_does_not_change(tmp_path: Path) -> None:
    found = elf.read(str(make_so(tmp_path / "a.so", soname="a")))
    with pytest.raises(AttributeError):
        found.soname = "b"


# --- files of other machines --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("machine", "bits", "little", "name"),
    [(183, 64, True, "aarch64"), (3, 32, True, "i386"), (40, 32, True, "arm"), (243, 64, True, "riscv"),
     (21, 64, True, "ppc64"), (258, 64, True, "loongarch"), (22, 64, False, "s390"), (20, 32, False, "ppc"),
     (9999, 64, True, "machine 9999")],
)  # fmt: skip
def test_other_machines_are_named(tmp_path: Path, machine: int, bits: int, little: bool, name: str) -> None:
    path = tmp_path / "a.so"
    path.write_bytes(elfwriter.foreign(machine, bits, little))
    found = elf.read(str(path))
    assert (found.machine_name, found.bits, found.little_endian) == (name, bits, little)
    assert (found.needed, found.soname) == (("libneeded.so.1",), "libself.so")


# --- damage -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "reason"),
    [(b"", "the file is empty"), (b"hello", "no ELF magic"), (b"\x7fELF\x02", "the file ends in the ELF header"),
     (b"\x7fELF\x07" + bytes(80), "unknown ELF class 7"), (b"\x7fELF\x02\x05" + bytes(80), "unknown data encoding 5")],
)  # fmt: skip
def test_what_is_no_elf_file(tmp_path: Path, data: bytes, reason: str) -> None:
    path = tmp_path / "a.so"
    path.write_bytes(data)
    with pytest.raises(elf.ElfError) as caught:
        elf.read(str(path))
    assert (caught.value.path, caught.value.reason) == (str(path), reason)


def test_a_directory_and_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(elf.ElfError):
        elf.read(str(tmp_path))
    with pytest.raises(FileNotFoundError):
        elf.read(str(tmp_path / "gone"))
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(elf.ElfError):
        elf.read(str(tmp_path / "fifo"))


def test_a_file_that_is_replaced_is_not_mixed_up(tmp_path: Path) -> None:
    path = make_so(tmp_path / "a.so", source="int f(void) { return 1; }")
    found = elf.read(str(path))
    make_so(tmp_path / "b.so", source="int g(void) { return 1; }").replace(path)
    with pytest.raises(elf.ElfError):
        _ = found.symbols


def test_a_header_alone_can_be_patched(tmp_path: Path) -> None:
    path = patch(make_so(tmp_path / "a.so"), phnum=65535)
    with pytest.raises(elf.ElfError) as caught:
        elf.read(str(path))
    assert caught.value.reason == "65535 program headers"

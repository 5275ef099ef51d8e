"""The emulated SDK as the loader sees it: names, needs, links, and what happens when a library is opened."""

from __future__ import annotations

import os
import re
import textwrap
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from tests import child
from tests.native.emulated_client import sdk_root

PACKAGE = "site-packages/torch_xmlir"
DEPENDENCY_SO = f"{PACKAGE}/xhpc/xblas/dependency_so"

# What a library may need besides the SDK's own: the compiler's and the C library.
SYSTEM = {"libc.so.6", "libm.so.6", "libstdc++.so.6", "libgcc_s.so.1", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}

XPURT = ("libxpurt.so.2", [])
XPUCUDA = ("libxpucuda.so", ["libxpurt.so.2"])
CUDART_12 = ("libcudart.so.12", ["libxpucuda.so", "libxpurt.so.2"])
BKCL = ("libbkcl.so", [])

# Real files with SONAME and the SDK's DT_NEEDED entries in order.
LIBRARIES = {
    "xpu/so/libxpurt.so.2.5.37": XPURT,
    "xpu/so/libxpucuda.so.515.58.kunlun": XPUCUDA,
    "xpu/so/libcudart.so.11.0.221": ("libcudart.so.11.0", ["libxpucuda.so", "libxpurt.so.2"]),
    "xpu/so/libxpuml.so.1": ("libxpuml.so.1", []),
    "xcudart/lib/libxpurt.so.12.9.1.kunlun": XPURT,
    "xcudart/lib/libxpucuda.so.515.58.kunlun": XPUCUDA,
    "xcudart/lib/libcudart.so.12.9.1.kunlun": CUDART_12,
    f"{DEPENDENCY_SO}/libxpurt.so.12.9.1.kunlun": XPURT,
    f"{DEPENDENCY_SO}/libxpucuda.so.515.58.kunlun": XPUCUDA,
    f"{DEPENDENCY_SO}/libcudart.so.12.9.1.kunlun": CUDART_12,
    f"{PACKAGE}/libxpujitc.so": ("libxpujitc.so", []),
    f"{PACKAGE}/libxpu_blas.so": ("libxpu_blas.so", ["libxpujitc.so"]),
    f"{PACKAGE}/libxpu_dnn.so": ("libxpu_dnn.so", []),
    f"{PACKAGE}/libxpu_flash_attention.so": ("libxpu_flash_attention.so", []),
    f"{PACKAGE}/libbkcl.so": BKCL,
    f"{PACKAGE}/xccl/so/libbkcl.so": BKCL,
    f"{PACKAGE}/libxpuapi.so": (
        "libxpuapi.so",
        ["libcudart.so.12", "libxpu_blas.so", "libxpu_dnn.so", "libxpu_flash_attention.so", "libbkcl.so"],
    ),
    f"{PACKAGE}/libxdnn_pytorch.so": (
        "libxdnn_pytorch.so",
        ["libxpu_blas.so", "libxpu_dnn.so", "libxpu_flash_attention.so", "libcudart.so.12", "libxpuml.so.1"],
    ),
}

_CUDA_LINKS = {
    "libxpucuda.so": "libxpucuda.so.515.58.kunlun",
    "libxpucuda.so.1": "libxpucuda.so.515.58.kunlun",
    "libcuda.so": "libxpucuda.so",
    "libcuda.so.1": "libxpucuda.so",
}
_CUDA_12_LINKS = {
    **_CUDA_LINKS,
    "libxpurt.so.2": "libxpurt.so.12.9.1.kunlun",
    "libxpurt.so": "libxpurt.so.2",
    "libcudart.so.12": "libcudart.so.12.9.1.kunlun",
    "libcudart.so": "libcudart.so.12",
}

# Symbolic links by directory.
LINKS = {
    "xpu/so": {
        **_CUDA_LINKS,
        "libxpurt.so.2": "libxpurt.so.2.5.37",
        "libxpurt.so": "libxpurt.so.2",
        "libcudart.so.11.0": "libcudart.so.11.0.221",
        "libcudart.so": "libcudart.so.11.0",
        "libxpuml.so": "libxpuml.so.1",
    },
    "xcudart/lib": _CUDA_12_LINKS,
    DEPENDENCY_SO: _CUDA_12_LINKS,
}


@pytest.fixture(scope="module")
def sdk() -> Path:
    return sdk_root()


def dynamic(path: Path) -> tuple[str | None, list[str], set[str]]:
    """SONAME, DT_NEEDED in order, and the tags present."""
    with path.open("rb") as file:
        segment = next(s for s in ELFFile(file).iter_segments() if s.header.p_type == "PT_DYNAMIC")
        soname, needed, tags = None, [], set()
        for tag in segment.iter_tags():
            tags.add(tag.entry.d_tag)
            if tag.entry.d_tag == "DT_SONAME":
                soname = tag.soname
            elif tag.entry.d_tag == "DT_NEEDED":
                needed.append(tag.needed)
    return soname, needed, tags


def dynamic_symbols(path: Path) -> tuple[set[str], set[str]]:
    """Names that a library defines, and those it leaves undefined and unversioned."""
    with path.open("rb") as file:
        elf = ELFFile(file)
        versions = elf.get_section_by_name(".gnu.version")
        defined, undefined = set(), set()
        for index, symbol in enumerate(elf.get_section_by_name(".dynsym").iter_symbols()):
            if symbol.entry.st_info.bind == "STB_LOCAL":
                continue
            if symbol.entry.st_shndx != "SHN_UNDEF":
                defined.add(symbol.name)
            elif versions.get_symbol(index)["ndx"] in ("VER_NDX_LOCAL", "VER_NDX_GLOBAL"):
                undefined.add(symbol.name)
    return defined, undefined


@pytest.mark.parametrize("name", LIBRARIES)
def test_library_has_the_vendors_shape(sdk: Path, name: str) -> None:
    path = sdk / name
    assert path.is_file()
    assert not path.is_symlink()
    soname, needed, tags = dynamic(path)
    expected_soname, expected_needed = LIBRARIES[name]
    assert soname == expected_soname
    assert [entry for entry in needed if entry not in SYSTEM] == expected_needed
    assert not tags & {"DT_RPATH", "DT_RUNPATH", "DT_VERDEF"}
    assert "DT_HASH" not in tags
    assert "DT_GNU_HASH" in tags


@pytest.mark.parametrize("directory", LINKS)
def test_links_lead_where_the_vendors_lead(sdk: Path, directory: str) -> None:
    found = {p.name: os.readlink(p) for p in (sdk / directory).iterdir() if p.is_symlink()}
    assert found == LINKS[directory]


def test_there_is_no_other_library(sdk: Path) -> None:
    found = {str(p.relative_to(sdk)) for p in sdk.rglob("*.so*") if p.is_file() and not p.is_symlink()}
    assert found == set(LIBRARIES)


def test_blas_leaves_only_the_driver_entry_point_to_others(sdk: Path) -> None:
    _, undefined = dynamic_symbols(sdk / PACKAGE / "libxpu_blas.so")
    vendors = {name for name in undefined if name.startswith(("cu", "xpu"))}
    assert vendors == {"cudaGetDriverEntryPoint", "xpujitc_target"}


def test_only_the_cuda_12_runtime_has_the_driver_entry_point(sdk: Path) -> None:
    twelve, _ = dynamic_symbols(sdk / "xcudart/lib/libcudart.so.12")
    eleven, _ = dynamic_symbols(sdk / "xpu/so/libcudart.so.11.0")
    assert twelve - eleven == {"cudaGetDriverEntryPoint"}
    assert {"cudaPointerGetAttributes", "cudaHostAlloc"} <= eleven


def test_operator_names_are_mangled_as_in_a_public_backtrace(sdk: Path) -> None:
    defined, _ = dynamic_symbols(sdk / PACKAGE / "libxdnn_pytorch.so")
    assert "_ZN12xdnn_pytorch10mul_tensorEPN8xpytorch3xpu3api7ContextERKNS_6TensorES7_RS5_" in defined


def test_opening_blas_alone_fails_as_on_a_p800(sdk: Path) -> None:
    # The path as opened is what the loader puts in front, here a bare name found through LD_LIBRARY_PATH.
    snippet = """
        import ctypes
        try:
            ctypes.CDLL("libxpu_blas.so")
        except OSError as error:
            print(error)
    """
    env = child.minimal_environment(LD_LIBRARY_PATH=str(sdk / PACKAGE))
    result = child.run(textwrap.dedent(snippet), env=env).check()
    path = sdk / PACKAGE / "libxpu_blas.so"
    assert result.stdout == f"{path}: undefined symbol: cudaGetDriverEntryPoint\n"


@pytest.mark.parametrize(("mode", "loads"), [("RTLD_GLOBAL", True), ("RTLD_LOCAL", False)], ids=["global", "local"])
def test_opening_blas_after_the_runtime_depends_on_its_scope(sdk: Path, mode: str, loads: bool) -> None:
    snippet = f"""
        import ctypes, os
        for name in ("libxpucuda.so", "libcudart.so.12", "libxpurt.so.2"):
            ctypes.CDLL(name, mode=os.RTLD_NOW | os.{mode})
        try:
            blas = ctypes.CDLL("libxpu_blas.so")
            print("created", blas.xpu_blas_create())
        except OSError as error:
            print(error)
    """
    env = child.minimal_environment(LD_LIBRARY_PATH=f"{sdk / PACKAGE}:{sdk / 'xcudart/lib'}")
    result = child.run(textwrap.dedent(snippet), env=env).check()
    assert result.stdout == "created 0\n" if loads else "undefined symbol: cudaGetDriverEntryPoint" in result.stdout


def test_opening_blas_after_the_cuda_11_runtime_fails(sdk: Path) -> None:
    snippet = """
        import ctypes, os
        ctypes.CDLL("libcudart.so.11.0", mode=os.RTLD_NOW | os.RTLD_GLOBAL)
        try:
            ctypes.CDLL("libxpu_blas.so")
        except OSError as error:
            print(error)
    """
    env = child.minimal_environment(LD_LIBRARY_PATH=f"{sdk / PACKAGE}:{sdk / 'xpu/so'}")
    result = child.run(textwrap.dedent(snippet), env=env).check()
    assert "undefined symbol: cudaGetDriverEntryPoint" in result.stdout


def test_every_library_opens_with_the_documented_search_path(sdk: Path) -> None:
    snippet = "import ctypes, sys\nfor name in sys.argv[1:]: ctypes.CDLL(name)"
    path = f"{sdk / PACKAGE}:{sdk / 'xpu/so'}:{sdk / 'xcudart/lib'}"
    env = child.minimal_environment(LD_LIBRARY_PATH=path)
    for name in ("libxdnn_pytorch.so", "libxpuapi.so"):
        result = child.run(snippet, env=env, args=[name]).check()
        assert re.fullmatch(r"|XCCL \S+/torch_xmlir/libbkcl\.so loaded\n", result.stderr)


def test_importing_the_vendors_package_is_a_trap(sdk: Path) -> None:
    env = child.minimal_environment(PYTHONPATH=str(sdk / "site-packages"))
    result = child.run("import torch_xmlir", env=env)
    assert result.rc == 1
    assert "ImportError: torch_xmlir was imported. This is the emulated SDK's trap" in result.stderr


def test_two_copies_of_the_runtime_are_announced(sdk: Path) -> None:
    snippet = "import ctypes, sys\nfor path in sys.argv[1:]: ctypes.CDLL(path)"
    copies = [str(sdk / directory / "libxpurt.so.2") for directory in ("xcudart/lib", "xpu/so")]
    assert child.run(snippet, args=copies[:1]).check().stderr == ""
    said = child.run(snippet, args=copies).check().stderr.splitlines()
    assert re.fullmatch("=+", said[0])
    assert said[1] == "WARNING: Libraries loaded from different directories!"
    assert [line.strip() for line in said[2:4]] == copies
    assert said[4] == said[0]

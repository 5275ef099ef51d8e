"""What setup.py finds and what it refuses. Each refusal is what a user who typed the build command would read."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]


def touch(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"")
    return path


@pytest.fixture
def roots(tmp_path: Path) -> dict[str, str]:
    """Roots that hold by name all that a build asks for (the files are empty: nothing gets as far as reading them)."""
    sdk, package, compat = tmp_path / "xpu", tmp_path / "torch_xmlir", tmp_path / "xcudart"
    for path in (
        sdk / "include/xpu/runtime.h",
        sdk / "include/cuda_runtime.h",
        sdk / "so/libxpurt.so",
        package / "libxdnn_pytorch.so",
        package / "include/xdnn_pytorch/xdnn_pytorch.h",
        package / "xhpc/xblas/dependency_so/libcudart.so.12",
        compat / "lib/libcudart.so.12",
    ):
        touch(path)
    return {"XPU_ROOT": str(sdk), "XDNN_ROOT": str(package), "XCUDART_ROOT": str(compat)}


def discover(environment: dict[str, str], search_path: str = "") -> subprocess.CompletedProcess[str]:
    """setup.py's discovery in a process of its own; prints the layout, or the refusal on stderr with exit status 1."""
    snippet = (
        "import os, runpy, sys; sys.path.append(sys.argv[2]) if sys.argv[2] else None\n"
        "setup = runpy.run_path(sys.argv[1], run_name='inspected')\n"
        "layout = setup['discover'](os.environ, sys.path)\n"
        "found = (layout.accelerator, layout.sdk.libraries, layout.op_library.directory, layout.compat)\n"
        "print(*found, *layout.rpath, sep='\\n')"
    )
    clean = {"PATH": os.environ["PATH"], **environment}
    return subprocess.run(
        [sys.executable, "-c", snippet, str(REPOSITORY / "setup.py"), search_path],
        env=clean,
        capture_output=True,
        text=True,
    )


def refusal(environment: dict[str, str], search_path: str = "") -> str:
    done = discover(environment, search_path)
    assert done.returncode == 1, done.stdout
    assert "Traceback" not in done.stderr
    return done.stderr


def test_accelerator_defaults_to_kunlunxin_and_rpath_is_sdk_then_xdnn_then_nested(roots: dict[str, str]) -> None:
    done = discover(roots)
    assert done.returncode == 0, done.stderr
    sdk, package = Path(roots["XPU_ROOT"]), Path(roots["XDNN_ROOT"])
    assert done.stdout.splitlines() == [
        "kunlunxin",
        str(sdk / "so"),
        str(package),
        roots["XCUDART_ROOT"] + "/lib",
        str(sdk / "so"),
        str(package),
        str(package / "xhpc/xblas/dependency_so"),
    ]


def test_other_accelerators_are_refused_by_name(roots: dict[str, str]) -> None:
    assert "FLAGOS_ACCELERATOR=musa" in refusal({**roots, "FLAGOS_ACCELERATOR": "musa"})


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("FLAGOS_BUILD_VENDOR", "OFF", "only operator library"),
        ("FLAGOS_BUILD_BOXING", "ON", "CUDA key"),
        ("FLAGOS_BUILD_FLAGGEMS_CPP", "1", "liboperators.so"),
        ("FLAGOS_BUILD_BOXING", "perhaps", "not one of ON and OFF"),
    ],
)
def test_contrary_settings_are_refused_with_the_reason(
    roots: dict[str, str], name: str, value: str, reason: str
) -> None:
    text = refusal({**roots, name: value})
    assert f"{name}={value}" in text
    assert reason in text


def test_settings_that_repeat_the_pinned_value_are_accepted(roots: dict[str, str]) -> None:
    pinned = {"FLAGOS_BUILD_VENDOR": "ON", "FLAGOS_BUILD_BOXING": "off", "FLAGOS_BUILD_FLAGGEMS_CPP": "0"}
    assert discover({**roots, **pinned}).returncode == 0


@pytest.mark.parametrize("header", ["include/xpu/runtime.h", "include/cuda_runtime.h"])
def test_a_missing_sdk_header_is_named(roots: dict[str, str], header: str) -> None:
    Path(roots["XPU_ROOT"], header).unlink()
    text = refusal(roots)
    assert f"XPU_ROOT={roots['XPU_ROOT']}  lacks {header}" in text


def test_an_sdk_root_that_is_not_there_is_said_so(roots: dict[str, str]) -> None:
    assert "XPU_ROOT=/nowhere/xpu  no such directory" in refusal({**roots, "XPU_ROOT": "/nowhere/xpu"})


def test_xdnn_may_lie_one_level_down_in_lib(roots: dict[str, str]) -> None:
    package = Path(roots["XDNN_ROOT"])
    (package / "lib").mkdir()
    (package / "libxdnn_pytorch.so").rename(package / "lib/libxdnn_pytorch.so")
    assert str(package / "lib") in discover(roots).stdout.splitlines()


def test_a_set_xdnn_root_that_lacks_the_files_stops_the_build(roots: dict[str, str], tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    text = refusal({**roots, "XDNN_ROOT": str(empty), "FLAGOS_VENDOR_TORCH_LIB": roots["XDNN_ROOT"]})
    assert "lacks libxdnn_pytorch.so (directly or in lib/) and include/xdnn_pytorch/xdnn_pytorch.h" in text
    assert "FLAGOS_VENDOR_TORCH_LIB" in text
    assert "not reached" in text


def test_vendor_torch_lib_is_second(roots: dict[str, str]) -> None:
    package = roots.pop("XDNN_ROOT")
    assert package in discover({**roots, "FLAGOS_VENDOR_TORCH_LIB": package}).stdout.splitlines()


def test_the_package_in_site_packages_is_third_and_is_not_imported(roots: dict[str, str], tmp_path: Path) -> None:
    package = roots.pop("XDNN_ROOT")
    Path(package, "__init__.py").write_text("raise SystemExit('imported')")
    assert package in discover(roots, search_path=str(tmp_path)).stdout.splitlines()


def test_all_three_places_are_told_when_none_holds_xdnn(roots: dict[str, str]) -> None:
    del roots["XDNN_ROOT"]
    text = refusal(roots)
    places = [line.split("  ")[2] for line in text.splitlines() if line.startswith("    ") and "$" not in line]
    assert places[:2] == ["XDNN_ROOT", "FLAGOS_VENDOR_TORCH_LIB"]
    assert places[2].startswith("torch_xmlir/ on sys.path")


def test_cudart_is_taken_from_the_sdk_when_no_root_is_named(roots: dict[str, str]) -> None:
    del roots["XCUDART_ROOT"]
    text = refusal(roots)
    assert "XCUDART_ROOT" in text
    assert "has no libcudart.so*" in text
    touch(Path(roots["XPU_ROOT"], "so/libcudart.so.11.0"))
    assert discover(roots).returncode == 0


def test_an_unknown_build_type_is_refused(roots: dict[str, str]) -> None:
    assert "FLAGOS_BUILD_TYPE=Fast is not a build type" in refusal({**roots, "FLAGOS_BUILD_TYPE": "Fast"})


def test_a_compiler_that_is_not_there_is_named(roots: dict[str, str]) -> None:
    assert "the C++ compiler no-such-c++ is not found" in refusal({**roots, "CXX": "no-such-c++"})


def test_a_build_that_sees_no_torch_says_so(roots: dict[str, str]) -> None:
    snippet = (
        "import os, runpy, sys\n"
        "setup = runpy.run_path(sys.argv[1], run_name='inspected')\n"
        "setup['discover'](os.environ, [])"
    )
    command = [sys.executable, "-c", snippet, str(REPOSITORY / "setup.py")]
    done = subprocess.run(command, env={"PATH": os.environ["PATH"], **roots}, capture_output=True, text=True)
    assert done.returncode == 1
    assert "error: this build sees no torch" in done.stderr
    assert "--no-build-isolation" in done.stderr


def test_the_build_command_itself_ends_before_compiling(roots: dict[str, str]) -> None:
    done = subprocess.run(
        [sys.executable, "setup.py", "--quiet", "build_ext", "--inplace"],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        env={"PATH": os.environ["PATH"], **roots, "XPU_ROOT": "/nowhere/xpu"},
    )
    assert done.returncode == 1
    assert "error: the Kunlun XPU SDK is not complete at /nowhere/xpu" in done.stderr
    assert "Traceback" not in done.stderr

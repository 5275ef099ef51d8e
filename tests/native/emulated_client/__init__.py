"""Clients of the emulated SDK, for tests of the SDK itself.

Only child processes import `runtime` and `operators`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from tests.child import minimal_environment

REPOSITORY = Path(__file__).resolve().parents[3]
PROJECT = REPOSITORY / "tests" / "emulated_sdk"


def sdk_root() -> Path:
    """Where the emulated SDK is installed: EMULATED_SDK, or build/sdk of this checkout.

    FileNotFoundError when there is none.
    """
    root = Path(os.environ.get("EMULATED_SDK", REPOSITORY / "build" / "sdk")).resolve()
    if not (root / "xpu" / "include" / "xpu" / "runtime.h").is_file():
        raise FileNotFoundError(f"no emulated SDK in {root}: run `make setup`, or set EMULATED_SDK to its prefix")
    return root


def environment(**extra: str) -> dict[str, str]:
    """Environment of a child that imports the modules of this package."""
    return minimal_environment(EMULATED_SDK=str(sdk_root()), PYTHONPATH=str(REPOSITORY), **extra)


def include_flags() -> list[str]:
    """Compiler flags for the SDK's headers, where a client finds them."""
    root = sdk_root()
    return [f"-I{root / 'xpu' / 'include'}", f"-I{root / 'site-packages' / 'torch_xmlir' / 'include'}"]


def compile_cxx(source: Path, output: Path, *flags: str) -> None:
    """Compile one C++ file; AssertionError with what the compiler said."""
    compiler = os.environ.get("CXX") or shutil.which("c++") or "c++"
    command = [compiler, "-std=c++17", "-Wall", "-Wextra", *include_flags(), *flags, str(source), "-o", str(output)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stderr}"

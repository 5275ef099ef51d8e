"""The unit tests of the part that needs no torch, on every Python at hand: `make test-pythons`.

    python -m tests.pythons [X.Y ...]       default: all of VERSIONS that are installed

Interpreters are looked for as pythonX.Y on PATH and below ~/.pyenv/versions. Each gets an environment of its own,
build/pythons-X.Y, with pytest and pyelftools in it. 3.8 and one newer than 3.11 must be there. Exit status 1 when one
of them is missing or a test fails.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Dict, List, Optional, Sequence

VERSIONS = ("3.8", "3.9", "3.10", "3.11", "3.12", "3.13")
REPOSITORY = Path(__file__).resolve().parents[1]
REQUIREMENTS = ("pytest>=8", "pytest-timeout>=2.3", "pyelftools>=0.31", "packaging>=24")
TESTS = tuple(
    f"tests/unit/test_{name}.py"
    for name in ("elf", "host", "resolve", "symbols", "releases", "targets", "plan", "finding", "render",
                 "render_brief", "render_github", "progress", "trial", "diagnose_cli")
)  # fmt: skip


def interpreter(version: str) -> Optional[str]:
    """A Python of this version, None when there is none. A shim that leads nowhere is none."""
    candidates = [shutil.which(f"python{version}")]
    candidates += [str(path) for path in sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))]
    for candidate in candidates:
        if candidate is not None and _version(candidate) == version:
            return candidate
    return None


def _version(executable: str) -> str:
    code = "import sys, venv, ctypes; print('%d.%d' % sys.version_info[:2])"
    done = subprocess.run([executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
    return done.stdout.decode().strip() if done.returncode == 0 else ""


def environment(version: str, executable: str) -> Path:
    """The python of build/pythons-X.Y, which is made when it is not there."""
    directory = REPOSITORY / "build" / f"pythons-{version}"
    python, mark = directory / "bin/python", directory / ".installed"
    if not mark.exists():
        subprocess.run([executable, "-m", "venv", "--clear", str(directory)], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "--quiet", *REQUIREMENTS], check=True)
        mark.touch()
    return python


def run(version: str, executable: str) -> bool:
    """Run the tests on one Python; True when all pass."""
    python = environment(version, executable)
    variables: Dict[str, str] = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    # The files that are read are those of the environment this runs in: the other ones have no torch.
    variables.update(PYTHONPATH=str(REPOSITORY), TORCH_FL_SITE=sysconfig.get_paths()["platlib"])
    command = [str(python), "-m", "pytest", "-q", "-p", "no:cacheprovider", *TESTS]
    print(f"== Python {version}: {executable}", flush=True)
    return subprocess.run(command, cwd=str(REPOSITORY), env=variables, check=False).returncode == 0


def main(wanted: Sequence[str]) -> int:
    found: Dict[str, str] = {}
    for version in wanted:
        executable = interpreter(version)
        if executable is not None:
            found[version] = executable
    missing: List[str] = [version for version in wanted if version not in found]
    failed = [version for version, executable in found.items() if not run(version, executable)]
    for version in failed:
        print(f"Python {version}: tests fail")
    if missing:
        print(f"not installed here: Python {', '.join(missing)}")
    needed = "3.8" in found and any(int(version.split(".")[1]) > 11 for version in found)
    if wanted == VERSIONS and not needed:
        print("Python 3.8 and one newer than 3.11 must be there")
        return 1
    print(f"passed on Python {', '.join(version for version in found if version not in failed) or 'none'}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(tuple(sys.argv[1:]) or VERSIONS))

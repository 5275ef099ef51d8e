"""Run a Python snippet in a fresh interpreter.

The loader's answer depends on what a process has already mapped and on the environment it was started with, so
nothing in the pytest process may open a library under test: every such test asks a child.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple


class ChildResult(NamedTuple):
    """What a child left behind. `rc` is negative for a signal (-11: SIGSEGV), as subprocess has it."""

    rc: int
    stdout: str
    stderr: str

    @property
    def signal_name(self) -> str | None:
        """Name of the signal that ended the child, or None when it ended by itself."""
        return signal.Signals(-self.rc).name if self.rc < 0 else None

    def check(self) -> ChildResult:
        """This result, or AssertionError with everything the child said when its exit status is not 0."""
        if self.rc != 0:
            how = self.signal_name or f"exit status {self.rc}"
            raise AssertionError(f"child ended with {how}\n-- stdout\n{self.stdout}\n-- stderr\n{self.stderr}")
        return self


def minimal_environment(**extra: str) -> dict[str, str]:
    """PATH, HOME and the C locale, plus `extra`: what a child needs to start, and nothing of the caller's.

    The locale is fixed because glibc translates what dlerror() returns.
    """
    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    return {**kept, "LC_ALL": "C", **extra}


def run(
    snippet: str,
    *,
    env: Mapping[str, str] | None = None,
    python: str | Path = sys.executable,
    timeout: float = 60,
    args: Sequence[str] = (),
    cwd: str | Path | None = None,
) -> ChildResult:
    """Run `snippet` with `python -c` and return its exit status, stdout and stderr (decoded as UTF-8).

    `env` is the whole environment of the child; None means `minimal_environment()`. `args` become sys.argv[1:].
    `cwd` matters to imports: `python -c` looks in the working directory first.
    The child leads its own process group, and the whole group is killed when `timeout` seconds have passed;
    then AssertionError is raised with what it had printed.
    """
    process = subprocess.Popen(
        [str(python), "-c", snippet, *args],
        env=dict(minimal_environment() if env is None else env),
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        errors="replace",
        start_new_session=True,
    )
    try:
        stdout, stderr = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        stdout, stderr = process.communicate()
        raise AssertionError(
            f"child still running after {timeout} s\n-- stdout\n{stdout}\n-- stderr\n{stderr}"
        ) from None
    return ChildResult(process.returncode, stdout, stderr)

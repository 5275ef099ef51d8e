"""Many loads, each in a process of its own, without the price of many interpreters.

One fresh interpreter imports ctypes, opens nothing, and forks for every file: what the fork does is what a fresh
interpreter would do, since a fork has the loader's state of its parent.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

from tests.loader.truth import PYTHON, Result

SECONDS = 60

_SERVER = r"""
import ctypes, json, os, signal, sys, time
def mapped():
    found = set()
    for line in open("/proc/self/maps", encoding="utf-8", errors="surrogateescape"):
        fields = line.split(None, 5)
        if len(fields) == 6 and fields[5].startswith("/"):
            found.add(fields[3] + " " + fields[4])
    return found
def load(path, writer):
    error, before = None, mapped()
    try:
        ctypes.CDLL(path, os.RTLD_NOW)
    except OSError as caught:
        error = str(caught)
    os.write(writer, json.dumps({"error": error, "mapped": sorted(mapped() - before)}).encode())
def one(path, seconds):
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        nothing = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(nothing, stream)
        os.setsid()
        load(path, writer)
        os._exit(0)  # destructors are not the loader's business here
    os.close(writer)
    end, late = time.monotonic() + seconds, False
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            break
        if time.monotonic() > end and not late:
            late = True
            os.kill(child, signal.SIGKILL)
        time.sleep(0.0005)
    os.set_blocking(reader, False)
    said = b""
    while True:
        try:
            part = os.read(reader, 65536)
        except BlockingIOError:
            break
        if not part:
            break
        said += part
    os.close(reader)
    return {"said": json.loads(said) if said else None, "status": status, "late": late}
for line in sys.stdin:
    path, seconds = json.loads(line)
    print(json.dumps(one(path, seconds)), flush=True)
"""


class ForkServer:
    """`open(path)`: what dlopen(path, RTLD_NOW) does in a fresh interpreter started with this environment."""

    def __init__(self, env: Mapping[str, str], cwd: str | Path = "/") -> None:
        self._process = subprocess.Popen(
            [PYTHON, "-I", "-S", "-c", _SERVER],
            env=dict(env),
            cwd=str(cwd),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            encoding="utf-8",
        )

    def __enter__(self) -> ForkServer:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._process.communicate()

    def open(self, path: str, seconds: float = SECONDS) -> Result:
        """What happened. `crash` is "timeout" when the load did not come back in `seconds`."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([path, seconds]) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise AssertionError(f"the server died over {path}: {self._process.wait()}")
        answer = json.loads(line)
        if answer["said"] is not None:
            error = answer["said"]["error"]
            return Result(error is None, error, None, frozenset(answer["said"]["mapped"]))
        if answer["late"]:
            return Result(False, None, "timeout", frozenset())
        status = answer["status"]
        number = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
        crash = {0: "exit", signal.SIGBUS: "sigbus"}.get(number, "abort")
        return Result(False, None, crash, frozenset())

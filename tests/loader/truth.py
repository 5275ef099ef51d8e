"""What really happens: a fresh interpreter opens files, and says what it was told and what is mapped afterwards.

The prediction for the same situation comes from the model, given a Host that describes that child.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from torch_fl._preload import host as host_module
from torch_fl._preload import resolve
from torch_fl._preload.host import Host

PYTHON = os.path.realpath(sys.executable)
TIMEOUT = 60

_CHILD = r"""
import ctypes, json, os, sys
def mapped():
    found = {}
    for line in open("/proc/self/maps", encoding="utf-8", errors="surrogateescape"):
        fields = line.split(None, 5)
        if len(fields) == 6 and fields[5].startswith("/"):
            found[fields[3] + " " + fields[4]] = fields[5].rstrip("\n")
    return found
out = os.fdopen(int(sys.argv[1]), "w")
before = mapped()
for step in json.loads(sys.argv[2]):
    error = None
    try:
        ctypes.CDLL(step["name"], os.RTLD_NOW | (os.RTLD_GLOBAL if step["global"] else os.RTLD_LOCAL))
    except OSError as caught:
        error = str(caught)
    out.write(json.dumps({"error": error, "mapped": sorted(set(mapped()) - set(before))}) + "\n")
    out.flush()
"""


class Open(NamedTuple):
    """One dlopen of a scenario."""

    name: str
    visible: str = resolve.LOCAL


class Result(NamedTuple):
    """What came of one dlopen.

    mapped  the files (device and inode in the notation of /proc/self/maps) that are mapped since the start
    """

    loads: bool
    error: str | None
    crash: str | None
    mapped: frozenset[str]


def environment(**extra: str) -> dict[str, str]:
    """The C locale and nothing else but `extra`: glibc translates what dlerror returns."""
    return {"LC_ALL": "C", **extra}


def real(
    opens: Sequence[Open],
    env: Mapping[str, str],
    *,
    cwd: str | Path = "/",
    python: str | Path = PYTHON,
    prefix: Sequence[str] = (),
) -> list[Result]:
    """Do it, in one fresh interpreter, and stop where it dies. `prefix` is put before the command."""
    steps = json.dumps([{"name": entry.name, "global": entry.visible == resolve.GLOBAL} for entry in opens])
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="surrogateescape") as stream:
        done = subprocess.run(
            [*prefix, str(python), "-I", "-S", "-c", _CHILD, str(stream.fileno()), steps],
            env=dict(env),
            cwd=str(cwd),
            pass_fds=(stream.fileno(),),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=TIMEOUT,
            check=False,
        )
        stream.seek(0)
        said = [json.loads(line) for line in stream]
    results = [Result(entry["error"] is None, entry["error"], None, frozenset(entry["mapped"])) for entry in said]
    if done.returncode != 0:
        text = done.stderr.decode("utf-8", "replace")
        if len(results) == len(opens):
            raise AssertionError(f"the child failed after its work: {done.returncode}\n{text}")
        if done.returncode == 1 and "Traceback" in text:
            raise AssertionError(f"the child failed: {text}")
        results.append(Result(False, None, _crash(done.returncode), frozenset()))
    return results


def _crash(status: int) -> str:
    if status > 0:
        return "exit"
    return "sigbus" if status == -7 else "abort"


def child_host(env: Mapping[str, str], *, cwd: str | Path = "/", python: str | Path = PYTHON, **facts: Any) -> Host:
    """The Host of such a child before it opens anything."""
    own = host_module.current()
    settings = {"environment": dict(env), "mapped": (), "executable": os.path.realpath(python), "cwd": str(cwd)}
    settings["secure"] = False
    return own.replace(**{**settings, **facts})


def ctypes_extension(python: str | Path = PYTHON) -> str:
    """Path of the _ctypes extension: it is what calls dlopen, and its tags serve names without a slash."""
    if str(python) != PYTHON:
        command = [str(python), "-I", "-S", "-c", "import _ctypes; print(_ctypes.__file__)"]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    import _ctypes

    return str(_ctypes.__file__)


def start(host: Host, python: str | Path = PYTHON) -> resolve.Process:
    """The child as it is when it makes its first call: started, and with ctypes imported."""
    process = resolve.fresh(host)
    outcome = resolve.dlopen(process, ctypes_extension(python), depth=resolve.DEPENDENCIES)
    if not outcome.loads:
        raise AssertionError(f"the model says that _ctypes does not load: {outcome.error}")
    return outcome.process


def predicted(opens: Sequence[Open], host: Host, python: str | Path = PYTHON) -> list[Result]:
    """The same by the model alone; it stops where the process would end."""
    process = beginning = start(host, python)
    known = len(beginning.maps)
    results = []
    for entry in opens:
        outcome = resolve.dlopen(process, entry.name, entry.visible, caller=ctypes_extension(python))
        process = outcome.process
        results.append(Result(outcome.loads, outcome.error, outcome.crash, mapped_since(process, known)))
        if outcome.crash is not None:
            break
    return results


def mapped_since(process: resolve.Process, known: int) -> frozenset[str]:
    """The files of the objects after the first `known`, as Result.mapped has them."""
    found = set()
    for entry in process.maps[known:]:
        found.add(f"{os.major(entry.device):02x}:{os.minor(entry.device):02x} {entry.inode}")
    return frozenset(found)


def compare(
    opens: Sequence[Open | str],
    env: Mapping[str, str] | None = None,
    *,
    cwd: str | Path = "/",
    python: str | Path = PYTHON,
) -> list[Result]:
    """Assert that the model and a real child agree on every call: verdict, text, files. Returns what happened."""
    calls = [entry if isinstance(entry, Open) else Open(str(entry)) for entry in opens]
    env = environment() if env is None else env
    truth = real(calls, env, cwd=cwd, python=python)
    model = predicted(calls, child_host(env, cwd=cwd, python=python), python)
    for number, (happened, said) in enumerate(zip(truth, model)):
        if happened.crash is not None:
            happened = happened._replace(mapped=said.mapped)
        assert said == happened, f"call {number}, {calls[number]}:\n  model {said}\n  truth {happened}"
    assert len(truth) == len(model)
    return truth

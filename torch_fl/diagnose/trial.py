"""The second opinion: a child process that really loads the target.

The child is the same interpreter with the environment this process was started with, so it answers the question the
model answers. Vendor code may end, stop or corrupt the process that loads it: nothing is ever opened in this one.
"""

from __future__ import annotations

import json
import os
import pkgutil
import selectors
import signal
import subprocess
import sys
import time
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Tuple

from torch_fl.diagnose.finding import TRIAL_TIMEOUT, TrialResult

_KEPT_OUTPUT = 16384
"""Bytes of the child's own output that are kept: the last ones."""


class Attempt(NamedTuple):
    """What came back from the child.

    loads      whether the last stage was finished
    error      text of the exception at the root (the loader's own words), or what ld.so printed before it ended
               the process; None when there is neither
    exception  type of the exception that reached the child's top level; None when there was none
    exit       exit status, negative for a signal; None when the time ran out
    stage      the last stage that began: "", "open", "import torch", "import torch_fl" or "device count"
    facts      what the child reported on the way: "torch" (version), "devices" (count)
    output     the end of what was printed on stdout and stderr
    seconds    wall time
    """

    loads: bool
    error: Optional[str]
    exception: Optional[str]
    exit: Optional[int]
    stage: str
    facts: Dict[str, Any]
    output: str
    seconds: float

    @property
    def result(self) -> TrialResult:
        """The part that the JSON contract has room for."""
        return TrialResult(self.loads, self.error, self.exit)

    @property
    def ended_early(self) -> bool:
        """Whether the process ended, or was stopped, before it could report."""
        return not self.loads and self.exception is None


def open_file(path: str, environment: Mapping[str, str], timeout: float = TRIAL_TIMEOUT) -> Attempt:
    """dlopen(path, RTLD_NOW) in a child; its constructors run. `environment` is the child's whole environment.

    OSError: the interpreter could not be started.
    """
    return _attempt(("-S", "-s"), ("open", path), environment, timeout)


def use_stack(environment: Mapping[str, str], site: str, timeout: float = TRIAL_TIMEOUT) -> Attempt:
    """Import torch and torch_fl in a child and ask for the device count. OSError: as above.

    site   the directory that holds the torch_fl package, for an interpreter that finds none by itself
    """
    return _attempt((), ("stack", site), environment, timeout)


def _attempt(
    options: Tuple[str, ...], arguments: Tuple[str, ...], environment: Mapping[str, str], timeout: float
) -> Attempt:
    if not sys.executable:
        raise OSError("sys.executable is empty: this interpreter does not know its own program")
    source = pkgutil.get_data(__package__, "trial_child.py")
    if source is None:
        raise OSError("trial_child.py cannot be read")
    report, report_end = os.pipe()
    started = time.monotonic()
    try:
        process = subprocess.Popen(
            [sys.executable, *options, "-c", source.decode("utf-8"), str(report_end), *arguments],
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            pass_fds=(report_end,),
            start_new_session=True,
        )
    except BaseException:
        os.close(report)
        raise
    finally:
        os.close(report_end)
    with process:
        assert process.stdout is not None
        said, output, timed_out = _listen(process, report, process.stdout.fileno(), started + timeout)
    os.close(report)
    seconds = time.monotonic() - started
    return _judge(said, output.decode("utf-8", "backslashreplace"), timed_out, process.returncode, seconds)


def _listen(process: subprocess.Popen[bytes], report: int, output: int, deadline: float) -> Tuple[bytes, bytes, bool]:
    """Read both pipes until the child has ended or the time is up; then end its whole process group.

    Descendants of the child may keep the pipes open, so the end of the child counts, not the end of the pipes.
    """
    received: Dict[int, bytearray] = {report: bytearray(), output: bytearray()}
    timed_out = False
    with selectors.DefaultSelector() as selector:
        for descriptor in received:
            os.set_blocking(descriptor, False)
            selector.register(descriptor, selectors.EVENT_READ)
        while True:
            # WNOWAIT leaves the child a zombie, so that its process group cannot become somebody else's
            ended = os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
            timed_out = not ended and time.monotonic() >= deadline
            if ended or timed_out:
                _kill_group(process)
            for key, _ in selector.select(0 if ended or timed_out else 0.05):
                block = os.read(key.fd, 65536)
                if block:
                    received[key.fd] += block
                else:
                    selector.unregister(key.fd)
            del received[output][:-_KEPT_OUTPUT]
            if ended or timed_out:
                break
            if not selector.get_map():
                time.sleep(0.01)
    process.wait()
    return bytes(received[report]), bytes(received[output]), timed_out


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return  # nobody is left in the group


def _judge(said: bytes, output: str, timed_out: bool, status: int, seconds: float) -> Attempt:
    """Put together what the child reported and how it ended."""
    lines: List[Dict[str, Any]] = []
    for line in said.split(b"\n"):
        try:
            lines.append(json.loads(line))
        except ValueError:
            continue  # the empty rest, or a line cut off by the end of the process
    facts: Dict[str, Any] = {}
    for entry in lines:
        facts.update(entry)
    stage = str(facts.pop("stage", ""))
    loads = bool(facts.pop("loads", False)) and not timed_out
    exception = facts.pop("outer", None)
    facts.pop("type", None)
    error = facts.pop("error", None)
    if not loads and error is None:
        error = _last_words(output)
    return Attempt(loads, error, exception, None if timed_out else status, stage, facts, output, seconds)


def _last_words(output: str) -> Optional[str]:
    """What ld.so printed before it ended the process: it has no other way to tell."""
    for line in reversed(output.splitlines()):
        if "by ld.so:" in line or "symbol lookup error:" in line or "error while loading shared libraries:" in line:
            return line.strip()
    return None

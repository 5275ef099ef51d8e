"""Anything at all given as a target ends in a finding, or in exit 2 with one line: never in a traceback."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Callable, Dict, List, Union

import pytest

from tests.child import minimal_environment
from tests.elfkit import make_so, patch, truncate

REPOSITORY = Path(__file__).parents[2]
Name = Union[str, bytes]


def check(target: Name, *options: str, cwd: Path) -> subprocess.CompletedProcess[bytes]:
    command: List[Name] = [sys.executable, "-m", "torch_fl.diagnose", "check", *options, "--no-trial", "--", target]
    env = minimal_environment(PYTHONPATH=str(REPOSITORY))
    return subprocess.run(command, env=env, cwd=str(cwd), capture_output=True, timeout=60, check=False)


def fifo(directory: Path) -> Name:
    os.mkfifo(directory / "fifo.so")
    return str(directory / "fifo.so")


def listening(directory: Path) -> Name:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(directory / "s.so"))
    return str(directory / "s.so")


def sparse(directory: Path) -> Name:
    path = directory / "sparse.so"
    path.touch()
    os.truncate(path, 4 << 30)
    return str(path)


def sparse_elf(directory: Path) -> Name:
    path = make_so(directory / "big.so")
    patch(path, phoff=(4 << 30) - 100)
    os.truncate(path, 4 << 30)
    return str(path)


def unreadable(directory: Path) -> Name:
    path = make_so(directory / "closed.so")
    path.chmod(0)
    return str(path)


def strange(directory: Path) -> Name:
    return bytes(make_so(directory / "plain.so").rename(directory / os.fsdecode(b"caf\xe9\xff.so")))


def loop(directory: Path) -> Name:
    (directory / "loop.so").symlink_to("loop.so")
    return str(directory / "loop.so")


def inside_a_file(directory: Path) -> Name:
    return f"{make_so(directory / 'a.so')}/b.so"


def cut(directory: Path) -> Name:
    return str(truncate(make_so(directory / "cut.so"), 1000))


ZOO: Dict[str, Callable[[Path], Name]] = {
    "a directory": str,
    "a directory called .so": lambda directory: str((directory / "d.so").mkdir() or directory / "d.so"),
    "a FIFO": fifo,
    "a socket": listening,
    "a 4 GB sparse file": sparse,
    "headers at the end of 4 GB": sparse_elf,
    "an unreadable file": unreadable,
    "a link to itself": loop,
    "a path through a file": inside_a_file,
    "a truncated file": cut,
    "an absent file": lambda directory: str(directory / "none.so"),
    "/dev/null": lambda directory: "/dev/null",
    "/dev/zero": lambda directory: "/dev/zero",
    "/dev/full": lambda directory: "/dev/full",
    "/dev/tty": lambda directory: "/dev/tty",
    "/proc/self/mem": lambda directory: "/proc/self/mem",
    "/proc/self/maps": lambda directory: "/proc/self/maps",
    "the empty name": lambda directory: "",
    "a blank": lambda directory: " ",
    "the root": lambda directory: "/",
    "two dots": lambda directory: "..",
    "10 kB of a name": lambda directory: "a" * 10000,
    "10 kB of a path": lambda directory: "/" + "a" * 10000,
    "10 kB of directories": lambda directory: "/a" * 5000 + ".so",
    "a name that is not UTF-8": lambda directory: b"\xff\xfe.so",
    "a module that is not UTF-8": lambda directory: b"\xff\xfe",
    "control characters": lambda directory: "\x1b[31m\r\n.so",
    "an option": lambda directory: "--no-such",
    "dots": lambda directory: "...",
    "a token": lambda directory: "$ORIGIN/x.so",
    "a star": lambda directory: "*.so",
}  # fmt: skip


@pytest.mark.parametrize("kind", sorted(ZOO))
def test_anything_as_a_target(kind: str, tmp_path: Path) -> None:
    target = ZOO[kind](tmp_path)
    done = check(target, cwd=tmp_path)
    assert b"Traceback" not in done.stderr
    assert b"crashed" not in done.stdout
    said = done.stdout + done.stderr
    if done.returncode == 1:
        assert b"error[" in done.stdout, said
    else:
        # Root may read whatever it likes, so that a file without permissions is a good library to it.
        readable = kind == "an unreadable file" and os.geteuid() == 0
        assert done.returncode == (0 if readable else 2), said
        if not readable:
            assert len(done.stderr.splitlines()) == 1, said
            assert done.stderr.startswith(b"torch_fl.diagnose: error: ")


def test_a_name_that_is_not_utf8_can_be_a_good_library(tmp_path: Path) -> None:
    target = strange(tmp_path)
    for options in ((), ("--json",)):
        done = check(target, *options, cwd=tmp_path)
        assert done.returncode == 0, done.stdout + done.stderr

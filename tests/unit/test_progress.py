"""The line of progress: on a terminal and nowhere else, not before a second has passed, and gone afterwards."""

from __future__ import annotations

import fcntl
import os
import re
import struct
import subprocess
import sys
import termios
import threading
from pathlib import Path
from typing import Tuple

import pytest

from tests.child import minimal_environment
from tests.elfkit import make_so

ROOT = Path(__file__).resolve().parents[2]
PREFIX = "torch_fl.diagnose: "


@pytest.fixture
def slow(tmp_path: Path) -> Path:
    """A library that takes more than a second to load."""
    source = "int usleep(unsigned); __attribute__((constructor)) static void begin(void) {usleep(1800000);}"
    return make_so(tmp_path / "slow.so", source=source, needed=["libc.so.6"])


def on_a_terminal(*arguments: object, columns: int = 200, **environment: str) -> Tuple[int, str, str]:
    """Exit status, stdout, and what stderr, which is a terminal, was sent."""
    master, slave = os.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    attributes = termios.tcgetattr(slave)
    attributes[1] &= ~termios.OPOST  # what is written arrives as it was written
    termios.tcsetattr(slave, termios.TCSANOW, attributes)
    seen = bytearray()

    def listen() -> None:
        while True:
            try:
                block = os.read(master, 65536)
            except OSError:  # Linux: the last one who had it open has closed it
                return
            seen.extend(block)

    listener = threading.Thread(target=listen)
    listener.start()
    process = subprocess.Popen(
        [sys.executable, "-m", "torch_fl.diagnose", "check", *map(str, arguments)],
        env=minimal_environment(PYTHONPATH=str(ROOT), **environment),
        cwd="/", stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=slave,
    )  # fmt: skip
    os.close(slave)
    stdout, _ = process.communicate(timeout=60)
    listener.join()
    os.close(master)
    return process.returncode, stdout.decode(), seen.decode()


def on_screen(sent: str) -> str:
    """What is left on the screen of a terminal that knows nothing but CR and LF."""
    lines, column = [""], 0
    for part in re.split(r"([\r\n])", sent):
        if part in ("\r", "\n"):
            column = 0
            lines += [""] if part == "\n" else []
        else:
            lines[-1] = lines[-1][:column] + part + lines[-1][column + len(part) :]
            column += len(part)
    return "\n".join(line.rstrip() for line in lines)


@pytest.mark.parametrize("environment", [{}, {"NO_COLOR": "1"}, {"TERM": "dumb"}], ids=str)
def test_a_slow_load_is_told_and_the_line_is_gone_afterwards(slow: Path, environment: dict[str, str]) -> None:
    status, stdout, sent = on_a_terminal(slow, **environment)
    assert status == 0
    assert f"{PREFIX}opening {slow} in a child process ..." in sent
    assert set(re.sub(r"[ -~]", "", sent)) == {"\r"}, ascii(sent)
    assert on_screen(sent) == ""
    assert stdout == subprocess.run(
        [sys.executable, "-m", "torch_fl.diagnose", "check", str(slow)],
        env=minimal_environment(PYTHONPATH=str(ROOT)), cwd="/", capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip


def test_what_is_quick_is_not_told(tmp_path: Path) -> None:
    status, stdout, sent = on_a_terminal(make_so(tmp_path / "quick.so"))
    assert (status, sent) == (0, "")
    assert stdout


def test_nothing_of_it_where_stderr_is_no_terminal(slow: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "torch_fl.diagnose", "check", str(slow)],
        env=minimal_environment(PYTHONPATH=str(ROOT)), cwd="/", capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stderr == ""
    assert "opening" not in done.stdout


@pytest.mark.parametrize(("name", "columns"), [("slow.so", 30), ("张.so", 200)], ids=["narrow", "wide characters"])
def test_a_line_that_cannot_be_taken_back_is_ended(slow: Path, name: str, columns: int) -> None:
    target = slow.rename(slow.parent / name)
    status, _, sent = on_a_terminal(target, columns=columns, PYTHONIOENCODING="utf-8")
    assert status == 0
    assert sent.endswith(f"{PREFIX}opening {target} in a child process ...\n")


def test_a_name_cannot_act_on_the_terminal(slow: Path) -> None:
    target = slow.rename(slow.parent / "a\x1b[2J\r\n\u202e.so")
    _, _, sent = on_a_terminal(target)
    assert f"{slow.parent}/a\\x1b[2J\\x0d\\x0a\\u202e.so" in sent
    assert on_screen(sent) == ""
    assert "\x1b" not in sent


def test_it_is_gone_when_the_user_gives_up(slow: Path) -> None:
    """The exception comes through the block, and so does what takes the line back."""
    code = (
        "import sys, time\n"
        "from torch_fl.diagnose import progress\n"
        "during = progress.on(sys.stderr, 'p')\n"
        "try:\n"
        "    with during('outer'), during('inner'):\n"
        "        time.sleep(1.3)\n"
        "        raise KeyboardInterrupt\n"
        "except KeyboardInterrupt:\n"
        "    sys.stderr.write('told')\n"
    )
    master, slave = os.openpty()
    env = minimal_environment(PYTHONPATH=str(ROOT), FLAGOS_LOAD="0")
    subprocess.run([sys.executable, "-c", code], env=env, cwd="/", stderr=slave, check=True)
    os.close(slave)
    sent = os.read(master, 65536).decode()
    os.close(master)
    assert "p: inner ..." in sent
    assert on_screen(sent) == "told"

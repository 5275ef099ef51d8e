"""What is being done, on a terminal, while it takes longer than a second.

Only on a terminal: in a log or a pipe the line would be noise, and stderr there means trouble. It is written without
colours and escape sequences, so that NO_COLOR and dumb terminals need no case of their own: blanks over the line take
it back, and a line too long for that is ended instead.
"""

from __future__ import annotations

import contextlib
import os
from typing import Callable, ContextManager, Iterator, Optional, TextIO

from torch_fl.diagnose.escape import visible

DELAY = 1.0
"""Seconds before the line is shown: what is over by then needs none."""
_USUAL_COLUMNS = 80

Progress = Callable[[str], ContextManager[None]]
"""`with progress("opening a.so"): ...`"""


def silent(what: str) -> ContextManager[None]:
    """Progress that nobody sees."""
    return contextlib.nullcontext()


def on(stream: Optional[TextIO], program: str) -> Progress:
    """Progress on `stream` where that is a terminal."""
    if stream is None or not stream.isatty():
        return silent
    line = _Line(stream, program)
    return line.during


class _Line:
    """The one line, whichever of the things under way it tells of: an inner one takes the place of the outer."""

    def __init__(self, stream: TextIO, program: str) -> None:
        import threading  # a child process needs it as well, but not every command starts one

        self._stream = stream
        self._program = program
        self._shown = ""
        self._lock = threading.Lock()
        self._timer = threading.Timer

    @contextlib.contextmanager
    def during(self, what: str) -> Iterator[None]:
        timer = self._timer(DELAY, self._show, (f"{self._program}: {visible(what)} ...",))
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()
            timer.join()  # from here on it shows nothing
            self._show("")

    def _show(self, text: str) -> None:
        with self._lock, contextlib.suppress(OSError):  # a terminal that has gone needs no progress
            self._write(self._end() + text)
            self._shown = text

    def _end(self) -> str:
        if not self._shown:
            return ""
        if self._shown.isascii() and len(self._shown) < self._columns():
            return f"\r{' ' * len(self._shown)}\r"
        return "\n"

    def _columns(self) -> int:
        try:
            return os.get_terminal_size(self._stream.fileno()).columns or _USUAL_COLUMNS
        except OSError:
            return _USUAL_COLUMNS

    def _write(self, text: str) -> None:
        encoding = self._stream.encoding or "utf-8"
        self._stream.write(text.encode(encoding, "backslashreplace").decode(encoding))
        self._stream.flush()

"""Every shared object below some directories: the model against a real dlopen in a process of its own.

    python -m tests.loader.sweep [DIRECTORY ...]        default: this environment and the system's directories

Prints both sides of each disagreement and exits 1 when there is one. Objects whose constructors end the process (or
never come back) are listed apart: they loaded, and what their own code does then is not the loader's business.
"""

from __future__ import annotations

import os
import stat
import sys
import sysconfig
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import tests.without_loading  # noqa: F401
from tests.loader.forks import ForkServer
from tests.loader.truth import Result, child_host, ctypes_extension, environment, mapped_since, start
from torch_fl._preload import elf, host, resolve


class Swept(NamedTuple):
    """What a sweep came to.

    count      objects that were compared
    loads      those of them that load
    disagree   (path, the model's word, what happened)
    ended      (path, how): the model says that it loads, and then its own code ends the process
    """

    count: int
    loads: int
    disagree: tuple[tuple[str, Result, Result], ...]
    ended: tuple[tuple[str, str], ...]


def objects(directories: Sequence[str]) -> Iterator[str]:
    """Regular files that are dynamic ELF objects of this machine, each inode once."""
    own = host.current()
    seen = set()
    for top in directories:
        for directory, below, names in os.walk(top):
            below.sort()
            for name in sorted(names):
                path = os.path.join(directory, name)
                status = os.lstat(path)
                key = status.st_dev, status.st_ino
                if ".so" not in name or not stat.S_ISREG(status.st_mode) or key in seen:
                    continue
                seen.add(key)
                try:
                    file = elf.read(path)
                except (OSError, elf.ElfError):
                    continue
                if file.has_dynamic and file.machine == own.machine:
                    yield path


def system_directories() -> list[str]:
    """The loader's default directories, without those that are another one's by a link or lie in another one."""
    real = sorted({os.path.realpath(entry) for entry in host.current().system_dirs if os.path.isdir(entry)})
    return [entry for entry in real if not any(entry.startswith(other + "/") for other in real)]


def sweep(paths: Iterable[str]) -> Swept:
    """Compare each file; every one in a fresh process on both sides."""
    count = loads = 0
    disagree: list[tuple[str, Result, Result]] = []
    ended: list[tuple[str, str]] = []
    beginning, caller = start(child_host(environment())), ctypes_extension()
    with ForkServer(environment()) as server:
        for path in paths:
            count += 1
            outcome = resolve.dlopen(beginning, path, caller=caller)
            mapped = mapped_since(outcome.process, len(beginning.maps))
            said, happened = Result(outcome.loads, outcome.error, outcome.crash, mapped), server.open(path)
            loads += said.loads
            if said.loads and happened.crash is not None:
                ended.append((path, happened.crash))
            elif said != happened:
                disagree.append((path, said, happened))
    return Swept(count, loads, tuple(disagree), tuple(ended))


def main(directories: Sequence[str]) -> int:
    """Sweep the directories; 1 when model and reality disagree anywhere."""
    worst = 0
    for directory in directories:
        begun = time.monotonic()
        done = sweep(objects([directory]))
        for path, said, happened in done.disagree:
            print(f"{path}\n  model   {_words(said, happened)}\n  reality {_words(happened, said)}")
        for path, how in done.ended:
            print(f"loads, and its own code ends the process ({how}): {path}")
        refused = done.count - done.loads
        print(
            f"{directory}: {done.count} objects, {done.loads} load, {refused} do not, {len(done.disagree)} "
            f"disagreements, {len(done.ended)} end the process themselves, {time.monotonic() - begun:.0f} s",
            flush=True,
        )
        worst |= bool(done.disagree) or not done.count
    return worst


def _words(one: Result, other: Result) -> str:
    verdict = "loads" if one.loads else one.crash or one.error or ""
    only = sorted(one.mapped - other.mapped)
    return f"{verdict}; mapped only here: {', '.join(only)}" if only else verdict


if __name__ == "__main__":
    given = [str(Path(entry).resolve()) for entry in sys.argv[1:]]
    sys.exit(main(given or [sysconfig.get_paths()["platlib"], *system_directories()]))

"""Every shared object of this environment and of the system: the model against a real dlopen in a child.

    python -m tests.loader.sweep [DIRECTORY ...]

Prints both sides of each disagreement and exits 1 when there is one. Objects whose constructors end the process are
listed apart: they loaded, and what their own code does then is not the loader's business.
"""

from __future__ import annotations

import os
import stat
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from pathlib import Path

import tests.without_loading  # noqa: F401
from tests.loader.truth import Open, child_host, environment, predicted, real
from torch_fl._preload import elf, host


def objects(directories: Sequence[str]) -> Iterator[str]:
    """Regular files that are dynamic ELF objects of this machine, each inode once."""
    own = host.current()
    seen = set()
    for top in directories:
        for directory, _, names in os.walk(top):
            for name in sorted(names):
                path = os.path.join(directory, name)
                status = os.lstat(path)
                if ".so" not in name or not stat.S_ISREG(status.st_mode) or status.st_ino in seen:
                    continue
                seen.add(status.st_ino)
                try:
                    file = elf.read(path)
                except (OSError, elf.ElfError):
                    continue
                if file.has_dynamic and file.machine == own.machine:
                    yield path


def main(directories: Sequence[str]) -> int:
    """Sweep the directories; 1 when model and reality disagree anywhere."""
    count = 0
    disagree, ended = [], []
    for path in objects(directories):
        count += 1
        calls = [Open(path)]
        try:
            truth, model = real(calls, environment()), predicted(calls, child_host(environment()))
        except Exception as error:
            print(f"{path}\n  {type(error).__name__}: {error}")
            disagree.append(path)
            continue
        if truth[0].crash is not None and model[0].loads:
            ended.append(path)
        elif truth != model:
            disagree.append(path)
            print(f"{path}\n  model {model}\n  truth {truth}")
    for path in ended:
        print(f"ends the process after loading: {path}")
    print(f"{count} objects, {len(disagree)} disagreements, {len(ended)} end the process")
    return 1 if disagree else 0


if __name__ == "__main__":
    system = [entry for entry in host.current().system_dirs if not Path(entry).is_symlink() and Path(entry).is_dir()]
    given = sys.argv[1:] or [sysconfig.get_paths()["platlib"], *system]
    sys.exit(main(given))

"""Random trees of libraries: tags, links, versions, symbols, damaged files. One seed makes one tree and its calls.

python -m tests.loader.random_tree SEED [DIRECTORY]     makes that tree, and prints both sides
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from tests import elfkit, elfwriter
from tests.elfwriter import Define, Object, Want
from tests.loader.truth import Open, Result, child_host, environment
from torch_fl._preload import resolve
from torch_fl._preload.host import Host

LIBRARIES = 8
DIRECTORIES = 5
VERSIONS = ("V1", "V2", "V3")
NEEDED, AUXILIARY, FILTER = 1, 0x7FFFFFFD, 0x7FFFFFFF

# A program that opens what it is told, says what dlerror says, and which files are mapped then.
RUNNER = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
int main(int count, char **arguments) {
    static char line[8192];
    for (int i = 1; i < count; ++i) {
        void *found = dlopen(arguments[i] + 1, RTLD_NOW | (arguments[i][0] == 'G' ? RTLD_GLOBAL : RTLD_LOCAL));
        printf("E%s\n", found ? "" : dlerror());
        FILE *maps = fopen("/proc/self/maps", "r");
        while (fgets(line, sizeof line, maps)) {
            char device[32], path[4096] = "";
            unsigned long inode;
            if (sscanf(line, "%*s %*s %*s %31s %lu %4095[^\n]", device, &inode, path) == 3 && path[0] == '/')
                printf("M%s %lu\n", device, inode);
        }
        fclose(maps);
        fflush(stdout);
    }
    return 0;
}
"""


@dataclass(frozen=True)
class Case:
    """One tree: where it is, what is opened, under which environment, from which directory."""

    root: Path
    opens: tuple[Open, ...]
    environment: Mapping[str, str]
    cwd: Path


def make(seed: int, root: Path) -> Case:
    """The tree of `seed` below `root`."""
    dice = random.Random(seed)
    directories = [root / f"d{number}" for number in range(DIRECTORIES)]
    for directory in directories:
        directory.mkdir(parents=True)
    files: list[Path] = []
    for number in range(LIBRARIES):
        for directory in dice.sample(directories, dice.choice((1, 1, 1, 2, 3))):
            files.append(_library(dice, directory, number, directories))
    if dice.random() < 0.3:
        _damage(dice, dice.choice(files))
    if dice.random() < 0.3:
        _link(dice, dice.choice(files), directories)
    targets = [path for path in files if path.exists() or path.is_symlink()]
    opens = tuple(
        Open(_target(dice, dice.choice(targets)), dice.choice((resolve.LOCAL, resolve.GLOBAL)))
        for _ in range(dice.choice((1, 2, 3)))
    )
    variables = {}
    if dice.random() < 0.8:
        chosen = dice.sample(directories, dice.choice((1, 2, 3, 4, 5)))
        elements = [dice.choice((str(entry), f"{entry}/", f"{entry}//")) for entry in chosen]
        if dice.random() < 0.2:
            elements.insert(dice.randrange(len(elements) + 1), dice.choice(("", "/nonexistent", "d0", "$ORIGIN/d1")))
        variables["LD_LIBRARY_PATH"] = dice.choice((":", ";")).join(elements)
    return Case(root, opens, environment(**variables), root)


def _target(dice: random.Random, path: Path) -> str:
    return path.name if dice.random() < 0.1 else str(path)


def _library(dice: random.Random, directory: Path, number: int, directories: Sequence[Path]) -> Path:
    links = []
    for other in range(number):
        if dice.random() < 0.3:
            links.append((NEEDED, _name(dice, other, directories)))
    if dice.random() < 0.05:
        links.append((NEEDED, f"lib{dice.randrange(LIBRARIES)}.so"))
    if dice.random() < 0.02:
        links.append((NEEDED, "libgone.so"))
    if dice.random() < 0.06:
        links.append((dice.choice((AUXILIARY, FILTER)), f"lib{dice.randrange(LIBRARIES)}.so"))
    dice.shuffle(links)
    tags: dict[str, str] = {}
    for tag in ("rpath", "runpath"):
        if dice.random() < 0.5:
            tags[tag] = _list(dice, directory, directories)
    versions = [entry for entry in VERSIONS if dice.random() < 0.85] if dice.random() < 0.6 else []
    defines = _defines(dice, number, versions)
    plain = [int(name[3]) for tag, name in links if tag == NEEDED and len(name) == len("lib0.so")]
    wants = _wants(dice, number, [other for other in plain if other < number])
    thing = Object(
        soname=dice.choice((f"lib{number}.so", f"lib{number}.so", f"lib{number}.so", f"lib{number}.so.1", None)),
        links=links,
        defines=defines,
        wants=wants,
        versions=versions,
        gnu_hash=dice.random() < 0.7,
        flags=2 if dice.random() < 0.1 else 0,
        flags_1=dice.choice((0,) * 40 + (0x800, 0x800, 0x40, 0x1)),
        **tags,
    )
    return elfwriter.write(directory / f"lib{number}.so", thing)


def _name(dice: random.Random, other: int, directories: Sequence[Path]) -> str:
    plain = f"lib{other}.so"
    roll = dice.random()
    if roll < 0.85:
        return plain
    if roll < 0.9:
        return f"{plain}.1"
    directory = dice.choice(directories)
    return dice.choice((f"{directory}/{plain}", f"$ORIGIN/../{directory.name}/{plain}", f"{directory.name}/{plain}"))


def _list(dice: random.Random, own: Path, directories: Sequence[Path]) -> str:
    elements = []
    for directory in dice.sample(list(directories), dice.choice((1, 2, 3, 4))):
        forms = (
            str(directory),
            f"{directory}/",
            f"$ORIGIN/../{directory.name}",
            f"${{ORIGIN}}/../{directory.name}",
            directory.name,
        )
        elements.append(dice.choice(forms))
    if dice.random() < 0.2:
        elements.append(dice.choice(("", "/nonexistent", "$ORIGINX", "$PLATFORM", "$LIB", str(own / "lib0.so"))))
    return ":".join(elements)


def _defines(dice: random.Random, number: int, versions: Sequence[str]) -> list[Define]:
    found = []
    for symbol in (f"s{number}", f"t{number}", f"shared{dice.randrange(3)}"):
        if dice.random() < 0.08:
            continue
        bind = dice.choice((1, 1, 1, 2, 10))
        visibility = dice.choice((0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 3))
        if versions and dice.random() < 0.8:
            chosen = dice.sample(list(versions), dice.choice((1, min(2, len(versions)))))
            for place, version in enumerate(chosen):
                found.append(Define(symbol, version, place > 0 or dice.random() < 0.2, bind, visibility))
        else:
            found.append(Define(symbol, None, False, bind, visibility))
    return found


def _wants(dice: random.Random, number: int, linked: Sequence[int]) -> list[Want]:
    """Mostly symbols of what is linked, seldom of others; a version is asked of a linked file but for rare damage."""
    found = {}
    for other in range(number):
        if dice.random() < (0.6 if other in linked else 0.08):
            symbol = dice.choice((f"s{other}", f"t{other}", "shared0", "shared1"))
            versioned = dice.random() < (0.4 if other in linked else 0.05)
            version = dice.choice(VERSIONS) if versioned else None
            file = f"lib{other}.so" if version else None
            weak, relocated, call = dice.random() < 0.25, dice.random() < 0.9, dice.random() < 0.4
            found[symbol] = Want(symbol, version, file, weak, relocated, call)
    return list(found.values())


def _damage(dice: random.Random, path: Path) -> None:
    kind = dice.randrange(10)
    if kind == 0:
        path.write_bytes(b"")
    elif kind == 1:
        path.write_text("GROUP ( libreal.so ) " * 8)
    elif kind == 2:
        elfkit.patch(path, machine=dice.choice((183, 3, 243)))
    elif kind == 3:
        elfkit.patch(path, elf_class=1)
    elif kind == 4:
        elfkit.truncate(path, dice.choice((10, 64, 200, 400, 4096)))
    elif kind == 5:
        path.unlink()
        path.mkdir()
    elif kind == 6:
        path.unlink()
        path.symlink_to(dice.choice(("nowhere", path.name)))
    elif kind == 7:
        elfkit.patch(path, osabi=dice.choice((1, 9)))
    elif kind == 8:
        elfkit.patch(path, type=dice.choice((1, 2)))
    else:
        path.unlink()


def _link(dice: random.Random, path: Path, directories: Sequence[Path]) -> None:
    target = dice.choice(directories) / f"lib{dice.randrange(LIBRARIES)}.so"
    if target.exists() or target.is_symlink() or not path.is_file():
        return
    if dice.random() < 0.5:
        target.symlink_to(path)
    else:
        os.link(path, target)


# --- both sides ---------------------------------------------------------------------------------------------------


@lru_cache(maxsize=1)
def runner(directory: str) -> Path:
    """The program that does it, compiled once."""
    return elfkit.make_program(Path(directory) / "runner", RUNNER)


def happened(case: Case, program: Path) -> list[Result]:
    """What the runner reports; it stops where it dies."""
    arguments = [("G" if entry.visible == resolve.GLOBAL else "L") + entry.name for entry in case.opens]
    done = subprocess.run(
        [str(program), *arguments],
        env=dict(case.environment),
        cwd=case.cwd,
        capture_output=True,
        timeout=60,
        check=False,
    )
    results: list[Result] = []
    errors: list[str] = []
    files: list[set[str]] = []
    for line in done.stdout.decode("utf-8", "surrogateescape").splitlines():
        if line[0] == "E":
            errors.append(line[1:])
            files.append(set())
        else:
            files[-1].add(line[1:])
    for error, mapped in zip(errors, files):
        results.append(Result(not error, error or None, None, frozenset(mapped)))
    if done.returncode != 0:
        crash = "exit" if done.returncode > 0 else "sigbus" if done.returncode == -7 else "abort"
        results.append(Result(False, None, crash, frozenset()))
    return results


@lru_cache(maxsize=1)
def _host(program: str) -> Host:
    """The machine as every runner finds it; what is gathered of it once serves all trees."""
    host = child_host({}, python=program)
    for fact in Host.__annotations__:
        getattr(host, fact)
    return host


def foretold(case: Case, program: Path) -> list[Result]:
    """The model's word for the same calls. Files of the start are left in, as the runner reports them too."""
    host = _host(str(program)).replace(environment=dict(case.environment), cwd=str(case.cwd))
    process = resolve.fresh(host)
    results = []
    for entry in case.opens:
        outcome = resolve.dlopen(process, entry.name, entry.visible)
        process = outcome.process
        results.append(Result(outcome.loads, outcome.error, outcome.crash, _files(process)))
        if outcome.crash is not None:
            results[-1] = results[-1]._replace(mapped=frozenset())
            break
    return results


def _files(process: resolve.Process) -> frozenset[str]:
    found = set()
    for entry in process.maps:
        if entry.elf is None:  # the vDSO has no file
            continue
        status = os.stat(process.host.real(entry.name))
        found.add(f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x} {status.st_ino}")
    return frozenset(found)


def both_sides(seed: int, case: Case, model: Sequence[Result], truth: Sequence[Result]) -> str:
    """A disagreement in words, with what makes the tree again."""
    lines = [f"seed {seed}, rerun: python -m tests.loader.random_tree {seed}"]
    for number, entry in enumerate(case.opens):
        if model[number : number + 1] != truth[number : number + 1]:
            lines.append(f"  {entry.name} ({entry.visible})")
            lines += [f"    {side}: {said[number : number + 1]}" for side, said in (("model", model), ("truth", truth))]
    return "\n".join(lines)


def main(seed: int, directory: str) -> int:
    """Make one tree and show both sides; 1 when they differ."""
    root = Path(directory)
    program = runner(str(root))
    case = make(seed, root / str(seed))
    truth, model = happened(case, program), foretold(case, program)
    print(f"{case.root}\n{dict(case.environment)}")
    for entry, result in zip(case.opens, truth):
        print(f"{entry.name} ({entry.visible}): {'loads' if result.loads else result.crash or result.error}")
    print(both_sides(seed, case, model, truth) if model != truth else "model and reality agree")
    return 1 if model != truth else 0


if __name__ == "__main__":
    where = sys.argv[2] if len(sys.argv) > 2 else tempfile.mkdtemp(prefix="random_tree")
    sys.exit(main(int(sys.argv[1]), where))

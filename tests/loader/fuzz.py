"""Damaged ELF files through the reader and the resolver: one exception type, in bounded time and memory.

    python -m tests.loader.fuzz [COUNT [SEED [ONLY]]]       100,000 mutations of seed 1; ONLY repeats a single one

Real files of several linkers and machines are changed in place (bytes, words and runs of them, mostly where the tables
are; or the tail is cut off), read in every depth, resolved, and changed back. Mutation N of a seed does not depend on
those before it. The address space is limited, so that a huge allocation is a MemoryError here and fails the run.
"""

from __future__ import annotations

import os
import random
import resource
import signal
import sys
import sysconfig
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import NamedTuple

import tests.without_loading  # noqa: F401
from tests import elfwriter
from tests.elfkit import make_so
from tests.elfwriter import Define, Object, Want
from torch_fl._preload import elf, elf_format, host, resolve
from torch_fl._preload.host import Host

COUNT, SEED = 100_000, 1
SLOWEST = 1.0
"""CPU seconds that one mutation may take."""
HANG = 20
MEMORY = 64 << 20
"""Bytes by which all mutations together may raise the peak of the process."""

_ODD = (0, 1, 2, 7, 8, 0x7F, 0x80, 0xFF, 0x1000, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 1 << 47, 1 << 62,
        (1 << 63) - 1, 1 << 63, (1 << 64) - 1)  # fmt: skip
_TABLES = (
    elf_format.DT_HASH, elf_format.DT_GNU_HASH, elf_format.DT_SYMTAB, elf_format.DT_STRTAB, elf_format.DT_RELA,
    elf_format.DT_JMPREL, elf_format.DT_VERSYM, elf_format.DT_VERNEED, elf_format.DT_VERDEF,
)  # fmt: skip


class Subject(NamedTuple):
    """One intact file and the places in it that are worth hitting: (offset, length)."""

    path: str
    data: bytes
    places: tuple[tuple[int, int], ...]


class Report(NamedTuple):
    """What a run came to. `faults` say which mutation did what."""

    count: int
    refused: int
    slowest: float
    grown: int
    faults: tuple[str, ...]


def corpus(directory: Path) -> list[Subject]:
    """Copies of real objects (system, wheels, compiler, other machines) below `directory`."""
    source = "int f(void) { return 1; } int g(void); __thread int t; int h(void) { return g() + t; }"
    make_so(directory / "libneeded.so", soname="libneeded.so", source="int g(void) { return 2; }")
    made = [
        make_so(
            directory / "compiled.so", soname="x", needed=["libneeded.so"], runpath="$ORIGIN", source=source,
            version_script="V1 { global: f; }; V2 { global: h; } V1;",
        ),
        make_so(directory / "sysv.so", source=source, needed=["libneeded.so"], rpath="$ORIGIN:/x",
                flags=["-Wl,--hash-style=sysv"]),
        elfwriter.write(directory / "written.so", Object(
            "s", elfwriter.needed("libneeded.so"), wants=[Want("w", "V", "n"), Want("g")],
            defines=[Define("d", "V1"), Define("e", "V2")], versions=["V1", "V2"], runpath="$ORIGIN/$LIB:$PLATFORM",
        )),
    ]  # fmt: skip
    for machine, bits, little in ((183, 64, True), (3, 32, True), (22, 64, False), (20, 32, False)):
        path = directory / f"foreign{machine}.so"
        path.write_bytes(elfwriter.foreign(machine, bits, little))
        made.append(path)
    site = Path(sysconfig.get_paths()["platlib"])
    system = Path(next(entry for entry in host.current().system_dirs if (Path(entry) / "libz.so.1").exists()))
    wanted = [
        *(system / name for name in ("libz.so.1", "libgcc_s.so.1", "libdl.so.2", "libm.so.6", "libstdc++.so.6")),
        *sorted((site / "numpy").rglob("_umath_tests*.so")), *sorted((site / "scipy").rglob("_ellip*.so")),
        site / "torch/lib/libshm.so", site / "torch/lib/libtorch_global_deps.so", Path("/bin/true"),
    ]  # fmt: skip
    for path in wanted:
        if path.exists():
            made.append(directory / path.name)
            made[-1].write_bytes(path.read_bytes())
    return [_subject(path) for path in made]


def _subject(path: Path) -> Subject:
    data = path.read_bytes()
    file = elf.read(str(path))
    places = [(0, 64), (0, 64 + 56 * len(file.segments))]
    places += [(segment.offset, max(segment.filesz, 1)) for segment in file.segments if segment.type != 1]
    for tag in _TABLES:
        if tag in file.tags:
            start = file.file_offset(file.tags[tag])
            places += [(start, 32), (start, 512)]
    return Subject(str(path), data, tuple((at, size) for at, size in places if at < len(data)))


def changes(subject: Subject, dice: random.Random) -> tuple[list[tuple[int, bytes]], int]:
    """([(offset, new bytes)], size of the file afterwards)."""
    size = len(subject.data)
    found = []
    for _ in range(dice.choice((1, 1, 1, 2, 2, 4, 16))):
        at, length = dice.choice(subject.places) if dice.random() < 0.85 else (0, size)
        at += dice.randrange(length)
        if dice.random() < 0.7:
            at &= -4
        width = dice.choice((1, 2, 4, 4, 8, 8))
        if dice.random() < 0.1:
            value = bytes((dice.choice((0, 0xFF, 0x41)),)) * dice.choice((16, 64, 1000))
        elif dice.random() < 0.2:
            start = dice.randrange(size)
            value = subject.data[start : start + width]
        else:
            number = dice.choice(_ODD) + dice.choice((0, 0, 0, 1, -1)) if dice.random() < 0.6 else dice.getrandbits(64)
            value = (number & ((1 << 8 * width) - 1)).to_bytes(width, dice.choice(("little", "little", "big")))
        found.append((at, value[: max(size - at, 0)]))
    return found, dice.randrange(size) if dice.random() < 0.1 else size


def examine(path: str, process: resolve.Process) -> bool:
    """Everything the model can be asked about one file; True when the reader refuses it."""
    refused = False
    try:
        file = elf.read(path)
        _ = file.versions.table()
        symbols = file.symbols
        symbols.undefined()
        for number, entry in enumerate(symbols.defined()):
            list(symbols.lookup(entry.name))
            if number > 50:
                break
        symbols.relocations()
    except elf.ElfError as error:
        refused = True
        if error.path != path or not error.reason or not isinstance(error.offset, int):
            raise AssertionError(f"an ElfError that says nothing: {error!r}") from error
    outcome = resolve.dlopen(process, path)
    if outcome.loads != (outcome.error is None and outcome.crash is None):
        raise AssertionError(f"an outcome at odds with itself: {outcome.error!r} {outcome.crash!r}")
    return refused


class Hang(Exception):
    """Not an OSError, as TimeoutError is: the model handles those."""


def _alarm(number: int, frame: FrameType | None) -> None:
    raise Hang(f"still busy after {HANG} s")


def run(numbers: Sequence[int], seed: int, directory: Path) -> Report:
    """Carry out the mutations of these numbers."""
    here: Host = host.current().replace(environment={}, mapped=(), cwd="/", address_space=None)
    process = resolve.fresh(here)
    subjects = corpus(directory)
    for subject in subjects:
        examine(subject.path, process)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
    _limit_address_space(256 << 20)
    signal.signal(signal.SIGALRM, _alarm)
    refused, slowest = 0, 0.0
    faults: list[str] = []
    for number in numbers:
        dice = random.Random(f"{seed} {number}")
        subject = dice.choice(subjects)
        changed, size = changes(subject, dice)
        descriptor = os.open(subject.path, os.O_RDWR | os.O_CLOEXEC)
        try:
            for at, value in changed:
                os.pwrite(descriptor, value, at)
            os.ftruncate(descriptor, size)
            begun = time.process_time()
            signal.setitimer(signal.ITIMER_REAL, HANG)
            try:
                refused += examine(subject.path, process)
            except Exception as error:
                faults.append(f"mutation {number} of {subject.path}: {type(error).__name__}: {error}")
            signal.setitimer(signal.ITIMER_REAL, 0)
            took = time.process_time() - begun
            slowest = max(slowest, took)
            if took > SLOWEST:
                faults.append(f"mutation {number} of {subject.path}: {took:.1f} s")
            for at, value in changed:
                os.pwrite(descriptor, subject.data[at : at + len(value)], at)
            if size < len(subject.data):
                os.pwrite(descriptor, subject.data[size:], size)
        finally:
            os.close(descriptor)
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10) - before
    if grown > MEMORY:
        faults.append(f"the peak of memory rose by {grown >> 20} MiB")
    return Report(len(numbers), refused, slowest, grown, tuple(faults))


def _limit_address_space(more: int) -> None:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + more
    resource.setrlimit(resource.RLIMIT_AS, (limit, resource.getrlimit(resource.RLIMIT_AS)[1]))


def _fast() -> str | None:
    """A directory in memory when there is one that may hold libraries; else the usual place."""
    where = "/dev/shm"
    usable = os.path.isdir(where) and not os.statvfs(where).f_flag & os.ST_NOEXEC
    return where if usable else None


def main(count: int = COUNT, seed: int = SEED, only: int | None = None) -> int:
    """Run and report; 1 when there is a fault."""
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="fuzz", dir=_fast()) as scratch:
        done = run(range(count) if only is None else [only], seed, Path(scratch))
    for fault in done.faults:
        print(fault)
    print(
        f"{done.count} mutations of seed {seed}: {done.refused} refused by the reader, slowest {done.slowest * 1e3:.0f}"
        f" ms, memory +{done.grown >> 10} KiB, {len(done.faults)} faults, {time.monotonic() - begun:.0f} s"
    )
    return 1 if done.faults else 0


if __name__ == "__main__":
    sys.exit(main(*(int(argument) for argument in sys.argv[1:])))

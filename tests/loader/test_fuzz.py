"""A part of `make fuzz`, and that what is mutated is worth mutating. TORCH_FL_MUTATIONS says how many (12000)."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

from tests.loader import fuzz
from torch_fl._preload import elf, host, resolve

COUNT = os.environ.get("TORCH_FL_MUTATIONS", "12000")


def test_damaged_files_give_one_exception_in_bounded_time_and_memory() -> None:
    """In a process of its own, whose address space is limited and whose peak is its own."""
    command = [sys.executable, "-m", "tests.loader.fuzz", COUNT, "2"]
    done = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{COUNT} mutations of seed 2" in done.stdout


def test_the_subjects_load_before_they_are_damaged(tmp_path: Path) -> None:
    """Only a file that loads takes a mutation through every stage of the model."""
    process = resolve.fresh(host.current().replace(environment={}, mapped=(), cwd="/"))
    loading = {Path(s.path).name for s in fuzz.corpus(tmp_path) if resolve.dlopen(process, s.path).loads}
    assert {"compiled.so", "sysv.so", "libz.so.1", "libm.so.6", "libgcc_s.so.1", "libstdc++.so.6"} <= loading


def test_mutations_reach_every_kind_of_table(tmp_path: Path) -> None:
    subjects = fuzz.corpus(tmp_path)
    machines = {(elf.read(s.path).bits, elf.read(s.path).little_endian) for s in subjects}
    assert machines == {(64, True), (32, True), (64, False), (32, False)}
    compiled = next(s for s in subjects if s.path.endswith("/compiled.so"))
    file = elf.read(compiled.path)
    hit = set()
    for number in range(4000):
        found, size = fuzz.changes(compiled, random.Random(number))
        assert size <= len(compiled.data)
        for tag in fuzz._TABLES:
            if tag in file.tags and any(0 <= at - file.file_offset(file.tags[tag]) < 32 for at, _ in found):
                hit.add(tag)
    assert hit == {tag for tag in fuzz._TABLES if tag in file.tags}

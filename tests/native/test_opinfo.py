"""A seeded tenth of PyTorch's own operator database, forward in float32: flagos against the CPU.

Children run the entries, so that one that crashes is named and the others still run.
"""

from __future__ import annotations

import json
import os
import random
from typing import NamedTuple

from tests import child

SEED = 20260701

# Entries that cannot agree, and why. Everything else in op_db with float32 on the CPU is drawn from.
EXCLUDED = {
    "as_strided.partial_views": "reads memory beyond the tensor, which a copy to another device does not take along",
    "tensor_split": "PyTorch asks for the indices on the CPU, and the sweep moves every tensor",
    **dict.fromkeys(
        ("empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided"),
        "memory without values",
    ),
    **dict.fromkeys(("sparse.sampled_addmm", "sparse.mm.reduce", "to_sparse"), "sparse: no kernels on flagos"),
    **dict.fromkeys(
        (
            "jiterator_unary",
            "jiterator_binary",
            "jiterator_4inputs_with_extra_args",
            "jiterator_binary_return_by_ref",
            "jiterator_2inputs_2outputs",
        ),
        "compiles for CUDA alone",
    ),
}


class Sweep(NamedTuple):
    done: dict[str, int]  # entry -> samples
    failures: list[str]
    crashes: list[str]


def environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name.startswith(("XPU", "FLAGOS_"))}
    return child.minimal_environment(**kept, OMP_NUM_THREADS="1")


def all_entries() -> list[str]:
    listing = "import json; from tests.native.opinfo_sweep import entries; print(json.dumps(sorted(entries())))"
    names: list[str] = json.loads(child.run(listing, env=environment()).check().stdout.splitlines()[-1])
    return names


def run_sweep(names: list[str]) -> Sweep:
    sweep = Sweep({}, [], [])
    waiting = list(names)
    while waiting:
        program = "import sys; from tests.native import opinfo_sweep; opinfo_sweep.main(sys.argv[1:])"
        result = child.run(program, env=environment(), args=waiting, timeout=500)
        running = None
        for line in result.stdout.splitlines():
            report = json.loads(line)
            running = report.get("start")
            if running is None:
                sweep.done[report["done"]] = report["samples"]
                sweep.failures.extend(f"{report['done']}: {failure}" for failure in report["failures"])
                waiting.remove(report["done"])
        if running is not None:
            how = result.signal_name or f"exit status {result.rc}"
            sweep.crashes.append(f"{running}: {how}\n{result.stderr[-2000:]}")
            waiting.remove(running)
        elif result.rc != 0:
            result.check()
    return sweep


def test_a_tenth_of_op_db_agrees_with_the_cpu() -> None:
    names = [name for name in all_entries() if name not in EXCLUDED]
    assert len(names) > 600
    chosen = random.Random(SEED).sample(names, len(names) // 10)
    sweep = run_sweep(chosen)
    again = f"rerun with: python -m tests.native.opinfo_sweep NAME (seed {SEED})"
    assert not sweep.crashes, "\n".join(["these entries ended the process:", *sweep.crashes, again])
    assert not sweep.failures, "\n".join(["these samples differ from the CPU:", *sweep.failures, again])
    assert set(sweep.done) == set(chosen)
    assert sum(sweep.done.values()) > 500

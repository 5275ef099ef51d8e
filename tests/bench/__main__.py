"""`make bench`: prints one line a measure, keeps the raw samples in build/bench/, exits 1 where a target is missed.

Nothing here is a figure of a P800: the emulated SDK computes on the CPU.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tests.bench.measure import Result, Series, alternate

RAW = Path(__file__).resolve().parents[2] / "build" / "bench"
RUNS = 15

PRELOAD = """
import json, os, time
os.environ["FLAGOS_LOAD"] = "0"  # the package alone; the preload is called below
start = time.perf_counter()
from torch_fl._preload import hook
hook.preload()
print(json.dumps(time.perf_counter() - start))
"""

# The same files by bare ctypes: the order is taken from the plan, outside the measured part.
BARE = '''
import json, subprocess, sys, time
listing = """
import os
os.environ["FLAGOS_LOAD"] = "0"
from torch_fl._preload import hook
print(*[step.path for step in hook.plan_now().steps], sep="\\n")
"""
paths = subprocess.run([sys.executable, "-c", listing], check=True, capture_output=True, text=True).stdout.splitlines()
start = time.perf_counter()
import ctypes, os
for path in paths:
    ctypes.CDLL(path, mode=os.RTLD_NOW | os.RTLD_GLOBAL)
print(json.dumps(time.perf_counter() - start))
'''

IMPORT = "import json, time; start = time.perf_counter(); import {0}; print(json.dumps(time.perf_counter() - start))"

SUBMIT = """
import json, torch
import torch_fl
from torch.utils.benchmark import Timer
a = torch.ones(8, 8, device={device!r}); b = torch.ones(8, 8, device={device!r})
torch.accelerator.synchronize()
with torch.no_grad():
    measured = Timer("a + b", globals=dict(a=a, b=b)).blocked_autorange(min_run_time=0.3)
print(json.dumps(measured.median))
"""


def main() -> int:
    results = []
    ours, bare = alternate(("_preload", PRELOAD), ("bare ctypes, same files and order", BARE), RUNS)
    results.append(
        Result(
            "(a) what _preload adds to opening the same libraries",
            (ours.median - bare.median) * 1e3,
            "ms",
            10,
            (ours, bare),
        )
    )
    ours, peer = alternate(
        ("import torch_fl", IMPORT.format("torch_fl")), ("import torch", IMPORT.format("torch")), RUNS
    )
    results.append(
        Result("(b) import torch_fl against import torch", ours.median / peer.median, "times", 1.15, (ours, peer))
    )
    ours, peer = alternate(
        ("flagos (emulated SDK)", SUBMIT.format(device="flagos")), ("cpu", SUBMIT.format(device="cpu")), 5
    )
    results.append(
        Result(
            "(c) add on 8x8 float32, submit to return",
            ours.median / peer.median,
            "times the CPU device",
            None,
            (ours, peer),
        )
    )
    for result in results:
        print(result.line())
    keep(results)
    return 1 if any(result.missed for result in results) else 0


def keep(results: list[Result]) -> None:
    def plain(side: Series) -> dict[str, object]:
        return {"name": side.name, "seconds": side.samples}

    RAW.mkdir(parents=True, exist_ok=True)
    document = [
        {"name": r.name, "value": r.value, "unit": r.unit, "target": r.target, "sides": [plain(s) for s in r.sides]}
        for r in results
    ]
    (RAW / "first_light.json").write_text(json.dumps(document, indent=1))


if __name__ == "__main__":
    sys.exit(main())

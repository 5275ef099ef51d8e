"""`make bench`: prints one line a measure, keeps the raw samples in build/bench/, exits 1 where a target is missed.

Nothing here is a figure of a P800: the emulated SDK computes on the CPU.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tests.bench import loader
from tests.bench.measure import Result, Series, Side, alternate, last_line

RAW = Path(__file__).resolve().parents[2] / "build" / "bench"
RUNS = 15

# Modules of the standard library that `import torch` needs as well: whoever imports torch_fl pays for them once, with
# or without a preload. The second measure leaves them out and charges them to the side that uses them.
SHARED = "import ast, ctypes, importlib.util, os, struct, typing, warnings"

PRELOAD = """
import json, os, time
os.environ["FLAGOS_LOAD"] = "0"  # the package alone; the preload is called below
{shared}
start = time.perf_counter()
from torch_fl._preload import hook
hook.preload()
print(json.dumps(time.perf_counter() - start))
"""

# What it is compared with: the same files, in the order of the plan, which is made before the clock starts.
PLAN = """
import json, os
os.environ["FLAGOS_LOAD"] = "0"
from torch_fl._preload import hook
print(json.dumps([step.path for step in hook.plan_now().steps]))
"""

BARE = """
import json, sys, time
paths = json.loads(sys.argv[1])
{shared}
start = time.perf_counter()
import ctypes, os
for path in paths:
    ctypes.CDLL(path, mode=os.RTLD_NOW | os.RTLD_GLOBAL)
print(json.dumps(time.perf_counter() - start))
"""


def timed(module: str) -> str:
    return f"""
import json, time
start = time.perf_counter()
import {module}
print(json.dumps(time.perf_counter() - start))
"""


def submit(device: str) -> str:
    """Median seconds of one `a + b`, without waiting for the device between two of them."""
    return f"""
import json, torch, torch_fl
from torch.utils.benchmark import Timer
a, b = torch.ones(8, 8, device={device!r}), torch.ones(8, 8, device={device!r})
torch.accelerator.synchronize()
with torch.no_grad():
    measured = Timer("a + b", globals=dict(a=a, b=b)).blocked_autorange(min_run_time=0.3)
print(json.dumps(measured.median))
"""


def main() -> int:
    paths = last_line(PLAN)
    results = []
    for title, shared, target in (
        ("(a) what _preload adds to opening the same libraries", SHARED, 10),
        ("    the same in a cold interpreter, standard library included", "", None),
    ):
        ours, bare = alternate(
            Side("_preload", PRELOAD.format(shared=shared)),
            Side("bare ctypes, same files and order", BARE.format(shared=shared), (paths,)),
            RUNS,
        )
        results.append(Result(title, (ours.median - bare.median) * 1e3, "ms", target, (ours, bare)))

    ours, peer = alternate(Side("import torch_fl", timed("torch_fl")), Side("import torch", timed("torch")), RUNS)
    ratio = ours.median / peer.median
    results.append(Result("(b) import torch_fl against import torch", ratio, "times", 1.15, (ours, peer)))

    ours, peer = alternate(Side("flagos (emulated SDK)", submit("flagos")), Side("cpu", submit("cpu")), 5)
    ratio = ours.median / peer.median
    results.append(
        Result("(c) add on 8x8 float32, submit to return", ratio, "times the CPU device", None, (ours, peer))
    )

    results += loader.measure()

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

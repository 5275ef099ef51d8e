"""`make bench`: prints one line a measure, keeps the raw samples in build/bench/, exits 1 where a target is missed.

Nothing here is a figure of a P800: the emulated SDK computes on the CPU.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tests.bench import loader, preload
from tests.bench.measure import Result, Series, Side, alternate

RAW = Path(__file__).resolve().parents[2] / "build" / "bench"


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
    results = preload.measure()
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

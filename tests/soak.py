"""Many fresh processes, each of which imports torch_fl and uses the device: `make soak`, or python -m tests.soak COUNT.

An import that works nearly always, because of an address, a hash seed or a race, is found only by doing it often. As
many run at a time as there are processors. The exit status is 1 if any failed, and what those said is printed.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.child import ChildResult, minimal_environment, run

USE = "import torch_fl, torch; print(float((torch.ones(8, 8, device='flagos') * 2).sum().cpu()))"
SAYS = "128.0\n"
_SHOWN = 5
"""Failures whose output is printed; the rest is counted."""


def imports(count: int, code: str = USE, at_once: int = os.cpu_count() or 1) -> Iterator[ChildResult]:
    """`count` imports, each in a process of its own, away from the checkout; results in the order they were started."""
    with ThreadPoolExecutor(at_once) as pool:
        yield from pool.map(lambda _: run(code, env=minimal_environment(), cwd="/", timeout=300), range(count))


def is_right(result: ChildResult) -> bool:
    """Whether the import worked, the device computed, and nothing was said besides."""
    return (result.rc, result.stdout, result.stderr) == (0, SAYS, "")


def main(count: int, code: str = USE) -> int:
    """Exit status."""
    started = time.monotonic()
    failed: list[ChildResult] = []
    for done, result in enumerate(imports(count, code), 1):
        failed += [] if is_right(result) else [result]
        if done % 100 == 0:
            print(f"{done} imports, {len(failed)} failed, {time.monotonic() - started:.0f} s", flush=True)
    for result in failed[:_SHOWN]:
        print(f"--- exit status {result.rc}\n{result.stdout}{result.stderr}")
    print(f"{Path(__file__).stem}: {count} imports of torch_fl, {len(failed)} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000))

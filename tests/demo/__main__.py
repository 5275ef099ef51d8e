"""`make demo`: the main job, step by step; ends with a non-zero status at the first step that fails.

Every step runs in a process with an empty environment: nothing has to be set. See docs/demo.md.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

REPOSITORY = Path(__file__).resolve().parents[2]

ONE_LINER = (
    "import sys, torch, torch_fl; "
    "print('torch_xmlir imported?', 'torch_xmlir' in sys.modules); "
    "print('devices', torch_fl.flagos.device_count()); "
    "print('add', float((torch.ones(8,8,device='flagos')*2).sum().cpu()))"
)
EXPECTED = "torch_xmlir imported? False\ndevices 2\nadd 128.0\n"


class Step(NamedTuple):
    title: str
    arguments: tuple[str, ...]
    expected: str | None = None


STEPS = (
    Step("1. the verification one-liner", ("-c", ONE_LINER), EXPECTED),
    Step("2. the smoke harness", ("tests/manual/kunlunxin_runtime_smoke.py",)),
    Step("3. two layers on 1,797 real digits, flagos against the CPU", ("-m", "tests.demo.digits", "flagos")),
    Step("4. the check-up", ("-m", "torch_fl.diagnose")),
    Step("5. broken stacks, before and after", ("-m", "tests.demo.broken")),
)


def main() -> int:
    print("The emulated SDK computes on the CPU: nothing here is a figure of a P800.")
    for step in STEPS:
        print(f"\n== {step.title}", flush=True)
        done = subprocess.run(
            [sys.executable, *step.arguments], cwd=REPOSITORY, env={}, text=True, stdout=subprocess.PIPE
        )
        print(done.stdout, end="", flush=True)
        if done.returncode != 0 or step.expected not in (None, done.stdout):
            print(f"\nstep failed: {step.title} (exit status {done.returncode})", file=sys.stderr)
            return 1
    print("\nall steps passed")
    return 0


if __name__ == "__main__":
    sys.exit(main())

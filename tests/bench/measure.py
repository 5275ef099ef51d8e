"""Timing in fresh interpreters, in alternation, so that a drift of the machine meets both sides alike."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from typing import NamedTuple


class Series(NamedTuple):
    """Raw samples of one side, in seconds."""

    name: str
    samples: list[float]

    @property
    def median(self) -> float:
        return statistics.median(self.samples)

    @property
    def spread(self) -> float:
        """Half the distance between the first and the third quartile, in seconds."""
        first, _, third = statistics.quantiles(self.samples, n=4)
        return (third - first) / 2


class Result(NamedTuple):
    """One line of the report. `value` is compared with `target` when there is one; lower is better."""

    name: str
    value: float
    unit: str
    target: float | None
    sides: tuple[Series, ...]

    @property
    def missed(self) -> bool:
        return self.target is not None and self.value > self.target

    def line(self) -> str:
        target = "no target" if self.target is None else f"target at most {self.target:g} {self.unit}"
        sides = "; ".join(
            f"{side.name} {side.median * 1e3:.4g} ms ±{side.spread * 1e3:.2g} (n={len(side.samples)})"
            for side in self.sides
        )
        return f"{self.name}: {self.value:.3g} {self.unit} ({target}){' MISSED' if self.missed else ''}\n    {sides}"


def child_seconds(snippet: str) -> float:
    """Runs `snippet` in a fresh interpreter; it must print one JSON number, the seconds it measured itself."""
    done = subprocess.run(
        [sys.executable, "-c", snippet], check=True, capture_output=True, text=True, env=dict(os.environ)
    )
    return float(json.loads(done.stdout.splitlines()[-1]))


def alternate(first: tuple[str, str], second: tuple[str, str], runs: int) -> tuple[Series, Series]:
    """(name, snippet) twice: one warm-up of each, then `runs` pairs in the order A B A B …"""
    sides = (Series(first[0], []), Series(second[0], []))
    for _, snippet in (first, second):
        child_seconds(snippet)
    for _ in range(runs):
        for side, (_, snippet) in zip(sides, (first, second)):
            side.samples.append(child_seconds(snippet))
    return sides

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


class Side(NamedTuple):
    """What is measured: a snippet for a fresh interpreter that times itself and prints seconds as JSON."""

    name: str
    snippet: str
    arguments: tuple[str, ...] = ()


def last_line(snippet: str, *arguments: str) -> str:
    """What `snippet` prints last, run in a fresh interpreter."""
    command = [sys.executable, "-c", snippet, *arguments]
    # Compiled modules are cached, as in a user's second import.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment).stdout.splitlines()[
        -1
    ]


def alternate(first: Side, second: Side, runs: int) -> tuple[Series, Series]:
    """One warm-up of each, then `runs` pairs in the order A B A B ..."""
    series = (Series(first.name, []), Series(second.name, []))
    for warm_up in (True, *[False] * runs):
        for side, kept in zip((first, second), series):
            seconds = float(json.loads(last_line(side.snippet, *side.arguments)))
            if not warm_up:
                kept.samples.append(seconds)
    return series

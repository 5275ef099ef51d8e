"""Seeded random trees: the model against a real process, call by call. TORCH_FL_TREES says how many (150)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.loader import random_tree

SEEDS = range(int(os.environ.get("TORCH_FL_TREES", "150")))


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return random_tree.runner(str(tmp_path_factory.mktemp("runner")))


@pytest.mark.parametrize("seed", SEEDS)
def test_a_random_tree(seed: int, tmp_path: Path, program: Path) -> None:
    case = random_tree.make(seed, tmp_path)
    truth, model = random_tree.happened(case, program), random_tree.foretold(case, program)
    assert model == truth, f"rerun: pytest tests/loader/test_random.py -k 'test_a_random_tree[{seed}]'"


def test_the_trees_are_worth_the_trouble(tmp_path: Path, program: Path) -> None:
    """Among the seeds every kind of outcome occurs: loads, missing names, bad files, versions, symbols."""
    words = {"loads": 0, "cannot open": 0, "undefined symbol": 0, "version `": 0}
    for seed in range(60):
        case = random_tree.make(seed, tmp_path / str(seed))
        for result in random_tree.foretold(case, program):
            words["loads"] += result.loads
            for text in list(words)[1:]:
                words[text] += text in (result.error or "")
    assert all(words.values()), words

"""Seeded random trees: the model against a real process, call by call. TORCH_FL_TREES says how many (2000)."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.loader import random_tree

TREES = int(os.environ.get("TORCH_FL_TREES", "2000"))
BATCH = 100


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return random_tree.runner(str(tmp_path_factory.mktemp("runner")))


@pytest.mark.parametrize("first", range(0, TREES, BATCH))
def test_random_trees(first: int, tmp_path: Path, program: Path) -> None:
    """A tree that disagrees is left where it is; `python -m tests.loader.random_tree SEED` makes it again."""
    wrong = []
    for seed in range(first, min(first + BATCH, TREES)):
        root = tmp_path / str(seed)
        case = random_tree.make(seed, root)
        truth, model = random_tree.happened(case, program), random_tree.foretold(case, program)
        if model != truth:
            wrong.append(random_tree.both_sides(seed, case, model, truth))
        else:
            shutil.rmtree(root)
    assert not wrong, "\n".join(wrong)


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

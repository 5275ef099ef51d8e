"""These tests load nothing native in their own process."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import tests.without_loading  # noqa: F401
from tests.golden.machine import Machine, stack_tree, vendor_tree, write_record


@pytest.fixture(scope="session")
def healthy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A healthy stack, built once; tests break copies of it."""
    root = tmp_path_factory.mktemp("healthy")
    vendor_tree(root)
    stack_tree(root)
    return root


@pytest.fixture
def machine(healthy: Path, tmp_path: Path) -> Machine:
    """A healthy stack of one's own, to be broken."""
    root = tmp_path / "machine"
    shutil.copytree(healthy, root, symlinks=True)
    write_record(root)
    return Machine(root)

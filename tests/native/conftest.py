"""Every test of the device starts on device 0 with the default streams current, and leaves nothing in the cache."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def _fresh_device() -> Iterator[None]:
    yield
    # Tests of the emulated SDK itself, which share this folder, never import torch_fl here.
    flagos = sys.modules.get("torch_fl.flagos")
    if flagos is None:
        return
    for index in range(flagos.device_count()):
        flagos.set_stream(flagos.default_stream(index))
        flagos.synchronize(index)
    flagos.set_device(0)
    gc.collect()
    flagos.empty_cache()

"""Report -> JSON of schema 1."""

from __future__ import annotations

import json
from typing import Any

from torch_fl.diagnose.escape import well_formed
from torch_fl.diagnose.finding import Report


def _well_formed(value: Any) -> Any:
    """`value` with every string in it made valid Unicode."""
    if isinstance(value, str):
        return well_formed(value)
    if isinstance(value, dict):
        return {_well_formed(key): _well_formed(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_well_formed(item) for item in value]
    return value


def report(item: Report) -> str:
    """One JSON document, ASCII only (so no name in it can act on a terminal), ending in a newline."""
    return json.dumps(_well_formed(item.to_dict()), indent=1, ensure_ascii=True) + "\n"

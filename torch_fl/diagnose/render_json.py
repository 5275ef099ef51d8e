"""Report -> JSON of schema 1, and the schema itself."""

from __future__ import annotations

import json
from typing import Any

from torch_fl.diagnose.escape import well_formed
from torch_fl.diagnose.finding import SCHEMA, Report


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


def schema() -> str:
    """The JSON Schema of every report; read through the loader of the package, which may be a zip file."""
    import pkgutil  # not for every report

    data = pkgutil.get_data(__package__, f"schema-{SCHEMA}.json")
    if data is None:
        raise OSError(f"schema-{SCHEMA}.json cannot be read")
    return data.decode("utf-8")

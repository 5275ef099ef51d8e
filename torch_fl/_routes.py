"""Which backend computes which operator: the lines of a conf, read once when torch_fl is imported.

add.Tensor = kunlunxin    # the vendor's xdnn library
cumsum = none             # the CPU fallback
"""

from __future__ import annotations

from pathlib import Path
from typing import Dict

from ._preload import catalog, places

BACKENDS = ("kunlunxin", "none")


def installed() -> Dict[str, str]:
    """The routes of the accelerator that the build recorded in _build_config.py."""
    package = Path(__file__).parent
    accelerator = places.read_record(str(package / "_build_config.py")).get("ACCELERATOR", catalog.ACCELERATORS[0])
    return read_routes(package / "configs" / f"backends_{accelerator}.conf")


def read_routes(conf: Path) -> Dict[str, str]:
    """{ATen overload: backend}. Raises ValueError with file and line for what is not a route or is said twice."""
    routes: Dict[str, str] = {}
    for number, line in enumerate(conf.read_text(encoding="utf-8").splitlines(), start=1):
        text = line.partition("#")[0].strip()
        if not text:
            continue
        operator, separator, backend = (part.strip() for part in text.partition("="))
        if not separator or not operator:
            raise ValueError(f"{conf}:{number}: {text!r} is not a route; expected OPERATOR.OVERLOAD = BACKEND")
        if backend not in BACKENDS:
            raise ValueError(
                f"{conf}:{number}: {operator} is routed to {backend!r}; the backends are {', '.join(BACKENDS)}"
            )
        if operator in routes:
            raise ValueError(f"{conf}:{number}: {operator} has a route already")
        routes[operator] = backend
    return routes

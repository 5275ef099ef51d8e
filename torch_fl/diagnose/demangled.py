"""C++ names as c++filt writes them, where the optional package `demangle` is installed."""

from __future__ import annotations

from typing import Any, Callable, Optional


def demangled(symbol: str) -> Optional[str]:
    """The C++ name of a mangled symbol; None for any other symbol, and where no library can tell.

    `demangle` is pure Python: no library is opened in the process that makes the diagnosis. "gnu" is c++filt's style.
    """
    if not symbol.startswith("_Z"):
        return None
    translate = _library()
    if translate is None:
        return None
    try:
        name = translate(symbol, style="gnu")
    except Exception:  # whatever a package of that name does wrong, the raw name is still true
        return None
    return name if isinstance(name, str) and name != symbol else None


def _library() -> Optional[Callable[..., Any]]:
    try:
        import demangle
    except Exception:  # not installed, or not for this Python
        return None
    found = getattr(demangle, "demangle", None)
    return found if callable(found) else None

"""The one exception that users of torch_fl meet when it does not load."""

from __future__ import annotations

from typing import Optional, Sequence


class LoadError(ImportError):
    """`import torch_fl` did not work, and `findings` says why.

    `.findings` holds torch_fl.diagnose Finding records, most telling first; `.name` and `.path` are those of the
    original ImportError, which is chained as `__cause__`.
    """

    def __init__(
        self, message: str, *, findings: Sequence[object] = (), name: Optional[str] = None, path: Optional[str] = None
    ):
        super().__init__(message, name=name, path=path)
        self.findings = tuple(findings)


LoadError.__module__ = "torch_fl"  # the name under which users meet it, in tracebacks and in `except`

"""Facts -> Finding, one function per code. The only place where sentences for users are written.

    places     a library is not where the loader looks
    files      a file is there, and its contents are not those of a usable library
    mismatch   a file is whole and is not for this process
    symbols    every file is found, and a symbol is not
    versions   a library is not the one that was linked against
    refusals   the host does not allow the load
    modules    a package is imported from another place
    python     interpreter, torch and the extension module
    process    who else is in the process
    leftovers  what a process keeps from an earlier load
    stack      the vendor's stack as a whole
    trials     what the child process saw

Importing this package fills the registry of codes, each with the long explanation that `explain CODE` and
docs/diagnostics.md show.
"""

from torch_fl.diagnose.explain import (
    files,
    leftovers,
    mismatch,
    modules,
    places,
    process,
    python,
    refusals,
    stack,
    symbols,
    trials,
    versions,
)

__all__ = [
    "files",
    "leftovers",
    "mismatch",
    "modules",
    "places",
    "process",
    "python",
    "refusals",
    "stack",
    "symbols",
    "trials",
    "versions",
]

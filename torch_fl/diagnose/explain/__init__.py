"""Facts -> Finding, one function per code. The only place where sentences for users are written.

    places     a library is not where the loader looks
    files      a file is there and cannot be used
    symbols    versions and symbols
    refusals   the host does not allow the load
    python     interpreter, torch and the extension module
    stack      the vendor's stack as a whole
    trials     what the child process saw

Importing this package fills the registry of codes, each with the long explanation that `explain CODE` and
docs/diagnostics.md show.
"""

from torch_fl.diagnose.explain import files, places, python, refusals, stack, symbols, trials

__all__ = ["files", "places", "python", "refusals", "stack", "symbols", "trials"]

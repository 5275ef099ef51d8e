"""`python -m torch_fl.diagnose`, and the same by the path of this directory where torch_fl is not installed."""

from __future__ import annotations

import gc
import os
import sys


def _stand_alone() -> None:
    """Make torch_fl.diagnose importable when this directory is run by its path.

    A module `torch_fl` without code takes the place of the package, so that nothing is loaded, and the directory of
    this file comes off sys.path, where its modules would pass for top-level ones.
    """
    import types

    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or os.curdir) != here]
    package = types.ModuleType("torch_fl")
    package.__path__ = [os.path.dirname(here)]
    sys.modules["torch_fl"] = package


def _package() -> str | None:
    """The directory of the torch_fl package that is examined.

    Run as a module it is the one that this file belongs to. Run by its path, an installed one comes first.
    """
    own = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    if __package__:
        return own
    from torch_fl.diagnose import pyside

    spec = pyside.find_module("torch_fl")
    if spec is not None and spec.origin is not None:
        return os.path.dirname(spec.origin)
    return own if os.path.isfile(os.path.join(own, "__init__.py")) else None


if __name__ == "__main__":
    if not __package__:
        _stand_alone()
    from torch_fl.diagnose.cli import main

    gc.set_threshold(100_000)  # many small records and no cycles among them: collecting is a tenth of a short command
    sys.exit(main(sys.argv[1:], _package()))

"""A module that Python does not find although its file is there: of another interpreter, or behind another copy."""

from __future__ import annotations

import os
import site
import sys
from typing import Mapping, Optional, Sequence

from torch_fl.diagnose import pyside
from torch_fl.diagnose.explain import modules, python
from torch_fl.diagnose.finding import Finding


def explain(module: str, environment: Mapping[str, str]) -> Optional[Finding]:
    """Why `import module` fails before the loader has a say; None when nothing tells.

    environment   as it was when the process started
    """
    package, _, stem = module.rpartition(".")
    directory = _directory(package) if package else None
    if directory is None:
        return None
    present = pyside.extensions_of_others(directory, stem)
    for entry in pyside.searched(sys.path):
        other = os.path.join(entry, *package.split("."))
        behind = None if os.path.realpath(other) == os.path.realpath(directory) else pyside.extension_file(other, stem)
        if behind is not None:
            first = _entry(directory, package)
            return modules.shadowed_package(
                module, directory, present, behind, entry, first, _origin(first, environment)
            )
    if present:
        version, suffixes = pyside.interpreter_version(), pyside.SUFFIXES
        text = f"No module named '{module}'"
        return python.python_tag_mismatch(module, present, suffixes, sys.executable, version, text)
    return None


def _directory(package: str) -> Optional[str]:
    """The directory from which a package would be imported."""
    try:
        spec = pyside.find_module(package)
    except (ImportError, ValueError, AttributeError):
        return None
    locations: Sequence[str] = () if spec is None else list(spec.submodule_search_locations or ())
    return locations[0] if locations else None


def _entry(directory: str, package: str) -> str:
    """The entry of sys.path below which a package was found."""
    for _ in package.split("."):
        directory = os.path.dirname(directory)
    return directory


def _origin(entry: str, environment: Mapping[str, str]) -> str:
    """How an entry came to be on sys.path."""
    if entry in (os.path.abspath(part) for part in environment.get("PYTHONPATH", "").split(":") if part):
        return modules.PYTHONPATH
    if entry == os.getcwd():
        return modules.WORKING_DIRECTORY
    return modules.USER_SITE if entry == site.getusersitepackages() else ""

"""Finds torch_fl._C, and nothing else: whichever import asks for it, the vendor's libraries come first.

A refusal is explained in place of Python's bare line, also where Python itself would have called it a circular import
(`from . import _C` of a file that is not there).
"""

from __future__ import annotations

import importlib
import importlib.machinery
import importlib.util
import sys
from types import ModuleType
from typing import Callable, Optional, Sequence

from . import hook

Explain = Callable[[hook.Failure], ImportError]
"""Puts a failure into words. It comes from torch_fl/__init__, because nothing here knows `diagnose`."""


class ExtensionLoader(importlib.machinery.ExtensionFileLoader):
    """Python's own loader of extension modules, after the preload and `import torch`, whose libraries _C needs."""

    def __init__(self, path: str, explain: Explain) -> None:
        super().__init__(hook.EXTENSION, path)
        self.explain = explain
        self.preloaded: Optional[hook.Preloaded] = None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        """Opens the file. Raises what `explain` makes of a failure; an `import torch` that fails speaks for itself."""
        try:
            self.preloaded = hook.preload()
            importlib.import_module("torch")
            hook.check_owner()
        except hook.LoadFailed as failed:
            raise self.explain(failed.failure) from None
        try:
            return super().create_module(spec)
        except ImportError as error:
            raise self.explain(hook.import_failure(error, self.preloaded).failure) from error

    def exec_module(self, module: ModuleType) -> None:
        """Runs the extension's own start, which may refuse as well."""
        try:
            super().exec_module(module)
        except ImportError as error:
            assert self.preloaded is not None, "create_module comes first (importlib._bootstrap._load_unlocked)"
            raise self.explain(hook.import_failure(error, self.preloaded).failure) from error


class ExtensionFinder:
    """A member of sys.meta_path."""

    finds = hook.EXTENSION

    def __init__(self, explain: Explain) -> None:
        self.explain = explain

    def find_spec(
        self, name: str, path: Optional[Sequence[str]] = None, target: Optional[ModuleType] = None
    ) -> Optional[importlib.machinery.ModuleSpec]:
        """The spec of torch_fl._C; raises what `explain` makes of it when there is no file for this interpreter."""
        if name != self.finds:
            return None
        directory = hook.package_directory()
        file = hook.extension_file(directory)
        if file is None:
            text = f"No module named '{name}'"
            raise self.explain(hook.Failure("extension", text, name, None, directory))
        return importlib.util.spec_from_file_location(name, file, loader=ExtensionLoader(file, self.explain))


def install(explain: Explain) -> None:
    """Put the finder in front of all others, in place of one that an earlier import of torch_fl left."""
    uninstall()
    sys.meta_path.insert(0, ExtensionFinder(explain))


def uninstall() -> None:
    """Take the finder away again."""
    # Not by isinstance: the class itself is another one when torch_fl has been imported anew.
    sys.meta_path[:] = [finder for finder in sys.meta_path if getattr(finder, "finds", None) != hook.EXTENSION]

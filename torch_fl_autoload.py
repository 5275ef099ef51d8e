"""What `import torch` calls where torch_fl is installed: entry point `flagos` of the group torch.backends.

It gives PrivateUse1 its name, puts a stand-in at torch.flagos and another behind PyTorch's C++ interfaces
(csrc/autoload), and opens nothing of the vendor's. The first use of the device imports torch_fl, which then takes both
places. So a broken vendor stack costs a program that does not use the device nothing, and one that does gets torch_fl's
whole LoadError at that point.

This is a module beside the package and not in it, because importing anything of the package is `import torch_fl`,
which loads the vendor's libraries or raises. It must never raise itself: PyTorch would turn that into a failure of
`import torch` (torch/__init__.py, _import_device_backends).
"""

from __future__ import annotations

import ctypes
import importlib.util
import logging
import os
import re
import sys
import warnings
from types import ModuleType
from typing import Any

DEVICE = "flagos"
UNNAMED = "privateuseone"
"""The name of PrivateUse1 before anybody has given it one (c10/core/DeviceType.cpp)."""


def autoload() -> None:
    """Registers the name and the stand-in. Never raises; what stands in the way is a warning."""
    try:
        _register()
    except Exception as error:
        _warn(f"torch_fl could not register its device: {type(error).__name__}: {error}")


def _register() -> None:
    import torch
    from torch.utils import backend_registration

    if hasattr(torch, DEVICE):
        return
    owner = torch._C._get_privateuse1_backend_name()
    if owner not in (UNNAMED, DEVICE):
        _warn(f"torch.{DEVICE} is not available: the backend {owner} has PyTorch's PrivateUse1 device")
        return
    backend_registration.rename_privateuse1_backend(DEVICE)
    torch._register_device_module(DEVICE, StandIn(f"torch.{DEVICE}", __doc__))  # type: ignore[no-untyped-call]
    backend_registration.generate_methods_for_privateuse1_backend(for_storage=True)
    spec = importlib.util.find_spec("torch_fl")
    for directory in (spec.submodule_search_locations if spec is not None else None) or ():
        if _built_for(directory).split(".")[:2] == torch.__version__.split(".")[:2]:
            _open(os.path.join(directory, "lib", "libtorch_fl_autoload.so"))


def _built_for(directory: str) -> str:
    """The version of torch in a package's build record, which is read and not run; "" without one."""
    try:
        with open(os.path.join(directory, "_build_config.py"), encoding="utf-8") as file:
            found = re.search(r"^TORCH_VERSION = '([^']+)'$", file.read(), re.MULTILINE)
    except OSError:
        return ""
    return found.group(1) if found else ""


def _open(path: str) -> None:
    """Registers the stand-in of the C++ side. Where that fails, what torch.flagos answers is all there is."""
    try:
        status = ctypes.CDLL(path).torch_fl_register_stand_in()
    except (OSError, AttributeError) as error:
        _warn(f"torch.{DEVICE} is loaded only by torch.{DEVICE} itself or by the first tensor: {error}")
        return
    if status != 0:
        _warn(f"torch.{DEVICE} is not available: another backend has registered PrivateUse1 hooks and no name")


def _warn(text: str) -> None:
    """A RuntimeWarning at the program's own line, or a line of the log where the program has made warnings errors."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_code.co_filename == __file__:
        level, frame = level + 1, frame.f_back
    try:
        warnings.warn(text, RuntimeWarning, stacklevel=level)
    except RuntimeWarning:
        logging.getLogger(DEVICE).warning("%s", text)


class StandIn(ModuleType):
    """torch.flagos until the device is first used.

    What PyTorch asks of any process, also of one that never touches the device, is answered here: seeding, forking,
    the profiler's synchronize. Every other name loads torch_fl and is answered by its module; a name with two leading
    underscores never does, because tools ask every module for those.
    """

    _failure: Exception | None = None
    pending_seed: int | None = None

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        return getattr(self._load(), name)

    def _load(self) -> ModuleType:
        """torch_fl's own module, which has taken this one's place. Raises torch_fl.LoadError with the findings."""
        import torch_fl  # noqa: F401

        module = sys.modules.get(f"torch.{DEVICE}")
        if module is None or module is self:
            raise RuntimeError("torch_fl was imported with FLAGOS_LOAD=0, which loads nothing: there is no device")
        return module

    def _lazy_init(self) -> None:
        """PyTorch calls this before it creates a tensor on the device."""
        self._load()._lazy_init()

    def is_available(self) -> bool:
        """True when at least one device can be used. The first answer loads torch_fl; a failure is one warning."""
        return self.device_count() > 0

    def device_count(self) -> int:
        """Number of usable devices. Never raises: 0 where torch_fl does not load, see `unavailable_reason`."""
        if self._failure is None:
            try:
                self._load()
            except Exception as error:
                self._failure = error
                _warn(f"torch.{DEVICE} is not available: {_first_line(error)}")
        module = sys.modules[f"torch.{DEVICE}"]
        return 0 if module is self else int(module.device_count())

    def unavailable_reason(self) -> str:
        """Why there is no device: the whole text of what `import torch_fl` raised, or the vendor runtime's answer."""
        self.device_count()
        module = sys.modules[f"torch.{DEVICE}"]
        return str(self._failure) if module is self else str(module.unavailable_reason())

    def is_initialized(self) -> bool:
        """False: this process has not used a device."""
        return False

    def _is_in_bad_fork(self) -> bool:
        return False

    def manual_seed(self, seed: int) -> None:
        """Kept for the generators that are yet to come; torch.manual_seed calls `manual_seed_all`."""
        self.pending_seed = seed

    manual_seed_all = manual_seed

    def synchronize(self, device: object = None) -> None:
        """Nothing has been submitted."""

    def empty_cache(self) -> None:
        """Nothing is cached."""


def _first_line(error: BaseException) -> str:
    return (str(error) or type(error).__name__).splitlines()[0]

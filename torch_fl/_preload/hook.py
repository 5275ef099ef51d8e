"""What has to happen before torch_fl._C can be opened. A failure becomes a record that `diagnose` can explain."""

from __future__ import annotations

import importlib.machinery
import os
import sys
import warnings
from typing import Optional, Tuple

from . import catalog, host, load, places, torch_side
from .plan import Plan, make_plan
from .record import Record

EXTENSION = "torch_fl._C"
DEVICE = "flagos"
STAND_IN = "torch_fl_autoload"
"""The module that `import torch` calls; a class of it stands for torch.flagos until the first use."""


class Failure(Record):
    """Facts of a load that did not succeed.

    stage      "interpreter" (not the main one), "torch" (not installed, or one that cannot be used), "extension" (no
               _C for this interpreter), "device" (PrivateUse1 has another owner) or "import" (the loader refused)
    text       what the loader or Python said, verbatim; empty when nothing was tried
    name       the module that was asked for
    path       the file at fault as Python names it, None when there is none
    plan       what the preload meant to open, None when it did not come that far
    opened     what had been opened by then
    refused    what the preload itself could not open
    """

    stage: str
    text: str
    name: str
    path: Optional[str]
    package_directory: str
    plan: Optional[Plan] = None
    opened: Tuple[load.Opened, ...] = ()
    refused: Optional[load.OpenError] = None


class LoadFailed(Exception):
    """Carries a Failure to whoever words it. `__cause__` is the original ImportError, if there was one."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.text)
        self.failure = failure


class Preloaded(Record):
    """The outcome of `preload`: the plan, what is open (the handles live as long as this record) and what refused."""

    plan: Plan
    opened: Tuple[load.Opened, ...]
    refused: Optional[load.OpenError]


def package_directory() -> str:
    """The directory of the torch_fl package that this module belongs to."""
    return os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def wanted() -> bool:
    """False where importing torch_fl must load nothing: FLAGOS_LOAD=0, or a torch_fl tool run with -m.

    Raises ValueError, naming the variable and the value, for anything but 0, 1 and unset.
    """
    if _run_as_tool():  # before anything that may raise: the check-up has to run whatever is wrong
        return False
    value = host.settings().get(catalog.LOAD_VARIABLE, "1")
    if value not in ("0", "1"):
        raise ValueError(f"{catalog.LOAD_VARIABLE}={value!r} is not one of 0 (load nothing) and 1 (load, the default)")
    return value == "1"


def _run_as_tool() -> bool:
    """`python -m torch_fl.diagnose` imports torch_fl first; sys.argv[0] is "-m" only while it does (runpy)."""
    if sys.argv[:1] != ["-m"]:
        return False
    arguments = host.command_line()
    for option, value in zip(arguments, [*arguments[1:], ""]):
        if option.startswith("-") and not option.startswith("--"):
            module = value if option.endswith("m") else option.partition("m")[2]
            if module.split(".")[:2] in (["torch_fl", "diagnose"], ["torch_fl", "_codegen"]):
                return True
    return False


def sources(directory: Optional[str] = None) -> places.Sources:
    """The facts of this process that a plan depends on."""
    here = host.current()
    record = places.read_record(os.path.join(directory or package_directory(), "_build_config.py"))
    return places.Sources(
        settings=host.settings(),
        library_path=places.library_path(here),
        search_path=tuple(sys.path),
        prefix=sys.prefix,
        record=record,
        secure=here.secure,
        mapped=places.mapped_vendor_libraries(here),
    )


def plan_now(directory: Optional[str] = None) -> Plan:
    """The plan that `preload` would carry out in this process, now."""
    return make_plan(sources(directory))


def preload() -> Preloaded:
    """Open the vendor libraries in order. An incomplete plan opens nothing: the loader's own word comes first.

    Raises LoadFailed when this is a sub-interpreter, when torch or the extension is not there at all, or when torch
    is one that _C must not be loaded beside (see `_unusable`).
    """
    directory = package_directory()
    if not load.in_main_interpreter():
        raise LoadFailed(Failure("interpreter", "", EXTENSION, None, directory))
    torch = torch_side.directory()
    if torch is None:
        raise LoadFailed(Failure("torch", "No module named 'torch'", "torch", None, directory))
    if extension_file(directory) is None:
        raise LoadFailed(Failure("extension", f"No module named '{EXTENSION}'", EXTENSION, None, directory))
    facts = sources(directory)
    unusable = _unusable(torch, facts)
    if unusable is not None:
        text, path = unusable
        raise LoadFailed(Failure("torch", text, "torch", path, directory))
    decided = make_plan(facts)
    for variable, named in places.misnamed(facts):
        warnings.warn(f"{variable} names {named}, which is not a directory", RuntimeWarning, stacklevel=3)
    for path in decided.writable_by_others:
        warnings.warn(
            f"torch_fl loads vendor libraries from {path}, which another user can write", RuntimeWarning, stacklevel=3
        )
    if not decided.complete:
        return Preloaded(decided, (), None)
    return carry_out(decided)


def _unusable(torch: str, facts: places.Sources) -> Optional[Tuple[str, Optional[str]]]:
    """Why the torch in a directory must not meet _C, and the file that shows it; None when it may.

    Of another minor line, or with another std::string, than _C was compiled for: its C++ interface differs, and a
    load that succeeds would crash later. A CUDA build that would share a SONAME with the vendor's runtime.
    """
    version = torch_side.version(torch)
    built_for = str(facts.record.get("TORCH_VERSION", version))
    if not torch_side.same_line(version, built_for):
        return f"torch {version} is installed, and {EXTENSION} was built for torch {built_for}", None
    old = torch_side.old_abi_library(torch)
    if old is not None:
        return f"{old} was built with _GLIBCXX_USE_CXX11_ABI=0, and {EXTENSION} with 1", old
    rival = torch_side.cuda_library(torch)
    if rival is not None:
        return f"{rival} needs {catalog.CUDA_RUNTIME.soname}, which the vendor's stack has under the same SONAME", rival
    return None


def carry_out(decided: Plan) -> Preloaded:
    """Open the libraries of a plan. Where the loader refuses one, hidden needs are computed, and it is tried again."""
    opened, refused = load.open_in_order(decided.steps, needs_first=True)
    for entry in opened:
        if not entry.answers:
            warnings.warn(
                f"torch_fl opened {entry.path} for {entry.soname}, and it does not answer to that name: "
                "whoever needs it gets another copy or none",
                RuntimeWarning,
                stacklevel=3,
            )
    if refused is None:
        return Preloaded(decided, opened, None)
    from . import resolve, symbol_edges  # tables are read only where the loader has already said no

    extended = symbol_edges.with_symbol_edges(decided, resolve.fresh(host.current().replace(mapped=())))
    if not extended.edges:
        return Preloaded(decided, opened, refused)
    again, refused = load.open_in_order(extended.steps)
    return Preloaded(extended, (*opened, *again), refused)


def check_owner() -> None:
    """Raises LoadFailed when another backend has PyTorch's PrivateUse1 device; torch is imported by now."""
    owner = torch_side.other_owner(DEVICE, STAND_IN)
    if owner is not None:
        text = f"the backend {owner} has PyTorch's PrivateUse1 device"
        path = torch_side.module_file(owner) or None
        raise LoadFailed(Failure("device", text, owner, path, package_directory()))


def import_failure(error: ImportError, preloaded: Preloaded) -> LoadFailed:
    """The loader, or the extension's own start, refused: its text and what led to it."""
    return LoadFailed(
        Failure(
            "import",
            str(error),
            error.name or EXTENSION,
            error.path,
            package_directory(),
            preloaded.plan,
            preloaded.opened,
            preloaded.refused,
        )
    )


def extension_file(directory: str) -> Optional[str]:
    """The file that this interpreter would import as torch_fl._C, or None."""
    for suffix in importlib.machinery.EXTENSION_SUFFIXES:
        path = os.path.join(directory, "_C" + suffix)
        if os.path.isfile(path):
            return path
    return None

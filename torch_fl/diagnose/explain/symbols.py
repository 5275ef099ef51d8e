"""Every file is found, and a symbol is not, or there are two copies of it."""

from __future__ import annotations

import os
from typing import List, Optional, Sequence, Tuple

from torch_fl._preload import catalog, facts
from torch_fl.diagnose.cure import Change
from torch_fl.diagnose.demangled import demangled
from torch_fl.diagnose.explain import words
from torch_fl.diagnose.finding import Evidence, Fact, Finding, Fix, Page, Severity, register
from torch_fl.diagnose.hunt import Copy

_SCOPE_SOURCE = "glibc elf/dl-lookup.c, _dl_lookup_symbol_x; manual page dlopen(3), RTLD_GLOBAL"
_PRIVATE = "GLIBC_PRIVATE"
_MOST_SYMBOLS = 8
"""Symbols that are listed; the rest is counted."""


def _listed(symbols: Sequence[facts.Undefined]) -> Tuple[Evidence, ...]:
    """The symbols with what was seen of them, and what the mangled ones are called in C++."""
    shown = symbols[:_MOST_SYMBOLS]
    rows = [Fact(_symbol(item), _why_not_served(item)) for item in shown]
    if len(symbols) > _MOST_SYMBOLS:
        rows.append(Fact("further", f"{len(symbols) - _MOST_SYMBOLS} undefined symbols"))
    names = [(item.symbol, demangled(item.symbol)) for item in shown]
    called = tuple(Fact(symbol, name) for symbol, name in names if name is not None)
    return (Evidence("undefined", tuple(rows)), *((Evidence("in C++", called),) if called else ()))


def _symbol(item: facts.Undefined) -> str:
    return f"{item.symbol}@{item.version}" if item.version else item.symbol


def _why_not_served(item: facts.Undefined) -> str:
    """What was seen of the definitions, without a conclusion."""
    if not item.providers:
        return "defined by no object in scope"
    reasons = {
        "local-scope": "loaded RTLD_LOCAL, which serves only the objects it was loaded with",
        "not-loaded": "not loaded",
        "hidden": "hidden in it",
        "other-version": "in another version",
    }
    return "; ".join(f"defined by {p.path}: {reasons.get(p.why, p.why)}" for p in item.providers[:2])


def _needs(path: str, needed: Sequence[str]) -> Evidence:
    listed = ", ".join(needed) if needed else "empty"
    return Evidence("declared", (Fact(f"DT_NEEDED of {os.path.basename(path)}", listed),))


register(
    Page(
        "symbol-order",
        "the library that defines a symbol is not loaded, or not visible, when it is needed",
        "A library uses a symbol without naming, in its DT_NEEDED list, any library that defines it. Whether it loads "
        "then depends on what the process has loaded before, and with which visibility. libxpu_blas.so uses "
        "cudaGetDriverEntryPoint in this way: it loads only after the vendor's CUDA-compat runtime.",
        "A symbol is looked up in the global scope (the program, its libraries, and what was opened RTLD_GLOBAL) and "
        "then in the library that dlopen() was called for with its dependencies. A library that was opened "
        "RTLD_LOCAL by someone else is in neither.",
        _SCOPE_SOURCE,
        "Load the library that defines the symbol first, with RTLD_GLOBAL. `import torch_fl` does that for the "
        "vendor's libraries; for a program of your own, LD_PRELOAD with the path that the finding shows does it.",
    )
)


def symbol_order(
    problem: facts.UndefinedSymbols,
    chain: Sequence[str],
    needed: Sequence[str],
    scope: Sequence[Fact],
    preload: Optional[Change],
    label: str = words.WOULD_SAY,
) -> Finding:
    """Symbols that a library at hand defines, and that its user does not reach.

    chain     from the opened object to the one with the undefined symbols
    needed    DT_NEEDED of that one
    scope     the scopes that were looked through, in order
    preload   the change of LD_PRELOAD with which the load succeeds in the model; None when there is none
    """
    first = problem.symbols[0]
    user = os.path.basename(problem.requester)
    own = {need.symbol: need for need in catalog.HIDDEN_NEEDS if need.library == user}
    cause = (
        own[first.symbol].why
        if first.symbol in own
        else f"{user} does not name a library that defines {first.symbol} in DT_NEEDED, so only what is already "
        "loaded with RTLD_GLOBAL can satisfy the reference"
    )
    fix = Fix("load the library that defines the symbol first, with RTLD_GLOBAL")
    if preload is not None:
        fix = Fix(
            "load the library that defines the symbol first, with `import torch_fl` or through LD_PRELOAD"
            if first.symbol in own
            else "load the library that defines the symbol first",
            (words.export(preload.variable, preload.directories, preload.keep),),
        )
    return Finding(
        "symbol-order",
        Severity.ERROR,
        problem.requester,
        f"{user} needs {words.names([_symbol(s) for s in problem.symbols])} "
        "from a library that is not loaded with global visibility",
        (
            words.requested_by(problem.requester, chain),
            *_listed(problem.symbols),
            _needs(problem.requester, needed),
            Evidence("loader searched", tuple(scope)),
            *words.quoted(problem.error, label),
        ),
        cause,
        fix,
    )


register(
    Page(
        "undefined-symbol",
        "nothing defines a symbol that a library needs",
        "Every library was found, and none of them defines a symbol that one of them needs. The library that should "
        "define it is of another version, or was built with other options, or is not named at all.",
        "With RTLD_NOW, as Python opens extensions, every undefined symbol that is not weak must be found before "
        "dlopen() returns.",
        _SCOPE_SOURCE,
        "Install versions that were built for each other. For a symbol that names c10, at or torch, that is the build "
        "of the extension for the installed torch; for the vendor's libraries, one whole set of them.",
    )
)


def undefined_symbol(
    problem: facts.UndefinedSymbols,
    chain: Sequence[str],
    needed: Sequence[str],
    scope: Sequence[Fact],
    label: str = words.WOULD_SAY,
    taken: Sequence[Fact] = (),
    copies: Sequence[Copy] = (),
    change: Optional[Change] = None,
) -> Finding:
    """Symbols that no object in scope defines. Further arguments as in symbol_order.

    taken    the libraries that were found for DT_NEEDED, each with how
    copies   files of the same names that define the symbols, and were not taken
    change   what lets one of them come first, so that the model loads everything; None when nothing does
    """
    first = problem.symbols[0]
    user = os.path.basename(problem.requester)
    cause, cure = _why_undefined(first, user, needed), _cure_undefined(first, user)
    if copies:
        name = os.path.basename(copies[0].taken)
        cause = (
            f"{copies[0].taken} is found first and lacks what {copies[0].path} defines: two builds of {name} are mixed"
        )
        cure = f"remove the {name} that lacks the symbol, or install {user} and {name} of one release"
    if change is not None:
        cure = f"let {change.directories[0]} come first, before Python starts"
    return Finding(
        "undefined-symbol",
        Severity.ERROR,
        problem.requester,
        f"{user} needs {words.names([_symbol(s) for s in problem.symbols])}, which nothing in its scope defines",
        (
            words.requested_by(problem.requester, chain),
            *_listed(problem.symbols),
            _needs(problem.requester, needed),
            *((Evidence("found for DT_NEEDED", tuple(taken)),) if taken else ()),
            *((_defined_in(copies),) if copies else ()),
            Evidence("loader searched", tuple(scope)),
            *words.quoted(problem.error, label),
        ),
        cause,
        Fix(cure, (words.export(change.variable, change.directories, change.keep),) if change is not None else ()),
    )


def _defined_in(copies: Sequence[Copy]) -> Evidence:
    rows = (Fact(copy.path, f"defines what is lacking; not taken, {copy.taken} was") for copy in copies)
    return Evidence("other copies", tuple(rows))


def _is_torch(symbol: str) -> bool:
    return any(part in symbol for part in ("3c10", "2at", "5torch", "THPVariable"))


def _is_python(symbol: str) -> bool:
    return symbol.startswith(("Py", "_Py"))


def _why_undefined(item: facts.Undefined, user: str, needed: Sequence[str]) -> str:
    symbol = item.symbol
    if item.version == _PRIVATE:
        return (
            f"{user} belongs to another build of the C library than the one that runs: symbols of version {_PRIVATE} "
            "are for the libraries of one and the same glibc"
        )
    if _is_torch(symbol):
        return f"{user} was built against another version of torch than the one that is loaded"
    if _is_python(symbol):
        return f"{user} was built for another version of Python than the one that runs"
    if catalog.library(user) is not None or any(catalog.library(name) for name in needed):
        return f"{user} and the vendor libraries beside it come from different builds"
    return (
        f"a library that {user} needs is of another version than the one it was built with, or was never named in "
        f"DT_NEEDED; a search of the vendor's libraries for {symbol} decides between the two"
    )


def _cure_undefined(item: facts.Undefined, user: str) -> str:
    symbol = item.symbol
    if item.version == _PRIVATE:
        return f"keep the directory of {user} out of LD_LIBRARY_PATH, run paths and plugin variables of this program"
    if _is_torch(symbol):
        return f"install the build of the package that ships {user} for the installed version of torch"
    if _is_python(symbol):
        return f"install the build of the package that ships {user} for this version of Python"
    return f"reinstall {user} and the libraries that it needs as one set"


register(
    Page(
        "duplicate-library",
        "two copies of one library would be loaded",
        "Two files that are the same library end up in one process. Each keeps its own state: two copies of the XPU "
        "runtime are two views of the device, and a pointer of one is unknown to the other.",
        "Loaded objects are told apart by device and inode, and by the names they answer to. A copy under another "
        "name, or asked for by another path, is a second library.",
        "glibc elf/dl-load.c, _dl_map_object_from_fd",
        "Let every user find the same copy: put one directory first on LD_LIBRARY_PATH, or make the other a "
        "symbolic link to it.",
    )
)


def duplicate_library(soname: str, copies: Sequence[Tuple[str, Tuple[str, ...]]]) -> Finding:
    """`copies`: each file with the objects that brought it in."""
    rows: List[Fact] = []
    for path, users in copies:
        rows.append(Fact(path, "needed by " + ", ".join(users) if users else "opened by torch_fl"))
    record: Optional[catalog.Library] = catalog.library(soname)
    about = f"{record.about} keeps state" if record else "each copy keeps its own state"
    return Finding(
        "duplicate-library",
        Severity.ERROR,
        soname,
        f"{soname} would be loaded {len(copies)} times, from {len(copies)} files",
        (Evidence("copies", tuple(rows)),),
        f"the objects that need it find different files; {about}, and two copies do not share it",
        Fix(
            f"let every object find one copy of {soname}: put its directory first on LD_LIBRARY_PATH before Python "
            "starts, and unset the variables that name the other"
        ),
    )

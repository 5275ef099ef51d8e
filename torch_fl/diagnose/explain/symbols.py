"""Versions and symbols: every file is found, and the parts do not fit together."""

from __future__ import annotations

import os
from typing import Dict, List, Optional, Sequence, Tuple

from torch_fl._preload import catalog, facts
from torch_fl.diagnose.cure import Change
from torch_fl.diagnose.explain import words
from torch_fl.diagnose.finding import Evidence, Fact, Finding, Fix, Page, Severity, register

_SCOPE_SOURCE = "glibc elf/dl-lookup.c, _dl_lookup_symbol_x; manual page dlopen(3), RTLD_GLOBAL"
_MOST_SYMBOLS = 8
"""Symbols that are listed; the rest is counted."""


def _listed(symbols: Sequence[facts.Undefined]) -> Evidence:
    rows = [Fact(_symbol(item), _why_not_served(item)) for item in symbols[:_MOST_SYMBOLS]]
    if len(symbols) > _MOST_SYMBOLS:
        rows.append(Fact("further", f"{len(symbols) - _MOST_SYMBOLS} undefined symbols"))
    return Evidence("undefined", tuple(rows))


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
            _listed(problem.symbols),
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
) -> Finding:
    """Symbols that no object at hand defines. Arguments as in symbol_order."""
    first = problem.symbols[0].symbol
    user = os.path.basename(problem.requester)
    return Finding(
        "undefined-symbol",
        Severity.ERROR,
        problem.requester,
        f"{user} needs {words.names([_symbol(s) for s in problem.symbols])}, which nothing in its scope defines",
        (
            words.requested_by(problem.requester, chain),
            _listed(problem.symbols),
            _needs(problem.requester, needed),
            Evidence("loader searched", tuple(scope)),
            *words.quoted(problem.error, label),
        ),
        _why_undefined(first, user, needed),
        Fix(_cure_undefined(first, user)),
    )


def _is_torch(symbol: str) -> bool:
    return any(part in symbol for part in ("3c10", "2at", "5torch", "THPVariable"))


def _is_python(symbol: str) -> bool:
    return symbol.startswith(("Py", "_Py"))


def _why_undefined(symbol: str, user: str, needed: Sequence[str]) -> str:
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


def _cure_undefined(symbol: str, user: str) -> str:
    if _is_torch(symbol):
        return f"install the build of the package that ships {user} for the installed version of torch"
    if _is_python(symbol):
        return f"install the build of the package that ships {user} for this version of Python"
    return f"reinstall {user} and the libraries that it needs as one set"


register(
    Page(
        "version-not-found",
        "a library is older than the one that was linked against",
        "A library asks for a version of an interface that the file found under that name does not have. The usual "
        "victims are libstdc++.so.6 (GLIBCXX_...) and libc.so.6 (GLIBC_...).",
        "Before relocating anything, the loader compares the version names that each object requires of each "
        "dependency with those that the dependency defines.",
        "glibc elf/dl-version.c, _dl_check_map_versions and match_symbol",
        "Use a newer copy of the library that the finding names, or a build of the user made on an older system. "
        "When a newer copy is further along the search, move its directory to the front.",
    )
)


def version_not_found(
    provider: str,
    problems: Sequence[facts.VersionNotFound],
    how: str,
    defined: Sequence[str],
    label: str = words.WOULD_SAY,
) -> Finding:
    """All versions that one provider lacks.

    how       in words, why the loader took this provider
    defined   version names that it defines, in its order
    """
    versions = list(dict.fromkeys(problem.version for problem in problems))
    same_kind = [name for name in defined if name.partition("_")[0] == versions[0].partition("_")[0]]
    newest = same_kind[-1] if same_kind else (defined[-1] if defined else "none")
    system = os.path.basename(provider) in ("libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2")
    return Finding(
        "version-not-found",
        Severity.ERROR,
        provider,
        f"{provider} does not have {words.names(versions)}",
        (
            Evidence("needed by", tuple(Fact(p.requester, f"needs {p.version}") for p in problems)),
            Evidence("found", (Fact(provider, how), Fact("newest version of that kind in it", newest))),
            *words.quoted(problems[0].error, label),
        ),
        "the object that asks was built on a system with a newer C library than this one"
        if system
        else f"the object that asks was built with a newer {os.path.basename(provider)} than the one found first",
        Fix(
            f"install a build of {os.path.basename(problems[0].requester)} made for this system"
            if system
            else f"install a newer {os.path.basename(provider)}, or put the directory of a newer one first on "
            "LD_LIBRARY_PATH before Python starts"
        ),
    )


register(
    Page(
        "orphan-version",
        "a version is required of a library that is no longer needed",
        "An object has a version requirement for a file that is not in its DT_NEEDED list. Tools that remove a "
        "DT_NEEDED entry and leave its version requirement behind produce this. The loader does not report an error "
        "that could be caught: it prints `Inconsistency detected by ld.so` and ends the process.",
        "Each entry of the version requirements must belong to a loaded dependency.",
        "glibc elf/dl-version.c, _dl_check_map_versions (assertion needed != NULL)",
        "Reinstall the package that ships the object; do not use patchelf's --remove-needed on it.",
    )
)


def orphan_version(problem: facts.OrphanVersion, label: str = words.WOULD_SAY) -> Finding:
    """The damage that some versions of patchelf do."""
    return Finding(
        "orphan-version",
        Severity.ERROR,
        problem.requester,
        f"{problem.requester} requires versions of {problem.file}, which it does not need",
        (
            Evidence(
                "declared",
                (
                    Fact("version requirements", f"name {problem.file}"),
                    Fact("DT_NEEDED", f"does not name {problem.file}"),
                ),
            ),
            *words.outcome_of(problem.error, problem.crash, label),
        ),
        "a tool removed the DT_NEEDED entry and left the version requirement behind",
        Fix(f"replace {problem.requester} by reinstalling the package that ships it"),
    )


register(
    Page(
        "unversioned-provider",
        "a library without versions stands where versions are required",
        "An object requires a version of a library, and the file found under that name has no version table. Up to "
        "glibc 2.40 the loader ends the process at the first such symbol.",
        "A reference to a version is checked against the version table of the file it was linked with; a file of "
        "that name without a table violates an assertion.",
        "glibc before 2.41, elf/dl-lookup.c, check_match",
        "Use the library that the object was linked with; a build without version script has taken its place.",
    )
)


def unversioned_provider(problem: facts.UnversionedProvider, label: str = words.WOULD_SAY) -> Finding:
    """Ends the process on glibc up to 2.40."""
    return Finding(
        "unversioned-provider",
        Severity.ERROR,
        problem.provider,
        f"{problem.provider} has no symbol versions, and {problem.version} is required of it",
        (
            Evidence("needed by", (Fact(problem.requester, f"needs {problem.symbol}@{problem.version}"),)),
            Evidence("found", (Fact(problem.provider, "has no version table"),)),
            *words.outcome_of(problem.error, problem.crash, label),
        ),
        f"a build of {os.path.basename(problem.provider)} without versions has taken the place of the one that was "
        "linked against",
        Fix(f"replace {problem.provider} by the build that {os.path.basename(problem.requester)} was linked with"),
    )


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


def by_provider(problems: Sequence[facts.Problem]) -> Dict[str, List[facts.VersionNotFound]]:
    """The missing versions, grouped by the library that lacks them: one cause each."""
    grouped: Dict[str, List[facts.VersionNotFound]] = {}
    for problem in problems:
        if isinstance(problem, facts.VersionNotFound):
            grouped.setdefault(problem.provider, []).append(problem)
    return grouped

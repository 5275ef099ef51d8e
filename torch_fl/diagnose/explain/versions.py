"""Symbol versions: a library is not the one that was linked against."""

from __future__ import annotations

import os
from typing import Dict, List, Sequence

from torch_fl._preload import facts
from torch_fl.diagnose.explain import words
from torch_fl.diagnose.finding import Evidence, Fact, Finding, Fix, Page, Severity, register

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


def by_provider(problems: Sequence[facts.Problem]) -> Dict[str, List[facts.VersionNotFound]]:
    """The missing versions, grouped by the library that lacks them: one cause each."""
    grouped: Dict[str, List[facts.VersionNotFound]] = {}
    for problem in problems:
        if isinstance(problem, facts.VersionNotFound):
            grouped.setdefault(problem.provider, []).append(problem)
    return grouped

"""A package is imported from another place than the one that was built for this interpreter."""

from __future__ import annotations

from typing import Sequence

from torch_fl.diagnose.finding import Evidence, Fact, Finding, Fix, Page, Severity, register

PYTHONPATH, WORKING_DIRECTORY, USER_SITE = "PYTHONPATH", "the working directory", "the user's own site-packages"
"""How the place that comes first came to be on sys.path."""

register(
    Page(
        "shadowed-package",
        "another copy of a package hides the one that has the extension module",
        "Two copies of a package are on sys.path. The first one has no extension module for this interpreter, and the "
        "second one is complete. Python takes the first and says `No module named ...`, or calls it a circular import "
        "where the package imports the extension itself.",
        "A package is taken from the first entry of sys.path that holds it. The directory of the script, or the "
        "working directory, comes first, then PYTHONPATH, then what is installed: for oneself, then for everybody.",
        "Python, sys.path and importlib.machinery.PathFinder",
        "Start Python in another directory, or take the entry that comes first off sys.path: out of PYTHONPATH, or "
        "with PYTHONNOUSERSITE=1 where it is the user's own site-packages.",
    )
)


def shadowed_package(
    module: str, directory: str, present: Sequence[str], behind: str, later: str, first: str, origin: str
) -> Finding:
    """`import module` finds the package in `directory`, which has no such extension.

    present   files of the extension for other interpreters in it
    behind    the extension for this one, in the copy that is not reached
    later     the entry of sys.path with that copy
    first     the entry of sys.path with `directory`
    origin    how that one came to be there: one of the above, or ""
    """
    package, _, stem = module.rpartition(".")
    rows = [Fact(directory, f"comes first on sys.path and has no {stem} for this interpreter")]
    rows += [Fact(path, "of another interpreter") for path in present]
    rows += [Fact(behind, "for this interpreter, and not reached")]
    hows = {PYTHONPATH: ", which PYTHONPATH names,", "": ""}
    cures = {
        PYTHONPATH: f"take {first} out of PYTHONPATH",
        WORKING_DIRECTORY: "start Python in another directory",
        USER_SITE: "start Python with -s, or with PYTHONNOUSERSITE=1",
        "": f"remove the package from {first}, or let {later} come first on sys.path",
    }
    return Finding(
        "shadowed-package",
        Severity.ERROR,
        module,
        f"{package} is imported from {directory}, which has no {stem} and hides the copy that has one",
        (Evidence("Python searched", tuple(rows)), Evidence("Python said", (Fact("", f"No module named '{module}'"),))),
        f"{first}{hows.get(origin, f', {origin},')} comes before {later} on sys.path",
        Fix(cures[origin]),
    )

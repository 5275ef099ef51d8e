"""Copies of the planned libraries that are on this machine and were not chosen, and what the loader would have chosen.

Not on the way to an import: the plan stops at the first copy that serves. This is for whoever asks why it was that one.
"""

import os
from typing import List, Mapping, Optional, Set, Tuple

from .places import Sources
from .plan import Copy, Plan, Rivals, places_of


def with_rivals(decided: Plan, sources: Sources, loader: Mapping[str, Optional[str]]) -> Plan:
    """`decided` with a record for every step that has other copies, or that the loader would have found elsewhere.

    loader   SONAME -> the path that the loader by itself would take for it, None where it would find none; a name
             that is not there was never asked for
    """
    found: List[Rivals] = []
    for step in decided.steps:
        known = {_identity(step.path)}
        others: List[Copy] = []
        for label, directory in places_of(sources, decided.package, decided.compat, step.soname, step.needed_by):
            path = os.path.join(os.path.abspath(directory), step.soname) if directory else ""
            if path and os.path.isfile(path) and _is_new(path, known):
                others.append(Copy(label, path))
        taken = loader.get(step.soname)
        elsewhere = taken is not None and _identity(taken) != _identity(step.path)
        if others or elsewhere:
            found.append(Rivals(step.soname, step.path, step.why, tuple(others), taken))
    return decided._replace(rivals=tuple(found))


def _is_new(path: str, known: Set[Tuple[int, int]]) -> bool:
    """Whether this file has not been seen under another name; a link to the chosen copy is no rival of it."""
    identity = _identity(path)
    if identity in known:
        return False
    known.add(identity)
    return True


def _identity(path: str) -> Tuple[int, int]:
    try:
        status = os.stat(path)
    except OSError:
        return 0, 0
    return status.st_dev, status.st_ino

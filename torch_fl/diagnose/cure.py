"""Changes that might help, and which of them the model shows to help. Nothing is advised that was not tried."""

import itertools
import os
from typing import Callable, Dict, Iterable, List, Mapping, NamedTuple, Optional, Sequence, Set, Tuple

from torch_fl.diagnose.hunt import Candidate


class Change(NamedTuple):
    """One variable that is set before Python starts. `keep`: what it held before stays, behind the directories."""

    variable: str
    directories: Tuple[str, ...]
    keep: bool


class Cure(NamedTuple):
    """A set of changes with what the model says of them.

    works       they cure
    remaining   the next error; of a cure that works, what the directories alone would have led to
    """

    changes: Tuple[Change, ...]
    works: bool
    remaining: str = ""

    @property
    def directories(self) -> Tuple[str, ...]:
        """Every directory that the changes name."""
        return tuple(directory for change in self.changes for directory in change.directories)


def directory_sets(
    names: Sequence[str], candidates: Sequence[Candidate], partial: bool = False, most: int = 12
) -> List[Tuple[str, ...]]:
    """Sets of directories in which usable candidates for all of `names` are, smallest sets first.

    partial   single directories count even if they do not hold all: what finds more by itself may need no more
    """
    holders: Dict[str, Dict[str, None]] = {}
    for candidate in candidates:
        if candidate.usable and candidate.name in names:
            holders.setdefault(os.path.dirname(candidate.path), {})[candidate.name] = None
    ranked = sorted(holders, key=lambda directory: names[0] not in holders[directory])
    directories = ranked[:8]
    covered = {name for held in holders.values() for name in held}
    sets: List[Tuple[str, ...]] = []
    for size in range(1, min(len(directories), 4) + 1):
        for chosen in itertools.combinations(directories, size):
            if _held(chosen, holders) == covered or (partial and size == 1):
                sets.append(chosen)
                if len(sets) == most:
                    return sets
    if not any(covered <= _held(chosen, holders) for chosen in sets):
        sets.append(_cover(ranked, holders))  # one wheel for each library: more directories than can be combined
    return [chosen for chosen in sets if chosen]


def _held(chosen: Iterable[str], holders: Mapping[str, Iterable[str]]) -> Set[str]:
    return {name for directory in chosen for name in holders[directory]}


def _cover(ranked: Sequence[str], holders: Mapping[str, Iterable[str]]) -> Tuple[str, ...]:
    """Directories in their order, each for a name that those before it do not hold."""
    chosen: List[str] = []
    for directory in ranked:
        if not set(holders[directory]) <= _held(chosen, holders):
            chosen.append(directory)
    return tuple(chosen)


class Imported(NamedTuple):
    """A package that brings its libraries in when it is imported.

    directory   where they are
    remaining   what the loader would say of the file after that; "" when it loads
    """

    package: str
    directory: str
    remaining: str


class Tried(NamedTuple):
    """What the model says after some changes: the next error ("" when all loads) and the names still missing."""

    error: str
    missing: Tuple[str, ...] = ()


Attempt = Callable[[Tuple[Change, ...]], Tried]
"""Tries changes in the model."""


def prove(options: Iterable[Tuple[Change, ...]], attempt: Attempt, names: Sequence[str] = ()) -> Optional[Cure]:
    """The first option that cures; else the first option with what the model still says; None without options.

    names   when given, an option cures if none of these names is missing any more; else if everything loads
    """
    first: Optional[Cure] = None
    for changes in options:
        tried = attempt(changes)
        cured = not set(names).intersection(tried.missing) if names else not tried.error
        if cured:
            return Cure(changes, True, first.remaining if first and len(changes) > len(first.changes) else "")
        first = first or Cure(changes, False, tried.error)
    return first


def with_changes(environment: Dict[str, str], changes: Sequence[Change]) -> Dict[str, str]:
    """The environment in which the commands of `changes` would start a program."""
    changed = dict(environment)
    for change in changes:
        before = changed.get(change.variable, "") if change.keep else ""
        changed[change.variable] = ":".join([*change.directories, *([before] if before else [])])
    return changed

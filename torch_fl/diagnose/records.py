"""What the installer wrote down: a file that a package's RECORD lists and that is not there was lost after it."""

from __future__ import annotations

import csv
import glob
import os
from typing import Iterable, Iterator, List, NamedTuple, Sequence

_LEVELS = 8
"""Directories between an extension module and the site-packages it is installed in, at most."""


class Listed(NamedTuple):
    """One lost file. `record`: the RECORD that lists it."""

    name: str
    path: str
    record: str

    @property
    def package(self) -> str:
        """`numpy 1.19.0`, as the directory of the record has it."""
        return os.path.basename(os.path.dirname(self.record))[: -len(".dist-info")].replace("-", " ")


def lost(names: Sequence[str], requesters: Iterable[str]) -> List[Listed]:
    """Files of these names that a RECORD lists, in the directory where one of the requesters is installed."""
    return [
        Listed(os.path.basename(path), path, record)
        for site in dict.fromkeys(map(_site, requesters))
        for record in sorted(glob.iglob(os.path.join(glob.escape(site), "*.dist-info", "RECORD")))
        for path in _entries(site, record)
        if os.path.basename(path) in names and not os.path.lexists(path)
    ]


def _site(requester: str) -> str:
    """The directory above a file that installers write their records in; "/nonexistent" when there is none."""
    directory = os.path.dirname(requester)
    for _ in range(_LEVELS):
        if next(glob.iglob(os.path.join(glob.escape(directory), "*.dist-info")), None) is not None:
            return directory
        directory = os.path.dirname(directory)
    return "/nonexistent"


def _entries(site: str, record: str) -> Iterator[str]:
    """Absolute paths of the files that a RECORD lists; none when it cannot be read."""
    try:
        with open(record, encoding="utf-8", errors="surrogateescape", newline="") as file:
            yield from (os.path.normpath(os.path.join(site, row[0])) for row in csv.reader(file) if row)
    except (OSError, csv.Error):
        return

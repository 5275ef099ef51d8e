"""What `dlopen` would do in a given process: which files it maps, in which order, and what goes wrong first.

Everything here is a pure function of a `Process` (what is loaded, on which host) and of the files on disk. Nothing is
opened for execution. Rules: glibc elf/dl-load.c, dl-deps.c, dl-open.c, dl-version.c, dl-lookup.c.

    process = fresh(host.current())                        # an interpreter that has just started
    outcome = dlopen(process, "/x/libxpurt.so.2", GLOBAL)  # a preload
    outcome = dlopen(outcome.process, "/x/_C.so")          # what happens next
"""

from __future__ import annotations

from typing import NamedTuple, Optional, Tuple

from torch_fl._preload.elf import Elf
from torch_fl._preload.facts import Lookup, Object, Problem
from torch_fl._preload.host import Host

LOCAL = "local"
GLOBAL = "global"

# How deep a prediction goes. Each includes the one before.
DEPENDENCIES = "dependencies"  # the DT_NEEDED closure and its files
VERSIONS = "versions"          # and the version tables
SYMBOLS = "symbols"            # and every undefined symbol, as RTLD_NOW relocation would look it up


class LinkMap(NamedTuple):
    """One loaded object, as glibc's struct link_map has it.

    name       path as the loader opened it (l_name); the executable has its own path here, where glibc has ""
    aliases    names under which it has been asked for (l_libname)
    origin     directory that $ORIGIN stands for in its tags; None when unknown
    loader     index in Process.maps of what first asked for it (l_loader); None for the executable and dlopen roots
    needed     indices of its direct dependencies in DT_NEEDED order
    scope      "global" or "local"
    elf        what the file declares; None when the file cannot be read any more
    """

    name: str
    aliases: Tuple[str, ...]
    soname: Optional[str]
    device: int
    inode: int
    origin: Optional[str]
    elf: Optional[Elf]
    loader: Optional[int]
    needed: Tuple[int, ...]
    scope: str
    how: str


class Process(NamedTuple):
    """A process: its host and what is loaded, in link_map order. `global_scope` are indices in lookup order."""

    host: Host
    maps: Tuple[LinkMap, ...]
    global_scope: Tuple[int, ...]


class Outcome(NamedTuple):
    """What one dlopen would do.

    process   the process afterwards; the one before when the load fails
    objects   the root's breadth-first list, as far as it could be built
    lookups   one record for each name looked up, in order
    missing   every name that no file answers, each once
    error     the text dlerror() would return, or None
    crash     None, "sigbus", "abort" or "exit" when the process would not survive the call
    problems  everything that is wrong, the first thing that the loader trips over first
    depth     how far the prediction went
    """

    process: Process
    objects: Tuple[Object, ...]
    lookups: Tuple[Lookup, ...]
    missing: Tuple[str, ...]
    error: Optional[str]
    crash: Optional[str]
    problems: Tuple[Problem, ...]
    depth: str

    @property
    def loads(self) -> bool:
        """True when the call would return a handle."""
        return self.error is None and self.crash is None


# def fresh(host: Host) -> Process
#     The process right after `host.executable` started: itself, LD_PRELOAD, its DT_NEEDED closure; all global.
# def running(host: Host) -> Process
#     The process as it is now, from host.mapped.
# def dlopen(process: Process, name: str, visible: str = LOCAL, *, depth: str = SYMBOLS, caller: Optional[str] = None)
#         -> Outcome
#     What dlopen(name, RTLD_NOW | visible) would do. `caller` is the path of the object that makes the call; it
#     matters only for a name without a slash (None: the executable). Pure; the process given is not changed.

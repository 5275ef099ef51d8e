"""A process as the loader sees it: what is loaded, under which names, and whose symbols serve whom. Data only."""

from typing import NamedTuple, Optional, Tuple

from .elf import Elf
from .host import Host
from .tokens import Values

LOCAL = "local"
GLOBAL = "global"


class LinkMap(NamedTuple):
    """One loaded object, as glibc's struct link_map has it.

    name       path as the loader opened it (l_name); the executable has its own path here, where glibc has ""
    aliases    names under which it has been asked for (l_libname)
    device inode   of its file; 0 when the loader does not compare them (the executable)
    origin     directory that $ORIGIN stands for in its tags; None when unknown
    loader     index in Process.maps of what first asked for it (l_loader); None for the executable and dlopen roots
    needed     indices of its direct dependencies in the order of its dynamic section
    scope      "global" or "local"
    how        stage of the search that found it
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

    def values(self, host: Host) -> Values:
        """What dynamic string tokens stand for in this object."""
        return Values(self.origin, host.lib_token, host.platform)


class Process(NamedTuple):
    """A process: its host, what is loaded in link_map order, and the global scope as indices in lookup order.

    opened   indices of objects that were opened by dlopen directly and so have a search list of their own
    """

    host: Host
    maps: Tuple[LinkMap, ...]
    global_scope: Tuple[int, ...]
    opened: Tuple[int, ...] = ()

    def find(self, name: str) -> Optional[LinkMap]:
        """The object that answers to `name` (path, alias or SONAME), as `_dl_map_object` would find it, or None."""
        for entry in self.maps:
            if name == entry.name or name in entry.aliases or name == entry.soname:
                return entry
        return None

"""The process that a load happens in: as it is right after its start, or as it is now."""

from __future__ import annotations

import os
import re
from typing import Dict, Iterable, List, Optional, Sequence, Tuple

from . import elf, facts
from .host import Host, Mapped
from .mapping import Mapper, freeze
from .process import GLOBAL, LOCAL, LinkMap, Process

_VDSO = {64: "linux-vdso.so.1", 32: "linux-gate.so.1"}
"""The kernel's own object is in the loader's list under this name, and has no file."""


def fresh(host: Host) -> Process:
    """The process right after `host.executable` has started: itself, LD_PRELOAD, its dependencies, ld.so. All global.

    A program that does not start (a dependency is missing) gives the process as far as it came.
    """
    mapper = Mapper(host)
    _map_program(mapper)
    preloaded = (mapper.map(name, 0, facts.PRELOAD, secure=True) for name in _preload_names(host))
    preloads = dict.fromkeys(index for index in preloaded if index)
    search_list = mapper.map_dependencies(0, tuple(preloads))
    return freeze(mapper, tuple(search_list), (0,))


def running(host: Host, opened_global: Iterable[str] = ()) -> Process:
    """The process as it is now, from `host.mapped`.

    What came in at start is global. Whether a later object was opened RTLD_GLOBAL cannot be seen from outside;
    `opened_global` names paths that were, and their dependencies follow them.
    """
    started = fresh(host)
    files = {(entry.device, entry.inode) for entry in host.mapped}
    kept = [
        index for index, entry in enumerate(started.maps) if not entry.inode or (entry.device, entry.inode) in files
    ]
    renumbered = {old: new for new, old in enumerate(kept)}
    maps = [
        started.maps[old]._replace(
            loader=renumbered.get(started.maps[old].loader or 0) if started.maps[old].loader is not None else None,
            needed=tuple(renumbered[index] for index in started.maps[old].needed if index in renumbered),
        )
        for old in kept
    ]
    known = {(entry.device, entry.inode) if entry.inode else _inode(entry.name, host) for entry in maps}
    for mapped in host.mapped:
        if (mapped.device, mapped.inode) not in known and mapped.executable:
            found = _as_link_map(mapped, host)
            if found is not None:
                maps.append(found)
    maps = _with_needs(maps)
    scope = [renumbered[index] for index in started.global_scope if index in renumbered]
    wanted = set(opened_global)
    for index, entry in enumerate(maps):
        if entry.name in wanted:
            scope += [member for member in closure(maps, index) if member not in scope]
    mapper = Mapper(host, tuple(maps))
    return freeze(mapper, tuple(scope), (0,))


def closure(maps: Sequence[LinkMap], root: int) -> List[int]:
    """The objects that one object needs, itself first, breadth first."""
    found = [root]
    for index in found:
        found += [entry for entry in maps[index].needed if entry not in found]
    return found


def _map_program(mapper: Mapper) -> None:
    """What the kernel maps: the executable, the vDSO and ld.so. Only ld.so is known by its inode."""
    host = mapper.host
    program = _readable(host.executable, host)
    origin = os.path.dirname(host.executable)
    mapper.maps.append(LinkMap(host.executable, (), None, 0, 0, origin, program, None, (), GLOBAL, facts.START))
    mapper.enter(0)
    vdso = _VDSO.get(host.bits, "")
    mapper.maps.append(LinkMap(vdso, (vdso,), vdso, 0, 0, None, None, None, (), LOCAL, facts.START))
    mapper.enter(1)
    if host.interpreter is not None:
        loader = _readable(host.interpreter, host)
        soname = loader.soname if loader is not None else None
        aliases = (host.interpreter,) if soname is None else (host.interpreter, soname)
        device, inode = (loader.device, loader.inode) if loader is not None else (0, 0)
        mapper.maps.append(
            LinkMap(host.interpreter, aliases, soname, device, inode, None, loader, None, (), GLOBAL, facts.START)
        )
        mapper.enter(2)


def _readable(path: str, host: Host) -> Optional[elf.Elf]:
    try:
        return elf.read(host.real(path))
    except (OSError, elf.ElfError):
        return None


def _inode(path: str, host: Host) -> Tuple[int, int]:
    try:
        status = os.stat(host.real(path))
    except OSError:
        return (0, 0)
    return status.st_dev, status.st_ino


def _preload_names(host: Host) -> Tuple[str, ...]:
    """LD_PRELOAD (separated by blanks and colons), then /etc/ld.so.preload (elf/rtld.c, handle_preload_list)."""
    names = [name for name in re.split("[ :]", host.environment.get("LD_PRELOAD", "")) if name]
    if host.secure:
        names = [name for name in names if "/" not in name]
    return (*names, *host.system_preload)


def _as_link_map(mapped: Mapped, host: Host) -> Optional[LinkMap]:
    """The link map of a file that is mapped; None for what is no shared object."""
    name = mapped.name or mapped.path
    file = None if mapped.deleted else _readable(mapped.path, host)
    if mapped.name is None and (file is None or not file.has_dynamic):
        return None
    if file is not None and (file.device, file.inode) != (mapped.device, mapped.inode):
        file = None
    origin = os.path.dirname(host.real(name))
    soname = file.soname if file is not None else None
    return LinkMap(name, (name,), soname, mapped.device, mapped.inode, origin, file, None, (), LOCAL, facts.LOADED)


def _with_needs(maps: List[LinkMap]) -> List[LinkMap]:
    """Dependencies and aliases of objects of which only the files are known: DT_NEEDED against names and SONAMEs."""
    names: Dict[str, int] = {}
    for index, entry in enumerate(maps):
        for name in (entry.name, *entry.aliases, *([entry.soname] if entry.soname else ())):
            names.setdefault(name, index)
    for index, entry in enumerate(maps):
        if entry.elf is not None and not entry.needed:
            names.update({name: names[name] for name in entry.elf.needed if name in names})
            maps[index] = entry._replace(needed=tuple(names[name] for name in entry.elf.needed if name in names))
            for name in entry.elf.needed:
                if name in names and name not in maps[names[name]].aliases:
                    other = maps[names[name]]
                    maps[names[name]] = other._replace(aliases=(*other.aliases, name))
    return maps

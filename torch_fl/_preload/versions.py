"""What is checked between mapping and relocation: version tables (glibc elf/dl-version.c), processor levels."""

from __future__ import annotations

from typing import List, Optional, Sequence, Set

from . import dlerror, elf_format, preconditions
from .elf import Elf
from .elf_format import ElfError
from .facts import BadFile, OrphanVersion, Problem, Refused, VersionNotFound
from .mapping import Mapper

_RELR_VERSION = "GLIBC_ABI_DT_RELR"


def check_versions(mapper: Mapper, objects: Sequence[int]) -> List[Problem]:
    """Version tables of new objects, in search-list order (`_dl_check_map_versions`)."""
    problems: List[Problem] = []
    for index in objects:
        entry = mapper.maps[index]
        if entry.elf is None or not (elf_format.DT_VERNEED in entry.elf.tags or elf_format.DT_VERDEF in entry.elf.tags):
            continue
        try:
            problems += _object_versions(mapper, entry.name, entry.elf)
        except ElfError:
            problems.append(BadFile(entry.name, entry.name, "", "damaged", None, None, "abort"))
    return problems


def _object_versions(mapper: Mapper, name: str, file: Elf) -> List[Problem]:
    problems: List[Problem] = []
    relr_reference = False
    for need in file.versions.needed:
        provider_index = mapper.named(need.file)
        if provider_index is None:
            problems.append(OrphanVersion(name, need.file))
            continue
        provider = mapper.maps[provider_index]
        defined = _defined(provider.elf)
        for node in need.nodes:
            relr_reference = relr_reference or node.name == _RELR_VERSION
            if defined is None or node.name in defined or node.weak:
                continue
            error = dlerror.version_not_found(provider.name, node.name, name)
            problems.append(VersionNotFound(provider.name, node.name, name, error))
    version = mapper.host.libc_version
    if (
        file.relr
        and version >= (2, 36)
        and not relr_reference
        and elf_format.DT_VERNEED in file.tags
        and any(entry.startswith("libc.so.") for entry in file.needed)
    ):
        error = dlerror.text(name, dlerror.RELR)
        problems.append(Refused(name, "relr", "no need for GLIBC_ABI_DT_RELR", error))
    return problems


def _defined(file: Optional[Elf]) -> Optional[Set[str]]:
    """Names of the versions a file defines; None when it has no table, and then any version is accepted."""
    if file is None or elf_format.DT_VERDEF not in file.tags:
        return None
    try:
        return {definition.name for definition in file.versions.defined}
    except (ElfError, OSError):
        return None


def check_isa(mapper: Mapper, order: Sequence[int]) -> List[Problem]:
    """Objects built for a higher x86-64 level than the processor has, in relocation order (dl_isa_level_check)."""
    host = mapper.host
    if host.machine != elf_format.EM_X86_64 or host.libc_version < (2, 33):
        return []
    problems: List[Problem] = []
    for index in order:
        entry = mapper.maps[index]
        if entry.elf is None:
            continue
        needed = preconditions.isa_needed(entry.elf)
        if needed & ~host.isa_bits:
            level = (needed & ~host.isa_bits).bit_length()
            detail = f"needs x86-64-v{level}, the processor has x86-64-v{host.isa_level}"
            problems.append(Refused(entry.name, "isa-level", detail, dlerror.text(entry.name, dlerror.ISA_LEVEL)))
    return problems

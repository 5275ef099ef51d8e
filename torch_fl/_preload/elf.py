"""What one ELF file declares, read with pread and struct, lazily in three depths.

    elf = read(path)      header, program headers, dynamic section: about five small reads
    elf.versions          verneed and verdef tables (elf_versions.py)
    elf.symbols           dynamic symbols (elf_symbols.py): the defined ones through the hash table

Malformed input of any kind gives ElfError and nothing else, with bounded time and memory; a file that cannot be opened
gives the OSError of the system. Files of other machines, of 32 bits and of the other byte order are read as well.
"""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING, Any, Dict, Optional, Tuple

from . import elf_format
from .elf_format import ET_DYN, ET_EXEC, HEAD, MACHINES, ElfError, Segment

if TYPE_CHECKING:
    from .elf_symbols import Symbols
    from .elf_versions import Versions

__all__ = ["ET_DYN", "ET_EXEC", "MACHINES", "Elf", "ElfError", "Segment", "parse", "read"]


class Elf:
    """One file. Attributes are facts of the file and never change.

    path size device inode             of the file when it was read; size in bytes
    bits little_endian                 32 or 64; byte order
    machine machine_name osabi abi_version type
    segments                           program headers
    interpreter                        PT_INTERP or None
    has_dynamic                        False for a static program, an object file, a debug-only file
    soname needed rpath runpath auxiliary filters audit depaudit    as written; strings that are absent are None
    links                              (tag, name) of DT_NEEDED, DT_AUXILIARY and DT_FILTER in file order
    entries                            dynamic entries (tag, value) in file order, without DT_NULL
    flags flags_1                      DT_FLAGS and DT_FLAGS_1
    symbolic text_relocations bind_now relr static_tls nodeflib nodlopen pie    booleans
    executable_stack                   True, False, or None when there is no PT_GNU_STACK
    tls_size tls_align                 PT_TLS, bytes; 0 when there is none
    damage                             ElfError met behind the program headers, or None; `read` raises it
    """

    path: str
    size: int
    device: int
    inode: int
    bits: int
    little_endian: bool
    machine: int
    machine_name: str
    osabi: int
    abi_version: int
    type: int
    segments: Tuple[Segment, ...]
    interpreter: Optional[str]
    has_dynamic: bool
    entries: Tuple[Tuple[int, int], ...]
    tags: Dict[int, int]
    soname: Optional[str]
    needed: Tuple[str, ...]
    rpath: Optional[str]
    runpath: Optional[str]
    auxiliary: Tuple[str, ...]
    filters: Tuple[str, ...]
    audit: Optional[str]
    depaudit: Optional[str]
    links: Tuple[Tuple[int, str], ...]
    flags: int
    flags_1: int
    symbolic: bool
    text_relocations: bool
    bind_now: bool
    relr: bool
    static_tls: bool
    nodeflib: bool
    nodlopen: bool
    pie: bool
    executable_stack: Optional[bool]
    tls_size: int
    tls_align: int
    damage: Optional[ElfError]

    def __init__(self, facts: Dict[str, Any]) -> None:
        self.__dict__.update(facts)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"an Elf does not change: {name}")

    def __repr__(self) -> str:
        return f"<Elf {self.path!r} {self.bits}-bit {self.machine_name} soname={self.soname!r}>"

    @property
    def versions(self) -> Versions:
        """Version tables; raises ElfError when they are damaged."""
        found: Optional[Versions] = self.__dict__.get("_versions")
        if found is None:
            from .elf_versions import read_versions  # only deeper checks pay for the import

            found = self.__dict__["_versions"] = read_versions(self)
        return found

    @property
    def symbols(self) -> Symbols:
        """Dynamic symbols; raises ElfError when the tables are damaged."""
        found: Optional[Symbols] = self.__dict__.get("_symbols")
        if found is None:
            from .elf_symbols import read_symbols

            found = self.__dict__["_symbols"] = read_symbols(self)
        return found

    @property
    def order(self) -> str:
        """Byte-order sign for struct."""
        return "<" if self.little_endian else ">"

    def file_offset(self, address: int) -> int:
        """Offset in the file of a virtual address; ElfError when no PT_LOAD holds it."""
        for segment in self.segments:
            if segment.type == elf_format.PT_LOAD and segment.vaddr <= address < segment.vaddr + segment.filesz:
                return address - segment.vaddr + segment.offset
        raise ElfError(self.path, 0, f"address {address:#x} is in no loadable segment")

    def open(self) -> int:
        """A descriptor of the same file as was read; ElfError when it is gone or another one is there by now."""
        try:
            descriptor = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise ElfError(self.path, 0, "the file went away while it was being read") from error
        status = os.fstat(descriptor)
        if (status.st_dev, status.st_ino, status.st_size) != (self.device, self.inode, self.size):
            os.close(descriptor)
            raise ElfError(self.path, 0, "the file changed while it was being read")
        return descriptor


def read(path: str) -> Elf:
    """Header, program headers and dynamic section of a file.

    Raises OSError when it cannot be opened and ElfError when it is not an intact ELF file.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise ElfError(path, 0, "not a regular file")
        try:
            found = parse(path, descriptor, os.pread(descriptor, HEAD, 0), status)
        except OSError as error:
            raise ElfError(path, 0, os.strerror(error.errno or 0).lower()) from error
    finally:
        os.close(descriptor)
    if found.damage is not None:
        raise found.damage
    return found


def parse(path: str, descriptor: int, head: bytes, status: os.stat_result) -> Elf:
    """An Elf from an open file and its first bytes.

    Raises ElfError when the header or the program headers cannot be read. Trouble further on is kept in `damage`,
    because the loader may have a complaint of its own that comes first.
    """
    facts = elf_format.header(path, head)
    segments = elf_format.program_headers(path, descriptor, head, facts)
    del facts["phoff"], facts["phentsize"], facts["phnum"]
    facts.update(elf_format.EMPTY)
    facts.update(path=path, size=status.st_size, device=status.st_dev, inode=status.st_ino, segments=segments)
    dynamic = None
    for segment in segments:
        if segment.type == elf_format.PT_DYNAMIC and segment.filesz:
            dynamic = segment
        elif segment.type == elf_format.PT_GNU_STACK:
            facts["executable_stack"] = bool(segment.flags & elf_format.PF_X)
        elif segment.type == elf_format.PT_TLS and segment.memsz:
            facts["tls_size"], facts["tls_align"] = segment.memsz, segment.align
    try:
        for segment in segments:
            if segment.type == elf_format.PT_INTERP and segment.filesz:
                facts["interpreter"] = elf_format.string(path, descriptor, segment.offset, segment.filesz)
        if dynamic is not None:
            elf_format.dynamic(path, descriptor, dynamic, facts)
    except ElfError as error:
        facts["damage"] = error
    return Elf(facts)

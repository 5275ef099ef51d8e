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
import struct
from typing import TYPE_CHECKING, Any, Dict, List, NamedTuple, Optional, Tuple

if TYPE_CHECKING:
    from .elf_symbols import Symbols
    from .elf_versions import Versions

ET_REL, ET_EXEC, ET_DYN, ET_CORE = 1, 2, 3, 4
PT_LOAD, PT_DYNAMIC, PT_INTERP, PT_NOTE, PT_PHDR, PT_TLS = 1, 2, 3, 4, 6, 7
PT_GNU_STACK, PT_GNU_PROPERTY = 0x6474E551, 0x6474E553
PF_X, PF_W, PF_R = 1, 2, 4

DT_NULL, DT_NEEDED, DT_PLTRELSZ, DT_HASH, DT_STRTAB, DT_SYMTAB, DT_RELA, DT_RELASZ = 0, 1, 2, 4, 5, 6, 7, 8
DT_STRSZ, DT_SONAME, DT_RPATH, DT_SYMBOLIC, DT_REL, DT_RELSZ, DT_PLTREL = 10, 14, 15, 16, 17, 18, 20
DT_TEXTREL, DT_JMPREL, DT_BIND_NOW, DT_RUNPATH, DT_FLAGS, DT_RELRSZ, DT_RELR = 22, 23, 24, 29, 30, 35, 36
DT_GNU_HASH, DT_DEPAUDIT, DT_AUDIT = 0x6FFFFEF5, 0x6FFFFEFB, 0x6FFFFEFC
DT_VERSYM, DT_RELACOUNT, DT_RELCOUNT, DT_FLAGS_1 = 0x6FFFFFF0, 0x6FFFFFF9, 0x6FFFFFFA, 0x6FFFFFFB
DT_VERDEF, DT_VERDEFNUM, DT_VERNEED, DT_VERNEEDNUM = 0x6FFFFFFC, 0x6FFFFFFD, 0x6FFFFFFE, 0x6FFFFFFF
DT_AUXILIARY, DT_FILTER = 0x7FFFFFFD, 0x7FFFFFFF

DF_SYMBOLIC, DF_TEXTREL, DF_BIND_NOW, DF_STATIC_TLS = 0x2, 0x4, 0x8, 0x10
DF_1_NOW, DF_1_NOOPEN, DF_1_NODEFLIB, DF_1_PIE = 0x1, 0x40, 0x800, 0x08000000

EM_X86_64, EM_AARCH64 = 62, 183

MACHINES: Dict[int, str] = {
    2: "sparc", 3: "i386", 8: "mips", 20: "ppc", 21: "ppc64", 22: "s390", 40: "arm", 43: "sparcv9", 50: "ia64",
    62: "x86-64", 183: "aarch64", 243: "riscv", 247: "bpf", 258: "loongarch",
}  # fmt: skip
"""Names of e_machine, as far as they are likely to be met."""

HEAD = 4096
"""Bytes read first: the ELF header and, in practice, the program headers and the first notes."""

_MAX_PROGRAM_HEADERS = 4096
_MAX_DYNAMIC_BYTES = 1 << 20
_MAX_STRING_BYTES = 1 << 16
_STRING_SPAN = 1 << 15


class ElfError(Exception):
    """The file is not a readable ELF file.

    path    the file
    offset  byte offset at which the trouble is; 0 when it concerns the whole file
    reason  a few words, lower case, no full stop
    """

    def __init__(self, path: str, offset: int, reason: str) -> None:
        super().__init__(f"{path}: offset {offset}: {reason}")
        self.path = path
        self.offset = offset
        self.reason = reason


class Segment(NamedTuple):
    """One program header."""

    type: int
    flags: int
    offset: int
    vaddr: int
    filesz: int
    memsz: int
    align: int


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
            if segment.type == PT_LOAD and segment.vaddr <= address < segment.vaddr + segment.filesz:
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
    facts = _header(path, head)
    segments = _program_headers(path, descriptor, head, facts)
    del facts["phoff"], facts["phentsize"], facts["phnum"]
    facts.update(_EMPTY)
    facts.update(path=path, size=status.st_size, device=status.st_dev, inode=status.st_ino, segments=segments)
    dynamic = None
    for segment in segments:
        if segment.type == PT_DYNAMIC and segment.filesz:
            dynamic = segment
        elif segment.type == PT_GNU_STACK:
            facts["executable_stack"] = bool(segment.flags & PF_X)
        elif segment.type == PT_TLS and segment.memsz:
            facts["tls_size"], facts["tls_align"] = segment.memsz, segment.align
    try:
        for segment in segments:
            if segment.type == PT_INTERP and segment.filesz:
                facts["interpreter"] = _string(path, descriptor, segment.offset, segment.filesz)
        if dynamic is not None:
            _dynamic(path, descriptor, dynamic, facts)
    except ElfError as error:
        facts["damage"] = error
    return Elf(facts)


_EMPTY: Dict[str, Any] = {
    "interpreter": None, "has_dynamic": False, "entries": (), "tags": {}, "soname": None, "needed": (), "rpath": None,
    "runpath": None, "auxiliary": (), "filters": (), "audit": None, "depaudit": None, "links": (), "flags": 0,
    "flags_1": 0, "symbolic": False, "text_relocations": False, "bind_now": False, "relr": False, "static_tls": False,
    "nodeflib": False, "nodlopen": False, "pie": False, "executable_stack": None, "tls_size": 0, "tls_align": 0,
    "damage": None,
}  # fmt: skip


def _header(path: str, head: bytes) -> Dict[str, Any]:
    if len(head) < 4 or head[:4] != b"\x7fELF":
        raise ElfError(path, 0, "no ELF magic" if head else "the file is empty")
    if len(head) < 16:
        raise ElfError(path, len(head), "the file ends in the ELF header")
    bits = {1: 32, 2: 64}.get(head[4])
    if bits is None:
        raise ElfError(path, 4, f"unknown ELF class {head[4]}")
    if head[5] not in (1, 2):
        raise ElfError(path, 5, f"unknown data encoding {head[5]}")
    layout = ("<" if head[5] == 1 else ">") + ("HHIIIIIHHHHHH" if bits == 32 else "HHIQQQIHHHHHH")
    if len(head) < 16 + struct.calcsize(layout):
        raise ElfError(path, len(head), "the file ends in the ELF header")
    fields = struct.unpack_from(layout, head, 16)
    return {
        "bits": bits,
        "little_endian": head[5] == 1,
        "osabi": head[7],
        "abi_version": head[8],
        "type": fields[0],
        "machine": fields[1],
        "machine_name": MACHINES.get(fields[1], f"machine {fields[1]}"),
        "phoff": fields[4],
        "phentsize": fields[8],
        "phnum": fields[9],
    }


def _program_headers(path: str, descriptor: int, head: bytes, facts: Dict[str, Any]) -> Tuple[Segment, ...]:
    offset, entry, count = facts["phoff"], facts["phentsize"], facts["phnum"]
    if not count:
        return ()
    wide = facts["bits"] == 64
    if entry != (56 if wide else 32):
        raise ElfError(path, 54 if wide else 42, f"program header entries of {entry} bytes")
    if count > _MAX_PROGRAM_HEADERS:
        raise ElfError(path, 56 if wide else 44, f"{count} program headers")
    data = head[offset : offset + entry * count]
    if len(data) < entry * count:
        data = _pread(path, descriptor, entry * count, offset)
    if len(data) < entry * count:
        raise ElfError(path, offset, "the file ends in the program headers")
    order = "<" if facts["little_endian"] else ">"
    if wide:
        return tuple(
            Segment(kind, flags, at, vaddr, filesz, memsz, align)
            for kind, flags, at, vaddr, _, filesz, memsz, align in struct.iter_unpack(order + "IIQQQQQQ", data)
        )
    return tuple(
        Segment(kind, flags, at, vaddr, filesz, memsz, align)
        for kind, at, vaddr, _, filesz, memsz, flags, align in struct.iter_unpack(order + "IIIIIIII", data)
    )


def _dynamic(path: str, descriptor: int, segment: Segment, facts: Dict[str, Any]) -> None:
    """Fill in what the dynamic section says (glibc elf/get-dynamic-info.h: the last entry of a tag counts)."""
    order = "<" if facts["little_endian"] else ">"
    layout = order + ("QQ" if facts["bits"] == 64 else "II")
    data = _pread(path, descriptor, min(segment.filesz, _MAX_DYNAMIC_BYTES), segment.offset)
    entries: List[Tuple[int, int]] = []
    whole = len(data) // struct.calcsize(layout) * struct.calcsize(layout)
    for tag, value in struct.iter_unpack(layout, data[:whole]):
        if tag == DT_NULL:
            break
        entries.append((tag, value))
    else:
        raise ElfError(path, segment.offset + len(data), "the dynamic section has no end")
    tags = dict(entries)
    flags, flags_1 = tags.get(DT_FLAGS, 0), tags.get(DT_FLAGS_1, 0)
    facts.update(
        has_dynamic=True,
        entries=tuple(entries),
        tags=tags,
        flags=flags,
        flags_1=flags_1,
        symbolic=DT_SYMBOLIC in tags or bool(flags & DF_SYMBOLIC),
        text_relocations=DT_TEXTREL in tags or bool(flags & DF_TEXTREL),
        bind_now=DT_BIND_NOW in tags or bool(flags & DF_BIND_NOW) or bool(flags_1 & DF_1_NOW),
        static_tls=bool(flags & DF_STATIC_TLS),
        relr=DT_RELR in tags,
        nodeflib=bool(flags_1 & DF_1_NODEFLIB),
        nodlopen=bool(flags_1 & DF_1_NOOPEN),
        pie=bool(flags_1 & DF_1_PIE),
    )
    wanted = [(tag, value) for tag, value in entries if tag in _STRING_TAGS]
    if wanted:
        _strings(path, descriptor, wanted, facts)


_STRING_TAGS = frozenset((DT_NEEDED, DT_SONAME, DT_RPATH, DT_RUNPATH, DT_AUXILIARY, DT_FILTER, DT_AUDIT, DT_DEPAUDIT))


def _strings(path: str, descriptor: int, wanted: List[Tuple[int, int]], facts: Dict[str, Any]) -> None:
    tags = facts["tags"]
    if DT_STRTAB not in tags:
        raise ElfError(path, 0, "the dynamic section has no DT_STRTAB")
    base, room = 0, 0
    for segment in facts["segments"]:
        if segment.type == PT_LOAD and segment.vaddr <= tags[DT_STRTAB] < segment.vaddr + segment.filesz:
            base = tags[DT_STRTAB] - segment.vaddr + segment.offset
            room = segment.vaddr + segment.filesz - tags[DT_STRTAB]
            break
    else:
        raise ElfError(path, 0, "DT_STRTAB points into no loadable segment")
    offsets = [value for _, value in wanted]
    first, last = min(offsets), max(offsets)
    if last >= room:
        raise ElfError(path, base, f"string offset {last} is outside the segment of the string table")
    block = _pread(path, descriptor, last - first + 512, base + first) if last - first < _STRING_SPAN else b""

    def text(offset: int) -> str:
        end = block.find(b"\0", offset - first) if block else -1
        if end >= 0:
            return os.fsdecode(block[offset - first : end])
        return _string(path, descriptor, base + offset, min(_MAX_STRING_BYTES, room - offset))

    links = [(tag, text(offset)) for tag, offset in wanted]
    named = dict(links)
    facts.update(
        soname=named.get(DT_SONAME),
        needed=tuple(name for tag, name in links if tag == DT_NEEDED),
        rpath=named.get(DT_RPATH),
        runpath=named.get(DT_RUNPATH),
        auxiliary=tuple(name for tag, name in links if tag == DT_AUXILIARY),
        filters=tuple(name for tag, name in links if tag == DT_FILTER),
        audit=named.get(DT_AUDIT),
        depaudit=named.get(DT_DEPAUDIT),
        links=tuple(link for link in links if link[0] in (DT_NEEDED, DT_AUXILIARY, DT_FILTER)),
    )


def _pread(path: str, descriptor: int, size: int, offset: int) -> bytes:
    try:
        return os.pread(descriptor, size, offset)
    except (OSError, OverflowError) as error:  # EINVAL, or an offset beyond what off_t holds
        raise ElfError(path, offset, "the offset cannot be read") from error


def _string(path: str, descriptor: int, offset: int, limit: int) -> str:
    """The NUL-terminated string at `offset`, of at most `limit` bytes."""
    data = _pread(path, descriptor, min(limit, 256), offset)
    if b"\0" not in data and limit > 256:
        data = _pread(path, descriptor, min(limit, _MAX_STRING_BYTES), offset)
    end = data.find(b"\0")
    if end < 0:
        raise ElfError(path, offset, "a string has no end")
    return os.fsdecode(data[:end])

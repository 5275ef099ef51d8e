"""What one ELF file declares, read with pread and struct, lazily in three depths.

    elf = read(path)      header, program headers, dynamic section: about ten small reads
    elf.versions          verneed and verdef tables
    elf.symbols           dynamic symbols: lookups go through the hash table, undefined ones are listed

Malformed input of any kind gives ElfError and nothing else.
"""

from __future__ import annotations


class ElfError(Exception):
    """The file is not a readable ELF file.

    path    the file
    offset  byte offset at which the trouble is; 0 when it concerns the whole file
    reason  a few words, lower case, no full stop
    """

    def __init__(self, path: str, offset: int, reason: str) -> None:
        super().__init__("%s: offset %d: %s" % (path, offset, reason))
        self.path = path
        self.offset = offset
        self.reason = reason


class Elf:
    """One file. Attributes are facts of the file and never change:

    path size; bits (32 or 64) little_endian machine machine_name osabi abi_version type
    segments            tuple of Segment(type, flags, offset, vaddr, filesz, memsz, align)
    interpreter         PT_INTERP or None
    has_dynamic soname needed rpath runpath auxiliary filters audit depaudit    strings as written, tokens unexpanded
    flags flags_1       DT_FLAGS and DT_FLAGS_1
    symbolic text_relocations bind_now relr static_tls nodeflib nodlopen is_pie    booleans
    executable_stack    True, False, or None when there is no PT_GNU_STACK
    tls_size tls_align  PT_TLS, 0 when there is none
    isa_needed          GNU_PROPERTY_X86_ISA_1_NEEDED bits
    versions            Versions(needed, defined), see elf_versions.py (lazy)
    symbols             Symbols, see elf_symbols.py (lazy)
    """

"""The texts of dlerror() in the C locale, in one place (glibc elf/*.c, the strings handed to _dl_signal_error)."""

from __future__ import annotations

import os

CANNOT_OPEN = "cannot open shared object file"
CANNOT_READ = "cannot read file data"
TOO_SHORT = "file too short"
NOT_ELF = "invalid ELF header"
NOT_LITTLE_ENDIAN = "ELF file data encoding not little-endian"
NOT_BIG_ENDIAN = "ELF file data encoding not big-endian"
IDENT_VERSION = "ELF file version ident does not match current one"
OS_ABI = "ELF file OS ABI invalid"
ABI_VERSION = "ELF file ABI version invalid"
PADDING = "nonzero padding in e_ident"
FILE_VERSION = "ELF file version does not match current one"
FILE_TYPE = "only ET_DYN and ET_EXEC can be loaded"
PHENTSIZE = "ELF file's phentsize not the expected size"
PAGE_ALIGNMENT = "ELF load command address/offset not page-aligned"
SEGMENT_ALIGNMENT = "ELF load command alignment not page-aligned"
NO_SEGMENTS = "object file has no loadable segments"
EXECUTABLE = "cannot dynamically load executable"
NO_DYNAMIC = "object file has no dynamic section"
MAP_SEGMENT = "failed to map segment from shared object"
PIE = "cannot dynamically load position-independent executable"
NODLOPEN = "shared object cannot be dlopen()ed"
EXECUTABLE_STACK = "cannot enable executable stack as shared object requires"
EMPTY_TOKEN = "empty dynamic string token substitution"
TOKEN_IN_SECURE_MODE = "DST not allowed in SUID/SGID programs"
ISA_LEVEL = "CPU ISA level is lower than required"
RELR = "DT_RELR without GLIBC_ABI_DT_RELR dependency"
STATIC_TLS = "cannot allocate memory in static TLS block"


def text(subject: str, message: str, errno: int = 0) -> str:
    """`subject: message`, with the system's word for `errno` when there is one."""
    return f"{subject}: {message}: {os.strerror(errno)}" if errno else f"{subject}: {message}"


def wrong_class(subject: str, bits: int) -> str:
    """Only files of another class were found by a `bits`-bit process."""
    return f"{subject}: wrong ELF class: ELFCLASS{32 if bits == 64 else 64}"


def version_not_found(provider: str, version: str, requester: str) -> str:
    """elf/dl-version.c, match_symbol."""
    return f"{provider}: version `{version}' not found (required by {requester})"


def unsupported_version_record(path: str, number: int, record: str) -> str:
    """elf/dl-version.c: a Verneed or Verdef record of another layout."""
    return f"{path}: unsupported version {number} of {record} record"


def undefined_symbol(requester: str, symbol: str, version: str | None) -> str:
    """elf/dl-lookup.c, _dl_lookup_symbol_x."""
    return f"{requester}: undefined symbol: {symbol}" + (f", version {version}" if version else "")


def bad_relocation(path: str, number: int, plt: bool) -> str:
    """elf/dl-reloc.c, _dl_reloc_bad_type: two hex digits, eight when the type does not fit in a byte."""
    digits = f"{number:08x}" if number > 0xFF else f"{number:02x}"
    return f"{path}: unexpected {'PLT ' if plt else ''}reloc type 0x{digits}"

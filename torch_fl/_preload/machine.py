"""What the C library makes of this machine: its version, its directories, the processor's levels.

Read from the files that glibc itself is made of, so that no loader has to be run and nothing has to be opened.
"""

import os
import re
from typing import Dict, List, NamedTuple, Optional, Tuple

from . import elf, elf_format, process_image


class Processor(NamedTuple):
    """First processor of /proc/cpuinfo: vendor and feature flags."""

    vendor: str
    flags: Tuple[str, ...]


_LEVELS: Tuple[Tuple[str, ...], ...] = (
    ("cmov", "cx8", "fpu", "fxsr", "mmx", "sse", "sse2"),
    ("cx16", "lahf_lm", "popcnt", "pni", "sse4_1", "sse4_2", "ssse3"),
    ("avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe"),
    ("avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"),
)
"""Features of x86-64 levels 1 to 4 in the kernel's words (glibc sysdeps/x86/get-isa-level.h)."""

_HASWELL = ("avx2", "bmi1", "bmi2", "abm", "movbe", "popcnt", "fma")
_PHI = ("avx512cd", "avx512er", "avx512pf")
_AVX512_1 = ("avx512cd", "avx512bw", "avx512dq", "avx512vl")


def interpreter_of(executable: str) -> Optional[str]:
    """PT_INTERP of a program, None when it has none or cannot be read."""
    try:
        return elf.read(executable).interpreter
    except (OSError, elf.ElfError):
        return None


def libc_kind(interpreter: Optional[str]) -> str:
    """Which C library a program with this PT_INTERP runs on."""
    if interpreter is None:
        return "unknown"
    return "musl" if "/ld-musl-" in interpreter else "glibc" if "/ld" in interpreter else "unknown"


def glibc_version() -> Tuple[int, int]:
    """Version of the running glibc, (0, 0) when the C library is another one."""
    try:
        text = os.confstr("CS_GNU_LIBC_VERSION") or ""
    except (ValueError, OSError):
        return (0, 0)
    match = re.match(r"glibc (\d+)\.(\d+)", text)
    return (int(match.group(1)), int(match.group(2))) if match else (0, 0)


def system_dirs(interpreter: Optional[str]) -> Tuple[str, ...]:
    """The directories built into ld.so (SYSTEM_DIRS of trusted-dirs.h): consecutive strings "/lib.../" in its file."""
    data = process_image.read(interpreter) if interpreter else b""
    for match in re.finditer(rb"\0((?:/[A-Za-z0-9_./-]+/\0){2,})", data):
        found = match.group(1).rstrip(b"\0").split(b"\0")
        if any(entry.startswith(b"/usr/lib") for entry in found):
            return tuple(os.fsdecode(entry.rstrip(b"/")) for entry in found)
    return ("/lib", "/usr/lib")


def processor() -> Processor:
    """Vendor and flags of the first processor; only the head of /proc/cpuinfo is read, it can be very long."""
    try:
        descriptor = os.open("/proc/cpuinfo", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return Processor("", ())
    try:
        head = os.read(descriptor, 16384).decode("ascii", "replace")
    finally:
        os.close(descriptor)
    vendor = re.search(r"^vendor_id\s*:\s*(\S+)", head, re.M)
    flags = re.search(r"^flags\s*:(.*)$", head, re.M)
    return Processor(vendor.group(1) if vendor else "", tuple(flags.group(1).split()) if flags else ())


def isa_level(number: int, cpu: Processor) -> int:
    """x86-64 level of the processor, 0 on other machines."""
    if number != elf_format.EM_X86_64:
        return 0
    level = 0
    for features in _LEVELS:
        if not set(features) <= set(cpu.flags):
            break
        level += 1
    return max(level, 1)


def hwcaps(version: Tuple[int, int], level: int) -> Tuple[str, ...]:
    """glibc-hwcaps subdirectories in search order (glibc 2.33 and newer, sysdeps/x86_64/dl-hwcaps_subdirs.c)."""
    if version < (2, 33):
        return ()
    return tuple(f"x86-64-v{number}" for number in (4, 3, 2) if number <= level)


def platform(number: int, version: Tuple[int, int], cpu: Processor) -> Optional[str]:
    """GLRO(dl_platform): the kernel's AT_PLATFORM, replaced on Intel processors (sysdeps/x86/cpu-features.c)."""
    if number == elf_format.EM_X86_64 and version >= (2, 26) and cpu.vendor == "GenuineIntel":
        if set(_PHI) <= set(cpu.flags):
            return "xeon_phi"
        if set(_HASWELL) <= set(cpu.flags):
            return "haswell"
    pointer = process_image.auxiliary_vector().get(process_image.AT_PLATFORM, 0)
    text = process_image.memory(pointer, 64).split(b"\0", 1)[0] if pointer else b""
    return os.fsdecode(text) or None


def legacy_hwcaps(
    number: int, version: Tuple[int, int], own_platform: Optional[str], cpu: Processor
) -> Tuple[str, ...]:
    """Subdirectories that glibc before 2.37 tries after glibc-hwcaps (elf/dl-hwcaps.c, _dl_important_hwcaps).

    All combinations of the processor's capability names, the platform and "tls", the richest first.
    """
    if version >= (2, 37) or version == (0, 0):
        return ()
    names: List[str] = []
    if number == elf_format.EM_X86_64:
        names.append("x86_64")
        if cpu.vendor == "GenuineIntel" and set(_AVX512_1) <= set(cpu.flags):
            names.append("avx512_1")
    if own_platform:
        names.append(own_platform)
    names.append("tls")
    found = []
    for mask in range((1 << len(names)) - 1, 0, -1):
        found.append("/".join(name for bit, name in reversed(list(enumerate(names))) if mask >> bit & 1))
    return tuple(found)


def system_preload() -> Tuple[str, ...]:
    """Names in /etc/ld.so.preload (elf/rtld.c: white space and colons separate, # starts a comment)."""
    text = re.sub(rb"#[^\n]*", b"", process_image.read("/etc/ld.so.preload"))
    return tuple(os.fsdecode(name) for name in re.split(rb"[ \t\n:]+", text) if name)


def tunables(text: str) -> Dict[str, str]:
    """GLIBC_TUNABLES as name -> value; later settings of a name win, malformed parts are left out."""
    pairs = (part.partition("=") for part in text.split(":"))
    return {name: value for name, sign, value in pairs if sign}

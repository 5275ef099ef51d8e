"""Makes shared libraries for tests: real ones from one line of C, and damaged ones from real bytes.

make_so(tmp / "libb.so", soname="libb.so.1", source="int b(void) {return 1;}")
make_so(tmp / "liba.so", needed=[tmp / "libb.so"], runpath="$ORIGIN")
patch(tmp / "libb.so", machine=183)
"""

from __future__ import annotations

import hashlib
import os
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

CC = os.environ.get("CC", "cc")

_cache: dict[str, bytes] = {}


def make_so(
    path: str | Path,
    *,
    soname: str | None = None,
    needed: Sequence[str | Path] = (),
    rpath: str | None = None,
    runpath: str | None = None,
    source: str = "",
    flags: Sequence[str] = (),
    version_script: str | None = None,
    strict: bool = False,
) -> Path:
    """A shared library at `path`, and its path.

    needed          names for DT_NEEDED, or paths of libraries to link (their SONAME, or else the path's file name,
                    is what ends up in DT_NEEDED)
    rpath runpath   DT_RPATH, DT_RUNPATH
    source          C source; the library links no C library unless `flags` say so
    flags           further options for the compiler driver, e.g. "-Wl,-z,nodlopen"
    version_script  text of a GNU ld version script
    strict          refuse undefined symbols when linking
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    options = ["-shared", "-fPIC", "-nostdlib", "-Wl,--no-as-needed", "-Wl,--build-id=none", "-Wl,-z,noexecstack"]
    if soname:
        options.append(f"-Wl,-soname,{soname}")
    if rpath is not None:
        options.append(f"-Wl,--disable-new-dtags,-rpath,{rpath}")
    if runpath is not None:
        options.append(f"-Wl,--enable-new-dtags,-rpath,{runpath}")
    if strict:
        options.append("-Wl,-z,defs")
    options += flags
    with tempfile.TemporaryDirectory(prefix="elfkit") as scratch:
        if version_script is not None:
            (Path(scratch) / "script.map").write_text(version_script)
            options.append(f"-Wl,--version-script,{scratch}/script.map")
        libraries = [_library(entry, Path(scratch)) for entry in needed]
        key = _key(options, source, version_script, needed, scratch)
        data = _cache.get(key) if key else None
        if data is None:
            out = Path(scratch) / "out.so"
            command = [CC, *options, "-o", str(out), "-x", "c", "-", "-x", "none", *libraries]
            _run(command, source or "static const char none __attribute__((unused)) = 0;")
            data = out.read_bytes()
            if key:
                _cache[key] = data
    path.unlink(missing_ok=True)
    path.write_bytes(data)
    path.chmod(0o755)
    return path


def make_program(
    path: str | Path, source: str, *, needed: Sequence[str | Path] = (), flags: Sequence[str] = ()
) -> Path:
    """A program at `path`, linked against the C library and `needed`."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="elfkit") as scratch:
        libraries = [_library(entry, Path(scratch)) for entry in needed]
        command = [CC, "-Wl,--no-as-needed", "-o", str(path), "-x", "c", "-", "-x", "none", *libraries, *flags]
        _run(command, source)
    return path


def _library(entry: str | Path, scratch: Path) -> str:
    """What the linker is given for one DT_NEEDED: the library, or for a bare name an empty stand-in of that SONAME."""
    if isinstance(entry, Path):
        return str(entry)
    name = hashlib.sha1(entry.encode()).hexdigest()[:12]
    stub = scratch / f"lib{name}.so"
    if not stub.exists():
        _run([CC, "-shared", "-nostdlib", f"-Wl,-soname,{entry}", "-o", str(stub), "-x", "c", "-"], "")
    return str(stub)


def _key(options: list[str], source: str, script: str | None, needed: Sequence[str | Path], scratch: str) -> str:
    """Cache key of a library that depends on nothing but its arguments; "" when it links files."""
    if any(isinstance(entry, Path) for entry in needed):
        return ""
    return repr(([entry.replace(scratch, "") for entry in options], source, script, list(needed)))


def _run(command: list[str], source: str) -> None:
    done = subprocess.run(command, input=source, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(command)}\n{done.stderr}")


# --- damage -------------------------------------------------------------------------------------------------------


def patch(path: str | Path, **fields: int) -> Path:
    """Overwrite fields of a 64-bit little-endian ELF header.

    Fields: magic, elf_class, data, ident_version, osabi, abi_version, padding, type, machine, version, phoff,
    phentsize, phnum.
    """
    path = Path(path)
    data = bytearray(path.read_bytes())
    for name, value in fields.items():
        offset, layout = HEADER_FIELDS[name]
        struct.pack_into(layout, data, offset, value)
    path.write_bytes(bytes(data))
    return path


HEADER_FIELDS = {
    "magic": (0, "<I"),
    "elf_class": (4, "<B"),
    "data": (5, "<B"),
    "ident_version": (6, "<B"),
    "osabi": (7, "<B"),
    "abi_version": (8, "<B"),
    "padding": (9, "<B"),
    "type": (16, "<H"),
    "machine": (18, "<H"),
    "version": (20, "<I"),
    "phoff": (32, "<Q"),
    "phentsize": (54, "<H"),
    "phnum": (56, "<H"),
}


def patch_segment(path: str | Path, kind: int, which: int = 0, **fields: int) -> Path:
    """Overwrite fields of the `which`-th program header of type `kind`: type flags offset vaddr filesz memsz align."""
    layout = {"type": (0, "<I"), "flags": (4, "<I"), "offset": (8, "<Q"), "vaddr": (16, "<Q"), "filesz": (32, "<Q"),
              "memsz": (40, "<Q"), "align": (48, "<Q")}  # fmt: skip
    path = Path(path)
    data = bytearray(path.read_bytes())
    start, count = struct.unpack_from("<Q", data, 32)[0], struct.unpack_from("<H", data, 56)[0]
    places = [at for at in range(start, start + 56 * count, 56) if struct.unpack_from("<I", data, at)[0] == kind]
    for name, value in fields.items():
        offset, code = layout[name]
        struct.pack_into(code, data, places[which] + offset, value)
    path.write_bytes(bytes(data))
    return path


def patch_dynamic(path: str | Path, tag: int, *, new_tag: int | None = None, value: int | None = None) -> Path:
    """Change the first dynamic entry with `tag`."""
    path = Path(path)
    data = bytearray(path.read_bytes())
    start, count = struct.unpack_from("<Q", data, 32)[0], struct.unpack_from("<H", data, 56)[0]
    for at in range(start, start + 56 * count, 56):
        if struct.unpack_from("<I", data, at)[0] == 2:
            offset, size = struct.unpack_from("<Q", data, at + 8)[0], struct.unpack_from("<Q", data, at + 32)[0]
            break
    else:
        raise AssertionError(f"{path} has no dynamic section")
    for at in range(offset, offset + size, 16):
        if struct.unpack_from("<Q", data, at)[0] == tag:
            if new_tag is not None:
                struct.pack_into("<Q", data, at, new_tag)
            if value is not None:
                struct.pack_into("<Q", data, at + 8, value)
            break
    else:
        raise AssertionError(f"{path} has no dynamic entry {tag:#x}")
    path.write_bytes(bytes(data))
    return path


def truncate(path: str | Path, size: int) -> Path:
    """Cut a file to `size` bytes; a negative size cuts that many bytes off."""
    path = Path(path)
    os.truncate(path, size if size >= 0 else path.stat().st_size + size)
    return path


def write_text(path: str | Path, text: str) -> Path:
    """A text file in the place of a library: linker script, Git LFS pointer, HTML page."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def copy(source: str | Path, target: str | Path) -> Path:
    """A copy of a file, directories made as needed."""
    target = Path(target)
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(source, target)
    return target

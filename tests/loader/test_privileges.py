"""Secure mode, mounts that forbid execution, files that may not be read: what needs another user or a namespace.

Each test says what this machine lacks when it cannot run.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests import elfkit
from tests.elfkit import make_so
from tests.loader import random_tree
from tests.loader.truth import child_host, environment
from torch_fl._preload import resolve

REPOSITORY = Path(__file__).resolve().parents[2]
NOBODY = 65534

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: another user or a mount namespace is made")


def let_others_in(directory: Path) -> None:
    """Make a test's directory reachable for another user."""
    for entry in (directory, *directory.parents):
        if os.stat(entry).st_uid == os.geteuid() and os.stat(entry).st_mode & 0o005 != 0o005:
            entry.chmod(os.stat(entry).st_mode | 0o055)


def in_python(code: str, prefix: tuple[str, ...] = ()) -> str:
    """Run `code` in an interpreter with the tests' helpers imported, behind `prefix`; what it prints."""
    head = """
        import sys
        sys.dont_write_bytecode = True
        import tests.without_loading
        import torch_fl._preload.symbols, torch_fl._preload.versions
        from tests.loader.truth import Open, compare, environment
    """
    text = textwrap.dedent(head) + textwrap.dedent(code)
    command = [*prefix, sys.executable, "-c", text]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


# --- files that may not be read -----------------------------------------------------------------------------------

DROP_CAPABILITIES = """
import ctypes
libc = ctypes.CDLL(None)
for capability in (1, 2):  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
    assert libc.prctl(24, capability, 0, 0, 0) == 0
class Header(ctypes.Structure):
    _fields_ = [("version", ctypes.c_uint32), ("pid", ctypes.c_int)]
class Data(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint32) for name in ("effective", "permitted", "inheritable")]
header, data = Header(0x20080522, 0), (Data * 2)()
assert libc.capget(ctypes.byref(header), data) == 0
for field in ("effective", "permitted", "inheritable"):
    setattr(data[0], field, getattr(data[0], field) & ~0b110)
assert libc.capset(ctypes.byref(header), data) == 0
"""


@needs_root
def test_c26_c27_a_file_without_permission(tmp_path: Path) -> None:
    bad = make_so(tmp_path / "first/libb.so", soname="libb.so")
    bad.chmod(0)
    make_so(tmp_path / "second/libb.so", soname="libb.so")
    root = make_so(tmp_path / "root.so", needed=["libb.so"])
    code = f"""
by_path = compare([{str(bad)!r}])[-1].error
assert by_path == {str(bad)!r} + ": cannot open shared object file: Permission denied", by_path
both = compare([{str(root)!r}], environment(LD_LIBRARY_PATH="{bad.parent}:{tmp_path}/second"))
assert both[-1].loads, both
print(compare([{str(root)!r}], environment(LD_LIBRARY_PATH="{bad.parent}"))[-1].error)
"""
    said = in_python(DROP_CAPABILITIES + code)
    assert said == "libb.so: cannot open shared object file: No such file or directory"


@needs_root
def test_a_directory_without_permission(tmp_path: Path) -> None:
    make_so(tmp_path / "first/libb.so", soname="libb.so")
    make_so(tmp_path / "second/libb.so", soname="libb.so")
    root = make_so(tmp_path / "root.so", needed=["libb.so"])
    (tmp_path / "first").chmod(0)
    code = f"""
both = compare([{str(root)!r}], environment(LD_LIBRARY_PATH="{tmp_path}/first:{tmp_path}/second"))
assert both[-1].loads, both
print(compare(["{tmp_path}/first/libb.so"])[-1].error)
"""
    try:
        said = in_python(DROP_CAPABILITIES + code)
    finally:
        (tmp_path / "first").chmod(0o755)
    assert said == f"{tmp_path}/first/libb.so: cannot open shared object file: Permission denied"


# --- a mount that forbids execution -------------------------------------------------------------------------------


@needs_root
def test_a_noexec_mount(tmp_path: Path) -> None:
    unshare = shutil.which("unshare")
    if unshare is None:
        pytest.skip("needs unshare, to mount something that nobody else sees")
    place = tmp_path / "mount"
    place.mkdir()
    made = make_so(tmp_path / "a.so", source="int f(void) { return 1; }")
    data = make_so(tmp_path / "data.so", source="int f = 1;")
    script = f'mount -t tmpfs -o noexec none {place} && cp {made} {data} {place} && exec "$@"'
    probe = [unshare, "-m", "/bin/sh", "-c", script, "sh", "true"]
    if subprocess.run(probe, capture_output=True, check=False).returncode != 0:
        pytest.skip("needs the right to mount a tmpfs in a namespace of its own")
    prefix = (unshare, "-m", "/bin/sh", "-c", script, "sh")
    # What was mapped before the refusal stays mapped (dl-load.c avoids the unmap), so only the texts are compared.
    code = """
        from tests.loader.truth import child_host, predicted, real
        calls, env = [Open(NAME)], environment()
        print(real(calls, env)[0].error, predicted(calls, child_host(env))[0].error, sep="\\n")
    """
    said = in_python(code.replace("NAME", repr(f"{place}/a.so")), prefix)
    assert said.splitlines() == [f"{place}/a.so: failed to map segment from shared object"] * 2
    in_python(f'compare(["{place}/data.so"])', prefix)


# --- secure mode --------------------------------------------------------------------------------------------------


def setuid_program(tmp_path: Path) -> Path:
    """The runner as a program that changes its user, reachable for another user; a skip where that has no effect."""
    program = elfkit.make_program(tmp_path / "runner", random_tree.RUNNER)
    program.chmod(0o4755)
    let_others_in(tmp_path)
    if os.statvfs(program).f_flag & os.ST_NOSUID:
        pytest.skip(f"needs a file system without nosuid, {tmp_path} has it")
    return program


def both_sides(program: Path, paths: list[str], env: dict[str, str]) -> tuple[list[str | None], list[str | None]]:
    """Errors of the real program, run by an unprivileged user, and those of the model for it."""
    command = [str(program), *(f"L{path}" for path in paths)]
    done = subprocess.run(
        command, env=env, cwd="/", capture_output=True, text=True, user=NOBODY, group=NOBODY, check=True
    )
    truth = [line[1:] or None for line in done.stdout.splitlines() if line.startswith("E")]
    process = resolve.fresh(child_host(env, python=program, secure=True))
    model = []
    for path in paths:
        outcome = resolve.dlopen(process, path)
        process = outcome.process
        model.append(outcome.error)
    return truth, model


@needs_root
def test_secure_mode_ignores_the_library_path(tmp_path: Path) -> None:
    program = setuid_program(tmp_path)
    make_so(tmp_path / "one/libb.so", soname="libb.so")
    root = make_so(tmp_path / "a.so", needed=["libb.so"])
    let_others_in(tmp_path / "one")
    truth, model = both_sides(program, [str(root)], environment(LD_LIBRARY_PATH=str(tmp_path / "one")))
    assert truth == model == ["libb.so: cannot open shared object file: No such file or directory"]


@needs_root
@pytest.mark.parametrize(
    "runpath", ["$ORIGIN/one", "${ORIGIN}/one", "x$ORIGIN/../one", "$ORIGIN", "$LIB", "/nonexistent"]
)
def test_secure_mode_and_tokens(tmp_path: Path, runpath: str) -> None:
    program = setuid_program(tmp_path)
    make_so(tmp_path / "one/libb.so", soname="libb.so")
    let_others_in(tmp_path / "one")
    root = make_so(tmp_path / "a.so", needed=["libb.so"], runpath=runpath)
    token = make_so(tmp_path / "t.so", needed=["$ORIGIN/one/libb.so"])
    truth, model = both_sides(program, [str(root), str(token)], environment())
    assert truth == model
    assert truth[1] == "$ORIGIN/one/libb.so: DST not allowed in SUID/SGID programs"


@needs_root
def test_secure_mode_and_the_programs_own_rpath(tmp_path: Path) -> None:
    make_so(tmp_path / "lib/libb.so", soname="libb.so")
    root = make_so(tmp_path / "a.so", needed=["libb.so"])
    program = elfkit.make_program(
        tmp_path / "runner", random_tree.RUNNER, flags=["-Wl,--disable-new-dtags,-rpath,$ORIGIN/lib"]
    )
    program.chmod(0o4755)
    let_others_in(tmp_path)
    let_others_in(tmp_path / "lib")
    truth, model = both_sides(program, [str(root)], environment())
    assert truth == model


# --- ld.so.cache --------------------------------------------------------------------------------------------------


def with_cache(tmp_path: Path, *directories: Path) -> tuple[str, ...]:
    """A prefix under which /etc/ld.so.cache is one that ldconfig made of these directories and the system's."""
    unshare, ldconfig = shutil.which("unshare"), shutil.which("ldconfig", path="/sbin:/usr/sbin:/usr/bin")
    if unshare is None or ldconfig is None:
        pytest.skip("needs unshare and ldconfig, to give a process another cache")
    (tmp_path / "ld.so.conf").write_text("".join(f"{entry}\n" for entry in directories))
    cache = tmp_path / "ld.so.cache"
    command = [ldconfig, "-X", "-f", str(tmp_path / "ld.so.conf"), "-C", str(cache)]
    subprocess.run(command, capture_output=True, check=True)
    script = f'mount --bind {cache} /etc/ld.so.cache && exec "$@"'
    prefix = (unshare, "-m", "/bin/sh", "-c", script, "sh")
    if subprocess.run([*prefix, "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("needs the right to mount in a namespace of its own")
    return prefix


def cached(path: Path) -> Path:
    return make_so(path, soname="libcached.so.1", source=f"int f(void) {{ return {len(str(path))}; }}")


@needs_root
def test_c34_an_entry_of_the_cache_is_found_whatever_ld_so_conf_says(tmp_path: Path) -> None:
    cached(tmp_path / "dir/libcached.so.1")
    root = make_so(tmp_path / "a.so", needed=["libcached.so.1"])
    prefix = with_cache(tmp_path, tmp_path / "dir")
    assert in_python(f'print(compare(["{root}"])[-1].loads)', prefix) == "True"
    assert in_python(f'print(compare(["{root}"])[-1].loads)') == "False"


@needs_root
def test_c33_a_directory_in_ld_so_conf_counts_only_once_ldconfig_has_run(tmp_path: Path) -> None:
    cached(tmp_path / "dir/libcached.so.1")
    root = make_so(tmp_path / "a.so", needed=["libcached.so.1"])
    with_cache(tmp_path, tmp_path / "dir")
    script = f'mount --bind {tmp_path}/ld.so.conf /etc/ld.so.conf && exec "$@"'
    said = in_python(f'print(compare(["{root}"])[-1].loads)', ("unshare", "-m", "/bin/sh", "-c", script, "sh"))
    assert said == "False"


@needs_root
@pytest.mark.parametrize("levels", [("x86-64-v2",), ("x86-64-v2", "x86-64-v3"), ("x86-64-v3", "x86-64-v4")])
def test_the_best_usable_hardware_entry_of_the_cache_wins(tmp_path: Path, levels: tuple[str, ...]) -> None:
    cached(tmp_path / "dir/libcached.so.1")
    for level in levels:
        cached(tmp_path / "dir/glibc-hwcaps" / level / "libcached.so.1")
    root = make_so(tmp_path / "a.so", needed=["libcached.so.1"])
    assert in_python(f'print(compare(["{root}"])[-1].loads)', with_cache(tmp_path, tmp_path / "dir")) == "True"


@needs_root
def test_a_stale_entry_of_the_cache_is_passed_over(tmp_path: Path) -> None:
    gone = cached(tmp_path / "dir/libcached.so.1")
    root = make_so(tmp_path / "a.so", needed=["libcached.so.1"])
    prefix = with_cache(tmp_path, tmp_path / "dir")
    gone.unlink()
    said = in_python(f'print(compare(["{root}"])[-1].error)', prefix)
    assert said == "libcached.so.1: cannot open shared object file: No such file or directory"


@needs_root
def test_an_entry_that_became_a_text_is_fatal(tmp_path: Path) -> None:
    bad = cached(tmp_path / "dir/libcached.so.1")
    root = make_so(tmp_path / "a.so", needed=["libcached.so.1"])
    prefix = with_cache(tmp_path, tmp_path / "dir")
    elfkit.write_text(bad, "GROUP ( libreal.so ) " * 8)
    assert in_python(f'print(compare(["{root}"])[-1].error)', prefix) == f"{bad}: invalid ELF header"


@needs_root
def test_runpath_beats_the_cache_and_nodefaultlib_does_not_bar_other_directories(tmp_path: Path) -> None:
    cached(tmp_path / "dir/libcached.so.1")
    cached(tmp_path / "other/libcached.so.1")
    first = make_so(tmp_path / "a.so", needed=["libcached.so.1"], runpath=str(tmp_path / "other"))
    second = make_so(tmp_path / "b.so", needed=["libcached.so.1"], flags=["-Wl,-z,nodefaultlib"])
    prefix = with_cache(tmp_path, tmp_path / "dir")
    assert in_python(f'print(compare(["{first}"])[-1].loads, compare(["{second}"])[-1].loads)', prefix) == "True True"

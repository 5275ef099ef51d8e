"""host.py against what the loader and the system say of themselves."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from torch_fl._preload import host
from torch_fl._preload.ldcache import LdCache

REPOSITORY = Path(__file__).parents[2]


def diagnostics() -> dict[str, str]:
    """What ld.so --list-diagnostics prints (glibc 2.33 and newer)."""
    interpreter = host.current().interpreter
    assert interpreter is not None
    done = subprocess.run([interpreter, "--list-diagnostics"], capture_output=True, text=True, check=True)
    return dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)


def child(code: str, **env: str) -> str:
    """Standard output of `code` in a fresh interpreter that has the package at hand."""
    variables = {
        "PYTHONPATH": str(REPOSITORY),
        "FLAGOS_LOAD": "0",
        "PYTHONDONTWRITEBYTECODE": "1",
        "LC_ALL": "C",
        **env,
    }
    done = subprocess.run([sys.executable, "-c", code], env=variables, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_loaders_own_word_for_directories_tokens_and_levels() -> None:
    here, said = host.current(), diagnostics()
    directories = [value.strip('"').rstrip("/") for name, value in said.items() if name.startswith("path.system_dirs[")]
    assert list(here.system_dirs) == directories
    assert here.lib_token == said["dl_dst_lib"].strip('"')
    assert (here.platform or "") == said["dl_platform"].strip('"')
    active = int(said["dl_hwcaps_subdirs_active"], 16)
    names = said["dl_hwcaps_subdirs"].strip('"').split(":")
    assert list(here.hwcaps) == [name for bit, name in enumerate(names) if active >> bit & 1]
    assert here.isa_bits == int(said["x86.cpu_features.isa_1"], 16)


def test_legacy_subdirectories_are_those_in_the_search_path() -> None:
    here = host.current()
    code = "import ctypes\ntry: ctypes.CDLL('libno-such-thing.so')\nexcept OSError: pass"
    env = {"LD_LIBRARY_PATH": "/dir", "LD_DEBUG": "libs", "LC_ALL": "C"}
    command = [os.path.realpath(sys.executable), "-I", "-S", "-c", code]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    searched = re.findall(r"search path=(\S*)\s*\(LD_LIBRARY_PATH\)", done.stderr)
    expected = [f"/dir/glibc-hwcaps/{entry}" for entry in here.hwcaps] + [
        f"/dir/{entry}" for entry in here.legacy_hwcaps
    ]
    assert searched[0].split(":") == [*expected, "/dir"]


def test_the_version_is_that_of_ldd() -> None:
    said = subprocess.run(["ldd", "--version"], capture_output=True, text=True, check=True).stdout.split("\n")[0]
    assert host.current().libc_version == tuple(int(part) for part in said.split()[-1].split("."))
    assert host.current().libc == "glibc"


def test_the_environment_is_that_of_the_start() -> None:
    code = """
import os
os.environ["LD_LIBRARY_PATH"] = "/late"
os.environ["FLAGOS_SET_LATE"] = "1"
from torch_fl._preload import host
here = host.current()
seen = here.environment
print(seen.get("LD_LIBRARY_PATH"), "FLAGOS_SET_LATE" in seen, host.settings()["FLAGOS_SET_LATE"])
"""
    assert child(code, LD_LIBRARY_PATH="/early").split() == ["/early", "False", "1"]


def test_settings_hand_out_nothing_else_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_SECRET_TOKEN", "hush")
    monkeypatch.setenv("XPU_ROOT", "/opt/xpu")
    assert host.settings()["XPU_ROOT"] == "/opt/xpu"
    assert "A_SECRET_TOKEN" not in host.settings()


def test_mapped_files_are_in_the_loaders_order_and_under_its_names(tmp_path: Path) -> None:
    code = """
import ctypes, json
for name in ("libz.so.1", "libbz2.so.1.0"):
    ctypes.CDLL(name)
from torch_fl._preload import host
print(json.dumps([[entry.name, entry.path] for entry in host.current().mapped if entry.name is not None]))
"""
    names = [entry[0] for entry in json.loads(child(code))]
    assert names[0] == ""
    order = [os.path.basename(name) for name in names]
    assert order.index("libc.so.6") < order.index("libz.so.1") < order.index("libbz2.so.1.0")


def test_a_deleted_file_is_told(tmp_path: Path) -> None:
    from tests.elfkit import make_so

    path = make_so(tmp_path / "libgone.so", source="int f(void) {return 1;}")
    code = f"""
import ctypes, os
ctypes.CDLL({str(path)!r})
os.unlink({str(path)!r})
from torch_fl._preload import host
print([(entry.path, entry.deleted) for entry in host.current().mapped if "libgone" in entry.path])
"""
    assert child(code).strip() == f"[({str(path)!r}, True)]"


def test_the_cache_is_what_ldconfig_prints() -> None:
    done = subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True, check=True)
    printed = re.findall(r"^\t(\S+) \((.*)\) => (\S+)$", done.stdout, re.M)
    cache = host.current().cache
    mine = [(name, entry.path) for name, entries in cache.entries.items() for entry in entries]
    assert sorted(mine) == sorted((name, path) for name, _, path in printed)
    for name, kind, path in printed[:200]:
        if "x86-64" in kind:
            found, _ = cache.lookup(name, 0x0303, (), 1)
            assert found is not None
            assert found.path in {other for label, _, other in printed if label == name}
            del path


@pytest.mark.parametrize(
    "data", [b"", b"x" * 100, b"glibc-ld.so.cache1.1" + b"\xff" * 200, b"ld.so-1.7.0\0" + b"\xff" * 50]
)
def test_a_damaged_cache_is_an_empty_one(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "cache").write_bytes(data)
    cache = LdCache(str(tmp_path / "cache"))
    assert cache.entries == {}
    assert cache.lookup("libz.so.1", 0x0303, (), 1) == (None, ())


def test_a_missing_cache_keeps_its_errno(tmp_path: Path) -> None:
    cache = LdCache(str(tmp_path / "none"))
    assert cache.entries == {}
    assert cache.error == 2


def test_a_host_does_not_change_and_replace_makes_another() -> None:
    here = host.current()
    with pytest.raises(AttributeError):
        here.cwd = "/"
    other = here.replace(environment={"GLIBC_TUNABLES": "glibc.rtld.nns=7"}, cwd="/elsewhere")
    assert (other.cwd, other.tunables) == ("/elsewhere", {"glibc.rtld.nns": "7"})
    assert here.cwd != "/elsewhere"
    assert other.executable == here.executable
    with pytest.raises(TypeError):
        here.replace(colour="red")


def test_what_follows_from_a_replaced_fact_is_gathered_anew() -> None:
    here = host.current()
    assert here.legacy_hwcaps or here.libc_version >= (2, 37)
    assert here.replace(libc_version=(2, 37)).legacy_hwcaps == ()
    assert here.replace(libc_version=(2, 32)).hwcaps == ()
    assert here.replace(isa_level=1).hwcaps == ()
    assert here.replace(libc_version=(2, 37), hwcaps=("mine",)).hwcaps == ("mine",)
    script = here.replace(executable="/etc/passwd")
    assert script.interpreter is None
    assert script.libc == "unknown"


def test_a_host_by_hand_reads_nothing_of_this_machine() -> None:
    made = host.Host(executable="/x/python", libc_version=(2, 28))
    assert (made.mapped, made.environment, made.cwd, made.cache.entries) == ((), {}, "/", {})
    assert made.libc_version == (2, 28)


def test_secure_mode_is_read_from_the_auxiliary_vector() -> None:
    assert host.current().secure is False


def test_it_is_quick() -> None:
    """Not a benchmark: only that nobody makes it read a directory or run a program."""
    code = """
import sys
before = set(sys.modules)
from torch_fl._preload import host
host.current().mapped
print(*sorted({"ctypes", "subprocess", "importlib.metadata", "dataclasses"} & (set(sys.modules) - before)))
"""
    assert child(code, FLAGOS_LOAD="0").strip() in ("", "dataclasses")

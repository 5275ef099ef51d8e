"""Counting, selecting and describing devices; a machine without any; forked children."""

from __future__ import annotations

import ctypes
import threading

import pytest
import torch
from torch import nn

from tests.child import minimal_environment, run
from tests.native.sdk import libxpurt
from torch_fl import flagos

OUT_OF_RANGE = r"must be in \[0, 2\), but got "


def test_module_is_torch_flagos() -> None:
    assert torch.flagos is flagos
    assert torch.get_device_module("flagos") is flagos
    assert torch.device("flagos", 1).type == "flagos"


def test_two_devices() -> None:
    assert flagos.is_available()
    assert flagos.device_count() == 2
    assert flagos.unavailable_reason() == ""


def test_accelerator_is_flagos() -> None:
    assert torch.accelerator.is_available()
    assert torch.accelerator.current_accelerator() == torch.device("flagos")
    assert torch.accelerator.device_count() == 2
    torch.accelerator.set_device_index(1)
    assert torch.accelerator.current_device_index() == 1 == flagos.current_device()
    with torch.accelerator.device_index(0):
        assert flagos.current_device() == 0
    assert flagos.current_device() == 1
    torch.accelerator.synchronize()


def attribute(number: int, index: int) -> int:
    """What the vendor's runtime says when it is asked directly, with the device selected first."""
    value = ctypes.c_uint64()
    with flagos.device(index):
        assert libxpurt().xpu_device_get_attr(ctypes.byref(value), number, index) == 0
    return value.value


@pytest.mark.parametrize("index", [0, 1])
def test_properties_are_the_vendors(index: int) -> None:
    properties = flagos.get_device_properties(index)
    assert properties.name == flagos.get_device_name(index) == "Kunlunxin KL3"
    assert properties.model == attribute(4, index)
    assert properties.total_memory == attribute(5, index)
    assert properties.cluster_count == attribute(7, index)
    assert properties.sdnn_count == attribute(8, index)
    word = attribute(0, index)
    assert properties.pci_address == (word >> 16 & 0xFFFF, word >> 8 & 0xFF, word >> 3 & 0x1F, word & 7)


def test_pci_address_is_that_of_the_device_asked_for() -> None:
    # The vendor's attribute describes the current device, whatever index it is given.
    flagos.set_device(0)
    first, second = (flagos.get_device_properties(index).pci_address for index in (0, 1))
    assert first != second
    assert flagos.current_device() == 0


def test_selecting() -> None:
    assert flagos.current_device() == 0
    flagos.set_device("flagos:1")
    assert flagos.current_device() == 1
    assert torch.empty(1, device="flagos").device == torch.device("flagos:1")
    flagos.set_device(-1)
    assert flagos.current_device() == 1
    with flagos.device(torch.device("flagos:0")):
        assert flagos.current_device() == 0
        with flagos.device(1), flagos.device(None), flagos.device(-1):
            assert flagos.current_device() == 1
        assert flagos.current_device() == 0
    assert flagos.current_device() == 1


def test_device_context_is_left_by_an_exception() -> None:
    with pytest.raises(KeyError), flagos.device(1):
        raise KeyError
    assert flagos.current_device() == 0


def test_device_of() -> None:
    with flagos.device_of(torch.empty(1, device="flagos:1")):
        assert flagos.current_device() == 1
    with flagos.device_of(torch.empty(1)):
        assert flagos.current_device() == 0


def test_torch_device_context() -> None:
    with torch.device("flagos:1"):
        assert torch.empty(2).device == torch.device("flagos:1")


def test_current_device_is_per_thread() -> None:
    flagos.set_device(1)
    seen: list[int] = []
    thread = threading.Thread(target=lambda: seen.append(flagos.current_device()))
    thread.start()
    thread.join()
    assert seen == [0]
    assert flagos.current_device() == 1


def test_tensor_and_module_methods() -> None:
    tensor = torch.arange(6.0)
    moved = tensor.flagos(1)
    assert moved.is_flagos
    assert not tensor.is_flagos
    assert moved.device == torch.device("flagos:1")
    assert moved.get_device() == 1
    assert torch.equal(moved.cpu(), tensor)
    layer = nn.Linear(2, 3).flagos()
    assert {parameter.device for parameter in layer.parameters()} == {torch.device("flagos:0")}


@pytest.mark.parametrize("index", [2, 9, 100])
@pytest.mark.parametrize(
    "use",
    [
        lambda index: torch.empty(3, device=f"flagos:{index}"),
        lambda index: torch.zeros(3).to(f"flagos:{index}"),
        lambda index: flagos.set_device(index),
        lambda index: flagos.device(index).__enter__(),
        lambda index: flagos.synchronize(index),
        lambda index: flagos.get_device_properties(index),
        lambda index: flagos.Stream(index),
        lambda index: flagos.current_stream(index),
        lambda index: flagos.memory_stats(index),
        lambda index: flagos.get_rng_state(index),
        lambda index: torch.accelerator.set_device_index(index),
    ],
    ids=[
        "empty", "to", "set_device", "context", "synchronize", "properties", "Stream", "current_stream",
        "memory_stats", "rng_state", "accelerator",
    ],
)  # fmt: skip
def test_index_out_of_range(use, index: int) -> None:
    torch.empty(1, device="flagos")  # memory_stats answers {} before the first use
    with pytest.raises(RuntimeError, match=OUT_OF_RANGE + str(index)):
        use(index)
    assert flagos.current_device() == 0


@pytest.mark.parametrize("use", [flagos.set_device, flagos.synchronize, flagos.Stream, flagos.device])
def test_device_of_another_type(use) -> None:
    with pytest.raises(ValueError, match="Expected a flagos device, but got: cpu"):
        use("cpu")


def test_amp_dtypes() -> None:
    assert flagos.is_bf16_supported()
    assert flagos.get_amp_supported_dtype() == [torch.float16, torch.bfloat16]


def test_importing_and_seeding_touch_no_device() -> None:
    result = run(
        "import os, torch, torch_fl\n"
        "torch.manual_seed(1)\n"
        "assert not torch.flagos.is_initialized()\n"
        "print(any('/xpu' in os.readlink(f'/proc/self/fd/{fd}') for fd in os.listdir('/proc/self/fd')\n"
        "          if os.path.lexists(f'/proc/self/fd/{fd}')))\n"
        "torch.empty(1, device='flagos')\n"
        "assert torch.flagos.is_initialized()\n"
    ).check()
    assert result.stdout == "False\n"


NO_DEVICE = minimal_environment(XPUEMU_DEVICES="0")


def test_no_device_is_an_answer_and_not_an_error() -> None:
    result = run(
        "import torch, torch_fl\n"
        "print(torch.flagos.is_available(), torch.flagos.device_count(), torch.accelerator.device_count())\n"
        "print(torch.flagos.unavailable_reason())\n"
        "torch.manual_seed(3)\n"
        "torch.flagos.manual_seed(3)\n"
        "torch.flagos.empty_cache()\n"
        "print(torch.flagos.memory_allocated(0), torch.flagos.get_rng_state_all())\n"
        "x = torch.ones(3, requires_grad=True)\n"
        "(x * 2).sum().backward()\n"
        "print(x.grad.tolist())\n",
        env=NO_DEVICE,
    ).check()
    first, reason, memory, gradient = result.stdout.splitlines()
    assert first == "False 0 0"
    assert "xpu_device_count()" in reason
    assert memory == "0 []"
    assert gradient == "[2.0, 2.0, 2.0]"


def test_no_device_is_said_at_first_use() -> None:
    result = run(
        "import torch, torch_fl\n"
        "for use in (lambda: torch.ones(2, device='flagos'), torch.flagos.current_device, torch.flagos.synchronize):\n"
        "    try:\n"
        "        use()\n"
        "    except RuntimeError as error:\n"
        "        print(str(error).splitlines()[0])\n",
        env=NO_DEVICE,
    ).check()
    lines = result.stdout.splitlines()
    assert len(lines) == 3
    assert all(line.startswith("no flagos device is available: xpu_device_count()") for line in lines)


def test_visible_devices_renumbers() -> None:
    result = run(
        "import torch, torch_fl\nprint(torch.flagos.device_count(), torch.flagos.get_device_properties(0).pci_address)",
        env=minimal_environment(XPU_VISIBLE_DEVICES="1"),
    ).check()
    assert result.stdout == f"1 {flagos.get_device_properties(1).pci_address}\n"


def test_another_owner_of_privateuse1_is_refused() -> None:
    result = run(
        "import os\n"
        "os.environ['TORCH_DEVICE_BACKEND_AUTOLOAD'] = '0'\n"
        "import torch\n"
        "torch.utils.rename_privateuse1_backend('other')\n"
        "try:\n"
        "    import torch_fl\n"
        "except ImportError as error:\n"
        "    print(error)\n"
        "print(torch._C._get_privateuse1_backend_name())\n"
    ).check()
    assert "torch_fl does not load: the backend other has PyTorch's PrivateUse1 device" in result.stdout
    assert result.stdout.endswith("\nother\n")


FORK = """
import os, sys, torch, torch_fl, warnings

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

use = lambda: torch.ones(2, device="flagos").sum().item()
"""
REFUSAL = (
    "RuntimeError: Cannot re-initialize flagos in forked subprocess. To use flagos with multiprocessing, you must "
    "use the 'spawn' start method"
)


def test_child_forked_before_the_first_use_may_use_the_device() -> None:
    assert run(FORK + "torch.manual_seed(0); child(use)").check().stdout == "2.0\n"


def test_child_forked_after_use_is_told_to_spawn() -> None:
    works = (
        "use",
        "torch.flagos.current_device",
        "lambda: torch.flagos.set_device(1)",
        "torch.flagos.synchronize",
        "torch.flagos.Stream",
        "lambda: x + x",
        "lambda: x.cpu()",
        "lambda: torch.empty(4).pin_memory()",
    )
    children = "".join(f"child({work})\n" for work in works)
    result = run(FORK + "x = torch.ones(2, device='flagos')\n" + children).check()
    assert dict(zip(works, result.stdout.splitlines(), strict=True)) == dict.fromkeys(works, REFUSAL)


def test_child_forked_after_use_works_on_the_cpu() -> None:
    # It also drops the parent's tensors, seeds, and runs backward, whose engine selects devices in its threads.
    result = run(
        FORK + "x = torch.ones(2, device='flagos')\n"
        "p = torch.ones(1 << 12).pin_memory()\n"
        "def work():\n"
        "    global x, p\n"
        "    del x, p\n"
        "    torch.manual_seed(1)\n"
        "    w = torch.ones(3, requires_grad=True)\n"
        "    (w * 3).sum().backward()\n"
        "    return w.grad.tolist(), torch.flagos._is_in_bad_fork(), torch.flagos.is_initialized()\n"
        "child(work)\n"
        "print(x.sum().item(), torch.flagos._is_in_bad_fork())\n"
    ).check()
    assert result.stdout == "([3.0, 3.0, 3.0], True, False)\n2.0 False\n"


def test_forked_data_loader_workers_after_use() -> None:
    result = run(
        "import torch, torch_fl\n"
        "from torch.utils.data import DataLoader\n"
        "torch.ones(1, device='flagos')\n"
        "loader = DataLoader(torch.arange(32.0), batch_size=8, num_workers=2, pin_memory=True,\n"
        "                    multiprocessing_context='fork')\n"
        "batches = list(loader)\n"
        "print(all(batch.is_pinned() for batch in batches))\n"
        "print(sum(batch.to('flagos').sum().item() for batch in batches))\n"
    ).check()
    assert result.stdout == "True\n496.0\n"


def test_device_tracing_says_once_that_it_is_unavailable() -> None:
    result = run(
        "import torch, torch_fl, warnings\n"
        "from torch_fl import _C\n"
        "with warnings.catch_warnings(record=True) as seen:\n"
        "    warnings.simplefilter('always')\n"
        "    _C._profiler_start()\n"
        "    _C._profiler_start()\n"
        "print(len(seen), seen[0].message)\n"
    ).check()
    assert result.stdout.startswith("1 device tracing is not available on kunlunxin")


def test_profiler_with_cpu_activity() -> None:
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        torch.ones(4).add_(1)
    assert "aten::add_" in {event.key for event in profile.key_averages()}

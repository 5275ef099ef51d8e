"""The emulated operator library against torch on the CPU, called by a client of its own and not by the port.

Every child seeds torch with SEED, which a failure prints: set it in the environment to repeat or to vary a run.
"""

from __future__ import annotations

import json
import os
import textwrap
from pathlib import Path

import pytest

from tests import child
from tests.native.emulated_client import compile_cxx, environment

SEED = os.environ.get("SEED", "0")

START = f"""
import random
import torch
from tests.native.emulated_client import operators
from tests.native.emulated_client.compare import *
torch.set_num_threads(1)
torch.manual_seed({SEED})
random.seed({SEED})
"""


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The operator client, compiled against the installed headers."""
    output = tmp_path_factory.mktemp("client") / "liboperator_calls.so"
    compile_cxx(Path(__file__).parent / "emulated_client" / "operator_calls.cc", output, "-O1", "-fPIC", "-shared")
    return output


def run(client: Path, snippet: str, **env: str) -> child.ChildResult:
    result = child.run(
        START + textwrap.dedent(snippet), env=environment(EMULATED_SDK_CLIENT=str(client), **env), timeout=300
    )
    if result.rc != 0:
        print(f"repeat with SEED={SEED}")
    return result.check()


SCENARIOS = [
    "sums_differences_and_products",
    "two_inputs_are_broadcast",
    "an_output_may_be_an_input",
    "division",
    "rectifying",
    "casts_between_all_types",
    "filling",
    "sums_and_means",
    "log_softmax",
    "negative_log_likelihood",
    "matrix_products",
]


@pytest.fixture(scope="module")
def outcomes(client: Path) -> dict[str, str]:
    """What became of each scenario: an empty string, or a traceback.

    One child runs them all, since torch is slow to import.
    """
    result = run(
        client,
        """
        import json, traceback
        from tests.native.emulated_client import scenarios
        said = {}
        for scenario in scenarios.SCENARIOS:
            try:
                scenario()
                said[scenario.__name__] = ""
            except Exception:
                said[scenario.__name__] = traceback.format_exc()
        print(json.dumps(said))
    """,
    )
    found: dict[str, str] = json.loads(result.stdout)
    assert set(found) == set(SCENARIOS)
    return found


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_operators_agree_with_torch(outcomes: dict[str, str], scenario: str) -> None:
    assert outcomes[scenario] == "", f"repeat with SEED={SEED}"


def test_a_target_that_is_no_class_is_the_kernels_failure(client: Path) -> None:
    run(
        client,
        """
        scores, wrong = torch.randn(3, 4), operators.upload(torch.tensor([0, 4, 1]))
        loss = operators.upload(torch.tensor(0.0))
        assert operators.call("nll_loss", operators.upload(scores), wrong, operators.ABSENT, loss) == 0
        assert operators.rt.xpu_wait(None) == -714
        assert operators.call("relu", loss, loss) == 2
    """,
    )


def test_calls_that_make_no_sense_are_refused(client: Path) -> None:
    result = run(
        client,
        """
        a, b = torch.randn(3, 4), torch.randn(3, 4)
        double = a.double()
        print("types", refused("add_tensor", [a, b.half()], a, scalars=[1]),
              refused("add_tensor", [a, b], double, scalars=[1]))
        print("double", refused("add_tensor", [double, double], double, scalars=[1]),
              refused("sum", [double], double.sum()))
        print("unknown", refused("mul_tensor", [a, b], a, types={0: 10}))
        print("shapes", refused("add_tensor", [a, b.t()], a, scalars=[1]),
              refused("add_tensor", [a, b[0]], torch.zeros(5, 3, 4), scalars=[1]),
              refused("cast", [a], torch.zeros(3, 5)))
        whole = torch.ones(2, dtype=torch.int64)
        print("numbers", refused("add_scalar", [whole], whole, scalars=[0.5, 1]))
        print("mode", refused("div_tensor_mode", [a, b], a, mode="ceil"))
        x = operators.upload(a)
        outside = x._replace(address=x.address + 4)
        host = x._replace(address=a.data_ptr())
        print("addresses", operators.call("relu", outside, x), operators.call("relu", x, outside),
              operators.call("relu", host, x))
        operators.rt.xpu_set_device(1)
        elsewhere = operators.upload(a)
        operators.rt.xpu_set_device(0)
        print("device", operators.call("relu", elsewhere, x), operators.call("relu", x, x))
        operators.free(x)
        print("freed", operators.call("relu", x, x))
    """,
    )
    assert result.stdout.splitlines() == [
        "types 1 1",
        "double 4 4",
        "unknown 4",
        "shapes 1 1 1",
        "numbers 1",
        "mode 1",
        "addresses 1 1 1",
        "device 1 0",
        "freed 1",
    ]
    assert result.stderr == ""


def test_work_goes_to_the_contexts_stream(client: Path) -> None:
    result = run(
        client,
        """
        import ctypes
        rt, libc = operators.rt, ctypes.CDLL(None)
        stream, semaphore = ctypes.c_void_p(), ctypes.create_string_buffer(64)
        rt.xpu_stream_create(ctypes.byref(stream))
        x = operators.upload(torch.ones(8))
        operators.set_stream(stream)
        libc.sem_init(semaphore, 0, 0)
        rt.xpuemu_enqueue(stream, ctypes.cast(libc.sem_wait, ctypes.c_void_p), semaphore, None)
        print(operators.call("mul_scalar", x, x, scalars=[2]), operators.download(x)[0].item())
        libc.sem_post(semaphore)
        print(rt.xpu_wait(stream), operators.download(x)[0].item(), operators.device_type())
        rt.xpu_stream_destroy(stream)
        print(operators.call("mul_scalar", x, x, scalars=[2]))
    """,
    )
    assert result.stdout.splitlines() == ["0 1.0", "0 2.0 3", "2"]


def test_debug_output_has_the_vendors_shape(client: Path) -> None:
    result = run(
        client,
        """
        a = torch.ones(2)
        refused("mul_tensor", [a.double(), a.double()], a.double())
        refused("mul_tensor", [a, a.half()], a)
        check("mul_tensor", [a, a], a)
        """,
        XPUAPI_DEBUG="0x1001",
    )
    lines = result.stderr.splitlines()
    assert lines[0].startswith("[NOT IMPLEMENTED] xdnn_pytorch_mul_tensor(ctx, api::kXPU3) error code=4 ")
    assert "xdnn_pytorch_wrapper/mul_tensor.cpp:" in lines[0]
    assert lines[1].startswith("[INVALID PARAMETER] xdnn_pytorch_mul_tensor(ctx, api::kXPU3) error code=1 ")
    assert lines[2] == "xdnn_pytorch_mul_tensor(ctx, api::kXPU3)"


def test_types_can_be_refused_on_demand(client: Path) -> None:
    result = run(
        client,
        """
        for dtype in FLOATING:
            a = torch.ones(2, dtype=dtype)
            x = operators.upload(a)
            print(operators.call("relu", x, x))
        """,
        XPUEMU_NOT_IMPLEMENT="bfloat16,float16",
    )
    assert result.stdout.split() == ["0", "4", "4"]


def test_a_chosen_launch_fails(client: Path) -> None:
    result = run(
        client,
        """
        x = operators.upload(torch.ones(2))
        print([operators.call("mul_scalar", x, x, scalars=[2]) for _ in range(3)][:2])
        print(operators.rt.xpu_wait(None), operators.rt.xpu_wait(None), operators.call("relu", x, x))
        """,
        XPUEMU_FAILING_LAUNCH="3",
    )
    assert result.stdout.splitlines() == ["[0, 0]", "-714 -713 2"]

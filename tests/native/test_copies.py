"""copy_ in every combination of devices, layouts and dtypes, against the same copy on the CPU."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from tests.native.launches import Launched
from tests.native.sdk import Gate, eventually
from torch_fl import flagos

DEVICES = ("cpu", "flagos:0", "flagos:1")
# Every pair of places that has a flagos tensor in it.
PAIRS = [(source, target) for source in DEVICES for target in DEVICES if (source, target) != ("cpu", "cpu")]
DTYPES = (
    torch.float32,
    torch.float64,
    torch.float16,
    torch.bfloat16,
    torch.int64,
    torch.int32,
    torch.int16,
    torch.int8,
    torch.uint8,
    torch.bool,
    torch.complex64,
    torch.complex128,
)
OTHER_DTYPES = (torch.float8_e4m3fn, torch.float8_e5m2, torch.uint16, torch.uint32, torch.uint64, torch.complex32)


@pytest.fixture(autouse=True)
def _fresh_device() -> None:
    """In place of the folder's own: nothing here counts memory, and collecting garbage 500 times takes a minute."""


def numbers(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """Different small whole numbers, which every dtype but bool keeps."""
    count = torch.Size(shape).numel()
    return torch.arange(count).remainder(100).reshape(shape).to(dtype)


# The same sizes with different strides, from a contiguous (4, 6) tensor.
LAYOUTS: dict[str, Callable[[Tensor], Tensor]] = {
    "contiguous": lambda t: t,
    "transposed": lambda t: t.view(6, 4).t(),
    "padded": lambda t: t.new_zeros(4, 9)[:, 2:8].copy_(t),
    "reversed rows": lambda t: t.new_zeros(4, 2, 6)[:, 1].copy_(t),
}


def to_place(t: Tensor, device: str) -> Tensor:
    return t.clone().to(device)


@pytest.mark.parametrize(("source", "target"), PAIRS)
@pytest.mark.parametrize("from_layout", LAYOUTS)
@pytest.mark.parametrize("to_layout", LAYOUTS)
def test_layouts(source: str, target: str, from_layout: str, to_layout: str) -> None:
    data, blank = numbers(4, 6), torch.zeros(4, 6)
    expected = LAYOUTS[from_layout](data.clone())
    there = LAYOUTS[from_layout](to_place(data, source))
    here = LAYOUTS[to_layout](to_place(blank, target))
    assert here.copy_(there) is here
    assert torch.equal(here.cpu(), expected)


@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_what_lies_between_the_elements_stays(source: str, target: str) -> None:
    data = numbers(4, 3)
    frame = torch.full((4, 9), -1.0).to(target)
    frame[:, 1:7:2].copy_(data.to(source))
    expected = torch.full((4, 9), -1.0)
    expected[:, 1:7:2] = data
    assert torch.equal(frame.cpu(), expected)


@pytest.mark.parametrize(("source", "target"), PAIRS)
@pytest.mark.parametrize("shape", [(1, 6), (4, 1), (1, 1), (6,), ()], ids=str)
def test_broadcasting(source: str, target: str, shape: tuple[int, ...]) -> None:
    data = numbers(*shape) + 1
    for dtype in (torch.float32, torch.int64, torch.complex64):
        result = torch.zeros(4, 6, dtype=dtype, device=target).copy_(data.to(source))
        assert torch.equal(result.cpu(), torch.zeros(4, 6, dtype=dtype).copy_(data))


@pytest.mark.parametrize(("source", "target"), PAIRS)
@pytest.mark.parametrize("to", DTYPES, ids=str)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.filterwarnings("ignore:Casting complex values to real discards the imaginary part")
def test_dtypes(source: str, target: str, dtype: torch.dtype, to: torch.dtype) -> None:
    data = numbers(4, 6, dtype=dtype)
    expected = torch.zeros(4, 6, dtype=to).copy_(data)
    result = torch.zeros(4, 6, dtype=to, device=target).copy_(data.to(source))
    assert torch.equal(result.cpu(), expected)
    sliced = torch.zeros(4, 6, dtype=to, device=target)
    sliced[:, ::2].copy_(data.to(source)[:, 1::2])
    assert torch.equal(sliced.cpu()[:, ::2], expected[:, 1::2])


@pytest.mark.filterwarnings("ignore:ComplexHalf support is experimental")
@pytest.mark.parametrize("dtype", OTHER_DTYPES, ids=str)
def test_dtypes_that_the_library_does_not_know_move_as_bytes(dtype: torch.dtype) -> None:
    data = numbers(4, 6).to(dtype)
    there = data.to("flagos")
    with Launched("cast") as launched:
        packed = there.t().contiguous()
    assert launched.total == 1
    assert torch.equal(packed.cpu().view(torch.uint8), data.t().contiguous().view(torch.uint8))
    assert torch.equal(there.to(torch.float32).cpu(), data.to(torch.float32))


def test_casts_on_the_device_use_the_library() -> None:
    x = numbers(4, 6).to("flagos")
    with Launched("cast") as launched:
        y = x.to(torch.int32)
    assert launched.total == 1
    assert torch.equal(y.cpu(), numbers(4, 6, dtype=torch.int32))


def test_special_values_survive() -> None:
    special = torch.tensor([float("nan"), float("inf"), -float("inf"), -0.0, 1e-45, 3.4e38])
    for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16):
        expected = special.to(dtype)
        torch.testing.assert_close(special.to("flagos").to(dtype).cpu(), expected, equal_nan=True, rtol=0, atol=0)
        # The sign of a NaN is nobody's promise.
        assert torch.equal(special.to("flagos").to(dtype).cpu()[1:].signbit(), expected[1:].signbit())


# Lazy conjugation and negation ---------------------------------------------------------------------------------------

BITS: dict[str, Callable[[Tensor], Tensor]] = {
    "conjugated": lambda t: t.conj(),
    "negated": lambda t: torch._neg_view(t),
    "both": lambda t: torch._neg_view(t.conj()),
    "imaginary part of a conjugate": lambda t: t.conj().imag,
    "sliced": lambda t: t[:, ::2].conj(),
}


@pytest.mark.parametrize(("source", "target"), PAIRS)
@pytest.mark.parametrize("bits", BITS)
def test_lazy_bits_of_the_source(source: str, target: str, bits: str) -> None:
    data = torch.complex(numbers(4, 6), numbers(4, 6) + 1)
    lazy = BITS[bits](data.to(source))
    assert lazy.is_conj() or lazy.is_neg()
    expected = BITS[bits](data).clone().resolve_conj().resolve_neg()
    assert torch.equal(lazy.to(target).resolve_conj().resolve_neg().cpu(), expected)
    result = torch.zeros(expected.shape, dtype=expected.dtype, device=target).copy_(lazy)
    assert torch.equal(result.cpu(), expected)


@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_lazy_bits_of_the_target(source: str, target: str) -> None:
    data = torch.complex(numbers(4, 6), numbers(4, 6) + 1)
    result = torch.zeros(4, 6, dtype=torch.complex64, device=target)
    result.conj().copy_(data.to(source))
    assert torch.equal(result.cpu(), data.conj().resolve_conj())
    torch._neg_view(result).copy_(data.to(source))
    assert torch.equal(result.cpu(), -data)
    result.conj().copy_(data.to(source).conj())
    assert torch.equal(result.cpu(), data)


# Blocking and not ----------------------------------------------------------------------------------------------------


def test_a_copy_from_pinned_memory_may_return_before_it_has_run() -> None:
    pinned = numbers(1000).pin_memory()
    target = torch.zeros(1000, device="flagos")
    with Gate() as gate:
        target.copy_(pinned, non_blocking=True)
        gate.open()
        assert torch.equal(target.cpu(), numbers(1000))


def test_pinned_memory_stays_while_a_copy_waits() -> None:
    target = torch.zeros(1000, device="flagos")
    with Gate() as gate:
        pinned = numbers(1000).pin_memory()
        address = pinned.data_ptr()
        target.copy_(pinned, non_blocking=True)
        del pinned
        reused = [torch.full((1000,), -1.0).pin_memory() for _ in range(4)]
        assert address not in [tensor.data_ptr() for tensor in reused]
        gate.open()
        assert torch.equal(target.cpu(), numbers(1000))


def test_a_copy_to_pinned_memory_may_return_before_it_has_run() -> None:
    source = numbers(1000).to("flagos")
    pinned = torch.zeros(1000).pin_memory()
    with Gate() as gate:
        pinned.copy_(source, non_blocking=True)
        assert not pinned.any()
        gate.open()
        flagos.synchronize()
        assert torch.equal(pinned, numbers(1000))


# What cannot be left to run later is waited for: pageable memory, another dtype, another layout.
WAITING: dict[str, Callable[[Tensor], Tensor]] = {
    "from pageable memory": lambda x: torch.zeros(1000, device="flagos").copy_(numbers(1000), non_blocking=True),
    "to pageable memory": lambda x: torch.zeros(1000).copy_(x, non_blocking=True),
    "to another dtype": lambda x: torch.zeros(1000, dtype=torch.int64).pin_memory().copy_(x, non_blocking=True),
    "to another layout": lambda x: torch.zeros(2000).pin_memory()[::2].copy_(x, non_blocking=True),
    "to another device": lambda x: torch.zeros(1000, device="flagos:1").copy_(x, non_blocking=True),
}


@pytest.mark.parametrize("case", WAITING)
def test_non_blocking_waits_where_it_must(case: str) -> None:
    source = numbers(1000).to("flagos")
    flagos.synchronize()
    results: list[Tensor] = []
    with Gate() as gate:
        thread = threading.Thread(target=lambda: results.append(WAITING[case](source)))
        thread.start()
        thread.join(0.05)
        assert thread.is_alive()
        gate.open()
        thread.join(10)
    assert torch.equal(results[0].float().cpu(), numbers(1000))


def test_a_blocking_copy_waits_for_the_current_stream_only() -> None:
    stream = flagos.Stream()
    x = numbers(1000).to("flagos")
    flagos.synchronize()
    with Gate(), flagos.stream(stream):
        assert torch.equal((x + 1).cpu(), numbers(1000) + 1)


def test_copies_follow_the_current_stream() -> None:
    x = torch.zeros(1000, device="flagos")
    flagos.synchronize()
    stream = flagos.Stream()
    with flagos.stream(stream), Gate(stream) as gate:
        x.copy_(numbers(1000).pin_memory(), non_blocking=True)
        assert not stream.query()
        gate.open()
        assert eventually(stream.query)
        assert torch.equal(x.cpu(), numbers(1000))


def test_record_stream_takes_a_stream() -> None:
    x = numbers(10).to("flagos")
    x.record_stream(flagos.Stream())
    assert torch.equal(x.cpu(), numbers(10))


# Edges ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_nothing_and_numbers(source: str, target: str) -> None:
    assert torch.empty(0, 3, device=source).to(target).shape == (0, 3)
    assert torch.zeros((), device=target).copy_(torch.tensor(2.5, device=source)).item() == 2.5
    assert torch.zeros(0, 3, device=target).copy_(torch.zeros(1, 3, device=source)).shape == (0, 3)


@pytest.mark.parametrize("dtype", [*DTYPES, torch.float8_e4m3fn, torch.uint32], ids=str)
def test_item(dtype: torch.dtype) -> None:
    data = numbers(5).to(dtype)
    assert data.to("flagos:1")[3].item() == data[3].item()


def test_item_of_a_conjugate() -> None:
    assert torch.tensor(1 + 2j, device="flagos").conj().item() == 1 - 2j


COPY_ERRORS: dict[str, Callable[[Tensor], Tensor]] = {
    "larger source": lambda x: x[0].copy_(x.clone()),
    "other shape": lambda x: x.copy_(x[:, :2]),
    "onto itself, shifted": lambda x: x.view(-1)[1:].copy_(x.view(-1)[:-1]),
    "into one element seen many times": lambda x: x[:1, :1].expand(4, 5).copy_(x),
}


@pytest.mark.parametrize("case", COPY_ERRORS)
def test_errors_read_as_on_the_cpu(case: str) -> None:
    with pytest.raises(RuntimeError) as expected:
        COPY_ERRORS[case](numbers(4, 5))
    with pytest.raises(RuntimeError) as raised:
        COPY_ERRORS[case](numbers(4, 5).to("flagos"))
    assert str(raised.value) == str(expected.value)


def test_a_device_that_does_not_exist() -> None:
    with pytest.raises(RuntimeError, match=r"\[0, 2\), but got 9"):
        torch.empty(3, device="flagos:9")


# Views and storage: what a tensor is before it computes ---------------------------------------------------------------

VIEWS: dict[str, Callable[[Tensor], Tensor]] = {
    "view": lambda t: t.view(2, 12),
    "reshape": lambda t: t.t().reshape(3, 8),
    "as_strided": lambda t: t.as_strided((3, 2), (2, 5), 3),
    "unfold": lambda t: t.unfold(1, 3, 2),
    "view as another dtype": lambda t: t.view(torch.int32),
    "select, narrow, transpose": lambda t: t[1:].narrow(1, 2, 3).transpose(0, 1),
    "expand": lambda t: t[:1].expand(5, 6),
    "diagonal": lambda t: t.diagonal(1),
    "split": lambda t: t.split(4, 1)[1],
    "flatten": lambda t: t.flatten(),
    "channels last": lambda t: t.view(1, 2, 3, 4).contiguous(memory_format=torch.channels_last),
}


@pytest.mark.parametrize("case", VIEWS)
def test_views(case: str) -> None:
    data = numbers(4, 6)
    there = VIEWS[case](data.to("flagos"))
    expected = VIEWS[case](data)
    assert there.stride() == expected.stride()
    assert there.storage_offset() == expected.storage_offset()
    assert torch.equal(there.cpu(), expected)


def test_views_share_memory() -> None:
    x = torch.zeros(4, 6, device="flagos")
    x.view(2, 12)[1].fill_(1)
    x.unfold(1, 3, 3)[0, 1].fill_(2)
    expected = torch.zeros(4, 6)
    expected.view(2, 12)[1].fill_(1)
    expected.unfold(1, 3, 3)[0, 1].fill_(2)
    assert torch.equal(x.cpu(), expected)
    z = torch.zeros(3, dtype=torch.complex64, device="flagos")
    torch.view_as_real(z)[:, 1] = 1
    assert torch.equal(z.cpu(), torch.full((3,), 1j, dtype=torch.complex64))
    pairs = torch.ones(3, 2, device="flagos")
    torch.view_as_complex(pairs).zero_()
    assert not pairs.cpu().any()


def test_resize_and_set() -> None:
    x = numbers(4, 6).to("flagos")
    before = x.data_ptr()
    x.resize_(2, 3)
    assert x.data_ptr() == before
    assert torch.equal(x.cpu(), numbers(2, 3))
    x.resize_(100, 100)
    assert torch.equal(x.view(-1)[:24].cpu(), numbers(24))
    x.resize_(1, 2, 3, 4, memory_format=torch.channels_last)
    assert x.is_contiguous(memory_format=torch.channels_last)
    y = torch.empty(0, device="flagos")
    y.set_(x)
    assert y.data_ptr() == x.data_ptr()
    y.set_(x.untyped_storage(), 2, (3, 2), (2, 1))
    assert torch.equal(y.cpu(), numbers(24)[2:8].view(3, 2))
    y.set_()
    assert y.numel() == 0
    assert y.device == x.device
    with pytest.raises(RuntimeError, match="Attempted to set the storage of a tensor on device"):
        y.set_(torch.empty(3))
    with pytest.raises(RuntimeError, match="negative dimension"):
        torch.empty(-1, device="flagos")
    with pytest.raises(RuntimeError, match="Only dense CPU tensors can be pinned"):
        torch.empty(3, device="flagos", pin_memory=True)


def test_deterministic_mode_fills_new_memory() -> None:
    torch.use_deterministic_algorithms(True)
    try:
        assert torch.empty(7, device="flagos").isnan().all()
        assert torch.empty_strided((3,), (2,), dtype=torch.int32, device="flagos").eq(2**31 - 1).all()
        assert torch.ones(2, device="flagos").resize_(4).isnan().cpu().tolist() == [False, False, True, True]
    finally:
        torch.use_deterministic_algorithms(False)


def test_saving_and_loading(tmp_path: object) -> None:
    path = f"{tmp_path}/tensor.pt"
    x = numbers(4, 6).to("flagos:1")
    torch.save({"x": x, "view": x[1]}, path)
    loaded = torch.load(path)
    assert loaded["x"].device == torch.device("flagos", 1)
    assert torch.equal(loaded["view"].cpu(), numbers(4, 6)[1])
    assert loaded["view"].untyped_storage().data_ptr() == loaded["x"].untyped_storage().data_ptr()
    assert torch.load(path, map_location="cpu")["x"].device.type == "cpu"

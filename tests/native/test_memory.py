"""Allocation, caching, copies, pinned memory, and running out of it."""

from __future__ import annotations

import ctypes
import random
import threading
from collections.abc import Callable

import pytest
import torch

from tests.child import minimal_environment, run
from tests.native.sdk import Gate, eventually, libxpurt, statistic
from torch_fl import flagos

KIB = 1024
MIB = 1024 * KIB


def in_background(work: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


def numbers(count: int) -> torch.Tensor:
    """`count` int32 values that differ from those of a neighbouring range."""
    return torch.arange(count, dtype=torch.int32)


# --- the caching allocator


@pytest.mark.parametrize(("requested", "charged"), [(1, 512), (512, 512), (513, 1024), (3 * MIB, 3 * MIB)])
def test_allocated_counts_blocks_of_512_bytes(requested: int, charged: int) -> None:
    before = flagos.memory_allocated()
    tensor = torch.empty(requested, dtype=torch.uint8, device="flagos")
    assert flagos.memory_allocated() - before == charged
    assert torch.accelerator.memory_allocated(0) == flagos.memory_allocated()
    del tensor
    assert flagos.memory_allocated() == before


def test_reserved_is_what_the_vendor_has_given() -> None:
    tensors = [torch.empty(size, device=f"flagos:{index}") for size in (5, 3 * MIB, 17 * MIB) for index in (0, 1)]
    assert flagos.memory_reserved(0) + flagos.memory_reserved(1) == statistic("bytes_in_use")
    del tensors
    assert flagos.memory_reserved(0) + flagos.memory_reserved(1) == statistic("bytes_in_use") > 0
    flagos.empty_cache()
    assert flagos.memory_reserved(0) + flagos.memory_reserved(1) == statistic("bytes_in_use")


def test_nothing_is_allocated_for_no_elements() -> None:
    torch.empty(1, device="flagos")
    before = statistic("mallocs"), flagos.memory_stats()["allocation.all.allocated"]
    empty = torch.empty(0, 3, device="flagos:1")
    assert empty.data_ptr() == 0
    assert empty.device == torch.device("flagos:1")
    assert empty.cpu().shape == (0, 3)
    assert (statistic("mallocs"), flagos.memory_stats()["allocation.all.allocated"]) == before


def test_freed_memory_is_used_again() -> None:
    first = torch.empty(5 * MIB, dtype=torch.uint8, device="flagos")
    address = first.data_ptr()
    del first
    mallocs = statistic("mallocs")
    second = torch.empty(5 * MIB, dtype=torch.uint8, device="flagos")
    assert second.data_ptr() == address
    assert statistic("mallocs") == mallocs


def test_small_tensors_share_a_segment_which_heals() -> None:
    flagos.empty_cache()
    mallocs, reserved = statistic("mallocs"), flagos.memory_reserved()
    tensors = [torch.empty(4 * KIB, dtype=torch.uint8, device="flagos") for _ in range(512)]
    assert statistic("mallocs") - mallocs == 1
    addresses = sorted(tensor.data_ptr() for tensor in tensors)
    assert addresses == list(range(addresses[0], addresses[0] + 2 * MIB, 4 * KIB))
    random.Random(0).shuffle(tensors)
    tensors.clear()
    # All pieces have merged again: the segment can go back as a whole.
    assert flagos.memory_stats()["inactive_split.all.current"] == 0
    flagos.empty_cache()
    assert flagos.memory_reserved() == reserved


def test_large_block_is_cut() -> None:
    flagos.empty_cache()
    whole = torch.empty(64 * MIB, dtype=torch.uint8, device="flagos")
    start = whole.data_ptr()
    del whole
    mallocs = statistic("mallocs")
    parts = [torch.empty(16 * MIB, dtype=torch.uint8, device="flagos") for _ in range(4)]
    assert sorted(part.data_ptr() - start for part in parts) == [0, 16 * MIB, 32 * MIB, 48 * MIB]
    assert statistic("mallocs") == mallocs


def test_empty_cache_keeps_what_is_in_use() -> None:
    kept = numbers(MIB).to("flagos")
    torch.empty(9 * MIB, device="flagos")
    flagos.empty_cache()
    assert flagos.memory_reserved() >= kept.nbytes
    assert torch.equal(kept.cpu(), numbers(MIB))


def test_streams_do_not_share_cached_blocks() -> None:
    side = flagos.Stream()
    freed = torch.empty(MIB, dtype=torch.uint8, device="flagos")
    address = freed.data_ptr()
    del freed
    with flagos.stream(side):
        other = torch.empty(MIB, dtype=torch.uint8, device="flagos")
    assert other.data_ptr() != address
    assert torch.empty(MIB, dtype=torch.uint8, device="flagos").data_ptr() == address


def test_record_stream_keeps_a_block_until_the_stream_has_passed() -> None:
    side = flagos.Stream()
    block = torch.empty(MIB, dtype=torch.uint8, device="flagos")
    address = block.data_ptr()
    with Gate(side) as gate:
        block.record_stream(side)
        del block
        assert flagos.memory_stats()["active_bytes.all.current"] > flagos.memory_allocated()
        meanwhile = torch.empty(MIB, dtype=torch.uint8, device="flagos")
        assert meanwhile.data_ptr() != address
        gate.open()
        side.synchronize()
        assert torch.empty(MIB, dtype=torch.uint8, device="flagos").data_ptr() == address


def test_without_record_stream_a_block_is_reused_at_once() -> None:
    # The contrast that shows what the test above measures.
    block = torch.empty(MIB, dtype=torch.uint8, device="flagos")
    address = block.data_ptr()
    with Gate(flagos.Stream()):
        del block
        assert torch.empty(MIB, dtype=torch.uint8, device="flagos").data_ptr() == address


def test_record_stream_refuses_a_stream_of_another_kind() -> None:
    with pytest.raises(RuntimeError):
        torch.empty(1, device="flagos").record_stream(torch.Stream("cpu"))


def test_peak_and_accumulated_statistics() -> None:
    flagos.reset_peak_memory_stats()
    flagos.reset_accumulated_memory_stats()
    base = flagos.memory_allocated()
    torch.empty(8 * MIB, dtype=torch.uint8, device="flagos")
    assert flagos.max_memory_allocated() == base + 8 * MIB
    assert flagos.max_memory_reserved() >= base + 8 * MIB
    statistics = flagos.memory_stats()
    assert statistics["allocated_bytes.all.allocated"] == 8 * MIB == statistics["allocated_bytes.large_pool.freed"]
    assert statistics["requested_bytes.all.allocated"] == 8 * MIB
    flagos.reset_peak_memory_stats()
    assert flagos.max_memory_allocated() == base


def test_statistics_of_a_device_never_used() -> None:
    result = run(
        "import torch, torch_fl\n"
        "print(torch.flagos.memory_stats())\n"
        "torch.ones(1, device='flagos')\n"
        "print(torch.flagos.memory_stats(1)['reserved_bytes.all.current'])\n"
    ).check()
    assert result.stdout == "OrderedDict()\n0\n"


def test_free_memory_is_refused_and_not_guessed() -> None:
    with pytest.raises(NotImplementedError, match="the vendor's runtime has no query for it"):
        flagos.mem_get_info()


def test_threads_never_get_the_same_memory() -> None:
    """Four threads allocate, fill, check and free at random."""
    seed = 20
    before = flagos.memory_allocated()
    failures: list[str] = []

    def work(thread: int) -> None:
        chosen = random.Random(seed + thread)
        held: list[tuple[torch.Tensor, torch.Tensor]] = []
        for _ in range(150):
            if held and chosen.random() < 0.5:
                tensor, expected = held.pop(chosen.randrange(len(held)))
                if not torch.equal(tensor.cpu(), expected):
                    failures.append(f"seed {seed}, thread {thread}: {tensor.shape} was overwritten")
            else:
                size = chosen.choice([1, 100, 5000, 300_000, 1_500_000])
                expected = torch.full((size,), thread * 1000 + len(held), dtype=torch.int16)
                held.append((expected.to("flagos"), expected))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert flagos.memory_allocated() == before


# --- running out of memory

SMALL_DEVICE = minimal_environment(XPUEMU_MEMORY_MIB="64")


def test_out_of_memory_says_how_much_and_can_be_recovered_from() -> None:
    result = run(
        "import torch, torch_fl\n"
        "held = torch.empty(40 << 20, dtype=torch.uint8, device='flagos')\n"
        "try:\n"
        "    torch.empty(30 << 20, dtype=torch.uint8, device='flagos')\n"
        "except torch.OutOfMemoryError as error:\n"
        "    print(error)\n"
        "print(torch.flagos.memory_stats()['num_ooms'])\n"
        "del held\n"
        "print(torch.zeros(30 << 20, dtype=torch.uint8, device='flagos')[:2].tolist())\n",
        env=SMALL_DEVICE,
    ).check()
    message, count, recovered = result.stdout.splitlines()
    assert message == (
        "flagos out of memory. Tried to allocate 30.00 MiB. Device 0 has a total capacity of 64.00 MiB, of which "
        "this process has 40.00 MiB allocated by PyTorch and 0 bytes reserved by PyTorch but unallocated "
        "(40.00 MiB in all). xpu_malloc(31457280 bytes) on device 0: Device memory not enough (705)"
    )
    assert count == "1"
    assert recovered == "[0, 0]"


def test_cache_is_given_back_before_running_out() -> None:
    result = run(
        "import torch, torch_fl\n"
        "for _ in range(2):\n"
        "    torch.empty(40 << 20, dtype=torch.uint8, device='flagos')\n"
        "torch.empty(60 << 20, dtype=torch.uint8, device='flagos')\n"
        "statistics = torch.flagos.memory_stats()\n"
        "print(statistics['num_alloc_retries'], statistics['num_ooms'], torch.flagos.memory_reserved() >> 20)\n",
        env=SMALL_DEVICE,
    ).check()
    assert result.stdout == "1 0 60\n"


def test_nearly_full_device_still_gives_what_fits() -> None:
    # A request of 2 MiB is served from a segment of 20 MiB, which no longer fits.
    result = run(
        "import torch, torch_fl\n"
        "held = torch.empty(58 << 20, dtype=torch.uint8, device='flagos')\n"
        "print(torch.zeros(2 << 20, dtype=torch.uint8, device='flagos')[-1].item())\n",
        env=SMALL_DEVICE,
    ).check()
    assert result.stdout == "0\n"


def test_block_waiting_for_a_stream_is_waited_for_before_running_out() -> None:
    result = run(
        "import torch, torch_fl\n"
        "side = torch.flagos.Stream()\n"
        "block = torch.empty(40 << 20, dtype=torch.uint8, device='flagos')\n"
        "with torch.flagos.stream(side):\n"
        "    copy = block[:4].clone()\n"
        "block.record_stream(side)\n"
        "del block\n"
        "print(torch.empty(60 << 20, dtype=torch.uint8, device='flagos').numel())\n",
        env=SMALL_DEVICE,
    ).check()
    assert result.stdout == f"{60 << 20}\n"


# --- copies

SIZES = [0, 1, 3, 255 * KIB, MIB // 4, MIB // 4 + 1, 3 * MIB + 7]


@pytest.mark.parametrize("count", SIZES)
@pytest.mark.parametrize("pinned", [False, True], ids=["pageable", "pinned"])
@pytest.mark.parametrize("non_blocking", [False, True])
def test_round_trip(count: int, pinned: bool, non_blocking: bool) -> None:
    source = numbers(count)
    if pinned:
        source = source.pin_memory()
    there = source.to("flagos:1", non_blocking=non_blocking)
    back = torch.empty(count, dtype=torch.int32, pin_memory=pinned)
    back.copy_(there, non_blocking=non_blocking)
    flagos.synchronize(1)
    assert torch.equal(back, numbers(count))


@pytest.mark.parametrize("non_blocking", [False, True])
def test_pinned_copies_stay_below_what_the_runtime_accepts(non_blocking: bool) -> None:
    # A pinned asynchronous copy of more than 1 MiB fails with -999 and leaves the P800's runtime unusable.
    result = run(
        "import torch, torch_fl\n"
        "source = torch.arange(900_000).pin_memory()\n"
        f"there = source.to('flagos', non_blocking={non_blocking})\n"
        "back = torch.empty_like(source).pin_memory()\n"
        f"back.copy_(there, non_blocking={non_blocking})\n"
        "torch.flagos.synchronize()\n"
        "print(torch.equal(source, back))\n",
        env=minimal_environment(XPUEMU_PINNED_COPY_LIMIT=str(MIB)),
    ).check()
    assert result.stdout == "True\n"


def test_pinned_copy_to_the_device_does_not_wait() -> None:
    source = numbers(MIB).pin_memory()
    target = torch.empty(MIB, dtype=torch.int32, device="flagos")
    flagos.synchronize()
    with Gate() as gate:
        target.copy_(source, non_blocking=True)
        assert not flagos.current_stream().query()
        gate.open()
        assert torch.equal(target.cpu(), source)


def test_pinned_copy_to_the_host_does_not_wait() -> None:
    source = numbers(MIB).to("flagos")
    target = torch.zeros(MIB, dtype=torch.int32).pin_memory()
    flagos.synchronize()
    with Gate() as gate:
        target.copy_(source, non_blocking=True)
        assert not target.any()
        gate.open()
        flagos.synchronize()
        assert torch.equal(target, numbers(MIB))


def test_pageable_copy_has_completed_on_return() -> None:
    # The host memory may be freed or overwritten at once.
    source = numbers(KIB)
    target = torch.empty(KIB, dtype=torch.int32, device="flagos")
    with Gate() as gate:
        thread = in_background(lambda: target.copy_(source, non_blocking=True))
        thread.join(0.1)
        assert thread.is_alive()
        gate.open()
        thread.join(10)
        assert not thread.is_alive()
    source.zero_()
    assert torch.equal(target.cpu(), numbers(KIB))


def test_pinned_memory_is_not_reused_while_it_is_being_copied() -> None:
    source = numbers(MIB).pin_memory()
    address = source.data_ptr()
    target = torch.empty(MIB, dtype=torch.int32, device="flagos")
    with Gate() as gate:
        target.copy_(source, non_blocking=True)
        del source
        other = torch.zeros(MIB, dtype=torch.int32, pin_memory=True)
        assert other.data_ptr() != address
        gate.open()
        assert torch.equal(target.cpu(), numbers(MIB))
    assert torch.empty(MIB, dtype=torch.int32, pin_memory=True).data_ptr() == address


@pytest.mark.parametrize(("first", "second"), [(0, 1), (1, 0)])
def test_copy_between_devices_is_ordered_with_both(first: int, second: int) -> None:
    pinned = numbers(MIB).pin_memory()
    source = torch.empty(MIB, dtype=torch.int32, device=f"flagos:{first}")
    target = torch.empty(MIB, dtype=torch.int32, device=f"flagos:{second}")
    with Gate(flagos.current_stream(first)) as before, Gate(flagos.current_stream(second)) as after:
        source.copy_(pinned, non_blocking=True)
        thread = in_background(lambda: target.copy_(source))
        before.open()
        thread.join(0.1)
        assert thread.is_alive(), "the copy overtook work on the device it writes to"
        after.open()
        thread.join(10)
        assert not thread.is_alive()
    assert torch.equal(target.cpu(), numbers(MIB))


def test_copy_within_a_device_does_not_wait() -> None:
    source = numbers(MIB).to("flagos")
    target = torch.zeros(MIB, dtype=torch.int32, device="flagos")
    flagos.synchronize()
    with Gate() as gate:
        target.copy_(source)
        gate.open()
    assert torch.equal(target.cpu(), numbers(MIB))


def test_every_dtype_travels() -> None:
    for dtype in [
        torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.bfloat16,
        torch.float32, torch.float64, torch.complex64, torch.complex128,
    ]:  # fmt: skip
        tensor = torch.tensor([[0, 1], [2, 3]]).to(dtype)
        assert torch.equal(tensor.to("flagos").cpu(), tensor), dtype


# --- pinned memory and storages


def test_pinned_memory_is_known_inside_and_out() -> None:
    tensor = torch.zeros(MIB).pin_memory()
    assert tensor.is_pinned()
    assert tensor[17:].is_pinned()
    assert not torch.zeros(MIB).is_pinned()
    assert torch.empty(3, pin_memory=True).is_pinned()


def test_memory_pinned_by_another_allocator_is_known() -> None:
    torch.empty(1, device="flagos")
    buffer = ctypes.create_string_buffer(8 * KIB)
    address = ctypes.c_void_p(ctypes.addressof(buffer))
    tensor = torch.frombuffer(buffer, dtype=torch.uint8)
    assert not tensor.is_pinned()
    assert libxpurt().xpu_host_register(address, ctypes.c_uint64(8 * KIB), 0) == 0
    try:
        assert tensor.is_pinned()
        assert tensor[100:].is_pinned()
        # Nobody can keep it alive for us, so the copy is waited for.
        assert tensor.to("flagos", non_blocking=True).sum().item() == 0
        assert flagos.current_stream().query()
    finally:
        assert libxpurt().xpu_host_unregister(address) == 0
    assert not tensor.is_pinned()


def test_host_cache_is_given_back() -> None:
    torch.accelerator.empty_host_cache()
    before = statistic("host_bytes")
    torch.empty(3 * MIB, pin_memory=True)
    assert statistic("host_bytes") > before
    torch.accelerator.empty_host_cache()
    assert eventually(lambda: statistic("host_bytes") == before)


@pytest.mark.parametrize("size", [4 * KIB, 400])
def test_resized_storage_keeps_its_content(size: int) -> None:
    tensor = numbers(KIB).to("flagos:1")
    storage = tensor.untyped_storage()
    storage.resize_(size)
    assert storage.nbytes() == size
    kept = torch.empty(0, dtype=torch.int32, device="flagos:1").set_(storage)
    assert torch.equal(kept.cpu()[:100], numbers(100))


def test_device_is_found_from_an_address() -> None:
    tensor = numbers(10).to("flagos:1")
    capsule = torch.utils.dlpack.to_dlpack(tensor)
    again = torch.utils.dlpack.from_dlpack(capsule)
    assert again.device == torch.device("flagos:1")
    assert again.data_ptr() == tensor.data_ptr()


def test_host_cannot_touch_device_memory() -> None:
    result = run("import ctypes, torch, torch_fl\nctypes.string_at(torch.ones(4, device='flagos').data_ptr(), 4)\n")
    assert result.signal_name == "SIGSEGV"


def test_process_may_end_with_live_tensors_and_work_in_flight() -> None:
    run(
        "import torch, torch_fl\n"
        "kept = [torch.ones(1 << 20, device=f'flagos:{i}') for i in (0, 1)]\n"
        "pinned = torch.ones(1 << 20).pin_memory()\n"
        "kept[0].copy_(pinned, non_blocking=True)\n"
        "event = torch.flagos.Event(); event.record()\n"
    ).check()

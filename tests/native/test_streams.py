"""Streams and events: what waits for what, and what does not."""

from __future__ import annotations

import threading

import pytest
import torch

from tests.native.sdk import Gate, eventually, statistic
from torch_fl import flagos


def waits(work) -> threading.Thread:
    """A thread that runs `work` and is still at it after a moment."""
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(0.1)
    assert thread.is_alive(), "did not wait"
    return thread


def ends(thread: threading.Thread) -> None:
    thread.join(10)
    assert not thread.is_alive(), "still waiting"


def test_default_stream() -> None:
    stream = flagos.default_stream()
    assert stream.stream_id == 0
    assert stream == flagos.current_stream()
    assert stream.device == torch.device("flagos:0")
    assert flagos.default_stream(1).device == torch.device("flagos:1")
    assert flagos.default_stream(1) != stream


@pytest.mark.parametrize("make", [flagos.Stream, torch.Stream], ids=["flagos.Stream", "torch.Stream"])
def test_new_streams(make) -> None:
    first, second = make("flagos:1"), make("flagos:1")
    assert first != second
    assert first.device == torch.device("flagos:1")
    assert 0 not in (first.stream_id, second.stream_id)
    assert first.native_handle != second.native_handle
    assert len({first, second, first}) == 2


def test_stream_on_the_current_device() -> None:
    with flagos.device(1):
        assert flagos.Stream().device == torch.device("flagos:1")
        assert torch.Stream("flagos").device == torch.device("flagos:1")


@pytest.mark.parametrize("priority", [-1, 0, 1])
def test_priority_is_accepted(priority: int) -> None:
    stream = flagos.Stream(priority=priority)
    with flagos.stream(stream):
        assert torch.ones(3, device="flagos").cpu().tolist() == [1, 1, 1]


def test_streams_are_pooled() -> None:
    # The vendor's runtime has no more than 2^8 streams for everything in a process.
    streams = [flagos.Stream() for _ in range(300)]
    assert len(set(streams)) == 16
    assert statistic("streams") <= 32
    for stream in streams[:16]:
        stream.synchronize()


def test_context_sets_stream_and_device_and_puts_both_back() -> None:
    stream = flagos.Stream(1)
    mine = flagos.Stream(0)
    flagos.set_stream(mine)
    with flagos.stream(stream):
        assert flagos.current_device() == 1
        assert flagos.current_stream() == stream
        assert flagos.current_stream(0) == mine
        with flagos.stream(mine), flagos.stream(None), flagos.stream(stream):
            assert flagos.current_stream() == stream
    assert flagos.current_device() == 0
    assert flagos.current_stream() == mine
    assert flagos.current_stream(1) == flagos.default_stream(1)


def test_context_is_left_by_an_exception() -> None:
    with pytest.raises(KeyError), flagos.stream(flagos.Stream(1)):
        raise KeyError
    assert flagos.current_device() == 0
    assert flagos.current_stream(1) == flagos.default_stream(1)


def test_generic_context() -> None:
    stream = torch.Stream("flagos:1")
    with stream:
        assert flagos.current_stream(1) == stream == torch.accelerator.current_stream(1)
    assert flagos.current_stream(1) == flagos.default_stream(1)


def test_accelerator_streams() -> None:
    stream = flagos.Stream()
    torch.accelerator.set_stream(stream)
    assert torch.accelerator.current_stream() == stream == flagos.current_stream()


def test_current_stream_is_per_thread() -> None:
    flagos.set_stream(flagos.Stream())
    seen = []
    thread = threading.Thread(target=lambda: seen.append(flagos.current_stream()))
    thread.start()
    thread.join()
    assert seen == [flagos.default_stream()]


def test_unknown_stream_is_refused() -> None:
    kind = flagos.default_stream().device_type
    for stream_id in (-1, 17, 10**6):
        stream = torch.Stream(stream_id=stream_id, device_index=0, device_type=kind)
        with pytest.raises(RuntimeError, match="has not created"):
            flagos.set_stream(stream)
        with pytest.raises(RuntimeError, match="has not created"):
            stream.synchronize()


@pytest.mark.parametrize("index", [0, 1])
@pytest.mark.parametrize("pick", [flagos.default_stream, flagos.Stream], ids=["default", "pool"])
def test_query_and_synchronize(pick, index: int) -> None:
    stream = pick(index)
    with Gate(stream) as gate:
        assert not stream.query()
        thread = waits(stream.synchronize)
        gate.open()
        ends(thread)
    assert eventually(stream.query)


def test_streams_run_independently() -> None:
    with Gate(flagos.default_stream()):
        with flagos.stream(flagos.Stream()):
            assert torch.arange(4).to("flagos").cpu().tolist() == [0, 1, 2, 3]
        with flagos.device(1):
            assert torch.arange(4).to("flagos").cpu().tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("index", [0, 1])
def test_device_synchronize_waits_for_every_stream(index: int) -> None:
    for stream in (flagos.default_stream(index), flagos.Stream(index), flagos.Stream(index)):
        with Gate(stream) as gate:
            flagos.synchronize(1 - index)
            thread = waits(lambda: flagos.synchronize(index))
            gate.open()
            ends(thread)


def test_accelerator_synchronize_waits() -> None:
    with Gate(flagos.Stream(1)) as gate:
        thread = waits(lambda: torch.accelerator.synchronize(1))
        gate.open()
        ends(thread)


def test_waiting_releases_the_gil() -> None:
    # The thread below can only be started, and the gate opened, while another thread waits.
    with Gate() as gate:
        threading.Timer(0.05, gate.open).start()
        flagos.synchronize()


# --- events


@pytest.mark.parametrize("make", [flagos.Event, lambda: torch.Event("flagos")], ids=["flagos", "torch"])
def test_event_passes_when_its_stream_does(make) -> None:
    event = make()
    assert event.query(), "nothing was recorded, so nothing is awaited"
    event.synchronize()
    stream = flagos.Stream()
    with Gate(stream) as gate:
        event.record(stream)
        assert not event.query()
        thread = waits(event.synchronize)
        gate.open()
        ends(thread)
    assert event.query()


def test_event_recorded_again_marks_the_later_point() -> None:
    stream = flagos.Stream()
    event = flagos.Event()
    event.record(stream)
    event.synchronize()
    with Gate(stream):
        event.record(stream)
        assert not event.query()


def test_event_records_on_the_current_stream() -> None:
    stream = flagos.Stream()
    event = flagos.Event()
    with Gate(stream):
        with flagos.stream(stream):
            event.record()
        assert not event.query()


@pytest.mark.parametrize("target", [0, 1])
@pytest.mark.parametrize("how", ["event.wait", "wait_event", "wait_stream"])
def test_stream_waits_for_another(how: str, target: int) -> None:
    leader, follower = flagos.Stream(0), flagos.Stream(target)
    with Gate(leader) as gate:
        if how == "wait_stream":
            follower.wait_stream(leader)
        elif how == "wait_event":
            follower.wait_event(leader.record_event())
        else:
            event = flagos.Event()
            event.record(leader)
            event.wait(follower)
        assert not follower.query()
        gate.open()
        follower.synchronize()
        assert eventually(leader.query)


def test_copy_on_another_stream_sees_the_work_it_waits_for() -> None:
    pinned = torch.arange(1 << 16).pin_memory()
    target = torch.zeros(1 << 16, dtype=torch.int64, device="flagos")
    producer, consumer = flagos.Stream(), flagos.Stream()
    flagos.synchronize()
    result = torch.empty(1 << 16, dtype=torch.int64, pin_memory=True)
    with Gate(producer) as gate:
        with flagos.stream(producer):
            target.copy_(pinned, non_blocking=True)
        consumer.wait_stream(producer)
        with flagos.stream(consumer):
            result.copy_(target, non_blocking=True)
        gate.open()
        consumer.synchronize()
    assert torch.equal(result, pinned)


def test_event_belongs_to_the_device_of_its_first_record() -> None:
    event = flagos.Event()
    event.record(flagos.Stream(0))
    with pytest.raises(RuntimeError, match="does not match recording stream's device"):
        event.record(flagos.Stream(1))


def test_events_are_destroyed() -> None:
    before = statistic("events")
    events = [flagos.current_stream().record_event() for _ in range(5)]
    assert statistic("events") == before + 5
    del events
    assert statistic("events") == before


@pytest.mark.parametrize(
    "make",
    [flagos.Event, lambda **how: torch.Event("flagos", **how)],
    ids=["flagos", "torch"],
)
def test_elapsed_time_is_refused_and_never_zero(make) -> None:
    start, end = make(enable_timing=True), make(enable_timing=True)
    start.record()
    end.record()
    end.synchronize()
    with pytest.raises(NotImplementedError, match="elapsed time between events is not available on flagos"):
        start.elapsed_time(end)


def test_event_between_processes_is_refused() -> None:
    with pytest.raises(NotImplementedError):
        flagos.Event(interprocess=True)


def test_repr_names_device_and_stream() -> None:
    assert repr(flagos.default_stream(1)) == "torch.flagos.Stream(device=flagos:1, stream_id=0)"

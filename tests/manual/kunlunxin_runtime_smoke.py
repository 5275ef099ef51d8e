"""Is the flagos device of this machine usable? Checks the device layer step by step, then one operator.

    python tests/manual/kunlunxin_runtime_smoke.py

One line per check. Exit status 0 when all pass; at the first that fails its name and reason go to stderr and the status
is 1. Needs torch and an installed torch_fl, and at least two devices.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

SEED = 20240229


def device_count() -> str:
    import torch

    import torch_fl

    count = torch_fl.flagos.device_count()
    if count < 1:
        raise AssertionError(f"no device: {torch_fl.flagos.unavailable_reason()}")
    if torch.accelerator.device_count() != count:
        raise AssertionError(f"torch.accelerator counts {torch.accelerator.device_count()}, torch_fl.flagos {count}")
    return f"{count} devices, {torch_fl.flagos.get_device_name(0)}"


def device_index_1() -> str:
    import torch

    if torch.flagos.device_count() < 2:
        raise AssertionError("there is only one device")
    with torch.flagos.device(1):
        tensor = torch.empty(4, device="flagos")
        if torch.flagos.current_device() != 1 or tensor.device != torch.device("flagos:1"):
            raise AssertionError(f"current device {torch.flagos.current_device()}, tensor on {tensor.device}")
    if torch.flagos.current_device() != 0:
        raise AssertionError(f"device {torch.flagos.current_device()} is current after the context, expected 0")
    return "selected and left again"


def allocation() -> str:
    import torch

    before = torch.flagos.memory_allocated()
    tensor = torch.empty(32 << 20, dtype=torch.uint8, device="flagos")
    grown = torch.flagos.memory_allocated() - before
    if tensor.data_ptr() == 0 or grown < 32 << 20:
        raise AssertionError(f"address {tensor.data_ptr():#x}, allocated memory grew by {grown} bytes")
    del tensor
    if torch.flagos.memory_allocated() != before:
        raise AssertionError(f"{torch.flagos.memory_allocated() - before} bytes are still allocated after the release")
    return "32 MiB taken and released"


def copies() -> str:
    import torch

    generator = torch.Generator().manual_seed(SEED)
    source = torch.randint(-(2**31), 2**31, (3 * (1 << 18) + 5,), dtype=torch.int32, generator=generator)
    for index in range(min(2, torch.flagos.device_count())):
        for pinned in (False, True):
            host = source.pin_memory() if pinned else source
            there = host.to(f"flagos:{index}", non_blocking=pinned)
            back = torch.empty(source.shape, dtype=source.dtype, pin_memory=pinned)
            back.copy_(there, non_blocking=pinned)
            torch.flagos.synchronize(index)
            if not torch.equal(back, source):
                kind = "pinned" if pinned else "pageable"
                raise AssertionError(f"{int((back != source).sum())} elements differ, {kind} memory, device {index}")
    return f"{source.nbytes} bytes there and back, pageable and pinned"


def stream() -> str:
    import torch

    side = torch.flagos.Stream()
    data = torch.arange(1 << 16, dtype=torch.int32)
    pinned = data.pin_memory()
    with torch.flagos.stream(side):
        if torch.flagos.current_stream() != side:
            raise AssertionError(f"current stream {torch.flagos.current_stream()}, expected {side}")
        there = pinned.to("flagos", non_blocking=True)
        event = side.record_event()
    torch.flagos.current_stream().wait_event(event)
    if not torch.equal(there.cpu(), data):
        raise AssertionError("the default stream did not see what the other stream had copied")
    if not event.query():
        raise AssertionError("the event has not passed although work that waits for it has")
    return "work ordered across two streams by an event"


def synchronisation() -> str:
    import torch

    pinned = torch.ones(8 << 20, dtype=torch.uint8).pin_memory()
    streams = [torch.flagos.Stream() for _ in range(2)]
    events = []
    targets = []
    for side in streams:
        with torch.flagos.stream(side):
            targets.append(pinned.to("flagos", non_blocking=True))
            events.append(side.record_event())
    torch.flagos.synchronize()
    late = [event for event in events if not event.query()]
    if late:
        raise AssertionError(f"{len(late)} of {len(events)} streams were still at work afterwards")
    return f"waited for {len(streams)} streams"


def cache_release() -> str:
    import torch

    torch.flagos.empty_cache()
    before = torch.flagos.memory_reserved()
    torch.empty(64 << 20, dtype=torch.uint8, device="flagos")
    cached = torch.flagos.memory_reserved() - before
    torch.flagos.empty_cache()
    left = torch.flagos.memory_reserved() - before
    if cached < 64 << 20 or left != 0:
        raise AssertionError(f"{cached} bytes cached, {left} bytes left after the release")
    return f"{cached >> 20} MiB given back"


def mm() -> str:
    import torch

    generator = torch.Generator().manual_seed(SEED)
    left, right = (torch.randn(shape, generator=generator) for shape in ((96, 64), (64, 80)))
    expected = left.double().mm(right.double())
    result = torch.mm(left.to("flagos"), right.to("flagos")).cpu().double()
    error = ((result - expected).abs().max() / expected.abs().max()).item()
    # Below the rounding of a float16 matrix unit, which the vendor's library may use for float32.
    if not error < 2e-3:
        raise AssertionError(f"relative error {error:.2e} against the CPU, expected less than 2e-3 (seed {SEED})")
    return f"relative error {error:.1e} against the CPU"


CHECKS: tuple[tuple[str, Callable[[], str]], ...] = (
    ("device count", device_count),
    ("device index 1", device_index_1),
    ("allocation", allocation),
    ("host-to-device and device-to-host copies", copies),
    ("XPU stream", stream),
    ("synchronisation", synchronisation),
    ("cache release", cache_release),
    ("torch.mm against the CPU", mm),
)


def main() -> int:
    """Run the checks in order; 0 when all pass, 1 at the first that does not."""
    for name, check in CHECKS:
        try:
            seen = check()
        except Exception as error:  # whatever it is, it is this check's failure
            print(f"FAILED {name}: {type(error).__name__}: {error}", file=sys.stderr)
            return 1
        print(f"ok     {name}: {seen}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())

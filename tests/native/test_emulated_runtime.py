"""The emulated libxpurt as a client sees it: devices, errors, memory, streams, events, and how a process ends."""

from __future__ import annotations

import textwrap

import pytest

from tests import child
from tests.native.emulated_client import environment


def run(snippet: str, *, timeout: float = 60, **env: str) -> child.ChildResult:
    """A child that has opened libxpurt as `rt`; `runtime` is the client module."""
    start = "import ctypes, os, sys, threading, time\nfrom tests.native.emulated_client import runtime\n"
    opened = start + "rt = runtime.open_runtime()\n" + textwrap.dedent(snippet)
    return child.run(opened, env=environment(**env), timeout=timeout)


# ---------------------------------------------------------------- devices and errors


def test_two_devices_by_default_and_failures_are_negative() -> None:
    result = run("""
        count = ctypes.c_int()
        print(rt.xpu_device_count(ctypes.byref(count)), count.value)
        print(rt.xpu_set_device(1), rt.xpu_set_device(2), rt.xpu_set_device(-1))
        pointer = ctypes.c_void_p()
        print(rt.xpu_malloc(ctypes.byref(pointer), 0, 0), rt.xpu_malloc(ctypes.byref(pointer), 64, 7))
        print(rt.xpu_free(1234), rt.xpu_host_alloc(ctypes.byref(pointer), 64, 1))
        print(rt.xpu_wait(1234), rt.xpu_event_wait(1234), rt.xpu_launch_async(None))
    """).check()
    assert result.stdout.split("\n")[:5] == ["0 2", "0 -701 -701", "-707 -707", "-707 -707", "-707 -707 -712"]


@pytest.mark.parametrize(
    ("variables", "physical"),
    [
        ({"XPUEMU_DEVICES": "4"}, [1, 2, 3, 4]),
        ({"XPUEMU_DEVICES": "4", "XPU_VISIBLE_DEVICES": "3,0"}, [4, 1]),
        ({"XPUEMU_DEVICES": "4", "CUDA_VISIBLE_DEVICES": "2"}, [3]),
        ({"XPUEMU_DEVICES": "4", "CUDA_VISIBLE_DEVICES": "1,9,2"}, [2]),
        ({"CUDA_VISIBLE_DEVICES": ""}, []),
        ({"XPUEMU_DEVICES": "0"}, []),
    ],
)
def test_devices_are_chosen_by_the_environment(variables: dict[str, str], physical: list[int]) -> None:
    # The PCI bus number tells which physical device an ordinal is; it is the current device's, whichever is asked for.
    result = run(
        """
        count, bus = ctypes.c_int(-1), ctypes.c_uint64()
        code = rt.xpu_device_count(ctypes.byref(count))
        for device in range(count.value):
            assert rt.xpu_set_device(device) == 0
            assert rt.xpu_device_get_attr(ctypes.byref(bus), 0, 0) == 0
            print(bus.value >> 8)
        print(code, count.value)
        """,
        **variables,
    ).check()
    *buses, last = result.stdout.splitlines()
    assert [int(bus) for bus in buses] == physical
    assert last == (f"0 {len(physical)}" if physical else "-703 0")


def test_a_misspelt_setting_ends_the_process() -> None:
    result = run("rt.xpu_device_count(ctypes.byref(ctypes.c_int()))", XPUEMU_DEVICES="two")
    assert result.rc == 2
    assert "XPUEMU_DEVICES: not a whole number" in result.stderr


def test_current_device_belongs_to_the_thread_and_starts_as_0() -> None:
    result = run("""
        def current():
            device = ctypes.c_int(-1)
            assert rt.xpu_current_device(ctypes.byref(device)) == 0
            return device.value
        rt.xpu_set_device(1)
        seen = []
        def other():
            seen.append(current())
            rt.xpu_set_device(0)
        thread = threading.Thread(target=other); thread.start(); thread.join()
        print(seen, current())
    """).check()
    assert result.stdout == "[0] 1\n"


def test_a_failed_kernel_is_reported_once_and_poisons_its_device_only() -> None:
    result = run("""
        kernel = ctypes.cast(rt.xpuemu_raise_kernel_exception, ctypes.c_void_p)
        other = runtime.malloc(rt, 64)
        print(rt.xpuemu_enqueue(None, kernel, None, None), rt.xpu_wait(None), rt.xpu_wait(None))
        pointer = ctypes.c_void_p()
        print(rt.xpu_malloc(ctypes.byref(pointer), 64, 0), rt.xpuemu_enqueue(None, kernel, None, None),
              rt.xpu_free(other))
        rt.xpu_set_device(1)
        print(rt.xpu_malloc(ctypes.byref(pointer), 64, 0), rt.xpu_wait(None))
    """).check()
    assert result.stdout.splitlines() == ["0 -714 -713", "-713 -713 0", "0 0"]


# ---------------------------------------------------------------- memory


def test_the_host_dies_when_it_touches_device_memory() -> None:
    result = run("""
        pointer = runtime.malloc(rt, 4096)
        print("allocated", flush=True)
        ctypes.memset(pointer, 0, 1)
    """)
    assert result.stdout == "allocated\n"
    assert result.signal_name == "SIGSEGV"


def test_copies_go_to_the_device_and_back() -> None:
    result = run("""
        size = 3 << 20
        data = os.urandom(size)
        first, second = runtime.malloc(rt, size), runtime.malloc(rt, size)
        back = ctypes.create_string_buffer(size)
        print(rt.xpu_memcpy(first, data, size, runtime.H2D), rt.xpu_memcpy(second, first, size, runtime.D2D),
              rt.xpu_memcpy(back, second, size, runtime.D2H), back.raw == data)
        rt.xpu_set_device(1)
        there = runtime.malloc(rt, size)
        ctypes.memset(back, 0, size)
        print(rt.xpu_memcpy_peer(1, there, 0, first, size), rt.xpu_memcpy(back, there, size, runtime.D2H),
              back.raw == data)
        print(rt.xpuemu_statistic(b"copies"), rt.xpuemu_statistic(b"copied_bytes") == 5 * size,
              rt.xpuemu_statistic(b"bytes_in_use") == 3 * size, rt.xpuemu_statistic(b"nonsense") == 2**64 - 1)
    """).check()
    assert result.stdout.splitlines() == ["0 0 0 True", "0 0 True", "5 True True True"]


def test_a_copy_must_fit_its_kind_and_its_allocations() -> None:
    result = run("""
        host = ctypes.create_string_buffer(256)
        device = runtime.malloc(rt, 256)
        rt.xpu_set_device(1)
        elsewhere = runtime.malloc(rt, 256)
        rt.xpu_set_device(0)
        print([rt.xpu_memcpy(*arguments) for arguments in [
            (device, host, 257, runtime.H2D),
            (device + 1, host, 256, runtime.H2D),
            (host, host, 256, runtime.D2H),
            (device, device, 256, runtime.H2D),
            (host, device, 256, runtime.H2D),
            (elsewhere, device, 256, runtime.D2D),
            (elsewhere, host, 256, runtime.H2D),
            (device, host, 256, 3),
            (device + 255, host, 1, runtime.H2D),
        ]])
        print(rt.xpu_free(device + 64), rt.xpu_free(device), rt.xpu_free(device),
              rt.xpu_memcpy(device, host, 1, runtime.H2D))
    """).check()
    assert result.stdout.splitlines() == [str([-707] * 8 + [0]), "-707 0 -707 -707"]


def test_memory_ends_where_its_capacity_ends() -> None:
    result = run(
        """
        capacity = ctypes.c_uint64()
        rt.xpu_device_get_attr(ctypes.byref(capacity), 5, 1)
        pointer = ctypes.c_void_p()
        pieces = [runtime.malloc(rt, 8 << 20) for _ in range(8)]
        full = rt.xpu_malloc(ctypes.byref(pointer), 1, 0)
        for piece in pieces[::2]:
            assert rt.xpu_free(piece) == 0
        print(capacity.value, full, rt.xpu_malloc(ctypes.byref(pointer), 32 << 20, 0),
              rt.xpu_malloc(ctypes.byref(pointer), 1, 0))
        """,
        XPUEMU_MEMORY_MIB="64",
    ).check()
    # 32 MiB in four separate gaps: scattered free memory never makes an allocation fail.
    assert result.stdout == f"{64 << 20} -705 0 -705\n"


def test_the_default_capacity_is_only_backed_when_used() -> None:
    result = run("""
        pointer = runtime.malloc(rt, 90 << 30)
        byte = ctypes.create_string_buffer(b"x", 1)
        print(rt.xpu_memcpy(pointer + (90 << 30) - 1, byte, 1, runtime.H2D), rt.xpu_free(pointer))
    """).check()
    assert result.stdout == "0 0\n"


def test_fresh_memory_can_be_poisoned() -> None:
    result = run(
        """
        back = ctypes.create_string_buffer(5)
        print(rt.xpu_memcpy(back, runtime.malloc(rt, 5), 5, runtime.D2H), back.raw)
        """,
        XPUEMU_POISON="165",
    ).check()
    poisoned = bytes([165] * 5)
    assert result.stdout == f"0 {poisoned!r}\n"


def test_pointers_are_told_apart_by_the_cuda_compatible_runtime() -> None:
    result = run("""
        ctypes.CDLL(str(runtime.XCUDART / "libxpucuda.so"))
        cudart = ctypes.CDLL(str(runtime.XCUDART / "libcudart.so.12"))
        class Attributes(ctypes.Structure):
            _fields_ = [("type", ctypes.c_int), ("device", ctypes.c_int),
                        ("onDevice", ctypes.c_void_p), ("onHost", ctypes.c_void_p)]
        def ask(address):
            answer = Attributes()
            code = cudart.cudaPointerGetAttributes(ctypes.byref(answer), ctypes.c_void_p(address))
            return code, answer.type, answer.device, answer.onDevice == address, answer.onHost == address
        page = ctypes.create_string_buffer(8192)
        pageable = ctypes.addressof(page)
        print("unknown", ask(pageable))
        print("registered", rt.xpu_host_register(pageable, 8192, 0), ask(pageable + 8191),
              rt.xpu_host_register(pageable + 4096, 10, 0))
        print("again", rt.xpu_host_unregister(pageable), ask(pageable), rt.xpu_host_unregister(pageable))
        rt.xpu_set_device(1)
        pinned = ctypes.c_void_p()
        print("pinned", cudart.cudaHostAlloc(ctypes.byref(pinned), ctypes.c_size_t(100), 0),
              ask(pinned.value + 99))
        print("freed", rt.xpu_host_free(pinned), rt.xpu_host_free(pinned))
        print("device", ask(runtime.malloc(rt, 100) + 99))
    """).check()
    assert result.stdout.splitlines() == [
        "unknown (0, 0, -1, False, True)",
        "registered 0 (0, 1, 0, True, True) -816",
        "again 0 (0, 0, -1, False, True) -707",
        "pinned 0 (0, 1, 1, True, True)",
        "freed 0 -707",
        "device (0, 2, 1, True, False)",
    ]


# ---------------------------------------------------------------- streams and events

# Handles, and a gate: a kernel that waits for a semaphore, so that a stream stands still for as long as a test wants.
TOOLS = """
        libc = ctypes.CDLL(None)
        def stream():
            handle = ctypes.c_void_p()
            assert rt.xpu_stream_create(ctypes.byref(handle)) == 0
            return handle
        def event():
            handle = ctypes.c_void_p()
            assert rt.xpu_event_create(ctypes.byref(handle)) == 0
            return handle
        def close_gate(handle):
            semaphore = ctypes.create_string_buffer(64)
            assert libc.sem_init(semaphore, 0, 0) == 0
            assert rt.xpuemu_enqueue(handle, ctypes.cast(libc.sem_wait, ctypes.c_void_p), semaphore, None) == 0
            return semaphore
        def open_gate(semaphore):
            assert libc.sem_post(semaphore) == 0
"""


def test_work_is_asynchronous_and_in_order() -> None:
    result = run(
        TOOLS
        + """
        size = 64
        device, back = runtime.malloc(rt, size), ctypes.create_string_buffer(size)
        busy = stream()
        gate = close_gate(busy)
        first, second = (ctypes.create_string_buffer(letter * size, size) for letter in (b"a", b"b"))
        for source in (first, second):
            rt.xpu_memcpy_async(device, source, size, runtime.H2D, busy)
        rt.xpu_memcpy_async(back, device, size, runtime.D2H, busy)
        early = back.raw
        # A synchronous copy and a wait for the default stream are not held up by the other stream.
        print(rt.xpu_memcpy(device, b"c" * size, size, runtime.H2D), rt.xpu_wait(None), early == bytes(size))
        open_gate(gate)
        print(rt.xpu_wait(busy), back.raw == b"b" * size)
    """
    ).check()
    assert result.stdout.splitlines() == ["0 0 True", "0 True"]


def test_a_synchronous_copy_waits_for_the_default_stream() -> None:
    result = run(
        TOOLS
        + """
        size = 8
        device, back = runtime.malloc(rt, size), ctypes.create_string_buffer(size)
        gate = close_gate(None)
        source = ctypes.create_string_buffer(b"1" * size, size)
        rt.xpu_memcpy_async(device, source, size, runtime.H2D, None)
        order = []
        def copy():
            order.append(rt.xpu_memcpy(back, device, size, runtime.D2H))
        thread = threading.Thread(target=copy); thread.start()
        time.sleep(0.05)
        order.append("opened")
        open_gate(gate)
        thread.join()
        print(order, back.raw == b"1" * size)
    """
    ).check()
    assert result.stdout == "['opened', 0] True\n"


def test_events_order_streams_and_tell_the_host() -> None:
    result = run(
        TOOLS
        + """
        size = 8
        device, back = runtime.malloc(rt, size), ctypes.create_string_buffer(size)
        rt.xpu_memcpy(device, b"0" * size, size, runtime.H2D)
        producer, consumer, mark = stream(), stream(), event()
        source = ctypes.create_string_buffer(b"1" * size, size)
        print("never recorded", rt.xpu_event_query(mark), rt.xpu_event_wait(mark))
        gate = close_gate(producer)
        rt.xpu_memcpy_async(device, source, size, runtime.H2D, producer)
        rt.xpu_event_record(mark, producer)
        rt.xpu_stream_wait_event(consumer, mark)
        rt.xpu_memcpy_async(back, device, size, runtime.D2H, consumer)
        print("pending", rt.xpu_event_query(mark), back.raw == bytes(size))
        open_gate(gate)
        print("consumed", rt.xpu_wait(consumer), back.raw == b"1" * size, rt.xpu_event_query(mark),
              rt.xpu_event_wait(mark))
        print("gone", rt.xpu_event_destroy(mark), rt.xpu_event_destroy(mark), rt.xpu_event_query(mark))
    """
    ).check()
    assert result.stdout.splitlines() == [
        "never recorded 0 0",
        "pending -716 True",
        "consumed 0 True 0 0",
        "gone 0 -707 -707",
    ]


def test_a_later_record_does_not_release_an_earlier_wait() -> None:
    result = run(
        TOOLS
        + """
        slow, fast, consumer, mark, seen = stream(), stream(), stream(), event(), event()
        gate = close_gate(slow)
        rt.xpu_event_record(mark, slow)
        rt.xpu_stream_wait_event(consumer, mark)
        rt.xpu_event_record(seen, consumer)
        rt.xpu_event_record(mark, fast)
        print(rt.xpu_event_wait(mark), rt.xpu_event_query(mark), rt.xpu_event_query(seen))
        open_gate(gate)
        print(rt.xpu_wait(consumer), rt.xpu_event_query(seen))
    """
    ).check()
    assert result.stdout.splitlines() == ["0 0 -716", "0 0"]


def test_streams_are_limited_and_known_after_their_end() -> None:
    result = run(
        TOOLS
        + """
        streams = [stream() for _ in range(256)]
        print(rt.xpu_stream_create(ctypes.byref(ctypes.c_void_p())), rt.xpuemu_statistic(b"streams"))
        mark = event()
        gate = close_gate(streams[0])
        rt.xpu_event_record(mark, streams[0])
        # Destroying a stream neither waits for its work nor throws it away.
        print(rt.xpu_stream_destroy(streams[0]), rt.xpu_event_query(mark))
        open_gate(gate)
        print(rt.xpu_event_wait(mark))
        print(rt.xpu_wait(streams[0]), rt.xpu_stream_destroy(streams[0]),
              rt.xpu_stream_create(ctypes.byref(ctypes.c_void_p())))
    """
    ).check()
    assert result.stdout.splitlines() == ["-716 256", "0 -716", "0", "-717 -717 0"]


def test_many_threads_submit_without_losing_work() -> None:
    result = run("""
        size, rounds = 8, 2000
        ok = []
        def work(device):
            rt.xpu_set_device(device % 2)
            handle = ctypes.c_void_p()
            rt.xpu_stream_create(ctypes.byref(handle))
            memory, back = runtime.malloc(rt, size), ctypes.create_string_buffer(size)
            sources = [ctypes.create_string_buffer(i.to_bytes(8, "little"), 8) for i in range(rounds)]
            for source in sources:
                assert rt.xpu_memcpy_async(memory, source, size, runtime.H2D, handle) == 0
            rt.xpu_memcpy_async(back, memory, size, runtime.D2H, handle)
            rt.xpu_wait(handle)
            ok.append(int.from_bytes(back.raw, "little") == rounds - 1)
        threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
        [t.start() for t in threads]; [t.join() for t in threads]
        print(ok, rt.xpuemu_statistic(b"copies"))
    """).check()
    assert result.stdout == f"{[True] * 6} {6 * 2001}\n"


def test_a_long_pinned_copy_can_be_made_to_fail_as_on_a_p800() -> None:
    result = run(
        """
        size = 2 << 20
        device, pinned = runtime.malloc(rt, size), ctypes.c_void_p()
        rt.xpu_host_alloc(ctypes.byref(pinned), size, 0)
        pageable = ctypes.create_string_buffer(size)
        print(rt.xpu_memcpy_async(device, pinned, size, runtime.H2D, None),
              rt.xpu_memcpy_async(device, pinned, 1 << 20, runtime.H2D, None),
              rt.xpu_memcpy_async(device, pageable, size, runtime.H2D, None), rt.xpu_wait(None))
        """,
        XPUEMU_PINNED_COPY_LIMIT=str(1 << 20),
    ).check()
    assert result.stdout == "-999 0 0 0\n"


# ---------------------------------------------------------------- processes


def test_a_forked_child_is_refused_and_does_not_hang() -> None:
    result = run(
        TOOLS
        + """
        device = runtime.malloc(rt, 64)
        gate = close_gate(None)
        pid = os.fork()
        if pid == 0:
            back = ctypes.create_string_buffer(64)
            codes = [rt.xpu_set_device(0), rt.xpu_wait(None), rt.xpu_memcpy(back, device, 64, runtime.D2H),
                     rt.xpu_malloc(ctypes.byref(ctypes.c_void_p()), 64, 0),
                     rt.xpu_device_count(ctypes.byref(ctypes.c_int()))]
            os._exit(0 if codes == [-702] * 5 else 1)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        open_gate(gate)
        print(status, rt.xpu_wait(None))
    """,
        timeout=20,
    ).check()
    assert result.stdout == "0 0\n"


def test_a_child_forked_before_the_runtime_is_used_may_use_it() -> None:
    result = run(
        """
        count = ctypes.c_int()
        rt.xpu_device_count(ctypes.byref(count))
        pid = os.fork()
        if pid == 0:
            os._exit(0 if rt.xpu_set_device(1) == 0 and runtime.malloc(rt, 64) else 1)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), rt.xpu_set_device(1))
    """,
        timeout=20,
    ).check()
    assert result.stdout == "0 0\n"


@pytest.mark.parametrize("ending", ["pass", "sys.exit(0)", "os._exit(0)"])
def test_a_process_ends_cleanly_with_work_in_flight(ending: str) -> None:
    result = run(
        TOOLS
        + f"""
        size = 32 << 20
        device = runtime.malloc(rt, size)
        pinned = ctypes.c_void_p()
        rt.xpu_host_alloc(ctypes.byref(pinned), size, 0)
        gates = []
        for handle in [None] + [stream() for _ in range(8)]:
            for _ in range(20):
                rt.xpu_memcpy_async(device, pinned, size, runtime.H2D, handle)
            gates.append(close_gate(handle))
        {ending}
    """,
        timeout=20,
    )
    assert (result.rc, result.stderr) == (0, "")


@pytest.mark.parametrize(("tracing", "status"), [("0", 1), ("1", 0)])
def test_the_profiler_gate_ends_the_process_on_demand(tracing: str, status: int) -> None:
    result = run("print('loaded')", XPUEMU_PROFILER_GATE="1", XPU_ENABLE_PROFILER_TRACING=tracing)
    assert result.rc == status
    assert result.stdout == ("loaded\n" if status == 0 else "")
    assert result.stderr == ("" if status == 0 else "Runtime profiler is disabled\n")

"""The vendor's stack as a whole: the driver, the devices, and what the build left in the files."""

from __future__ import annotations

import os
from typing import Optional, Sequence, Tuple

from torch_fl._preload import catalog
from torch_fl.diagnose.finding import Evidence, Fact, Finding, Fix, Page, Severity, register

register(
    Page(
        "driver-missing",
        "no device can be used",
        "Every library loads, and the runtime finds no device: the kernel driver is not loaded, its device nodes are "
        "not in this container, or this user may not open them.",
        "The runtime reaches a card through /dev/xpu0, /dev/xpu1, ... and /dev/xpuctrl, which the kernel driver makes. "
        "A container has only the nodes that it was started with.",
        "XPU-RT: xpu_device_count() and the nodes of the P800 driver",
        "On the machine itself, install and load the XPU-RT driver. In a container, pass the nodes in: --device for "
        "each /dev/xpuN that is to be used, and for /dev/xpuctrl.",
    )
)


def driver_missing(
    nodes: Sequence[Fact], devices: Optional[int], said: Optional[str], in_container: Optional[str]
) -> Finding:
    """The trial's own device count failed or gave 0.

    nodes          device nodes and driver files, each with what was seen
    devices        the count, None when asking for it failed
    said           the text of that failure
    in_container   the fact that tells of a container, None outside one
    """
    rows = [Fact("device count", "failed" if devices is None else str(devices)), *nodes]
    if in_container:
        rows.append(Fact("container", in_container))
    evidence: Tuple[Evidence, ...] = (Evidence("looked at", tuple(rows)),)
    if said:
        evidence += (Evidence("runtime said", (Fact("", said),)),)
    present = [row for row in nodes if row.verdict.startswith("present")]
    if present:
        cause = (
            "the device nodes are there, and the runtime cannot use what is behind them; `xpu-smi` and dmesg tell which"
        )
        cure = (
            "compare the version of the XPU-RT driver with the one that the SDK asks for, and look for errors in dmesg"
        )
    elif in_container:
        cause = "this container was started without the device nodes of the driver"
        cure = "start the container with --device for each /dev/xpuN that is to be used and for /dev/xpuctrl"
    else:
        cause = "the XPU-RT driver is not loaded on this machine, or the machine has no card; `lspci -d 1d22:` decides"
        cure = "install and load the XPU-RT driver"
    return Finding(
        "driver-missing",
        Severity.ERROR,
        catalog.DEVICE_NODES,
        "the libraries load, and no device can be used",
        evidence,
        cause,
        Fix(cure),
    )


register(
    Page(
        "stale-rpath",
        "the run path names directories that do not exist",
        "A library carries the directories of the machine it was built on, and they are not on this one. While "
        "everything is found by other means this does no harm; if such a directory appears one day, it is searched "
        "before the system's.",
        "DT_RUNPATH entries are searched literally, after LD_LIBRARY_PATH and before the loader's cache. Missing "
        "directories are passed over.",
        "glibc elf/dl-load.c, decompose_rpath and open_path",
        "Build torch_fl on this machine, or for it, when the warning is to go away. torch_fl itself finds the "
        "vendor's libraries without the run path.",
    )
)


def stale_rpath(path: str, tag: str, entries: Sequence[Tuple[str, bool]]) -> Finding:
    """Of a library that loads all the same. `entries`: each directory with whether it exists."""
    dead = [directory for directory, exists in entries if not exists]
    count = "1 directory that does not exist" if len(dead) == 1 else f"{len(dead)} directories that do not exist"
    return Finding(
        "stale-rpath",
        Severity.WARNING,
        path,
        f"{tag} of {os.path.basename(path)} names {count}",
        (
            Evidence("file", (Fact("", path),)),
            Evidence(tag, tuple(Fact(d, "exists" if exists else "does not exist") for d, exists in entries)),
        ),
        "the entries were written where the library was built; everything that it needs is found by other means",
        Fix("build torch_fl on this machine, which writes the directories of this machine into the file"),
    )

"""The loader model on torch's `_C` (15 objects, the largest of 434 MB) and on every object of a big environment.

python -m tests.bench.loader        these lines alone; `make bench` has them too
"""

from __future__ import annotations

import json
import shutil
import statistics
import sys
import sysconfig
from pathlib import Path

from tests.bench.measure import Result, Series, Side, alternate, last_line

REPOSITORY = Path(__file__).resolve().parents[2]
SWEEP = REPOSITORY / "build" / "sweep"
RUNS = 9

# Everything is imported before the clock starts; the program itself is read before it too. Median of seven.
IN_PROCESS = """
import json, os, statistics, sys, time
os.environ["FLAGOS_LOAD"] = "0"
from torch_fl._preload import elf_symbols, elf_versions, host, resolve, symbols, versions
process = resolve.fresh(host.current().replace(mapped=()))
def once():
    start = time.perf_counter()
    outcome = resolve.dlopen(process, sys.argv[1], depth=sys.argv[2])
    assert outcome.loads, outcome.error
    return time.perf_counter() - start
once()
print(json.dumps(statistics.median(once() for _ in range(7))))
"""

AUDITWHEEL = """
import json, statistics, sys, time
from pathlib import Path
from auditwheel.lddtree import ldd
def once():
    start = time.perf_counter()
    ldd(Path(sys.argv[1]))
    return time.perf_counter() - start
once()
print(json.dumps(statistics.median(once() for _ in range(3))))
"""

EVERY = """
import json, os, sys, time
os.environ["FLAGOS_LOAD"] = "0"
from torch_fl._preload import elf_versions, host, resolve, versions
process = resolve.fresh(host.current().replace(mapped=()))
paths = json.loads(sys.argv[1])
start = time.perf_counter()
for path in paths:
    resolve.dlopen(process, path, depth=resolve.VERSIONS)
print(json.dumps(time.perf_counter() - start))
"""

COMMAND = """
import json, subprocess, sys, time
start = time.perf_counter()
done = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
took = time.perf_counter() - start
assert done.returncode in (0, 1), done.returncode
print(json.dumps(took))
"""

# VmHWM belongs to the program, where ru_maxrss remembers what was there before exec.
PEAK = """
def peak():
    for line in open("/proc/self/status"):
        if line.startswith("VmHWM"):
            print(int(line.split()[1]) / 1024)
"""
PREDICTED = """
import os, sys
os.environ["FLAGOS_LOAD"] = "0"
from torch_fl._preload import host, resolve
outcome = resolve.dlopen(resolve.fresh(host.current().replace(mapped=())), sys.argv[1], depth=sys.argv[2])
assert outcome.loads
peak()
"""


def torch_extension() -> str:
    """torch's `_C` of this environment."""
    site = Path(sysconfig.get_paths()["platlib"])
    return str(next(iter(sorted((site / "torch").glob("_C.cpython-*.so")))))


def measure() -> list[Result]:
    """All lines, in the order in which the targets are stated."""
    path = torch_extension()
    results = []
    peer = Side("auditwheel's ldd()", AUDITWHEEL, (path,))
    for depth, title, target in (
        ("dependencies", "dynamic sections and resolution", 3),
        ("versions", "the same with versions", 10),
        ("symbols", "the same with every undefined symbol", 100),
    ):
        ours, other = alternate(Side(f"torch_fl, {depth}", IN_PROCESS, (path, depth)), peer, RUNS)
        results.append(Result(f"(d) torch's _C: {title}", ours.median * 1e3, "ms", target, (ours, other)))

    command = (sys.executable, "-m", "torch_fl.diagnose", "check", path, "--no-trial")
    own = Side("check --no-trial", COMMAND, command)
    ours, other = alternate(own, Side("ldd -r", COMMAND, ("ldd", "-r", path)), RUNS)
    results.append(Result("(e) whole command against ldd -r", ours.median / other.median, "times", 4, (ours, other)))
    auditwheel = shutil.which("auditwheel", path=str(Path(sys.executable).parent)) or shutil.which("auditwheel")
    if auditwheel is None:
        raise SystemExit("auditwheel is not installed: pip install torch_fl[bench]")
    ours, other = alternate(own, Side("auditwheel lddtree", COMMAND, (auditwheel, "lddtree", path)), RUNS)
    ratio = ours.median / other.median
    results.append(Result("    whole command against auditwheel lddtree", ratio, "times", 0.5, (ours, other)))

    results.append(everything())
    results += memory(path)
    return results


def everything() -> Result:
    """Every object of the sweep's environment, or of this one, with versions, in one process."""
    from tests.loader import sweep

    place = SWEEP if SWEEP.exists() else Path(sysconfig.get_paths()["platlib"])
    paths = list(sweep.objects([str(place)]))
    samples = [float(last_line(EVERY, json.dumps(paths))) for _ in range(5)]
    series = Series(f"{len(paths)} objects of {place.relative_to(REPOSITORY)}", samples)
    return Result("(f) every object with versions, one process", series.median, "s", 0.5, (series,))


def memory(path: str) -> list[Result]:
    """Peak memory over the interpreter's own."""
    bare = statistics.median(float(last_line(PEAK + "peak()")) for _ in range(3))
    results = []
    for depth, target in (("versions", 10), ("symbols", 40)):
        peak = statistics.median(float(last_line(PEAK + PREDICTED, path, depth)) for _ in range(3))
        title = f"(g) peak memory over {bare:.1f} MiB of the bare interpreter, torch's _C, {depth}"
        results.append(Result(title, peak - bare, "MiB", target, ()))
    return results


def main() -> int:
    """Print the lines; 1 where a target is missed."""
    results = measure()
    for result in results:
        print(result.line())
    return 1 if any(result.missed for result in results) else 0


if __name__ == "__main__":
    sys.exit(main())

"""What `import torch_fl` adds: opening the vendor's libraries, autoload, the import hook, and a load that fails.

python -m tests.bench.preload       these lines alone; `make bench` has them too
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

from tests.bench.measure import Result, Series, Side, alternate, last_line
from tests.demo import travelled
from tests.elfkit import make_so

REPOSITORY = Path(__file__).resolve().parents[2]
PLACE = REPOSITORY / "build" / "bench"
EXPORTED, UNDEFINED = 20_000, 2_000
"""Dynamic symbols of a component, as many as the real ones have."""

SITE_ENTRIES = 30_000
RUNS = 25

# Modules of the standard library that `import torch` needs as well, and the listing of site-packages that finding torch
# reads: whoever imports torch_fl pays for them once, with or without a preload. The collector is off on both sides, as
# in timeit: its passes over the heap fall where they fall.
SHARED = """
import ast, ctypes, gc, importlib.util, os, re, struct, typing, warnings
importlib.util.find_spec("torch")
gc.disable()
"""

PRELOAD = """
import json, os, sys, time
os.environ["FLAGOS_LOAD"] = "0"  # the package alone; the preload is called below
os.environ.update(json.loads(sys.argv[1]))
{shared}
start = time.perf_counter()
from torch_fl._preload import hook
hook.preload()
print(json.dumps(time.perf_counter() - start))
"""

# What it is compared with: the same files, in the order of the plan, which is made before the clock starts.
PLAN = """
import json, os, sys
os.environ["FLAGOS_LOAD"] = "0"
os.environ.update(json.loads(sys.argv[1]))
from torch_fl._preload import hook
plan = hook.plan_now()
assert plan.complete, plan
print(json.dumps([step.path for step in plan.steps]))
"""

BARE = """
import json, os, sys, time
paths = json.loads(sys.argv[1])
{shared}
start = time.perf_counter()
import ctypes
for path in paths:
    ctypes.CDLL(path, mode=os.RTLD_NOW | os.RTLD_GLOBAL)
print(json.dumps(time.perf_counter() - start))
"""

IMPORT = """
import json, time
start = time.perf_counter()
import {module}
print(json.dumps(time.perf_counter() - start))
"""

IMPORT_TORCH = """
import json, os, time
os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "{autoload}"
start = time.perf_counter()
import torch
print(json.dumps(time.perf_counter() - start))
"""

# A hundred extension modules that do nothing, one file under a hundred names.
EXTENSIONS = """
import json, os, sys, time
os.environ["FLAGOS_LOAD"] = "0"
sys.path.insert(0, sys.argv[1])
from torch_fl import diagnose
if {hooked}:
    diagnose.install_import_hook()
names = sorted(name.partition(".")[0] for name in os.listdir(sys.argv[1]) if name.startswith("extension_"))
start = time.perf_counter()
for name in names:
    __import__(name)
print(json.dumps((time.perf_counter() - start) / len(names)))
"""

FAILURE = """
import json, sys, time
sys.path[:0] = json.loads(sys.argv[1])
start = time.perf_counter()
try:
    import torch_fl
except ImportError as error:
    took = time.perf_counter() - start
    assert error.findings[0].code == "missing-library" and "libxpu_dnn.so" in str(error), error
print(json.dumps(took))
"""


def large_components() -> dict[str, str]:
    """Variables that lead to a vendor's tree whose components have the real ones' number of symbols."""
    root = PLACE / f"components-{EXPORTED}-{UNDEFINED}"
    package, sdk = root / "torch_xmlir", root / "xpu" / "so"
    if not (root / "complete").is_file():
        shutil.rmtree(root, ignore_errors=True)
        compat = package / "xhpc" / "xblas" / "dependency_so"
        make_so(compat / "libxpurt.so.2", soname="libxpurt.so.2", source="int xpu_device_count;")
        make_so(compat / "libxpucuda.so", soname="libxpucuda.so", needed=["libxpurt.so.2"], source="int cuInit;")
        driver = "int cudaGetDriverEntryPoint(void) {return 0;}"
        make_so(compat / "libcudart.so.12", soname="libcudart.so.12", needed=["libxpucuda.so"], source=driver)
        make_so(sdk / "libxpuml.so.1", soname="libxpuml.so.1", source="int xpuml;")
        make_so(package / "libxpujitc.so", soname="libxpujitc.so", source=_functions("jitc"))
        for name in ("blas", "dnn", "flash_attention"):
            soname = f"libxpu_{name}.so"
            make_so(package / soname, soname=soname, needed=["libxpujitc.so"], source=_functions(name, uses="jitc"))
        needed = ["libxpu_blas.so", "libxpu_dnn.so", "libxpu_flash_attention.so", "libcudart.so.12", "libxpuml.so.1"]
        operators = _functions("operators", uses="blas")
        make_so(package / "libxdnn_pytorch.so", soname="libxdnn_pytorch.so", needed=needed, source=operators)
        (root / "complete").touch()
    return {"FLAGOS_KUNLUNXIN_XDNN_LIB_DIR": str(package), "XPU_ROOT": str(sdk.parent)}


def _functions(prefix: str, uses: str = "") -> str:
    """C source of EXPORTED functions, which call UNDEFINED functions of another library."""
    lines = [f"void {prefix}_function_with_a_name_of_some_length_{n}(void) {{}}" for n in range(EXPORTED - 1)]
    called = [f"{uses}_function_with_a_name_of_some_length_{n}" for n in range(UNDEFINED if uses else 0)]
    lines += [f"void {name}(void);" for name in called]
    return "\n".join([*lines, f"void {prefix}_all(void) {{", *[f"{name}();" for name in called], "}"])


def extensions() -> Path:
    """A directory with a hundred extension modules."""
    place = PLACE / "extensions"
    if not place.is_dir():
        for number in range(100):
            name = f"extension_{number:02}"
            source = (
                "static int module[64];\n"  # PyModuleDef, zeroed but for what PyModuleDef_Init fills in
                f"void *PyModuleDef_Init(void *); void *PyInit_{name}(void) {{return PyModuleDef_Init(module);}}"
            )
            make_so(place.with_suffix(".new") / f"{name}.so", source=source)
        place.with_suffix(".new").rename(place)
    return place


def crowded_site() -> Path:
    """A site-packages with SITE_ENTRIES packages, as a machine has it on which everything is installed."""
    root = PLACE / f"site-{SITE_ENTRIES}"
    site = root / "site-packages"
    if not (root / "complete").is_file():
        for number in range(SITE_ENTRIES):
            (site / f"package_{number}").mkdir(parents=True, exist_ok=True)
        (root / "complete").touch()
    return site


def measure() -> list[Result]:
    """All lines, in the order in which the targets are stated."""
    results = []
    for title, variables, shared, target in (
        ("(a) what _preload adds, components of 20,000 symbols", large_components(), SHARED, 5),
        ("    the same, the emulated SDK's own", {}, SHARED, None),
        ("    the same in a cold interpreter, standard library included", {}, "", None),
    ):
        given = json.dumps(variables)
        paths = last_line(PLAN, given)
        ours, bare = alternate(
            Side("_preload", PRELOAD.format(shared=shared), (given,)),
            Side("bare ctypes, same files and order", BARE.format(shared=shared), (paths,)),
            RUNS,
        )
        results.append(Result(title, (ours.median - bare.median) * 1e3, "ms", target, (ours, bare)))

    ours, peer = alternate(
        Side("import torch_fl", IMPORT.format(module="torch_fl")),
        Side("import torch", IMPORT.format(module="torch")),
        15,
    )
    results.append(
        Result("(b) import torch_fl against import torch", ours.median / peer.median, "times", 1.15, (ours, peer))
    )
    ours, peer = alternate(
        Side("with autoload", IMPORT_TORCH.format(autoload=1)), Side("without", IMPORT_TORCH.format(autoload=0)), RUNS
    )
    gained = (ours.median - peer.median) * 1e3
    results.append(Result("    what autoload adds to import torch", gained, "ms", 15, (ours, peer)))

    place = (str(extensions()),)
    ours, peer = alternate(
        Side("one extension, hook installed", EXTENSIONS.format(hooked=True), place),
        Side("not installed", EXTENSIONS.format(hooked=False), place),
        RUNS,
    )
    results.append(
        Result(
            "(h) an import that succeeds under the import hook", ours.median / peer.median, "times", 1.15, (ours, peer)
        )
    )
    results.append(failing_path())
    return results


def failing_path() -> Result:
    """`import torch_fl` with a component missing, to the end of the message."""
    tree = travelled.make(PLACE / "broken")
    (tree.package / "libxpu_dnn.so").unlink()
    paths = json.dumps([str(tree.site), str(crowded_site())])
    samples = [float(last_line(FAILURE, paths)) for _ in range(6)][1:]
    series = Series(f"{SITE_ENTRIES} entries in site-packages", samples)
    return Result("(i) a load that fails, with its message", series.median, "s", 2, (series,))


def main() -> int:
    """Print the lines; 1 where a target is missed."""
    results = measure()
    for result in results:
        print(result.line())
    return 1 if any(result.missed for result in results) else 0


if __name__ == "__main__":
    sys.exit(main())

"""One finding per code, built by its constructor from records that are written out here.

The paths are those of an imagined machine, so that the texts are the same everywhere. tests/golden/expected holds what
a reader gets to see; read it aloud when it changes.
"""

from __future__ import annotations

from collections.abc import Callable

from torch_fl._preload import facts
from torch_fl._preload.places import Considered
from torch_fl.diagnose.cure import Change, Cure
from torch_fl.diagnose.explain import (
    files,
    leftovers,
    mismatch,
    modules,
    places,
    process,
    python,
    refusals,
    stack,
    symbols,
    trials,
    versions,
    words,
)
from torch_fl.diagnose.finding import Fact, Finding, Prediction
from torch_fl.diagnose.hunt import Candidate, Hunt
from torch_fl.diagnose.trial import Attempt

VENV = "/srv/venv"
SITE = f"{VENV}/lib/python3.10/site-packages"
PACKAGE = f"{SITE}/torch_xmlir"
OWN = f"{SITE}/torch_fl"
EXTENSION = f"{OWN}/_C.cpython-310-x86_64-linux-gnu.so"
LIBRARY = f"{OWN}/lib/libtorch_fl.so"
OP_LIBRARY = f"{PACKAGE}/libxdnn_pytorch.so"
COMPAT = f"{PACKAGE}/xhpc/xblas/dependency_so"
BUILD = "/build/venv/lib/python3.10/site-packages/torch_xmlir"
PYTHON = f"{VENV}/bin/python"

CASES: dict[str, Callable[[], Finding]] = {}


def case(function: Callable[[], Finding]) -> Callable[[], Finding]:
    """Register a case under the code that its name spells."""
    CASES[function.__name__.replace("_", "-")] = function
    return function


def not_found(name: str) -> str:
    return f"{name}: cannot open shared object file: No such file or directory"


def search(name: str, requester: str, *found: facts.Step, runpath: str | None = None) -> facts.Lookup:
    """A search that ends without a file: nothing set, nothing in the cache, nothing in the system directories."""
    steps = [
        facts.Step(facts.RPATH, requester, None, None, facts.NOT_SET),
        facts.Step(facts.RPATH, "/usr/bin/python3.10", None, None, facts.NOT_SET),
        *found,
    ]
    if not any(step.stage == facts.LIBRARY_PATH for step in found):
        steps.append(facts.Step(facts.LIBRARY_PATH, None, None, None, facts.NOT_SET))
    if runpath is None:
        steps.append(facts.Step(facts.RUNPATH, requester, None, None, facts.NOT_SET))
    else:
        steps.append(facts.Step(facts.RUNPATH, requester, runpath, f"{runpath}/{name}", facts.NO_DIRECTORY))
    steps.append(facts.Step(facts.CACHE, None, None, None, facts.NO_ENTRY))
    for directory in ("/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu"):
        steps.append(facts.Step(facts.DEFAULT, None, directory, f"{directory}/{name}", facts.ABSENT))
    return facts.Lookup(name, requester, tuple(steps), None, "", not_found(name))


def missing(
    name: str, requester: str = OP_LIBRARY, *found: facts.Step, runpath: str | None = None
) -> facts.MissingLibrary:
    chain = (EXTENSION, LIBRARY, OP_LIBRARY) if requester == OP_LIBRARY else (EXTENSION, LIBRARY)
    return facts.MissingLibrary(
        name, requester, chain, search(name, requester, *found, runpath=runpath), not_found(name)
    )


def undefined(
    symbol: str, *providers: facts.Provider, requester: str = f"{PACKAGE}/libxpu_blas.so"
) -> facts.UndefinedSymbols:
    item = facts.Undefined(symbol, None, providers)
    return facts.UndefinedSymbols(requester, (item,), f"{requester}: undefined symbol: {symbol}")


def bad_file(path: str, reason: str, text: str, shadows: str | None = None) -> facts.BadFile:
    name = path.rpartition("/")[2]
    return facts.BadFile(path, name, OP_LIBRARY, reason, shadows, f"{path}: {text}" if text else None)


def attempt(
    stage: str, status: int | None, output: str = "", error: str | None = None, exception: str | None = None
) -> Attempt:
    return Attempt(False, error, exception, status, stage, {}, output, 120.0 if status is None else 1.5)


@case
def missing_library() -> Finding:
    looked = (
        Considered("the vendor package", PACKAGE, "has no libxpu_blas.so"),
        Considered("FLAGOS_KUNLUNXIN_XDNN_LIB_DIR", "", "not set"),
        Considered("LD_LIBRARY_PATH", "", "not set"),
        Considered("site-packages", SITE, "has no such file in any of its 1864 directories"),
    )
    return places.missing_library([missing("libxpu_blas.so")], Hunt((), (), looked), PACKAGE, words.SAID)


@case
def not_on_search_path() -> Finding:
    problems = [missing("libxdnn_pytorch.so", LIBRARY, runpath=BUILD)]
    verdict = "SONAME libxdnn_pytorch.so, x86-64, 261095424 bytes, complete"
    found = Candidate("libxdnn_pytorch.so", OP_LIBRARY, "site-packages", True, verdict)
    looked = (
        Considered("FLAGOS_KUNLUNXIN_XDNN_LIB_DIR", "", "not set"),
        Considered("run path, at its place here", PACKAGE, "has libxdnn_pytorch.so"),
    )
    cure = Cure((Change("FLAGOS_KUNLUNXIN_XDNN_LIB_DIR", (PACKAGE,), False),), True)
    return places.not_on_search_path(problems, Hunt((found,), (), looked), cure)


@case
def broken_link() -> Finding:
    link, target = f"{COMPAT}/libcudart.so.12", "libcudart.so.12.9.1.kunlun"
    step = facts.Step(facts.LIBRARY_PATH, None, COMPAT, link, facts.DANGLING_LINK)
    rows = (Fact(link, f"links to {target}; {COMPAT}/{target} does not exist"),)
    return places.broken_link(
        missing("libcudart.so.12", OP_LIBRARY, step), rows, f"{COMPAT}/libcudart.so.12.8.0.kunlun"
    )


@case
def split_pair() -> Finding:
    other = "/usr/local/xcudart/lib"
    looked = (
        Considered("LD_LIBRARY_PATH", "", "not set"),
        Considered("nested in the vendor package", COMPAT, "has no libxpucuda.so"),
        Considered("usual place", other, "has no libcudart.so.12"),
    )
    halves = (f"{other}/libxpucuda.so", f"{COMPAT}/libcudart.so.12")
    return places.split_pair(halves, looked, not_found("libcudart.so.12"), words.SAID)


@case
def stale_process() -> Finding:
    kept = (Fact(f"{COMPAT}/libxpurt.so.2", "mapped"), Fact(f"{PACKAGE}/libxpu_dnn.so", "mapped, and replaced since"))
    return leftovers.stale_process(EXTENSION, kept, f"{OP_LIBRARY}: undefined symbol: xpu_dnn_softmax")


@case
def unreadable_file() -> Finding:
    path = f"{PACKAGE}/libxpu_dnn.so"
    blocking = (Fact(PACKAGE, "may not be entered by this user"),)
    return mismatch.unreadable_file(
        path, OP_LIBRARY, "Permission denied", not_found("libxpu_dnn.so"), words.SAID, blocking
    )


@case
def wrong_architecture() -> Finding:
    path = f"{PACKAGE}/libxpu_dnn.so"
    step = facts.Step(facts.LIBRARY_PATH, None, PACKAGE, path, facts.WRONG_MACHINE, "aarch64")
    problem = missing("libxpu_dnn.so", OP_LIBRARY, step)
    return mismatch.wrong_architecture(
        path, OP_LIBRARY, "built for aarch64", "x86-64, 64 bits", problem.error, words.WOULD_SAY, problem.chain,
        words.searched(problem.lookup),
    )  # fmt: skip


@case
def empty_file() -> Finding:
    return files.bad_file(bad_file(f"{PACKAGE}/libxpu_dnn.so", "too-short", "file too short"), 0, None)


@case
def not_elf() -> Finding:
    problem = bad_file(f"{PACKAGE}/libxpu_dnn.so", "not-elf", "invalid ELF header")
    return files.bad_file(problem, 134, "version https://git-lfs.github.com/spec/v1")


@case
def truncated_file() -> Finding:
    return files.truncated_file(facts.TruncatedFile(f"{PACKAGE}/libxpu_dnn.so", 261095424, 104857600), OP_LIBRARY)


@case
def shadowed_by_bad_file() -> Finding:
    bad, good = "/opt/old/libxpu_dnn.so", f"{PACKAGE}/libxpu_dnn.so"
    return files.bad_file(bad_file(bad, "too-short", "file too short", good), 0, None)


@case
def not_loadable() -> Finding:
    text = "cannot dynamically load position-independent executable"
    return files.bad_file(bad_file(f"{PACKAGE}/libxpu_dnn.so", "executable", text), 16000, None)


@case
def no_soname() -> Finding:
    return mismatch.no_soname(f"{PACKAGE}/libxpu_dnn.so", "libxpu_dnn.so", None, [OP_LIBRARY])


@case
def symbol_order() -> Finding:
    provider = facts.Provider(f"{COMPAT}/libcudart.so.12", "not-loaded", None)
    scope = (
        Fact("global scope", "5 objects, none of which defines it"),
        Fact("scope of libxpu_blas.so", "7 objects, none of which defines it"),
    )
    preload = tuple(f"{COMPAT}/{name}" for name in ("libxpurt.so.2", "libxpucuda.so", "libcudart.so.12"))
    return symbols.symbol_order(
        undefined("cudaGetDriverEntryPoint", provider), (f"{PACKAGE}/libxpu_blas.so",), ("libxpujitc.so", "libc.so.6"),
        scope, Change("LD_PRELOAD", preload, False), words.SAID,
    )  # fmt: skip


@case
def undefined_symbol() -> Finding:
    symbol = "_ZN3c104cuda9SetDeviceEi"
    path = f"{SITE}/flash_attn_2_cuda.so"
    scope = (Fact("global scope", "5 objects, none of which defines it"),)
    return symbols.undefined_symbol(undefined(symbol, requester=path), (path,), ("libc10.so", "libtorch.so"), scope)


@case
def version_not_found() -> Finding:
    provider = f"{VENV}/lib/libstdc++.so.6"
    error = f"{provider}: version `GLIBCXX_3.4.30' not found (required by {OP_LIBRARY})"
    problem = facts.VersionNotFound(provider, "GLIBCXX_3.4.30", OP_LIBRARY, error)
    defined = ("GLIBCXX_3.4", "GLIBCXX_3.4.28", "CXXABI_1.3.12")
    return versions.version_not_found(provider, [problem], "found through LD_LIBRARY_PATH", defined)


@case
def orphan_version() -> Finding:
    return versions.orphan_version(facts.OrphanVersion(OP_LIBRARY, "libold.so.1"))


@case
def unversioned_provider() -> Finding:
    provider = f"{VENV}/lib/libssl.so.3"
    return versions.unversioned_provider(facts.UnversionedProvider(provider, OP_LIBRARY, "SSL_new", "OPENSSL_3.0.0"))


@case
def duplicate_library() -> Finding:
    copies = ((f"{COMPAT}/libxpurt.so.2", ()), ("/usr/local/xpu/so/libxpurt.so", (LIBRARY,)))
    return symbols.duplicate_library("libxpurt.so.2", copies)


@case
def executable_stack() -> Finding:
    path = f"{PACKAGE}/libxpu_dnn.so"
    error = f"{path}: cannot enable executable stack as shared object requires: Invalid argument"
    return refusals.refused(
        facts.Refused(path, "executable-stack", "PT_GNU_STACK asks for execution; glibc 2.41", error)
    )


@case
def static_tls() -> Finding:
    path = f"{PACKAGE}/libxpu_dnn.so"
    error = f"{path}: cannot allocate memory in static TLS block"
    return refusals.refused(facts.Refused(path, "static-tls", "needs 200000 bytes, 1664 are left", error))


@case
def isa_level() -> Finding:
    path = f"{PACKAGE}/libxpu_dnn.so"
    error = f"{path}: CPU ISA level is lower than required"
    return refusals.refused(facts.Refused(path, "isa-level", "needs x86-64-v4, the processor has x86-64-v3", error))


@case
def relative_relocations() -> Finding:
    path = f"{PACKAGE}/libxpu_dnn.so"
    error = f"{path}: DT_RELR without GLIBC_ABI_DT_RELR dependency"
    return refusals.refused(facts.Refused(path, "relr", "DT_RELR, and no need for GLIBC_ABI_DT_RELR", error))


@case
def map_refused() -> Finding:
    path = "/mnt/data/libxpu_dnn.so"
    error = f"{path}: failed to map segment from shared object"
    return refusals.refused(facts.Refused(path, "noexec-mount", "/mnt/data is mounted with noexec", error))


@case
def musl_object() -> Finding:
    path = f"{SITE}/native.so"
    problem = facts.ForeignLibc(path, "musl", "libc.musl-x86_64.so.1")
    return refusals.foreign_libc(problem, "glibc 2.36", not_found("libc.musl-x86_64.so.1"))


@case
def extension_not_built() -> Finding:
    stray = ("/home/dev/Torch-FL/build/lib.linux-x86_64-cpython-310/torch_fl/_C.cpython-310-x86_64-linux-gnu.so",)
    return python.extension_not_built(
        "/home/dev/Torch-FL/torch_fl", (".cpython-310-x86_64-linux-gnu.so", ".abi3.so", ".so"), stray, PYTHON,
        "/home/dev/Torch-FL", "No module named 'torch_fl._C'",
    )  # fmt: skip


@case
def shadowed_package() -> Finding:
    behind = f"{SITE}/vllm/_C.cpython-310-x86_64-linux-gnu.so"
    checkout = "/home/dev/vllm"
    origin = modules.WORKING_DIRECTORY
    return modules.shadowed_package("vllm._C", f"{checkout}/vllm", (), behind, SITE, checkout, origin)


@case
def python_tag_mismatch() -> Finding:
    suffixes = (".cpython-311-x86_64-linux-gnu.so", ".abi3.so", ".so")
    return python.python_tag_mismatch("torch_fl._C", (EXTENSION,), suffixes, PYTHON, "CPython 3.11.7")


@case
def torch_missing() -> Finding:
    searched = ("/home/dev", "/usr/lib/python3.10", SITE)
    return python.torch_missing(PYTHON, searched, "2.13", "No module named 'torch'")


@case
def torch_mismatch() -> Finding:
    return python.torch_mismatch("2.12.1+cpu", f"{SITE}/torch", "2.13.0+cpu", f"{OWN}/_build_config.py", PYTHON)


@case
def cuda_torch() -> Finding:
    return python.cuda_torch("2.13.0+cu126", f"{SITE}/torch/lib/libc10_cuda.so", "libcudart.so.12", "2.13", PYTHON)


@case
def sub_interpreter() -> Finding:
    return process.sub_interpreter(PYTHON)


@case
def privateuse_taken() -> Finding:
    return process.privateuse_taken("npu", f"{SITE}/torch_npu/npu/__init__.py", PYTHON)


@case
def driver_missing() -> Finding:
    nodes = (Fact("/dev/xpu*", "no such device node"), Fact("/proc/xpu/dev*/state", "no such file"))
    return stack.driver_missing(nodes, 0, None, "/.dockerenv exists")


@case
def stale_rpath() -> Finding:
    entries = (("/usr/local/xpu/so", True), (BUILD, False), (f"{BUILD}/xhpc/xblas/dependency_so", False))
    return stack.stale_rpath(LIBRARY, "RUNPATH", entries)


@case
def vendor_exits() -> Finding:
    return trials.vendor_exits(
        "torch_fl", attempt("import torch_fl", 1, "XCCL loaded\nRuntime profiler is disabled\n"), True
    )


@case
def vendor_crashes() -> Finding:
    return trials.vendor_crashes(
        "torch_fl", attempt("import torch_fl", -11, "Fatal Python error: Segmentation fault\n")
    )


@case
def load_hangs() -> Finding:
    return trials.load_hangs("torch_fl", attempt("device count", None))


@case
def import_fails() -> Finding:
    text = "operator aten::add has no kernel"
    return trials.import_fails("torch_fl", attempt("import torch_fl", 0, "", text, "RuntimeError"), PYTHON)


@case
def loader_refused() -> Finding:
    return trials.loader_refused(f"{SITE}/native.so", f"{SITE}/native.so: unexpected reloc type 0x25", PYTHON)


@case
def prediction_differs() -> Finding:
    path = f"{SITE}/native.so"
    host = (
        Fact("C library", "glibc 2.36"),
        Fact("interpreter", f"CPython 3.10.12, {PYTHON}"),
        Fact("torch_fl", "0.1.0"),
    )
    seen = attempt("open", 0, "", f"{path}: unexpected reloc type 0x25", "OSError")
    command = f"{PYTHON} -m torch_fl.diagnose check --json {path} > torch_fl-report.json"
    return trials.prediction_differs(path, Prediction(True), seen, host, command)

"""Shapes of public bug reports: broken and healthy installations, rebuilt from libraries of one line.

Each function lays one out in a virtual environment of its own and says what has to be said about it. The comment above
it names a public report of that shape; names of libraries are the report's, their contents are not.
"""

from __future__ import annotations

import importlib.machinery
import os
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest

from tests.elfkit import make_so
from torch_fl._preload import host

USUAL = "/opt"
SUFFIX = importlib.machinery.EXTENSION_SUFFIXES[0]

MODULE = """
static struct {{long count; void *type, *init; long index; void *copy; const char *name, *doc; long size;
               void *methods, *slots, *traverse, *clear, *release;}} definition = {{1, 0, 0, 0, 0, "{name}", 0, -1}};
void *PyModule_Create2(void *, int);
void *PyInit_{name}(void) {{return PyModule_Create2(&definition, 1013);}}
"""
"""A whole extension module without Python.h: the fields of PyModuleDef have had this layout since Python 3.0."""


class Place(NamedTuple):
    """A virtual environment below a directory of the test's own."""

    root: Path

    @property
    def prefix(self) -> Path:
        return self.root / "venv"

    @property
    def python(self) -> Path:
        """The interpreter; one that sees the place's own /opt, once there is one."""
        wrapped = self.root / "python"
        return wrapped if wrapped.exists() else self.prefix / "bin" / "python"

    def opt(self) -> Path:
        """A directory that is mounted over a usual place of SDKs in the processes of this interpreter."""
        own = self.root / "opt"
        own.mkdir()
        namespace = "unshare -m" if os.geteuid() == 0 else "unshare -rm"
        script = f'mount --bind {own} {USUAL} && exec {self.prefix}/bin/python "$@"'
        (self.root / "python").write_text(f"#!/bin/sh\nexec {namespace} /bin/sh -c '{script}' sh \"$@\"\n")
        (self.root / "python").chmod(0o755)
        if subprocess.run([self.python, "-c", ""], capture_output=True, check=False).returncode != 0:
            pytest.skip("needs the right to mount in a namespace of its own")
        return own

    def user_site(self) -> Path:
        """The site-packages of the user's home, which a container shares with its host."""
        configuration = self.prefix / "pyvenv.cfg"
        text = configuration.read_text().replace(
            "include-system-site-packages = false", "include-system-site-packages = true"
        )
        configuration.write_text(text)
        return self.root / "home" / self.site.relative_to(self.prefix)

    @property
    def site(self) -> Path:
        return self.prefix / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"

    def extension(
        self, module: str, *uses: str, site: Path | None = None, suffix: str = SUFFIX, **options: object
    ) -> Path:
        """An extension module that can be imported, and that calls the functions `uses` without saying whose they are.

        options   of make_so: needed, rpath, runpath, flags
        """
        *packages, name = module.split(".")
        directory = (site or self.site).joinpath(*packages)
        directory.mkdir(parents=True, exist_ok=True)
        for depth in range(len(packages)):
            (site or self.site).joinpath(*packages[: depth + 1], "__init__.py").touch()
        return make_so(directory / (name + suffix), source=MODULE.format(name=name) + calling(*uses), **options)


def whole(root: Path) -> Place:
    """An installation that is no virtual environment, as conda's: for PYTHONHOME, with site-packages of its own."""
    place = Place(root)
    place.site.mkdir(parents=True)
    place.python.parent.mkdir()
    place.python.symlink_to(Path(sys.executable).resolve())
    for entry in Path(sysconfig.get_path("stdlib")).iterdir():
        if entry.name != place.site.name:
            (place.site.parent / entry.name).symlink_to(entry)
    return place


def make(root: Path) -> Place:
    place = Place(root)
    venv.create(place.prefix, symlinks=True, with_pip=False)
    return place


def calling(*names: str) -> str:
    """C that needs functions of these names."""
    return "".join(f"int {name}(void); int uses_{name}(void) {{return {name}();}}\n" for name in names)


def library(path: Path, *defines: str, soname: str | None = None, source: str = "", **options: object) -> Path:
    """A library that answers to its file name, with functions of these names."""
    functions = "".join(f"int {name}(void) {{return 1;}}\n" for name in defines)
    return make_so(path, soname=soname or path.name, source=functions + source, **options)


class Shape(NamedTuple):
    """An installation, and what is true of it.

    module    what its user imports; the file is `target`
    code      of the one finding; "" where nothing is wrong
    cause     part of the sentence that says why
    after     a module after whose import it can be imported as it stands
    message   the finding's first line
    seen      (label, where, part of the verdict) that the evidence has to hold
    cured     whether there is a command, and the import works after it
    """

    module: str
    target: Path
    code: str = ""
    message: str = ""
    seen: tuple[tuple[str, Path | str, str], ...] = ()
    cured: bool = False
    environment: Mapping[str, str] = MappingProxyType({})
    python_path: tuple[Path, ...] = ()
    cause: str = ""
    after: str = ""


Build = Callable[[Place], Shape]
SHAPES: list[Build] = []


def shape(build: Build) -> Build:
    SHAPES.append(build)
    return build


def name(build: Build) -> str:
    return build.__name__.replace("_", "-")


# --- on this machine, and not where the loader looks --------------------------------------------------------------


def unsearched(module: str, target: Path, *found: Path, **more: Any) -> Shape:
    """The library is there, and nobody looks there."""
    where = list(dict.fromkeys(str(path.parent) for path in found))
    names = [path.name for path in found]
    subject = f"{names[0]} and {len(names) - 1} more are" if len(names) > 2 else " and ".join(names)
    subject += {1: " is", 2: " are"}.get(len(names), "")
    place = (
        f"{where[0]}, which is not searched" if len(where) == 1 else f"{len(where)} directories that are not searched"
    )
    seen = (*(("found", path, "complete") for path in found), *more.pop("seen", ()))
    return Shape(module, target, "not-on-search-path", f"{subject} in {place}", seen, **{"cured": True, **more})


def nowhere(module: str, target: Path, name: str, **more: Any) -> Shape:
    return Shape(module, target, "missing-library", f"{name} is in none of the directories searched", **more)


# PaddlePaddle/PaddleOCR #9049
@shape
def library_of_the_environment_itself(place: Place) -> Shape:
    found = library(place.prefix / "lib" / "libcudart.so.10.2")
    target = place.extension("paddle.core_avx", needed=[found.name])
    seen = (("needed by", target, ""), ("loader searched", "LD_LIBRARY_PATH", "not set"))
    return unsearched("paddle.core_avx", target, found, seen=seen)


# tensorflow/tensorflow #85311
@shape
def one_wheel_for_each_library(place: Place) -> Shape:
    names = {
        "cublas": "libcublas.so.12", "cudnn": "libcudnn.so.9", "cufft": "libcufft.so.11",
        "curand": "libcurand.so.10", "cusolver": "libcusolver.so.11", "cusparse": "libcusparse.so.12",
        "nccl": "libnccl.so.2", "nvjitlink": "libnvJitLink.so.12", "nvtx": "libnvToolsExt.so.1",
        "cuda_cupti": "libcupti.so.12",
    }  # fmt: skip
    found = [library(place.site / "nvidia" / wheel / "lib" / soname) for wheel, soname in names.items()]
    target = place.extension("tensorflow.core", needed=list(names.values()))
    return unsearched("tensorflow.core", target, *found)


# vllm-project/vllm-ascend #6949
@shape
def name_without_lib_before_it(place: Place) -> Shape:
    library(place.opt() / "lib" / "ascend_transport.so")
    target = place.extension("mooncake.engine", needed=["ascend_transport.so"])
    return unsearched("mooncake.engine", target, Path(USUAL, "lib", "ascend_transport.so"))


# vllm-project/vllm-ascend #262
@shape
def sdk_whose_script_was_not_sourced(place: Place) -> Shape:
    library(place.opt() / "Ascend" / "ascend-toolkit" / "latest" / "lib64" / "libhccl.so")
    target = place.extension("torch_npu._C", needed=["libhccl.so"])
    return unsearched("torch_npu._C", target, Path(USUAL, "Ascend", "ascend-toolkit", "latest", "lib64", "libhccl.so"))


# intel/intel-extension-for-pytorch #300
@shape
def two_libraries_of_one_sdk(place: Place) -> Shape:
    below = Path("intel", "oneapi", "mkl", "2024.0", "lib")
    names = ["libmkl_gnu_thread.so.2", "libmkl_sycl.so.3"]
    opt = place.opt()
    for soname in names:
        library(opt / below / soname)
    target = place.extension("ipex._C", needed=names)
    return unsearched("ipex._C", target, *(Path(USUAL) / below / soname for soname in names))


# intel/intel-extension-for-pytorch #300, after `source setvars.sh`
@shape
def sdk_whose_script_was_sourced(place: Place) -> Shape:
    found = library(place.root / "oneapi" / "mkl" / "lib" / "libmkl_gnu_thread.so.2")
    target = place.extension("ipex._C", needed=[found.name])
    return Shape("ipex._C", target, environment={"LD_LIBRARY_PATH": str(found.parent)})


# isaac-sim/IsaacLab #7139
@shape
def two_copies_of_which_one_does(place: Place) -> Shape:
    old = library(place.site / "isaac" / "prebundle" / "libcusparseLt.so.0", "lt_init")
    good = library(place.site / "nvidia" / "cusparselt" / "lib" / "libcusparseLt.so.0", "lt_init", "lt_matmul")
    target = place.extension("torch._C", "lt_matmul", needed=[good.name])
    assert old != good
    return unsearched("torch._C", target, good)


# flagos-ai/FlagTree #618
@shape
def leaf_of_a_chain_in_an_sdk(place: Place) -> Shape:
    library(place.opt() / "dtk-24.04" / "hip" / "lib" / "libgalaxyhip.so.5")
    target, middle = torch_for_hip(place)
    found = Path(USUAL, "dtk-24.04", "hip", "lib", "libgalaxyhip.so.5")
    seen = (("needed by", middle, ""), ("needed by", target, "needs libtorch_hip.so"))
    return unsearched("torch._C", target, found, seen=seen)


# flagos-ai/FlagTree #618, without the SDK
@shape
def leaf_of_a_chain_nowhere(place: Place) -> Shape:
    target, middle = torch_for_hip(place)
    seen = (("needed by", middle, ""), ("needed by", target, "needs libtorch_hip.so"))
    return nowhere("torch._C", target, "libgalaxyhip.so.5", seen=seen)


def torch_for_hip(place: Place) -> tuple[Path, Path]:
    middle = library(place.site / "torch" / "lib" / "libtorch_hip.so", needed=["libgalaxyhip.so.5"])
    return place.extension("torch._C", needed=[middle.name], runpath=str(middle.parent)), middle


def torch_for_cpu(place: Place) -> Path:
    found = library(place.site / "torch" / "lib" / "libc10.so", "c10_error")
    place.extension("torch._C", needed=[found.name], runpath="$ORIGIN/lib")
    return found


# Dao-AILab/flash-attention #1644, of the right build
@shape
def extension_that_counts_on_another_import(place: Place) -> Shape:
    found = torch_for_cpu(place)
    target = place.extension("flash_attn_2_cuda", "c10_error", needed=[found.name])
    cause = "flash_attn_2_cuda" + SUFFIX + " counts on torch being imported before it"
    return unsearched("flash_attn_2_cuda", target, found, cause=cause, cured=False, after="torch._C")


# Dao-AILab/flash-attention #1644
@shape
def extension_of_another_build_that_counts_on_another_import(place: Place) -> Shape:
    """Two failures, of which the first hides the second."""
    found = torch_for_cpu(place)
    symbol = "_ZN3c105ErrorC2ENS_14SourceLocationESs"
    target = place.extension("flash_attn_2_cuda", symbol, needed=[found.name])
    after = ("after `import torch`, loader would say", "", f"{target}: undefined symbol: {symbol}")
    return unsearched("flash_attn_2_cuda", target, found, seen=(after,), cured=False)


# Skylark0924/Rofunc #35
@shape
def library_of_python_itself(place: Place) -> Shape:
    found = library(place.prefix / "lib" / "libpython3.8.so.1.0")
    target = place.extension("isaacgym.gym", needed=[found.name])
    return unsearched("isaacgym.gym", target, found)


# google-deepmind/acme #47
@shape
def library_of_another_python(place: Place) -> Shape:
    library(place.prefix / "lib" / "libpython3.8.so.1.0")
    target = place.extension("reverb.libpybind", needed=["libpython3.7m.so.1.0"])
    return nowhere("reverb.libpybind", target, "libpython3.7m.so.1.0", seen=(("needed by", target, ""),))


# --- run paths ----------------------------------------------------------------------------------------------------


# pytorch/pytorch #14321
@shape
def run_path_of_a_build_machine(place: Place) -> Shape:
    found = library(place.site / "torch" / "lib" / "libcaffe2.so")
    target = place.extension("torch.lib._C", needed=[found.name], runpath="/home/builder/tmp_install/lib:/opt/mkl/lib")
    seen = (("loader searched", "RUNPATH of " + target.name, "/home/builder/tmp_install/lib does not exist"),)
    return unsearched(
        "torch.lib._C", target, found, seen=seen, cause="was there when it was built and is not there now"
    )


# pytorch/pytorch #14321, where the build tree still exists
@shape
def run_path_into_a_build_tree_with_an_old_copy(place: Place) -> Shape:
    old = library(place.root / "checkout" / "tmp_install" / "lib" / "libcaffe2.so", "init")
    good = library(place.site / "torch" / "lib" / "libcaffe2.so", "init", "run")
    target = place.extension("torch.lib._C", "run", needed=[good.name], runpath=str(old.parent))
    return mixed("torch.lib._C", target, target, "run", old, good, "found through RUNPATH")


# pytorch/executorch #21611
@shape
def foreign_entries_beside_a_good_one(place: Place) -> Shape:
    found = library(place.site / "torch" / "lib" / "libtorch.so")
    foreign = r"C:/Program Files/mkl/lib:/lib/intel64:/home/builder/pytorch/lib:/lib/intel64_win"
    run_path = f"$ORIGIN/../torch/lib:{foreign}"
    return Shape("executorch._portable", place.extension("executorch._portable", needed=[found.name], runpath=run_path))


# ROCm/TheRock #968
@shape
def run_path_into_the_builders_environment(place: Place) -> Shape:
    names = [f"lib{name}.so.1" for name in ("hipblas", "hipfft", "hiprand", "hipsolver", "hipsparse", "miopen")]
    found = [library(place.site / "_rocm_sdk" / "lib" / soname) for soname in names]
    run_path = "/home/builder/.venv/lib/python3.10/site-packages/_rocm_sdk/lib"
    middle = library(place.site / "torch" / "lib" / "libtorch_hip.so", needed=names, runpath=run_path)
    target = place.extension("torch._C", needed=[middle.name], runpath="$ORIGIN/lib")
    return unsearched("torch._C", target, *found, cause=f"RUNPATH of libtorch_hip.so names {run_path}")


# bazel-contrib/rules_python #2125
@shape
def packages_in_two_roots(place: Place) -> Shape:
    roots = [place.root / "bazel" / name / "site-packages" for name in ("pip_torch", "pip_nccl")]
    found = library(roots[1] / "nvidia" / "nccl" / "lib" / "libnccl.so.2")
    target = place.extension("torch._C", needed=[found.name], site=roots[0], runpath="$ORIGIN/../nvidia/nccl/lib")
    dead = f"{roots[0]}/torch/../nvidia/nccl/lib does not exist"
    seen = (("loader searched", f"RUNPATH of {target.name}", dead),)
    return unsearched("torch._C", target, found, seen=seen, python_path=tuple(roots))


# pytorch/pytorch #141837
@shape
def package_in_a_source_tree(place: Place) -> Shape:
    source = place.root / "src"
    found = library(place.site / "nvidia" / "cublas" / "lib" / "libcublas.so.12")
    target = place.extension("torch._C", needed=[found.name], site=source, runpath="$ORIGIN/../nvidia/cublas/lib")
    (place.site / "pytorch.pth").write_text(f"{source}\n")
    return unsearched("torch._C", target, found)


# numpy/numpy #16655
@shape
def copy_without_the_directory_beside_it(place: Place) -> Shape:
    name, lost = "libopenblasp-r0-34a18dc3.3.7.so", place.site / "numpy.libs"
    target = place.extension("numpy._umath", needed=[name], runpath="$ORIGIN/../numpy.libs")
    record = place.site / "numpy-1.19.0.dist-info" / "RECORD"
    record.parent.mkdir()
    record.write_text(f"numpy/_umath{SUFFIX},sha256=x,1\nnumpy.libs/{name},sha256=y,2\n")
    seen = (("installed files", record, f"lists {lost}/{name}, which does not exist"),)
    return nowhere("numpy._umath", target, name, seen=seen, cause="was installed with numpy 1.19.0")


def cublas(place: Place, **run_path: str) -> tuple[Path, Path, Path, Path]:
    """The extension, its library, and two copies of what that one needs: the system's and the one beside it."""
    wheel, system = place.site / "nvidia" / "cublas" / "lib", place.root / "cuda" / "lib64"
    old = library(system / "libcublasLt.so.12", "lt_init")
    good = library(wheel / "libcublasLt.so.12", "lt_init", "lt_matmul")
    middle = library(wheel / "libcublas.so.12", source=calling("lt_matmul"), needed=[good.name], **run_path)
    return place.extension("torch._C", needed=[middle.name], runpath=str(wheel)), middle, old, good


def mixed(module: str, target: Path, user: Path, symbol: str, old: Path, good: Path, how: str, **more: Any) -> Shape:
    """Of two copies the one without a symbol is taken."""
    message = f"{user.name} needs {symbol}, which nothing in its scope defines"
    seen = (("found for DT_NEEDED", old, how), ("other copies", good, f"not taken, {old} was"))
    cause = f"{old} is found first and lacks what {good} defines"
    return Shape(module, target, "undefined-symbol", message, seen, cause=cause, **{"cured": True, **more})


# pytorch/pytorch #174320
@shape
def run_path_ranks_below_the_variable(place: Place) -> Shape:
    target, user, old, good = cublas(place, runpath="$ORIGIN")
    variable = {"LD_LIBRARY_PATH": str(old.parent)}
    return mixed("torch._C", target, user, "lt_matmul", old, good, "LD_LIBRARY_PATH", environment=variable)


# pytorch/pytorch #174320, as the wheels are since
@shape
def rpath_ranks_above_the_variable(place: Place) -> Shape:
    target, _user, old, _good = cublas(place, rpath="$ORIGIN")
    return Shape("torch._C", target, environment={"LD_LIBRARY_PATH": str(old.parent)})


# --- other environments -------------------------------------------------------------------------------------------


# pytorch/pytorch #30450
@shape
def library_with_a_dlopen_of_its_own(place: Place) -> Shape:
    """Loads at run time then lose the run path of their caller; what an import needs is not affected."""
    source = """void *dlsym(void *, const char *); typedef void *open(const char *, int);
        void *dlopen(const char *file, int mode) {return ((open *) dlsym((void *) -1L, "dlopen"))(file, mode);}"""
    monitor = library(place.root / "monitor" / "libmonitor.so", source=source)
    needed = library(place.site / "caffe2" / "lib" / "libnvrtc.so.12")
    target = place.extension("caffe2._C", needed=[needed.name], runpath="$ORIGIN/lib")
    return Shape("caffe2._C", target, environment={"LD_PRELOAD": str(monitor)})


# microsoft/vscode #288660
@shape
def plugin_that_drags_in_another_c_library(place: Place) -> Shape:
    snap = place.root / "snap" / "core20"
    script = "GLIBC_PRIVATE {global: __libc_pthread_init;};"
    other = library(place.root / "build" / "libc.so.6", "__libc_pthread_init", version_script=script)
    thread = library(snap / "libpthread-2.31.so", source=calling("__libc_pthread_init"), needed=[other])
    target = place.extension("gtk.canberra", needed=[thread.name], runpath=str(snap))
    return Shape(
        "gtk.canberra",
        target,
        "undefined-symbol",
        "libpthread-2.31.so needs __libc_pthread_init@GLIBC_PRIVATE, which nothing in its scope defines",
        (("needed by", thread, ""), ("needed by", target, "needs libpthread-2.31.so")),
        cause="belongs to another build of the C library than the one that runs",
    )


# vllm-project/vllm #3387
@shape
def extension_of_the_home_directory_in_a_container(place: Place) -> Shape:
    """The user's site-packages come from the host, with a build for the host's CUDA."""
    target = place.extension("vllm._C", needed=["libcublas.so.11"], site=place.user_site())
    near = library(place.site / "nvidia" / "cublas" / "lib" / "libcublas.so.12")
    seen = (("needed by", target, ""), ("files with a similar name", near, "SONAME libcublas.so.12"))
    home = {"PYTHONUSERBASE": str(place.root / "home")}
    return nowhere("vllm._C", target, "libcublas.so.11", seen=seen, environment=home)


# --- symbols ------------------------------------------------------------------------------------------------------


# PaddlePaddle/Paddle #37032
@shape
def bundled_copy_before_the_users_own(place: Place) -> Shape:
    """An RPATH cannot be beaten by LD_LIBRARY_PATH, only by what is loaded already."""
    old = library(place.site / "paddle" / "libs" / "libxpuapi.so", "adam")
    good = library(place.root / "own" / "lib" / "libxpuapi.so", "adam", "sparse_adam")
    target = place.extension("paddle.core_avx", "sparse_adam", needed=[good.name], rpath="$ORIGIN/libs")
    variable = {"LD_LIBRARY_PATH": str(good.parent)}
    return mixed(
        "paddle.core_avx", target, target, "sparse_adam", old, good, "found through RPATH", environment=variable
    )


def dropped(module: str, target: Path, user: Path, symbol: str, taken: Path) -> Shape:
    """The library that had a symbol has lost it, and there is no other copy."""
    message = f"{user.name} needs {symbol}, which nothing in its scope defines"
    seen = (("found for DT_NEEDED", taken, "found through"), ("undefined", symbol, "defined by no object in scope"))
    return Shape(module, target, "undefined-symbol", message, seen)


# ROCm/rocm-libraries #4547
@shape
def library_replaced_by_a_build_that_lacks_a_part(place: Place) -> Shape:
    rocm = place.root / "rocm-7.2.0" / "lib"
    operations = library(rocm / "libdevice_conv_operations.so", "add_device_conv2d_fwd")
    user = library(
        rocm / "libMIOpen.so.1", source=calling("add_device_conv2d_bwd"), needed=[operations.name], runpath="$ORIGIN"
    )
    target = place.extension("torch._C", needed=[user.name], runpath=str(rocm))
    return dropped("torch._C", target, user, "add_device_conv2d_bwd", operations)


# intel/intel-extension-for-pytorch #561
@shape
def two_releases_of_one_set(place: Place) -> Shape:
    oneapi = place.root / "oneapi" / "mkl" / "2024.0" / "lib"
    old = library(place.prefix / "lib" / "libmkl_core.so.2", "mkl_init")
    good = library(oneapi / "libmkl_core.so.2", "mkl_init", "xgemm_pack")
    user = library(oneapi / "libmkl_gnu_thread.so.2", source=calling("xgemm_pack"), needed=[good.name])
    target = place.extension("torch._C", needed=[user.name])
    path = {"LD_LIBRARY_PATH": f"{old.parent}:{oneapi}"}
    return mixed("torch._C", target, user, "xgemm_pack", old, good, "LD_LIBRARY_PATH", environment=path)


# pytorch/pytorch #123097
@shape
def release_that_no_longer_exports_a_symbol(place: Place) -> Shape:
    mkl = library(place.prefix / "lib" / "libmkl_intel_thread.so.2", "mkl_init")
    target = place.extension("torch._C", "iJIT_NotifyEvent", needed=[mkl.name], rpath=str(mkl.parent))
    return dropped("torch._C", target, target, "iJIT_NotifyEvent", mkl)


def unnamed(module: str, target: Path, symbol: str, provider: Path, **more: Any) -> Shape:
    """A library that is at hand defines the symbol, and the user does not name it."""
    message = f"{target.name} needs {symbol} from a library that is not loaded with global visibility"
    seen = (("undefined", symbol, f"defined by {provider}: "),)
    cause = f"does not name a library that defines {symbol} in DT_NEEDED"
    return Shape(module, target, "symbol-order", message, seen, cause=cause, **{"cured": True, **more})


# PaddlePaddle/Paddle #47421
@shape
def provider_that_is_not_named(place: Place) -> Shape:
    provider = library(place.root / "lib" / "librt_of_old.so.1", "shm_unlink_of_old")
    target = place.extension("paddle.libpaddle", "shm_unlink_of_old", suffix=".so")
    variable = {"LD_LIBRARY_PATH": str(provider.parent)}
    return unnamed("paddle.libpaddle", target, "shm_unlink_of_old", provider, environment=variable)


# PaddlePaddle/Paddle #55257
@shape
def system_library_that_is_not_named(place: Place) -> Shape:
    target = place.extension("paddle.libpaddle", "deflate", suffix=".so")
    (provider,) = [entry.path for entry in host.current().cache.named("libz.so.1")]
    return unnamed("paddle.libpaddle", target, "deflate", Path(provider))


# facebookresearch/faiss #2937
@shape
def plugin_that_counts_on_its_host(place: Place) -> Shape:
    core = library(place.site / "mkl" / "libmkl_core.so.1", "mkl_sparse_optimize")
    target = place.extension("mkl.libmkl_mc", "mkl_sparse_optimize", suffix=".so")
    return unnamed("mkl.libmkl_mc", target, "mkl_sparse_optimize", core)


# --- builds and checkouts -----------------------------------------------------------------------------------------


# vllm-project/vllm-ascend #1114
@shape
def checkout_without_its_kernel_library(place: Place) -> Shape:
    new, old = place.root / "checkout", place.root / "image"
    found = library(old / "vllm_ascend" / "lib" / "libvllm_ascend_kernels.so")
    target = place.extension("vllm_ascend.vllm_ascend_C", needed=[found.name], site=new, runpath="$ORIGIN/lib")
    dead = ("loader searched", f"RUNPATH of {target.name}", f"{new}/vllm_ascend/lib does not exist")
    return unsearched("vllm_ascend.vllm_ascend_C", target, found, seen=(dead,), python_path=(new, old))


# vllm-project/vllm-ascend #1114, where there is no other copy
@shape
def kernel_library_that_was_never_built(place: Place) -> Shape:
    name = "libvllm_ascend_kernels.so"
    target = place.extension("vllm_ascend.vllm_ascend_C", needed=[name], runpath="$ORIGIN/lib")
    dead = ("loader searched", f"RUNPATH of {target.name}", f"{target.parent}/lib does not exist")
    return nowhere("vllm_ascend.vllm_ascend_C", target, name, seen=(dead,))

"""Build torch_fl: find the XPU SDK and the xdnn library by presence, run CMake, record what was found.

Nothing is imported to find anything: neither torch nor the vendor's package. Every refusal comes before the
compiler starts and names the variable, the places looked at in order and what each lacked.

  FLAGOS_ACCELERATOR=kunlunxin XPU_ROOT=/usr/local/xpu pip install --no-build-isolation -e .
  python setup.py build_ext --inplace
"""

from __future__ import annotations

import ast
import importlib.machinery
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import NamedTuple

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py

HERE = Path(__file__).resolve().parent
TORCH_LINE = (2, 13)
BUILD_TYPES = ("Release", "RelWithDebInfo", "Debug", "MinSizeRel")
PINNED = {
    "FLAGOS_BUILD_VENDOR": ("ON", "xdnn is the only operator library that the XPU SDK has"),
    "FLAGOS_BUILD_BOXING": ("OFF", "this backend re-dispatches nothing to the CUDA key, so there is nothing to box"),
    "FLAGOS_BUILD_FLAGGEMS_CPP": ("OFF", "the XPU SDK ships no liboperators.so"),
}
TRUTH = {"1": "ON", "ON": "ON", "TRUE": "ON", "YES": "ON", "0": "OFF", "OFF": "OFF", "FALSE": "OFF", "NO": "OFF"}


def load_catalog():
    """torch_fl/_preload/catalog.py by path: the vendor's names are written down once, and torch_fl is not imported."""
    directory = HERE / "torch_fl" / "_preload"
    name, init = "_torch_fl_preload", directory / "__init__.py"
    spec = importlib.util.spec_from_file_location(name, init, submodule_search_locations=[str(directory)])
    sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(sys.modules[name])
    return importlib.import_module(f"{name}.catalog")


catalog = load_catalog()


class Place(NamedTuple):
    """One place that was looked at and what was seen there."""

    where: str
    verdict: str


def refuse(subject: str, places: list[Place], cause: str, help_text: str, commands: list[str]) -> SystemExit:
    """The error that ends a build before it compiles, in the grammar of every torch_fl message."""
    lines = [f"error: {subject}"]
    if places:
        width = max(len(place.where) for place in places)
        lines.append("  looked at, in order:")
        lines += [f"    {place.where.ljust(width)}  {place.verdict}" for place in places]
    lines += [f"  cause: {cause}", f"  help: {help_text}"]
    lines += [f"    $ {command}" for command in commands]
    return SystemExit("\n".join(lines))


class Sdk(NamedTuple):
    root: Path
    libraries: Path
    version: str


class OpLibrary(NamedTuple):
    directory: Path
    include: Path
    dependencies: tuple[Path, ...]


class Torch(NamedTuple):
    root: Path
    version: str


def check_settings(environ) -> str:
    """The accelerator; refuses another one, and a setting that contradicts what this platform pins."""
    accelerator = environ.get(catalog.ACCELERATOR_VARIABLE) or catalog.ACCELERATORS[0]
    if accelerator not in catalog.ACCELERATORS:
        known = ", ".join(catalog.ACCELERATORS)
        raise refuse(
            f"{catalog.ACCELERATOR_VARIABLE}={accelerator} names an accelerator that this source tree does not have",
            [],
            f"the accelerators here are: {known}",
            f"unset {catalog.ACCELERATOR_VARIABLE}, or set it to {known}",
            [f"export {catalog.ACCELERATOR_VARIABLE}={catalog.ACCELERATORS[0]}"],
        )
    for name, (pinned, reason) in PINNED.items():
        given = environ.get(name)
        if given is None:
            continue
        meant = TRUTH.get(given.upper())
        if meant is None:
            raise refuse(
                f"{name}={given} is not one of ON and OFF",
                [],
                f"{name} is pinned to {pinned} for {accelerator}: {reason}",
                f"unset {name}, or set it to {pinned}",
                [f"unset {name}"],
            )
        if meant != pinned:
            raise refuse(
                f"{name}={given} is refused",
                [],
                f"{name} is pinned to {pinned} for {accelerator}: {reason}",
                f"unset {name}",
                [f"unset {name}"],
            )
    return accelerator


def find_sdk(environ) -> Sdk:
    """The SDK that XPU_ROOT names (the usual root when unset), with its headers and its runtime library."""
    variable, default = catalog.SDK_ROOT_VARIABLE, catalog.SDK_DEFAULT_ROOTS[0]
    given = environ.get(variable)
    root = Path(given or default)
    label = f"{variable}={given}" if given else f"{default} ({variable} is not set)"
    lacking = [header for header in catalog.SDK_HEADERS if not (root / header).is_file()]
    library_name = catalog.RUNTIME.soname.partition(".so")[0] + ".so"
    libraries = next((root / sub for sub in catalog.SDK_BELOW_ROOT if (root / sub / library_name).is_file()), None)
    if libraries is None:
        lacking.append(f"{library_name} in {' or '.join(sub + '/' for sub in catalog.SDK_BELOW_ROOT)}")
    if lacking:
        verdict = "no such directory" if not root.is_dir() else "lacks " + ", ".join(lacking)
        needed = " and ".join(catalog.SDK_HEADERS)
        raise refuse(
            f"the Kunlun XPU SDK is not complete at {root}",
            [Place(label, verdict)],
            f"the native device layer is compiled against {needed} and linked with {library_name}",
            f"set {variable} to the root of the XPU SDK, the directory that holds include/xpu/runtime.h",
            [f"export {variable}=/path/to/xpu"],
        )
    return Sdk(root.absolute(), libraries.absolute(), read_sdk_version(root))


def read_sdk_version(root: Path) -> str:
    header = root / "include" / "xpu" / "version.h"
    if not header.is_file():
        return "unknown"
    text = header.read_text(errors="replace")
    parts = [re.search(rf"#define\s+XPURT_VERSION_{part}\s+(\d+)", text) for part in ("MAJOR", "MINOR", "THIRD")]
    return ".".join(part.group(1) for part in parts if part) or "unknown"


def find_op_library(environ, search_path: list[str]) -> OpLibrary:
    """The xdnn library and header: XDNN_ROOT, then FLAGOS_VENDOR_TORCH_LIB, then the package in site-packages.

    A variable that is set is believed: when it does not hold the two files the build stops, because going on
    to the next place would hide the mistake.
    """
    variables = (catalog.OP_ROOT_VARIABLE, catalog.OP_LIBRARY_VARIABLE)
    named = next((variable for variable in variables if environ.get(variable)), None)
    if named:
        roots = [(f"{named}={environ[named]}", Path(environ[named]))]
    else:
        packages = [Path(entry) / catalog.VENDOR_PACKAGE for entry in search_path if entry]
        roots = [(str(package), package) for package in packages if package.is_dir()]
    unset = variables[: variables.index(named)] if named else variables
    places = [Place(variable, "not set") for variable in unset]
    for label, root in roots:
        found, verdict = look_for_op_library(root)
        if found:
            return found
        places.append(Place(label, verdict))
    if named == variables[0]:
        places.append(Place(variables[1], f"not reached: {named} is set"))
    package_label = f"{catalog.VENDOR_PACKAGE}/ on sys.path of {sys.executable}"
    if named:
        places.append(Place(package_label, f"not reached: {named} is set"))
    elif not roots:
        places.append(Place(package_label, "no such directory"))
    raise refuse(
        f"the vendor operator library {catalog.OP_LIBRARY.soname} is not found",
        places,
        "FLAGOS_BUILD_VENDOR is pinned to ON: without this library every operator would run on the CPU. It ships "
        "inside the vendor torch package, not in the XPU SDK",
        f"set {catalog.OP_ROOT_VARIABLE} to the directory with {catalog.OP_LIBRARY.soname} and {catalog.OP_HEADER}",
        [f"export {catalog.OP_ROOT_VARIABLE}=/path/to/site-packages/{catalog.VENDOR_PACKAGE}"],
    )


def look_for_op_library(root: Path) -> tuple[OpLibrary | None, str]:
    """(found, "") or (None, what is lacking). The file lies in root or in root/lib; the header in include/."""
    if not root.is_dir():
        return None, "no such directory" if not root.exists() else "not a directory"
    library = next(
        (root / sub for sub in catalog.PACKAGE_SUBDIRECTORIES if (root / sub / catalog.OP_LIBRARY.soname).is_file()),
        None,
    )
    include = next((base / "include" for base in (root, root.parent) if (base / catalog.OP_HEADER).is_file()), None)
    lacking = []
    if library is None:
        lacking.append(f"{catalog.OP_LIBRARY.soname} (directly or in lib/)")
    if include is None:
        lacking.append(catalog.OP_HEADER)
    if library is None or include is None:
        return None, "lacks " + " and ".join(lacking)
    package = library.parent if library.name == "lib" else library
    nested = [
        found for pattern in catalog.COMPAT_BELOW_PACKAGE for found in sorted(package.glob(pattern)) if found.is_dir()
    ]
    return OpLibrary(library.absolute(), include.absolute(), tuple(path.absolute() for path in nested)), ""


def find_compat_runtime(environ, sdk: Sdk) -> Path:
    """The directory of the CUDA-compat libcudart.so*, asked for by the pinned-pointer probe alone."""
    variable = catalog.COMPAT_ROOT_VARIABLE
    given = environ.get(variable)
    bases = [Path(given) / sub for sub in catalog.COMPAT_BELOW_ROOT] if given else [sdk.libraries]
    stem = catalog.CUDA_RUNTIME.soname.partition(".so")[0] + ".so"
    places = [] if given else [Place(variable, "not set")]
    for base in bases:
        if base.is_dir() and any(base.glob(stem + "*")):
            return base.absolute()
        verdict = f"has no {stem}*" if base.is_dir() else "no such directory"
        places.append(Place(f"{variable}={given}" if base == Path(given or "/nowhere") else str(base), verdict))
    raise refuse(
        f"the CUDA-compat runtime {stem}* is not found",
        places,
        "isPinnedPtr() asks its cudaPointerGetAttributes about pointers that the flagos host allocator does not know",
        f"set {variable} to the directory that holds {stem}*, directly or in lib/",
        [f"export {variable}=/path/to/xcudart"],
    )


def find_torch(search_path: list[str]) -> Torch:
    """The installed torch, read and not imported: an import could load an older build of this very backend."""
    spec = importlib.machinery.PathFinder.find_spec("torch", search_path)
    line = ".".join(map(str, TORCH_LINE))
    help_text = f"install a torch of the {line} line into this interpreter, and build without isolation"
    commands = [
        f"{sys.executable} -m pip install 'torch=={line}.0'",
        f"{sys.executable} -m pip install --no-build-isolation -e .",
    ]
    if spec is None or not spec.submodule_search_locations:
        raise refuse(
            "this build sees no torch",
            [Place("sys.path", "has no torch package")],
            "the backend is compiled against torch's headers; an isolated build does not see an installed torch",
            help_text,
            commands,
        )
    root = Path(spec.submodule_search_locations[0])
    match = re.search(r"__version__\s*(?::\s*\w+)?\s*=\s*['\"]([^'\"]+)", (root / "version.py").read_text())
    version = match.group(1) if match else "unknown"
    if tuple(version.split(".")[:2]) != tuple(map(str, TORCH_LINE)):
        raise refuse(
            f"torch {version} is not of the {line} line",
            [Place(str(root), f"torch {version}")],
            "PyTorch's C++ interface changes with every minor release",
            help_text,
            commands,
        )
    return Torch(root, version)


def find_tool(name: str) -> str:
    """cmake and ninja come as wheels, so the one beside this interpreter wins over the one on PATH."""
    beside = Path(sys.executable).parent / name
    found = str(beside) if beside.is_file() else shutil.which(name)
    if not found:
        raise refuse(
            f"{name} is not found",
            [Place(str(beside.parent), f"has no {name}"), Place("PATH", f"has no {name}")],
            "the native part is built with CMake and Ninja",
            "install it as a wheel",
            [f"{sys.executable} -m pip install {name}"],
        )
    return found


def find_build_type(environ) -> str:
    """FLAGOS_BUILD_TYPE, one of CMake's four, Release when unset."""
    given = environ.get("FLAGOS_BUILD_TYPE", BUILD_TYPES[0])
    if given not in BUILD_TYPES:
        known = ", ".join(BUILD_TYPES)
        raise refuse(
            f"FLAGOS_BUILD_TYPE={given} is not a build type",
            [],
            f"CMake's build types are {known}",
            f"unset FLAGOS_BUILD_TYPE, or set it to one of {known}",
            ["unset FLAGOS_BUILD_TYPE"],
        )
    return given


def find_compiler(environ) -> str:
    given = environ.get("CXX") or "c++"
    found = shutil.which(given.split()[0])
    if not found:
        raise refuse(
            f"the C++ compiler {given} is not found",
            [Place("PATH", f"has no {given}")],
            "torch's headers ask for C++20, and only the host compiler is used",
            "install a C++20 compiler, or name one in CXX",
            ["apt install g++"],
        )
    return given


def check_python_headers() -> str:
    include = sysconfig.get_path("include")
    if not Path(include, "Python.h").is_file():
        raise refuse(
            f"Python.h is not found for {sys.executable}",
            [Place(include, "has no Python.h")],
            "the extension torch_fl._C is compiled against it",
            "install the interpreter's development files",
            ["apt install python3-dev"],
        )
    return include


class Layout(NamedTuple):
    """All that the build needs to know, found before anything is compiled."""

    accelerator: str
    sdk: Sdk
    op_library: OpLibrary
    compat: Path
    torch: Torch
    build_type: str
    compiler: str
    python_include: str
    cmake: str
    ninja: str

    @property
    def rpath(self) -> tuple[str, ...]:
        """The SDK, the operator library, then the nested directories that its own needs come from."""
        ordered = [self.sdk.libraries, self.op_library.directory, *self.op_library.dependencies]
        return tuple(dict.fromkeys(str(path) for path in ordered))


def discover(environ, search_path: list[str]) -> Layout:
    accelerator = check_settings(environ)
    sdk = find_sdk(environ)
    op_library = find_op_library(environ, search_path)
    compat = find_compat_runtime(environ, sdk)
    return Layout(
        accelerator,
        sdk,
        op_library,
        compat,
        find_torch(search_path),
        find_build_type(environ),
        find_compiler(environ),
        check_python_headers(),
        find_tool("cmake"),
        find_tool("ninja"),
    )


def read_version() -> str:
    """VERSION from torch_fl/_version.py, without importing the package."""
    tree = ast.parse((HERE / "torch_fl" / "_version.py").read_text())
    return next(ast.literal_eval(node.value) for node in tree.body if isinstance(node, ast.Assign))


def build_config(layout: Layout) -> str:
    """The text of torch_fl/_build_config.py: constants only, so that it can be read without being run."""
    compiler = subprocess.run([*layout.compiler.split(), "--version"], check=True, capture_output=True, text=True)
    facts = {
        "ACCELERATOR": layout.accelerator,
        "TORCH_FL_VERSION": read_version(),
        "TORCH_VERSION": layout.torch.version,
        "CXX11_ABI": True,
        "PYTHON_TAG": sysconfig.get_config_var("EXT_SUFFIX"),
        "COMPILER": compiler.stdout.splitlines()[0],
        "XPU_ROOT": str(layout.sdk.root),
        "XPU_SDK_VERSION": layout.sdk.version,
        "SDK_LIBRARY_DIR": str(layout.sdk.libraries),
        "XDNN_LIBRARY_DIR": str(layout.op_library.directory),
        "XDNN_INCLUDE_DIR": str(layout.op_library.include),
        "XCUDART_LIBRARY_DIR": str(layout.compat),
        "DEPENDENCY_DIRS": tuple(map(str, layout.op_library.dependencies)),
        "RPATH": layout.rpath,
    }
    body = "\n".join(f"{name} = {value!r}" for name, value in facts.items())
    heading = "Written by setup.py: what the build saw. Constants only; read by path, never trusted to be current."
    return f'"""{heading}"""\n\n{body}\n'


class BuildNative(build_ext):
    """CMake builds libtorch_fl.so and _C; this command finds the inputs, runs it and writes the record."""

    def run(self) -> None:
        layout = discover(os.environ, sys.path)
        inplace = self.inplace or getattr(self, "editable_mode", False)
        destination = (HERE if inplace else Path(self.build_lib).absolute()) / "torch_fl"
        tree = HERE / "build" / f"native-{sysconfig.get_config_var('SOABI')}"
        pybind11 = importlib.machinery.PathFinder.find_spec("pybind11", sys.path)
        if pybind11 is None:
            raise refuse(
                "pybind11 is not installed",
                [Place("sys.path", "has no pybind11 package")],
                "the bindings in csrc/python are written with it",
                "install it into this interpreter",
                [f"{sys.executable} -m pip install pybind11"],
            )
        defines = {
            "TORCH_FL_ACCELERATOR": layout.accelerator,
            "CMAKE_BUILD_TYPE": layout.build_type,
            "CMAKE_MAKE_PROGRAM": layout.ninja,
            "TORCH_FL_TORCH_ROOT": layout.torch.root,
            "TORCH_FL_PYTHON_INCLUDE": layout.python_include,
            "TORCH_FL_PYBIND11_INCLUDE": Path(pybind11.submodule_search_locations[0]) / "include",
            "TORCH_FL_EXTENSION_SUFFIX": sysconfig.get_config_var("EXT_SUFFIX"),
            "TORCH_FL_XPU_ROOT": layout.sdk.root,
            "TORCH_FL_XPU_LIBRARIES": layout.sdk.libraries,
            "TORCH_FL_XDNN_LIBRARY": layout.op_library.directory / catalog.OP_LIBRARY.soname,
            "TORCH_FL_XDNN_INCLUDE": layout.op_library.include,
            "TORCH_FL_RPATH": ";".join(layout.rpath),
            "TORCH_FL_DESTINATION": destination,
        }
        if " " not in layout.compiler:  # CMake itself takes a CXX with arguments apart, from the environment
            defines["CMAKE_CXX_COMPILER"] = layout.compiler
        configure = [layout.cmake, "-S", str(HERE / "csrc"), "-B", str(tree), "-G", "Ninja"]
        run_step("configuring", [*configure, *(f"-D{name}={value}" for name, value in defines.items())])
        run_step("compiling", [layout.cmake, "--build", str(tree), "--target", "install"])
        destination.mkdir(parents=True, exist_ok=True)
        write_if_changed(destination / "_build_config.py", build_config(layout))

    def get_outputs(self) -> list[str]:
        base = Path(self.build_lib) / "torch_fl"
        return [
            str(base / ("_C" + sysconfig.get_config_var("EXT_SUFFIX"))),
            str(base / "lib" / "libtorch_fl.so"),
            str(base / "lib" / "libtorch_fl_autoload.so"),
            str(base / "_build_config.py"),
        ]

    def get_output_mapping(self) -> dict[str, str]:
        return {}


class BuildPython(build_py):
    """Leaves out the record of an earlier in-place build: the wheel carries the one that its own build writes."""

    def find_package_modules(self, package, package_dir):
        modules = super().find_package_modules(package, package_dir)
        return [module for module in modules if module[1] != "_build_config"]


def run_step(what: str, command: list[str]) -> None:
    """Run one step of the build with its output shown; a failure ends the build without a Python traceback."""
    status = subprocess.run(command).returncode
    if status != 0:
        raise SystemExit(f"error: {what} the native part failed (exit status {status}); its output is above")


def write_if_changed(path: Path, text: str) -> None:
    if not path.is_file() or path.read_text() != text:
        path.write_text(text)


if __name__ == "__main__":
    setup(
        cmdclass={"build_ext": BuildNative, "build_py": BuildPython},
        ext_modules=[Extension("torch_fl._C", sources=[])],
    )

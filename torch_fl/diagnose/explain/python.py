"""The interpreter, torch and the extension module: what has to be right before the loader has a say."""

from __future__ import annotations

from typing import Optional, Sequence, Tuple

from torch_fl.diagnose.escape import shell_word
from torch_fl.diagnose.finding import Evidence, Fact, Finding, Fix, Page, Severity, register

TORCH_LINE = "2.13"
"""The line of torch that this version of torch_fl is made for, where no build record says another one."""

register(
    Page(
        "extension-not-built",
        "torch_fl._C is not there",
        "The Python part of torch_fl is there, and its compiled part is not, in no form that any interpreter could "
        "import. Python says `No module named 'torch_fl._C'`.",
        "Python imports an extension module from a file whose name ends in one of the interpreter's suffixes, beside "
        "the package's other files. A plain `setup.py build_ext` leaves the file in the directory build/, where no "
        "import looks.",
        "Python, importlib.machinery.EXTENSION_SUFFIXES; setuptools, build_ext --inplace",
        "Install the package with pip, or build it in place with `setup.py build_ext --inplace`.",
    )
)


def extension_not_built(
    directory: str, suffixes: Sequence[str], stray: Sequence[str], python: str, checkout: Optional[str], text: str = ""
) -> Finding:
    """No _C of any interpreter in the package.

    directory   the package
    suffixes    the endings that this interpreter imports, in its order
    stray       files of that name in the build directory of the checkout
    checkout    the source tree with setup.py, None for an installed package
    text        what Python said, "" when nothing was imported
    """
    seen = [Fact(f"{directory}/_C{suffix}", "no such file") for suffix in suffixes]
    evidence = [Evidence("Python searched", tuple(seen))]
    cause = "the package was copied or unpacked without its compiled part"
    fix = Fix("install torch_fl again from a wheel for this interpreter")
    if stray:
        evidence.append(
            Evidence("found", tuple(Fact(path, "built, in a place where no import looks") for path in stray))
        )
    if checkout is not None:
        cause = (
            "the extension was built without --inplace, which leaves it in the directory build"
            if stray
            else "this is a source checkout in which nothing has been built yet"
        )
        change = f"cd {shell_word(checkout)} && {shell_word(python)} setup.py build_ext --inplace"
        fix = Fix("build the extension in place", (change,))
    if text:
        evidence.append(Evidence("Python said", (Fact("", text),)))
    return Finding(
        "extension-not-built",
        Severity.ERROR,
        "torch_fl._C",
        f"torch_fl._C is not built in {directory}",
        tuple(evidence),
        cause,
        fix,
    )


register(
    Page(
        "python-tag-mismatch",
        "the extension is built for another Python",
        "A compiled extension is there, and its name says that it is for another version or another build of Python. "
        "Python does not consider such a file and says `No module named ...`.",
        "The suffix of the file carries the tag of the interpreter (cpython-310-x86_64-linux-gnu); an interpreter "
        "imports its own suffixes, .abi3.so and .so.",
        "Python, importlib.machinery.EXTENSION_SUFFIXES; PEP 3149",
        "Run it with the interpreter that the tag names, or build or install it for this one.",
    )
)


def python_tag_mismatch(
    module: str, present: Sequence[str], suffixes: Sequence[str], python: str, version: str, text: str = ""
) -> Finding:
    """`present`: the files that are there; `version`: this interpreter in words."""
    rows = tuple(Fact(path, "of another interpreter") for path in present)
    evidence = [
        Evidence("found", rows),
        Evidence("this interpreter", (Fact(python, version), Fact("imports", ", ".join(suffixes)))),
    ]
    if text:
        evidence.append(Evidence("Python said", (Fact("", text),)))
    return Finding(
        "python-tag-mismatch",
        Severity.ERROR,
        module,
        f"{module} is built for another Python than {version}",
        tuple(evidence),
        "the package was built or installed with another interpreter than the one that runs",
        Fix(f"install {module.partition('.')[0]} for this interpreter, or run it with the one that it was built for"),
    )


register(
    Page(
        "torch-missing",
        "torch is not installed",
        "torch_fl is an extension of PyTorch, and this interpreter has no torch. The libraries of torch_fl need those "
        "of torch, so nothing of it can load.",
        "Python imports a package from the first entry of sys.path that holds it.",
        "Python, importlib.machinery.PathFinder",
        "Install a torch of the line that torch_fl was built for into this interpreter. A CPU build is enough.",
    )
)


def torch_missing(python: str, searched: Sequence[str], line: str = TORCH_LINE, text: str = "") -> Finding:
    """`searched`: the entries of sys.path in order; `line`: major and minor version that is needed."""
    evidence: Tuple[Evidence, ...] = (
        Evidence("interpreter", (Fact("", python),)),
        Evidence("Python searched", tuple(Fact(entry, "has no torch") for entry in searched)),
    )
    if text:
        evidence += (Evidence("Python said", (Fact("", text),)),)
    return Finding(
        "torch-missing",
        Severity.ERROR,
        "torch",
        "torch is not installed in this interpreter",
        evidence,
        "torch was installed into another environment than the one that runs, or not at all",
        Fix(
            f"install torch {line} into this interpreter",
            (f"{shell_word(python)} -m pip install 'torch=={line}.*'",),
        ),
    )


register(
    Page(
        "cuda-torch",
        "torch is a CUDA build that would share a SONAME with the vendor's runtime",
        "The installed torch uses NVIDIA's CUDA 12 runtime, and the vendor's stack brings a library of its own under "
        "the same SONAME. Whichever is mapped first serves both: torch would call the vendor's, or the vendor's "
        "components NVIDIA's. Nothing is opened, so that torch itself goes on working.",
        "A DT_NEEDED entry is satisfied by any loaded object of that SONAME.",
        "glibc elf/dl-load.c, _dl_map_object; dlopen(3)",
        "Install a CPU build of torch into this interpreter, or torch_fl into another environment.",
    )
)


def cuda_torch(version: str, library: str, soname: str, line: str, python: str) -> Finding:
    """`library`: the file of torch that needs `soname`."""
    return Finding(
        "cuda-torch",
        Severity.ERROR,
        "torch",
        f"torch {version} is a CUDA build, and {soname} can be mapped once only: torch's own or the vendor's",
        (Evidence("looked at", (Fact(library, f"needs {soname}"),)),),
        f"{soname} is the SONAME of NVIDIA's runtime and of the vendor's; whichever is mapped first serves both",
        Fix(
            f"install a CPU build of torch {line} into this interpreter, or keep torch_fl in an environment of its own",
            (
                f"{shell_word(python)} -m pip install --force-reinstall 'torch=={line}.*' "
                "--index-url https://download.pytorch.org/whl/cpu",
            ),
        ),
    )


register(
    Page(
        "torch-mismatch",
        "torch_fl was built for another line of torch",
        "The extension was compiled against the headers of one minor version of torch, and another one is installed. "
        "Its C++ interface changes with every minor version, so symbols are missing or, worse, mean something else.",
        "PyTorch makes no promise of a stable C++ ABI between minor versions.",
        "PyTorch, CONTRIBUTING.md and the layout of c10 and ATen headers",
        "Install the torch that the build record names, or build torch_fl again for the installed one.",
    )
)


def torch_mismatch(installed: str, where: str, built: str, record: str, python: str) -> Finding:
    """Versions in words; `where` is the directory of torch, `record` the path of the build record."""
    line = ".".join(built.split("+")[0].split(".")[:2])
    return Finding(
        "torch-mismatch",
        Severity.ERROR,
        "torch",
        f"torch {installed} is installed, and torch_fl was built for torch {built}",
        (Evidence("compared", (Fact(where, f"torch {installed}"), Fact(record, f"built for torch {built}"))),),
        "torch was upgraded or downgraded after torch_fl was built; its C++ interface changes with every minor version",
        Fix(
            f"install torch {line} into this interpreter, or build torch_fl again",
            (f"{shell_word(python)} -m pip install 'torch=={line}.*'",),
        ),
    )


def torch_old_abi(version: str, library: str, line: str, python: str) -> Finding:
    """`library`: the file of torch that shows the std::string of before GCC 5."""
    return Finding(
        "torch-mismatch",
        Severity.ERROR,
        "torch",
        f"torch {version} is built with the C++ ABI of before GCC 5, and torch_fl with today's",
        (Evidence("compared", (Fact(library, "_GLIBCXX_USE_CXX11_ABI=0"), Fact("torch_fl._C", "built with 1"))),),
        "this torch was built with _GLIBCXX_USE_CXX11_ABI=0, and functions that take a std::string have other names",
        Fix(
            f"install a torch {line} of today's ABI, as PyTorch publishes it, into this interpreter",
            (f"{shell_word(python)} -m pip install --force-reinstall 'torch=={line}.*'",),
        ),
    )

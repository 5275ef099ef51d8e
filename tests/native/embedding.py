"""A program of one line of C that embeds Python: neither `python`, nor started with its arguments."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

from tests.demo.travelled import Travelled
from tests.elfkit import make_program

SOURCE = """
#include <Python.h>
int main(int argc, char **argv) {
    Py_Initialize();
    int failed = PyRun_SimpleString(argv[1]) != 0;
    return Py_FinalizeEx() < 0 ? 120 : failed;
}
"""


def make_host(path: Path) -> Path:
    """The program; it runs its first argument as Python code, and its exit status is 1 when that raises."""
    directory, version = sysconfig.get_config_var("LIBDIR"), sysconfig.get_config_var("LDVERSION")
    include = f"-I{sysconfig.get_path('include')}"
    flags = [include, f"-L{directory}", f"-Wl,-rpath,{directory}", f"-lpython{version}"]
    return make_program(path, SOURCE, flags=flags)


def run_host(
    program: Path, tree: Travelled, code: str, *, user: int | None = None, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run code in the program, on a copied tree; torch comes from the environment of the tests."""
    python_path = os.pathsep.join([str(tree.site), sysconfig.get_path("purelib")])
    given = tree.environment(PYTHONHOME=sys.base_prefix, **{**environment, "PYTHONPATH": python_path})
    return subprocess.run(
        [program, code], env=given, cwd="/", capture_output=True, text=True, check=False, user=user, group=user
    )

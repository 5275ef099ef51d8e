"""Break a copy of the vendor tree in three ways; show the bare line of the loader above the message of torch_fl."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from typing import NamedTuple

from tests.demo.travelled import REPOSITORY, Travelled, make

BARE = "import torch, torch_fl._C"
"""FLAGOS_LOAD=0 makes this the plain import: no preload, no diagnosis."""


class Breakage(NamedTuple):
    """What is done to the tree, and the first line that the message has to have below its summary."""

    title: str
    apply: Callable[[Travelled], object]
    expected: str


def delete_component(tree: Travelled) -> None:
    (tree.package / "libxpu_dnn.so").unlink()


def hide_package(tree: Travelled) -> None:
    """The package is intact, in the site-packages of an environment that this interpreter knows nothing of."""
    other = (
        tree.sdk.parent / "other-venv" / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"
    )
    other.mkdir(parents=True)
    shutil.move(str(tree.package), str(other / tree.package.name))


def hide_compat_runtime(tree: Travelled) -> None:
    shutil.rmtree(tree.sdk / "xcudart")
    for nested in (*tree.package.glob("xhpc/*/dependency_so"), tree.package / "xre"):
        shutil.rmtree(nested, ignore_errors=True)


BREAKAGES = (
    Breakage(
        "a component of the operator library is deleted", delete_component, "error[missing-library]: libxpu_dnn.so"
    ),
    Breakage(
        "the vendor package lies in another environment", hide_package, "error[not-on-search-path]: libxdnn_pytorch.so"
    ),
    Breakage("the CUDA-compat runtime is gone", hide_compat_runtime, "error[missing-library]: libcudart.so.12"),
)


def last_line(tree: Travelled) -> str:
    """What a user without torch_fl's preload is left with: the last line of the traceback."""
    done = run(tree, BARE, FLAGOS_LOAD="0")
    return done.stderr.strip().splitlines()[-1]


def message(tree: Travelled) -> str:
    """What `import torch_fl` says, without the traceback above it."""
    done = run(tree, "import torch_fl")
    text = done.stderr
    return text[text.index("torch_fl.LoadError: ") :] if "torch_fl.LoadError: " in text else text


def run(tree: Travelled, snippet: str, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", snippet],
        env=tree.environment(**more),
        capture_output=True,
        text=True,
        cwd=tree.sdk.parent,
    )


def main() -> int:
    place = REPOSITORY / "build" / "demo"
    healthy = run(make(place), "import torch, torch_fl; print(float(torch.ones(8, 8, device='flagos').sum().cpu()))")
    print(f"the copy, before it is broken: sum of ones(8, 8) = {healthy.stdout.strip() or healthy.stderr}")
    failed = healthy.returncode
    for breakage in BREAKAGES:
        tree = make(place)
        breakage.apply(tree)
        bare, explained = last_line(tree), message(tree)
        print(f"\n--- {breakage.title} ---\nbefore:\n{bare}\n\nafter:\n{explained}")
        if not (bare.startswith("ImportError: ") and f"\n\n{breakage.expected}" in explained):
            print(f"expected {breakage.expected!r} in the message", file=sys.stderr)
            failed = 1
    shutil.rmtree(place)
    return failed


if __name__ == "__main__":
    sys.exit(main())

"""`import torch_fl` as users meet it: each in a fresh process, on a copy of the built package and the vendor tree.

The copy's run path and build record name the copied tree alone (tests/demo/travelled.py), so that nothing can be
satisfied by the intact one by accident. The environment is empty but for what a test sets.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests import child
from tests.demo.travelled import Travelled, make
from tests.elfkit import make_so

USE = """
import sys
{imports}
import torch
total = float((torch.ones(8, 8, device="flagos") * 2).sum().cpu())
mapped = {{line.split()[-1] for line in open("/proc/self/maps") if "libxpurt" in line}}
print(total, torch_fl.flagos.device_count(), "torch_xmlir" in sys.modules, len(mapped))
"""
WORKS = "128.0 2 False 1"


@pytest.fixture
def copy(tmp_path: Path) -> Travelled:
    return make(tmp_path / "moved")


def run(tree: Travelled, snippet: str, *arguments: str, **environment: str) -> child.ChildResult:
    """A fresh process that knows the copy alone, started outside the checkout, which `python -c` would import from."""
    return child.run(snippet, env=tree.environment(**environment), args=arguments, cwd=tree.sdk.parent)


def use(tree: Travelled, imports: str = "import torch_fl", **environment: str) -> str:
    return run(tree, USE.format(imports=imports), **environment).check().stdout.strip()


def failure(tree: Travelled, **environment: str) -> str:
    """What a user reads on stderr when `import torch_fl` fails."""
    done = run(tree, "import torch_fl", **environment)
    assert done.rc == 1, done
    return done.stderr


def forget(tree: Travelled, *names: str) -> None:
    """Take facts out of the build's record, as if the build machine had had them elsewhere."""
    record = tree.site / "torch_fl" / "_build_config.py"
    kept = [line for line in record.read_text().splitlines() if line.partition(" = ")[0] not in names]
    record.write_text("\n".join(kept) + "\n")


@pytest.mark.parametrize(
    "imports", ["import torch_fl", "import torch\nimport torch_fl", "import torch_fl\nimport torch"]
)
def test_either_import_order_with_no_variable_set(copy: Travelled, imports: str) -> None:
    assert use(copy, imports) == WORKS


def test_the_package_in_site_packages_is_found(copy: Travelled) -> None:
    forget(copy, "XDNN_LIBRARY_DIR", "DEPENDENCY_DIRS", "RPATH")
    shutil.move(str(copy.package), str(copy.site / "torch_xmlir"))
    assert use(copy) == WORKS


def test_directories_named_in_the_variable_are_found(copy: Travelled, tmp_path: Path) -> None:
    forget(copy, "XDNN_LIBRARY_DIR", "DEPENDENCY_DIRS", "RPATH")
    package = shutil.move(str(copy.package), str(tmp_path / "elsewhere"))
    assert use(copy, FLAGOS_KUNLUNXIN_XDNN_LIB_DIR=f"/nowhere:{package}") == WORKS


def test_the_recorded_directory_serves_when_nothing_else_does(copy: Travelled) -> None:
    assert str(copy.package) in (copy.site / "torch_fl" / "_build_config.py").read_text()
    assert use(copy) == WORKS


def test_the_older_shim_first_on_the_loader_path_does_no_harm(copy: Travelled) -> None:
    assert use(copy, LD_LIBRARY_PATH=f"{copy.sdk}/xpu/so:{copy.package}") == WORKS


def delete_component(tree: Travelled) -> str:
    (tree.package / "libxpu_dnn.so").unlink()
    return "error[missing-library]: libxpu_dnn.so"


def hide_package(tree: Travelled) -> str:
    other = tree.sdk.parent / "other" / "lib" / "python3.11" / "site-packages"
    other.mkdir(parents=True)
    shutil.move(str(tree.package), str(other / "torch_xmlir"))
    return "libxdnn_pytorch.so"


def hide_compat(tree: Travelled) -> str:
    shutil.rmtree(tree.sdk / "xcudart")
    shutil.rmtree(tree.package / "xhpc")
    return "libcudart.so.12"


def dangling_link(tree: Travelled) -> str:
    (tree.package / "libxpu_dnn.so").unlink()
    (tree.package / "libxpu_dnn.so").symlink_to("libxpu_dnn.so.9")
    return "error[broken-link]: "


@pytest.mark.parametrize("break_it", [delete_component, hide_package, hide_compat, dangling_link])
def test_a_broken_stack_is_explained_and_the_loaders_own_line_is_quoted_once(
    copy: Travelled, break_it: Callable[[Travelled], str]
) -> None:
    expected = break_it(copy)
    bare = run(copy, "import torch, torch_fl._C", FLAGOS_LOAD="0").stderr.strip().splitlines()[-1]
    text = failure(copy)
    explained = text[text.index("LoadError: ") :]
    assert expected in explained
    assert explained.count(bare.partition("ImportError: ")[2]) == 1, explained
    assert "python -m torch_fl.diagnose" in explained
    assert "ImportError: " in text[: text.index("LoadError: ")], "the original error is chained"


def test_what_is_raised_is_an_import_error_with_findings(copy: Travelled) -> None:
    delete_component(copy)
    done = run(
        copy,
        "try:\n    import torch_fl\nexcept ImportError as error:\n"
        "    print(type(error).__name__, error.name, [f.code for f in error.findings], type(error.__cause__).__name__)",
    ).check()
    assert done.stdout.strip() == "LoadError _C ['missing-library'] ImportError"


def test_torch_still_works_after_a_failure(copy: Travelled) -> None:
    delete_component(copy)
    snippet = "try:\n    import torch_fl\nexcept ImportError:\n    import torch\n    print(torch.ones(2).sum().item())"
    assert run(copy, snippet).check().stdout.strip() == "2.0"


def test_a_missing_torch_is_said(copy: Travelled) -> None:
    done = run(
        copy,
        f"import sys; sys.path[:] = [p for p in sys.path if not p.endswith('site-packages')] + [{str(copy.site)!r}]\n"
        "import torch_fl",
    )
    assert "error[torch-missing]" in done.stderr, done.stderr


def test_a_torch_of_another_line_is_refused_before_anything_is_opened(copy: Travelled) -> None:
    record = copy.site / "torch_fl" / "_build_config.py"
    record.write_text(record.read_text().replace("TORCH_VERSION = '2.13.", "TORCH_VERSION = '2.12."))
    done = run(
        copy,
        "try:\n    import torch_fl\nexcept ImportError as error:\n"
        "    print([f.code for f in error.findings], 'libxpu' in open('/proc/self/maps').read())\n    print(error)",
    ).check()
    assert done.stdout.splitlines()[0] == "['torch-mismatch'] False"
    assert "was built for torch 2.12" in done.stdout


def test_a_cuda_build_of_torch_is_refused_before_anything_is_opened(copy: Travelled) -> None:
    """The test's torch stands beside the real one, which comes in by links: only libc10_cuda.so is new."""
    import torch

    real = Path(torch.__file__).parent
    stand_in = copy.site / "torch"
    (stand_in / "lib").mkdir(parents=True)
    for entry in real.iterdir():
        if entry.name not in ("lib", "__pycache__"):
            (stand_in / entry.name).symlink_to(entry)
    for entry in (real / "lib").iterdir():
        (stand_in / "lib" / entry.name).symlink_to(entry)
    make_so(stand_in / "lib" / "libc10_cuda.so", needed=["libcudart.so.12"])
    done = run(
        copy,
        "try:\n    import torch_fl\nexcept ImportError as error:\n"
        "    print([f.code for f in error.findings], 'libxpu' in open('/proc/self/maps').read())\n    print(error)\n"
        "import torch\nprint(torch.ones(2).sum().item())",
    ).check()
    first, *rest = done.stdout.splitlines()
    assert first == "['cuda-torch'] False"
    assert rest[-1] == "2.0"
    assert f"{stand_in}/lib/libc10_cuda.so" in done.stdout


def test_a_missing_extension_is_said(copy: Travelled) -> None:
    for extension in (copy.site / "torch_fl").glob("_C*.so"):
        extension.unlink()
    assert "error[extension-not-built]" in failure(copy)


def test_flagos_load_0_imports_the_package_alone(copy: Travelled) -> None:
    snippet = "import sys, torch_fl; print(torch_fl.__version__, 'torch' in sys.modules)"
    assert run(copy, snippet, FLAGOS_LOAD="0").check().stdout.split()[1] == "False"


def test_other_values_of_flagos_load_are_refused_by_name(copy: Travelled) -> None:
    assert "FLAGOS_LOAD='yes' is not one of 0 (load nothing) and 1 (load, the default)" in failure(
        copy, FLAGOS_LOAD="yes"
    )


def check_up(tree: Travelled, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *options, "-m", "torch_fl.diagnose", "check", "--no-trial"]
    return subprocess.run(command, env=tree.environment(), cwd=tree.sdk.parent, capture_output=True, text=True)


@pytest.mark.parametrize("options", [[], ["-Wdefault"], ["-X", "utf8", "-s"]])
def test_the_check_up_starts_where_importing_torch_fl_fails(copy: Travelled, options: list[str]) -> None:
    delete_component(copy)
    done = check_up(copy, *options)
    assert done.returncode == 1, done
    assert "error[missing-library]: libxpu_dnn.so" in done.stdout


def test_a_directory_that_others_can_write_is_said(copy: Travelled) -> None:
    copy.package.chmod(0o777)
    done = run(copy, "import torch_fl").check()
    assert (
        f"RuntimeWarning: torch_fl loads vendor libraries from {copy.package}, which another user can write"
        in done.stderr
    )


def test_the_vendor_package_is_never_imported_even_by_the_check_up(copy: Travelled) -> None:
    marker = copy.sdk / "imported"
    (copy.package / "__init__.py").write_text(f"open({str(marker)!r}, 'w').close()\nraise ImportError('trap')\n")
    use(copy)
    assert check_up(copy).returncode == 0
    assert not marker.exists()


def test_the_healthy_path_opens_few_files_and_walks_no_directory(copy: Travelled) -> None:
    snippet = """
import json, os, sys
os.environ["FLAGOS_LOAD"] = "0"
import ast, ctypes, importlib.util, re, struct, typing, warnings
importlib.util.find_spec("torch")
opened, listed = [], []
def watch(event, arguments):
    if event == "open":
        opened.append(str(arguments[0]))
    elif event in ("os.listdir", "os.scandir", "os.walk", "glob.glob"):
        listed.append(str(arguments[0]))
sys.addaudithook(watch)
from torch_fl._preload import hook
assert hook.preload().refused is None
print(json.dumps([opened, listed]))
"""
    run(copy, snippet).check()  # the first import of a copy compiles its modules
    opened, listed = json.loads(run(copy, snippet).check().stdout)
    assert len(opened) <= 40, opened
    # Beside the two directories of its own modules: the one that has the CUDA-compat runtime below it.
    own = [str(copy.site / "torch_fl"), str(copy.site / "torch_fl" / "_preload"), str(copy.site)]
    assert [path for path in listed if path not in own] == [f"{copy.package}/xhpc/"]


@pytest.mark.parametrize("variable", ["FLAGOS_KUNLUNXIN_XDNN_LIB_DIR", "XPU_ROOT", "XCUDART_ROOT"])
def test_a_variable_that_names_no_directory_is_said(copy: Travelled, variable: str) -> None:
    done = run(copy, USE.format(imports="import torch_fl"), **{variable: "/no/such/place"}).check()
    assert done.stdout.strip() == WORKS
    assert f"RuntimeWarning: {variable} names /no/such/place, which is not a directory" in done.stderr

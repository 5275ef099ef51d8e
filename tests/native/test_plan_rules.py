"""Every rule of the plan, broken once on a copied tree: either the device works, or the first line says what is wrong.

What is asserted is what a user meets: the sum that the device computed and how many copies of the runtime the process
has, or the code of the finding and the first line of the LoadError. All of it happens in child processes.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from tests import child
from tests.demo.travelled import Travelled, make
from tests.elfkit import make_so, patch_dynamic
from tests.golden.machine import provokes
from tests.loader.test_privileges import NOBODY, let_others_in, needs_root
from tests.native.embedding import make_host, run_host
from tests.native.test_import import USE, WORKS, failure, forget, run, use

PAIR = ("libxpucuda.so", "libcudart.so.12")
TRIO = ("libxpurt.so.2", *PAIR)
DIRECTORIES = "FLAGOS_KUNLUNXIN_XDNN_LIB_DIR"
REFUSED = """
try:
    import torch_fl
except ImportError as error:
    print(*[finding.code for finding in error.findings])
    print(error)
"""
PLAN = """
import os
os.environ["FLAGOS_LOAD"] = "0"
from torch_fl._preload import hook
print(*[step.path for step in hook.plan_now().steps], sep="\\n")
"""


@pytest.fixture
def copy(tmp_path: Path) -> Travelled:
    return make(tmp_path / "moved")


def nested(tree: Travelled) -> Path:
    """The directory of the CUDA-compat trio below the vendor's package."""
    return tree.package / "xhpc" / "xblas" / "dependency_so"


def refusal(tree: Travelled, **environment: str) -> tuple[str, str, str]:
    """What a LoadError tells: the codes of its findings, its first line, and the whole text."""
    codes, first, *rest = run(tree, REFUSED, **environment).check().stdout.splitlines()
    return codes, first, "\n".join([first, *rest])


def without_soname(library: Path) -> None:
    """patchelf can set a SONAME and not take it away, so DT_SONAME becomes DT_DEBUG, which only a program has."""
    patch_dynamic(library, 14, new_tag=21)


# --- SONAMEs ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["libxpujitc.so", "libxpu_blas.so", "libxpu_dnn.so", "libxpu_flash_attention.so", "libxpuml.so.1"]
)
def test_a_component_without_soname_is_named(copy: Travelled, name: str) -> None:
    directory = copy.sdk / "xpu" / "so" if name == "libxpuml.so.1" else copy.package
    without_soname(directory / name)
    codes, first, _ = refusal(copy)
    assert codes == "no-soname"
    assert first == f"torch_fl does not load: {directory / name} has no SONAME, and others ask for {name}"


@pytest.mark.parametrize("name", ["libxpu_dnn.so", "libxdnn_pytorch.so"])
def test_a_component_without_soname_works_where_the_loader_finds_it(copy: Travelled, name: str) -> None:
    without_soname(copy.package / name)
    assert use(copy, LD_LIBRARY_PATH=str(copy.package)) == WORKS


# --- the CUDA-compat pair and the runtime -------------------------------------------------------------------------


@provokes("split-pair")
def test_the_pair_split_over_two_directories_is_refused(copy: Travelled) -> None:
    xcudart = copy.sdk / "xcudart" / "lib"
    (nested(copy) / "libxpucuda.so").unlink()
    (xcudart / "libcudart.so.12").unlink()
    codes, first, text = refusal(copy)
    assert codes == "split-pair"
    assert first == "torch_fl does not load: no directory holds both libxpucuda.so and libcudart.so.12"
    assert f"{xcudart}/libxpucuda.so" in text
    assert f"{nested(copy)}/libcudart.so.12" in text


def test_a_whole_pair_elsewhere_is_named_although_one_is_split(copy: Travelled, tmp_path: Path) -> None:
    """Beside the package, in another environment, where only the search after a failure looks."""
    other = tmp_path / "other" / "lib" / "python3.11" / "site-packages" / "torch_xmlir"
    shutil.copytree(copy.package / "xhpc", other / "xhpc", symlinks=True)
    (nested(copy) / "libxpucuda.so").unlink()
    (copy.sdk / "xcudart" / "lib" / "libcudart.so.12").unlink()
    codes, first, text = refusal(copy)
    directory = other / "xhpc" / "xblas" / "dependency_so"
    assert codes == "not-on-search-path"
    assert first == (
        f"torch_fl does not load: libxpucuda.so and libcudart.so.12 are in {directory}, which is not searched"
    )
    assert f"export {DIRECTORIES}={directory}" in text
    assert use(copy, **{DIRECTORIES: str(directory)}) == WORKS


def test_a_pair_without_sonames_is_passed_over_while_there_is_a_whole_one(copy: Travelled) -> None:
    without_soname(nested(copy) / "libcudart.so.12")
    assert use(copy) == WORKS
    shutil.rmtree(copy.sdk / "xcudart")
    codes, first, _ = refusal(copy)
    assert codes == "no-soname"
    assert first == (
        f"torch_fl does not load: {nested(copy)}/libcudart.so.12 has no SONAME, and others ask for libcudart.so.12"
    )


def test_the_runtime_in_another_directory_than_the_pair_serves(copy: Travelled) -> None:
    for directory in (nested(copy), copy.sdk / "xcudart" / "lib"):
        (directory / "libxpurt.so.2").unlink()
    assert use(copy) == WORKS
    assert str(copy.sdk / "xpu" / "so" / "libxpurt.so.2") in run(copy, PLAN).check().stdout.splitlines()


def test_of_two_trios_the_first_is_taken_whatever_the_hash_seed(copy: Travelled) -> None:
    shutil.copytree(copy.package / "xhpc" / "xblas", copy.package / "xhpc" / "ablas", symlinks=True)
    plans = {run(copy, PLAN, PYTHONHASHSEED=str(seed)).check().stdout for seed in range(10)}
    assert len(plans) == 1
    steps = plans.pop().splitlines()
    chosen = copy.package / "xhpc" / "ablas" / "dependency_so"
    assert steps[:3] == [str(chosen / name) for name in TRIO]
    assert use(copy) == WORKS


def test_an_older_shim_linked_to_the_newer_name_does_not_shadow_the_pair(copy: Travelled) -> None:
    """A usual cure for `libcudart.so.12: cannot open`, and a wrong one: the file declares libcudart.so.11.0."""
    (copy.sdk / "xpu" / "so" / "libcudart.so.12").symlink_to("libcudart.so.11.0")
    for path in (f"{copy.sdk}/xpu/so", f"{copy.sdk}/xpu/so:{copy.package}"):
        assert use(copy, LD_LIBRARY_PATH=path) == WORKS


def test_an_older_shim_alone_is_not_taken_for_the_newer(copy: Travelled) -> None:
    shutil.rmtree(copy.sdk / "xcudart")
    shutil.rmtree(copy.package / "xhpc")
    codes, first, text = refusal(copy, LD_LIBRARY_PATH=f"{copy.sdk}/xpu/so")
    assert codes == "missing-library"
    assert first == "torch_fl does not load: libcudart.so.12 is in none of the directories searched"
    assert "libcudart.so.11.0" in text


# --- what the program opened before -------------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["nested", "rival"])
def test_what_the_program_opened_local_before_is_used(copy: Travelled, where: str) -> None:
    directory = nested(copy) if where == "nested" else copy.sdk / "xcudart" / "lib"
    opened = "import ctypes, os\n" + "".join(
        f"ctypes.CDLL({str(directory / name)!r}, mode=os.RTLD_NOW | os.RTLD_LOCAL)\n" for name in TRIO
    )
    assert use(copy, opened + "import torch_fl") == WORKS
    seen = 'print(*{line.split()[-1] for line in open("/proc/self/maps") if "libcudart" in line})'
    mapped = run(copy, f"{opened}import torch_fl\n{seen}").check().stdout.strip()
    assert os.path.dirname(mapped) == str(directory)


# --- how the files are reached ------------------------------------------------------------------------------------


def farm(tree: Travelled) -> Travelled:
    """Another tree in which every file is a link to one of `tree`, and some directories are links as well."""
    site, sdk = tree.site.parent / "farm" / "site", tree.site.parent / "farm" / "sdk"
    shutil.copytree(tree.site, site)
    sdk.mkdir()
    (sdk / "xpu").symlink_to(tree.sdk / "xpu")
    (sdk / "xcudart").symlink_to(tree.sdk / "xcudart")
    package = sdk / "site-packages" / "torch_xmlir"
    package.mkdir(parents=True)
    for entry in tree.package.iterdir():
        (package / entry.name).symlink_to(entry)
    made = Travelled(site, sdk)
    record = site / "torch_fl" / "_build_config.py"
    record.write_text(record.read_text().replace(str(tree.sdk), str(sdk)))
    return made


def test_a_farm_of_links(copy: Travelled) -> None:
    linked = farm(copy)
    assert use(linked) == WORKS
    assert run(linked, PLAN).check().stdout.count(str(linked.sdk)) == 9


def test_a_virtual_environment_that_was_moved(tmp_path: Path) -> None:
    """Its run path and its record name the place where it was; torch comes in by a .pth file."""
    first = tmp_path / "first"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", first], check=True)
    copy = make(tmp_path / "made")
    inside = first / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"
    shutil.move(str(copy.site / "torch_fl"), str(inside / "torch_fl"))
    shutil.move(str(copy.package), str(inside / "torch_xmlir"))
    shutil.move(str(copy.sdk / "xpu"), str(first / "xpu"))
    (inside / "torch.pth").write_text(sysconfig.get_path("purelib") + "\n")
    second = first.rename(tmp_path / "second")
    done = child.run(
        USE.format(imports="import torch_fl"),
        python=second / "bin" / "python",
        # The environment that torch is borrowed from has an entry point for torch's autoload; it has no torch_fl here.
        env={"PATH": os.environ["PATH"], "XPU_ROOT": str(second / "xpu"), "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"},
        cwd=tmp_path,
    )
    assert done.check().stdout.strip() == WORKS


def test_a_read_only_tree(copy: Travelled) -> None:
    top = copy.site.parent
    directories = [top, *(path for path in top.rglob("*") if path.is_dir())]
    for directory in directories:
        directory.chmod(0o555)
    try:
        assert use(copy) == WORKS
    finally:
        for directory in directories:
            directory.chmod(0o755)


def test_a_read_only_file_system(copy: Travelled) -> None:
    top = copy.site.parent
    script = 'mount --bind "$0" "$0" && mount -o remount,ro,bind "$0" && ! touch "$0/x" 2>&- && exec "$@"'
    inside = ["unshare", "-rm", "sh", "-c", script, str(top)]
    done = subprocess.run(
        [*inside, sys.executable, "-c", USE.format(imports="import torch_fl")],
        env=copy.environment(),
        cwd="/",
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.strip() == WORKS, done.stderr
    assert not list(copy.site.rglob("__pycache__"))


# --- how directories are named ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("variable", "value", "below"),
    [
        (DIRECTORIES, "moved/sdk/site-packages/torch_xmlir", ""),
        (DIRECTORIES, "::moved/sdk/site-packages/torch_xmlir:", ""),
        (DIRECTORIES, ":./../moved/sdk/site-packages/torch_xmlir/.", "elsewhere"),
        ("LD_LIBRARY_PATH", "moved/sdk/site-packages/torch_xmlir", ""),
        ("LD_LIBRARY_PATH", "/nowhere:", "moved/sdk/site-packages/torch_xmlir"),
        ("LD_LIBRARY_PATH", ":/nowhere", "moved/sdk/site-packages/torch_xmlir"),
        ("LD_LIBRARY_PATH", "/nowhere;;elsewhere", "moved/sdk/site-packages/torch_xmlir"),
    ],
)
def test_relative_and_empty_elements(copy: Travelled, tmp_path: Path, variable: str, value: str, below: str) -> None:
    forget(copy, "XDNN_LIBRARY_DIR", "DEPENDENCY_DIRS", "RPATH")
    (tmp_path / "elsewhere").mkdir()
    snippet = USE.format(imports="import torch_fl")
    done = child.run(snippet, env=copy.environment(**{variable: value}), cwd=tmp_path / below)
    assert done.check().stdout.strip() == WORKS


def in_cafe(tmp_path: Path) -> Travelled:
    """The tree in a directory whose name is Latin-1, and so no UTF-8. The record cannot name it; a variable can."""
    copy = make(tmp_path / "moved")
    forget(copy, "XDNN_LIBRARY_DIR", "DEPENDENCY_DIRS", "SDK_LIBRARY_DIR", "XCUDART_LIBRARY_DIR", "RPATH")
    place = Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9"))
    os.rename(tmp_path / "moved", place)
    return Travelled(place / "site", place / "sdk")


@pytest.mark.parametrize("locale", ["C", "C.UTF-8"])
def test_a_directory_whose_name_is_not_utf_8(tmp_path: Path, locale: str) -> None:
    tree = in_cafe(tmp_path)
    named = {DIRECTORIES: str(tree.package), "XPU_ROOT": str(tree.sdk / "xpu"), "LC_ALL": locale}
    snippet = 'import torch, torch_fl\nprint(float((torch.ones(8, 8, device="flagos") * 2).sum().cpu()))'
    assert run(tree, snippet, **named).check().stdout == "128.0\n"
    (tree.package / "libxpu_dnn.so").unlink()
    text = failure(tree, **named)
    assert "LoadError: torch_fl does not load: libxpu_dnn.so is in none of the directories searched\n" in text
    assert f"{tmp_path}/caf\\xe9/sdk/site-packages/torch_xmlir has no " in text


def test_two_hundred_directories_with_the_right_one_last(copy: Travelled, tmp_path: Path) -> None:
    forget(copy, "XDNN_LIBRARY_DIR", "DEPENDENCY_DIRS", "RPATH")
    others = [tmp_path / "many" / str(number) for number in range(199)]
    for directory in others:
        directory.mkdir(parents=True)
    named = ":".join(map(str, [*others, copy.package]))
    assert use(copy, **{DIRECTORIES: named}) == WORKS
    assert use(copy, LD_LIBRARY_PATH=named) == WORKS


# --- LD_PRELOAD ---------------------------------------------------------------------------------------------------


def test_an_innocent_preloaded_library(copy: Travelled, tmp_path: Path) -> None:
    innocent = make_so(tmp_path / "innocent.so", source="int nobody_asks_for_this(void) { return 1; }")
    seen = f'import torch_fl\nprint({str(innocent)!r} in open("/proc/self/maps").read())'
    assert use(copy, seen, LD_PRELOAD=str(innocent)).splitlines() == ["True", WORKS]


@pytest.mark.parametrize("names", [("libcudart.so.12",), TRIO])
def test_the_right_cuda_runtime_preloaded(copy: Travelled, names: tuple[str, ...]) -> None:
    """Alone it needs a path for the two that it needs itself, or ld.so ends the program; all three need none."""
    environment = {"LD_PRELOAD": ":".join(str(nested(copy) / name) for name in names)}
    if names != TRIO:
        environment["LD_LIBRARY_PATH"] = str(nested(copy))
    seen = 'import torch_fl\nprint(len({l.split()[-1] for l in open("/proc/self/maps") if "libcudart" in l}))'
    assert use(copy, seen, **environment).splitlines() == ["1", WORKS]


# --- other users --------------------------------------------------------------------------------------------------


def secure_host(tmp_path: Path) -> Path:
    """A host of Python that changes its user: secure mode, for the loader and for torch_fl, when another runs it."""
    program = make_host(tmp_path / "host")
    program.chmod(0o4755)
    let_others_in(tmp_path)
    return program


@needs_root
def test_secure_mode_works_from_the_record(copy: Travelled, tmp_path: Path) -> None:
    done = run_host(secure_host(tmp_path), copy, USE.format(imports="import torch_fl"), user=NOBODY)
    assert done.stdout.strip() == WORKS, done.stderr


@needs_root
@pytest.mark.parametrize("variable", [DIRECTORIES, "LD_LIBRARY_PATH"])
def test_secure_mode_does_not_honour_directories_of_the_environment(
    copy: Travelled, tmp_path: Path, variable: str
) -> None:
    forget(copy, "XDNN_LIBRARY_DIR", "DEPENDENCY_DIRS", "RPATH")
    package = shutil.move(str(copy.package), str(tmp_path / "elsewhere"))
    assert use(copy, **{variable: package}) == WORKS
    done = run_host(secure_host(tmp_path), copy, REFUSED, user=NOBODY, **{variable: package})
    codes, first, *rest = done.stdout.splitlines()
    assert codes == "missing-library", done.stderr
    assert first == "torch_fl does not load: libxdnn_pytorch.so is in none of the directories searched"
    own = "\n".join(rest).partition("torch_fl searched:")[2]
    assert [" ".join(line.split()) for line in own.splitlines()[1:3]] == [
        f"{DIRECTORIES} ignored in secure mode (AT_SECURE)",
        "LD_LIBRARY_PATH ignored in secure mode (AT_SECURE)",
    ]
    assert "help: start Python without setuid" in own


@needs_root
def test_a_directory_of_another_user_is_said(copy: Travelled) -> None:
    os.chown(nested(copy), NOBODY, NOBODY)
    done = run(copy, USE.format(imports="import torch_fl")).check()
    assert done.stdout.strip() == WORKS
    assert (
        f"RuntimeWarning: torch_fl loads vendor libraries from {nested(copy)}, which another user can write"
        in done.stderr
    )

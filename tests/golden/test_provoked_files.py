"""Each code on a real file: what the check-up says of it, and that the loader, in the trial, agrees to the letter."""

from __future__ import annotations

import os
import shutil
import struct
import sys
from pathlib import Path

import pytest

from tests import elfkit
from tests.elfkit import make_program, make_so
from tests.golden.machine import check, facts_of, follow, provokes, vendor_tree
from torch_fl._preload import elf, hook, host
from torch_fl._preload.elf_symbols import sysv_hash
from torch_fl.diagnose import conclude, predict
from torch_fl.diagnose.finding import Finding
from torch_fl.diagnose.unfit import Question


def user_of(directory: Path, name: str, **more: object) -> Path:
    """A library that needs `name` and nothing else."""
    return make_so(directory / "user.so", needed=[name], **more)


def on(here: host.Host, path: Path) -> list[Finding]:
    """Findings for a file on another machine than this one: only the model can tell."""
    question = Question(here, hook.sources("/nonexistent")._replace(mapped={}))
    return conclude.target(question, str(path), predict.file(here, str(path)))


# --- a library is not where the loader looks ---------------------------------------------------------------------


@provokes("missing-library")
def test_a_name_that_nothing_answers(tmp_path: Path) -> None:
    target = user_of(tmp_path, "libgone.so.1")
    finding = check(target, LD_LIBRARY_PATH=f"{tmp_path}/empty").only("missing-library")
    assert finding["subject"] == "libgone.so.1"
    assert finding["message"] == "libgone.so.1 is in none of the directories searched"
    assert facts_of(finding, "needed by") == [(str(target), "")]
    searched = facts_of(finding, "loader searched")
    assert ("LD_LIBRARY_PATH", f"{tmp_path}/empty does not exist") in searched
    assert ("RUNPATH of user.so", "not set") in searched
    assert ("/etc/ld.so.cache", "no entry") in searched
    said = "libgone.so.1: cannot open shared object file: No such file or directory"
    assert facts_of(finding, "loader said") == [("", said)]
    assert finding["fix"]["commands"] == []


def test_without_a_trial_the_loader_has_said_nothing(tmp_path: Path) -> None:
    report = check(user_of(tmp_path, "libgone.so.1"), options=["--no-trial"])
    labels = [evidence["label"] for evidence in report.only("missing-library")["evidence"]]
    assert "loader would say" in labels
    assert "loader said" not in labels
    assert report.report["targets"][0]["trial"] is None


def test_a_path_that_does_not_exist(tmp_path: Path) -> None:
    finding = check(tmp_path / "gone.so").only("missing-library")
    assert finding["message"] == f"{tmp_path}/gone.so does not exist"


def test_the_leaf_is_blamed_and_the_chain_is_told(tmp_path: Path) -> None:
    make_so(tmp_path / "libmiddle.so", soname="libmiddle.so", needed=["libgone.so.1"])
    target = make_so(tmp_path / "user.so", needed=["libmiddle.so"], runpath="$ORIGIN")
    finding = check(target).only("missing-library")
    assert finding["subject"] == "libgone.so.1"
    assert facts_of(finding, "needed by") == [
        (f"{tmp_path}/libmiddle.so", ""),
        (str(target), "needs libmiddle.so"),
    ]


def test_other_versions_are_named_and_not_advised(tmp_path: Path) -> None:
    make_so(tmp_path / "site-packages" / "pkg" / "libcu.so.11", soname="libcu.so.11")
    target = user_of(tmp_path, "libcu.so.12", runpath="/build/site-packages/pkg")
    finding = check(target, python_path=[tmp_path / "site-packages"]).only("missing-library")
    ((where, verdict),) = facts_of(finding, "files with a similar name")
    assert where == f"{tmp_path}/site-packages/pkg/libcu.so.11"
    assert verdict.startswith("SONAME libcu.so.11")


@provokes("not-on-search-path")
def test_a_directory_of_the_build_machine(tmp_path: Path) -> None:
    """The RUNPATH names a place on the build machine; here the same tail is in another site-packages."""
    place = tmp_path / "site-packages" / "vendor"
    make_so(place / "libb.so.1", soname="libb.so.1", source="int b;")
    target = user_of(tmp_path, "libb.so.1", runpath="/build/lib/python3.10/site-packages/vendor")
    finding = check(target, python_path=[tmp_path / "site-packages"]).only("not-on-search-path")
    assert finding["message"] == f"libb.so.1 is in {place}, which is not searched"
    assert "which was there when it was built and is not there now" in finding["cause"]
    assert finding["fix"]["commands"] == [f"export LD_LIBRARY_PATH={place}"]
    assert follow(finding, target).returncode == 0


def test_the_variable_is_kept(tmp_path: Path) -> None:
    place = tmp_path / "site-packages" / "vendor"
    make_so(place / "libb.so.1", soname="libb.so.1")
    make_so(tmp_path / "kept" / "libc1.so", soname="libc1.so")
    target = make_so(tmp_path / "user.so", needed=["libc1.so", "libb.so.1"], runpath="/build/site-packages/vendor")
    kept = {"LD_LIBRARY_PATH": f"{tmp_path}/kept"}
    finding = check(target, python_path=[tmp_path / "site-packages"], **kept).only("not-on-search-path")
    assert follow(finding, target, **kept).returncode == 0


def test_a_directory_with_a_space_and_an_escape(tmp_path: Path) -> None:
    place = tmp_path / "site-packages" / "ven dor\x1b[31m"
    make_so(place / "libb.so.1", soname="libb.so.1")
    target = user_of(tmp_path, "libb.so.1", runpath=f"/build/site-packages/{place.name}")
    finding = check(target, python_path=[tmp_path / "site-packages"]).only("not-on-search-path")
    assert follow(finding, target).returncode == 0


def test_several_names_in_one_directory_are_one_finding(tmp_path: Path) -> None:
    place = tmp_path / "site-packages" / "vendor"
    names = [f"lib{letter}.so.1" for letter in "abc"]
    for name in names:
        make_so(place / name, soname=name, source=f"int {name[3]};")
    target = make_so(tmp_path / "user.so", needed=names, runpath="/build/site-packages/vendor")
    finding = check(target, python_path=[tmp_path / "site-packages"]).only("not-on-search-path")
    assert finding["message"] == f"liba.so.1 and 2 more are in {place}, which is not searched"
    assert [where for where, _ in facts_of(finding, "missing")] == names


def test_a_file_of_another_machine_is_no_cure(tmp_path: Path) -> None:
    place = tmp_path / "site-packages" / "vendor"
    elfkit.patch(make_so(place / "libb.so.1", soname="libb.so.1"), machine=183)
    target = user_of(tmp_path, "libb.so.1", runpath="/build/site-packages/vendor")
    finding = check(target, python_path=[tmp_path / "site-packages"]).only("missing-library")
    ((where, verdict),) = facts_of(finding, "found and not usable")
    assert where == f"{place}/libb.so.1"
    assert "another machine" in verdict
    assert finding["fix"]["commands"] == []


@provokes("broken-link")
def test_a_link_to_nothing(tmp_path: Path) -> None:
    place = tmp_path / "lib"
    make_so(place / "libb.so.1.3", soname="libb.so.1")
    (place / "libb.so.1").symlink_to("libb.so.1.2")
    target = user_of(tmp_path, "libb.so.1")
    finding = check(target, LD_LIBRARY_PATH=str(place)).only("broken-link")
    assert finding["subject"] == f"{place}/libb.so.1"
    assert facts_of(finding, "link") == [
        (f"{place}/libb.so.1", f"links to libb.so.1.2; {place}/libb.so.1.2 does not exist")
    ]
    assert finding["fix"]["commands"] == [f"ln -sfn libb.so.1.3 {place}/libb.so.1"]
    assert follow(finding, target, LD_LIBRARY_PATH=str(place)).returncode == 0


def test_a_link_without_a_replacement_has_no_command(tmp_path: Path) -> None:
    (tmp_path / "libb.so.1").symlink_to("libb.so.1.2")
    finding = check(user_of(tmp_path, "libb.so.1"), LD_LIBRARY_PATH=str(tmp_path)).only("broken-link")
    assert finding["fix"]["commands"] == []


# --- a file is there and cannot be used --------------------------------------------------------------------------


@provokes("unreadable-file")
def test_a_file_that_this_user_may_not_read(tmp_path: Path) -> None:
    library = make_so(tmp_path / "lib" / "libb.so.1", soname="libb.so.1")
    target = user_of(tmp_path, "libb.so.1")
    library.chmod(0)
    prefix: list[str] = []
    if os.access(library, os.R_OK):  # root reads everything, unless it gives that capability up
        if shutil.which("setpriv") is None:
            pytest.skip("root reads every file, and setpriv (util-linux) is not there to give that up")
        prefix = ["setpriv", "--bounding-set", "-dac_override,-dac_read_search"]
    finding = check(target, prefix=prefix, LD_LIBRARY_PATH=f"{tmp_path}/lib").only("unreadable-file")
    assert finding["subject"] == str(library)
    ((_, said),) = facts_of(finding, "loader said")
    assert said.startswith("libb.so.1: cannot open shared object file")
    assert facts_of(finding, "file")[0] == (str(library), "Permission denied")


@provokes("wrong-architecture")
def test_a_file_of_another_machine(tmp_path: Path) -> None:
    library = elfkit.patch(make_so(tmp_path / "lib" / "libb.so.1", soname="libb.so.1"), machine=183)
    finding = check(user_of(tmp_path, "libb.so.1"), LD_LIBRARY_PATH=f"{tmp_path}/lib").only("wrong-architecture")
    assert finding["subject"] == str(library)
    assert facts_of(finding, "machines")[0] == (str(library), "built for aarch64")
    said = "libb.so.1: cannot open shared object file: No such file or directory"
    assert facts_of(finding, "loader said") == [("", said)]


def test_a_32_bit_file(tmp_path: Path) -> None:
    library = elfkit.patch(make_so(tmp_path / "lib" / "libb.so.1", soname="libb.so.1"), elf_class=1)
    finding = check(user_of(tmp_path, "libb.so.1"), LD_LIBRARY_PATH=f"{tmp_path}/lib").only("wrong-architecture")
    assert finding["subject"] == str(library)
    assert facts_of(finding, "loader said") == [("", "libb.so.1: wrong ELF class: ELFCLASS32")]


@provokes("empty-file")
def test_an_empty_file(tmp_path: Path) -> None:
    (tmp_path / "libb.so.1").touch()
    finding = check(user_of(tmp_path, "libb.so.1"), LD_LIBRARY_PATH=str(tmp_path)).only("empty-file")
    assert finding["subject"] == f"{tmp_path}/libb.so.1"
    assert facts_of(finding, "loader said") == [("", f"{tmp_path}/libb.so.1: file too short")]


@provokes("not-elf")
def test_a_git_lfs_pointer(tmp_path: Path) -> None:
    text = "version https://git-lfs.github.com/spec/v1\noid sha256:" + "0" * 64 + "\nsize 261095424\n"
    elfkit.write_text(tmp_path / "libb.so.1", text)
    finding = check(user_of(tmp_path, "libb.so.1"), LD_LIBRARY_PATH=str(tmp_path)).only("not-elf")
    assert ("first line", "version https://git-lfs.github.com/spec/v1") in facts_of(finding, "file")
    assert "git-lfs pointer" in finding["cause"]
    assert finding["fix"]["commands"] == [f"git -C {tmp_path} lfs pull"]


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("/* GNU ld script */\nGROUP ( /lib/libb.so.1 AS_NEEDED ( libb_nonshared.a ) )\n" + " " * 64, "linker script"),
        ("<!DOCTYPE html><html><head><title>404 Not Found</title></head><body></body></html>\n", "web page"),
    ],
)
def test_other_texts_in_the_place_of_a_library(tmp_path: Path, text: str, word: str) -> None:
    elfkit.write_text(tmp_path / "libb.so.1", text)
    finding = check(user_of(tmp_path, "libb.so.1"), LD_LIBRARY_PATH=str(tmp_path)).only("not-elf")
    assert word in finding["cause"]


def test_a_text_of_somebody_else_is_not_shown(tmp_path: Path) -> None:
    elfkit.write_text(tmp_path / "libb.so.1", "password = hunter2 " + "x" * 80 + "\n")
    report = check(user_of(tmp_path, "libb.so.1"), LD_LIBRARY_PATH=str(tmp_path))
    report.only("not-elf")
    assert "hunter2" not in str(report.report)


def test_a_pipe_in_the_place_of_a_library(tmp_path: Path) -> None:
    """Reading it would wait for ever; so would the loader, so there is no trial."""
    os.mkfifo(tmp_path / "libb.so.1")
    report = check(user_of(tmp_path, "libb.so.1"), options=["--no-trial"], LD_LIBRARY_PATH=str(tmp_path))
    assert report.only("not-loadable")["subject"] == f"{tmp_path}/libb.so.1"


def test_a_directory_in_the_place_of_a_library(tmp_path: Path) -> None:
    (tmp_path / "libb.so.1").mkdir()
    finding = check(user_of(tmp_path, "libb.so.1"), LD_LIBRARY_PATH=str(tmp_path)).only("not-elf")
    assert facts_of(finding, "file") == [(f"{tmp_path}/libb.so.1", "a directory")]


@provokes("truncated-file")
def test_a_truncated_file_ends_the_process(tmp_path: Path) -> None:
    source = "char data[200000] = {1}; char *p = data;"
    library = make_so(tmp_path / "libb.so.1", soname="libb.so.1", source=source)
    size = library.stat().st_size
    elfkit.truncate(library, 20000)
    report = check(user_of(tmp_path, "libb.so.1"), LD_LIBRARY_PATH=str(tmp_path))
    finding = report.only("truncated-file")
    assert finding["subject"] == str(library)
    ((_, verdict),) = facts_of(finding, "file")
    assert verdict.startswith("20000 bytes, and its headers speak of ")
    assert 20000 < int(verdict.split()[-2]) <= size
    assert report.report["targets"][0]["prediction"] == {"loads": False, "error": None, "crash": "sigbus"}
    assert report.report["targets"][0]["trial"]["exit"] == -7


@provokes("shadowed-by-bad-file")
def test_a_bad_file_before_a_good_one(tmp_path: Path) -> None:
    (tmp_path / "first").mkdir()
    (tmp_path / "first" / "libb.so.1").touch()
    good = make_so(tmp_path / "second" / "libb.so.1", soname="libb.so.1")
    target = user_of(tmp_path, "libb.so.1")
    path = {"LD_LIBRARY_PATH": f"{tmp_path}/first:{tmp_path}/second"}
    finding = check(target, **path).only("shadowed-by-bad-file")
    assert facts_of(finding, "candidates, in the loader's order")[1] == (str(good), "usable, not reached")
    assert follow(finding, target, **path).returncode == 0


@provokes("not-loadable")
def test_a_program_in_the_place_of_a_library(tmp_path: Path) -> None:
    make_program(tmp_path / "libb.so.1", "int main(void) {return 0;}")
    finding = check(user_of(tmp_path, "libb.so.1"), LD_LIBRARY_PATH=str(tmp_path)).only("not-loadable")
    assert facts_of(finding, "file") == [(f"{tmp_path}/libb.so.1", "an executable, not a library")]


# --- versions and symbols ----------------------------------------------------------------------------------------


@provokes("undefined-symbol")
def test_a_symbol_that_nothing_defines(tmp_path: Path) -> None:
    source = "int gone(void); int also_gone(void); int use(void) {return gone() + also_gone();}"
    target = make_so(tmp_path / "user.so", source=source)
    finding = check(target).only("undefined-symbol")
    assert finding["subject"] == str(target)
    assert {where for where, _ in facts_of(finding, "undefined")} == {"gone", "also_gone"}
    ((_, said),) = facts_of(finding, "loader said")
    assert said.startswith(f"{target}: undefined symbol: ")


def test_a_symbol_of_another_torch(tmp_path: Path) -> None:
    source = "int _ZN3c104cuda9SetDeviceEi(int); int use(void) {return _ZN3c104cuda9SetDeviceEi(0);}"
    finding = check(make_so(tmp_path / "user.so", source=source)).only("undefined-symbol")
    assert "another version of torch" in finding["cause"]


@provokes("symbol-order")
def test_a_component_before_the_compat_runtime(tmp_path: Path) -> None:
    """The vendor's libxpu_blas.so in a bare interpreter."""
    vendor = vendor_tree(tmp_path)
    target = vendor.package / "libxpu_blas.so"
    variables = {
        "LD_LIBRARY_PATH": str(vendor.package),
        "FLAGOS_KUNLUNXIN_XDNN_LIB_DIR": str(vendor.package),
        "XPU_ROOT": str(vendor.sdk),
    }
    finding = check(target, **variables).only("symbol-order")
    assert finding["subject"] == str(target)
    assert facts_of(finding, "undefined") == [
        ("cudaGetDriverEntryPoint", f"defined by {vendor.compat}/libcudart.so.12: not loaded")
    ]
    said = f"{target}: undefined symbol: cudaGetDriverEntryPoint"
    assert facts_of(finding, "loader said") == [("", said)]
    assert follow(finding, target, **variables).returncode == 0


def test_both_faults_of_a_component_are_cured_at_once(tmp_path: Path) -> None:
    """Its directory is not searched, and then its symbol is missing: the advice must not stop half way."""
    vendor = vendor_tree(tmp_path)
    target = vendor.package / "libxpu_blas.so"
    variables = {"FLAGOS_KUNLUNXIN_XDNN_LIB_DIR": str(vendor.package), "XPU_ROOT": str(vendor.sdk)}
    finding = check(target, **variables).only("not-on-search-path")
    after = facts_of(finding, "with these directories searched, loader would say")
    assert after == [("", f"{target}: undefined symbol: cudaGetDriverEntryPoint")]
    assert follow(finding, target, **variables).returncode == 0


VERSIONS = "V1 {global: f;}; V2 {global: g;} V1;"
BOTH = "int f(void) {return 1;} int g(void) {return 2;}"


@provokes("version-not-found")
def test_a_library_that_is_too_old(tmp_path: Path) -> None:
    new = make_so(tmp_path / "new" / "libv.so.1", soname="libv.so.1", source=BOTH, version_script=VERSIONS)
    target = make_so(tmp_path / "user.so", needed=[new], source="int g(void); int use(void) {return g();}")
    old = make_so(
        tmp_path / "old" / "libv.so.1", soname="libv.so.1", source="int f(void) {return 1;}",
        version_script="V1 {global: f;};",
    )  # fmt: skip
    finding = check(target, LD_LIBRARY_PATH=f"{tmp_path}/old").only("version-not-found")
    assert finding["message"] == f"{old} does not have V2"
    assert facts_of(finding, "needed by") == [(str(target), "needs V2")]
    assert facts_of(finding, "found")[0] == (str(old), "found through LD_LIBRARY_PATH")
    said = f"{old}: version `V2' not found (required by {target})"
    assert facts_of(finding, "loader said") == [("", said)]


@provokes("orphan-version")
def test_a_version_of_a_library_that_is_not_needed(tmp_path: Path) -> None:
    new = make_so(tmp_path / "libv.so.1", soname="libv.so.1", source=BOTH, version_script=VERSIONS)
    target = make_so(tmp_path / "user.so", needed=[new], source="int g(void); int use(void) {return g();}")
    elfkit.patch_dynamic(target, 1, new_tag=21)  # DT_NEEDED becomes DT_DEBUG, as if a tool had removed it
    report = check(target, LD_LIBRARY_PATH=str(tmp_path))
    assert report.only("orphan-version")["subject"] == str(target)
    assert report.report["targets"][0]["prediction"]["crash"] == "exit"
    assert report.report["targets"][0]["trial"]["exit"] == 127


@provokes("unversioned-provider")
def test_a_library_that_lost_its_versions(tmp_path: Path) -> None:
    here = host.current()
    new = make_so(tmp_path / "new" / "libv.so.1", soname="libv.so.1", source=BOTH, version_script=VERSIONS)
    target = make_so(tmp_path / "user.so", needed=[new], source="int g(void); int use(void) {return g();}")
    plain = make_so(tmp_path / "plain" / "libv.so.1", soname="libv.so.1", source=BOTH)
    if here.libc_version >= (2, 41):  # glibc has dropped the assertion: only the model of an older one can show it
        older = here.replace(libc_version=(2, 36), environment={"LD_LIBRARY_PATH": f"{tmp_path}/plain"}, mapped=())
        assert [finding.code for finding in on(older, target)] == ["unversioned-provider"]
        return
    report = check(target, LD_LIBRARY_PATH=f"{tmp_path}/plain")
    assert report.only("unversioned-provider")["subject"] == str(plain)
    assert report.report["targets"][0]["trial"]["exit"] == 127


# --- the host does not allow it ----------------------------------------------------------------------------------


@provokes("executable-stack")
def test_an_executable_stack_on_a_newer_glibc(tmp_path: Path) -> None:
    target = make_so(tmp_path / "user.so", flags=["-Wl,-z,execstack"])
    newer = host.current().replace(libc_version=(2, 41), stack_executable=False, tunables={}, mapped=())
    (finding,) = on(newer, target)
    assert finding.code == "executable-stack"
    assert (
        finding.evidence[-1]
        .facts[0]
        .verdict.endswith("cannot enable executable stack as shared object requires: Invalid argument")
    )


@provokes("static-tls")
def test_too_much_static_thread_local_storage(tmp_path: Path) -> None:
    source = '__thread char big[200000] __attribute__((tls_model("initial-exec"))); char *use(void) {return big;}'
    target = make_so(tmp_path / "user.so", source=source)
    finding = check(target).only("static-tls")
    assert facts_of(finding, "loader said") == [("", f"{target}: cannot allocate memory in static TLS block")]


@provokes("isa-level")
def test_a_library_for_a_newer_processor(tmp_path: Path) -> None:
    here = host.current()
    if here.machine != 62:
        pytest.skip("instruction-set levels exist on x86-64 only")
    target = make_so(tmp_path / "user.so", source="int f(void) {return 1;}", flags=["-Wl,-z,x86-64-v4"])
    (finding,) = on(here.replace(isa_level=1, mapped=()), target)
    assert finding.code == "isa-level"


@provokes("relative-relocations")
def test_packed_relocations_without_their_version(tmp_path: Path) -> None:
    """The linker adds the version by itself, so its name and hash are overwritten with those of another one."""
    table = ", ".join(f"x + {n}" for n in range(64))
    source = f"static int x[64]; int *p[] = {{{table}}}; int abs(int); int use(int y) {{return abs(y);}}"
    target = make_so(tmp_path / "user.so", source=source, flags=["-Wl,-z,pack-relative-relocs", "-fno-builtin", "-lc"])
    data = target.read_bytes()
    wanted, other = b"GLIBC_ABI_DT_RELR", b"GLIBC_2.17"
    assert wanted in data
    data = data.replace(wanted, other.ljust(len(wanted), b"\0"))
    data = data.replace(struct.pack("=I", sysv_hash(wanted)), struct.pack("=I", sysv_hash(other)))
    target.write_bytes(data)
    if host.current().libc_version < (2, 36):
        pytest.skip("this C library does not know DT_RELR")
    finding = check(target).only("relative-relocations")
    assert facts_of(finding, "loader said") == [("", f"{target}: DT_RELR without GLIBC_ABI_DT_RELR dependency")]


@provokes("map-refused")
def test_a_limit_on_the_address_space(tmp_path: Path) -> None:
    if shutil.which("prlimit") is None:
        pytest.skip("prlimit (util-linux) is not there to set a limit")
    target = make_so(tmp_path / "user.so", source="char big[8UL << 30];", flags=["-mcmodel=large"])
    limit = ["prlimit", f"--as={4 << 30}"]
    finding = check(target, prefix=limit).only("map-refused")
    assert facts_of(finding, "compared") == [
        (str(target), f"needs more address space than the limit of {4 << 30} bytes")
    ]
    assert facts_of(finding, "loader said") == [("", f"{target}: failed to map segment from shared object")]


@provokes("musl-object")
def test_a_library_for_another_c_library(tmp_path: Path) -> None:
    target = user_of(tmp_path, "libc.musl-x86_64.so.1")
    finding = check(target).only("musl-object")
    assert finding["subject"] == str(target)
    assert facts_of(finding, "compared")[0] == (str(target), "needs libc.musl-x86_64.so.1")


# --- code of the library -----------------------------------------------------------------------------------------

EXIT = "void exit(int); __attribute__((constructor)) static void begin(void) {exit(3);}"


@provokes("vendor-exits")
def test_a_constructor_that_exits(tmp_path: Path) -> None:
    report = check(make_so(tmp_path / "user.so", source=EXIT))
    finding = report.only("vendor-exits")
    assert finding["message"] == f"loading {tmp_path}/user.so ends the process with exit status 3"
    assert finding["fix"]["commands"] == []
    assert report.report["targets"][0]["trial"] == {"loads": False, "error": None, "exit": 3}


def test_the_profiler_of_the_runtime(tmp_path: Path) -> None:
    """XPU-RT ends the process of an import that finds tracing not enabled. The cure was tried before it is advised."""
    source = (
        "char *getenv(const char *); int puts(const char *); void exit(int);"
        "__attribute__((constructor)) static void begin(void) {"
        'if (!getenv("XPU_ENABLE_PROFILER_TRACING")) {puts("Runtime profiler is disabled"); exit(1);}}'
    )
    target = make_so(tmp_path / "user.so", source=source)
    finding = check(target).only("vendor-exits")
    assert facts_of(finding, "printed last") == [("", "Runtime profiler is disabled")]
    assert finding["fix"]["commands"] == ["export XPU_ENABLE_PROFILER_TRACING=1"]
    assert follow(finding, target).returncode == 0


@provokes("vendor-crashes")
def test_a_constructor_that_crashes(tmp_path: Path) -> None:
    source = "__attribute__((constructor)) static void begin(void) {*(volatile int *)8 = 1;}"
    finding = check(make_so(tmp_path / "user.so", source=source)).only("vendor-crashes")
    assert finding["message"] == f"loading {tmp_path}/user.so ends the process with SIGSEGV"


@provokes("load-hangs")
def test_a_constructor_that_waits(tmp_path: Path) -> None:
    source = "int pause(void); __attribute__((constructor)) static void begin(void) {for (;;) pause();}"
    report = check(make_so(tmp_path / "user.so", source=source), options=["--timeout", "1"])
    assert report.only("load-hangs")["subject"] == f"{tmp_path}/user.so"
    assert report.report["targets"][0]["trial"] == {"loads": False, "error": None, "exit": None}


@provokes("prediction-differs")
def test_a_fault_that_is_not_modelled(tmp_path: Path) -> None:
    """A relocation of a type that no loader knows: the model does not look at types."""
    target = make_so(tmp_path / "user.so", source="int x; int *p = &x;")
    data = bytearray(target.read_bytes())
    image = elf.read(str(target))
    address = image.tags[7]  # DT_RELA; it lies in the first segment, where addresses are offsets
    data[address + 8] = 0x7F
    target.write_bytes(bytes(data))
    report = check(target)
    finding = report.only("prediction-differs")
    assert dict(facts_of(finding, "outcome"))["predicted"] == "loads"
    assert "unexpected reloc type 0x" in dict(facts_of(finding, "outcome"))["trial"]
    assert finding["fix"]["commands"][0].startswith(sys.executable)


# --- quiet where nothing is wrong --------------------------------------------------------------------------------


def test_dead_run_path_entries_are_no_finding_while_all_is_found(tmp_path: Path) -> None:
    make_so(tmp_path / "libb.so.1", soname="libb.so.1")
    target = user_of(tmp_path, "libb.so.1", runpath="/build/a:C:/mkl/lib:$ORIGIN")
    report = check(target)
    assert report.codes == []
    assert report.status == 0


def test_a_skipped_candidate_is_no_finding_when_another_is_taken(tmp_path: Path) -> None:
    elfkit.patch(make_so(tmp_path / "first" / "libb.so.1", soname="libb.so.1"), machine=183)
    make_so(tmp_path / "second" / "libb.so.1", soname="libb.so.1")
    report = check(user_of(tmp_path, "libb.so.1"), LD_LIBRARY_PATH=f"{tmp_path}/first:{tmp_path}/second")
    assert report.codes == []

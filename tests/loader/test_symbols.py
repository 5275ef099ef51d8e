"""Versions, undefined symbols and the scope they are looked up in: the model against a real child."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.elfkit import make_so, patch_dynamic
from tests.loader.truth import Open, child_host, compare, environment
from torch_fl._preload import resolve
from torch_fl._preload.facts import UndefinedSymbols, UnversionedProvider
from torch_fl._preload.resolve import GLOBAL, LOCAL

DT_VERSYM, DT_VERDEF, DT_VERDEFNUM, DT_VERNEED = 0x6FFFFFF0, 0x6FFFFFFC, 0x6FFFFFFD, 0x6FFFFFFE
UNUSED_TAG = 0x6FFFFE00


def user(path: Path, symbol: str = "wanted", **more: object) -> Path:
    """A library that calls a function which it does not define."""
    source = f"int {symbol}(void); int use(void) {{ return {symbol}(); }}"
    return make_so(path, source=source, **more)  # type: ignore[arg-type]


def provider(path: Path, symbol: str = "wanted", **more: object) -> Path:
    return make_so(path, source=f"int {symbol}(void) {{ return 1; }}", **more)  # type: ignore[arg-type]


def outcome(path: Path, env: dict[str, str] | None = None) -> resolve.Outcome:
    return resolve.dlopen(resolve.fresh(child_host(env or environment())), str(path))


# --- undefined symbols and scope ----------------------------------------------------------------------------------


def test_c37_an_undefined_symbol_without_a_provider(tmp_path: Path) -> None:
    root = user(tmp_path / "a.so")
    assert compare([str(root)])[-1].error == f"{root}: undefined symbol: wanted"


def test_c38_a_provider_that_was_opened_global_serves(tmp_path: Path) -> None:
    target, root = provider(tmp_path / "p.so"), user(tmp_path / "a.so")
    assert compare([Open(str(target), GLOBAL), Open(str(root))])[-1].loads


def test_c39_a_provider_that_was_opened_local_does_not(tmp_path: Path) -> None:
    target, root = provider(tmp_path / "p.so"), user(tmp_path / "a.so")
    assert not compare([Open(str(target), LOCAL), Open(str(root))])[-1].loads


def test_the_local_provider_is_named(tmp_path: Path) -> None:
    target, root = provider(tmp_path / "p.so"), user(tmp_path / "a.so")
    process = resolve.dlopen(resolve.fresh(child_host(environment())), str(target)).process
    problem = resolve.dlopen(process, str(root)).problems[0]
    assert isinstance(problem, UndefinedSymbols)
    assert [(entry.path, entry.why) for entry in problem.symbols[0].providers] == [(str(target), "local-scope")]


def test_a_global_open_of_what_is_loaded_promotes_it(tmp_path: Path) -> None:
    target, root = provider(tmp_path / "p.so"), user(tmp_path / "a.so")
    assert compare([Open(str(target), LOCAL), Open(str(target), GLOBAL), Open(str(root))])[-1].loads


def test_dependencies_of_a_global_object_are_global(tmp_path: Path) -> None:
    target = provider(tmp_path / "libp.so", soname="libp.so")
    upper = make_so(tmp_path / "up.so", needed=[target], runpath="$ORIGIN")
    assert compare([Open(str(upper), GLOBAL), Open(str(user(tmp_path / "a.so")))])[-1].loads


def test_a_dependency_promoted_later_serves(tmp_path: Path) -> None:
    target = provider(tmp_path / "libp.so", soname="libp.so")
    upper = make_so(tmp_path / "up.so", needed=[target], runpath="$ORIGIN")
    calls = [Open(str(upper)), Open("libp.so", GLOBAL), Open(str(user(tmp_path / "a.so")))]
    assert compare(calls)[-1].loads


def test_a_sibling_in_the_roots_list_serves(tmp_path: Path) -> None:
    target = provider(tmp_path / "libp.so", soname="libp.so")
    inner = user(tmp_path / "libu.so", soname="libu.so")
    root = make_so(tmp_path / "a.so", needed=[inner, target], runpath="$ORIGIN")
    assert compare([str(root)])[-1].loads
    assert not compare([str(inner), str(root)])[0].loads


def test_the_guides_hidden_need(tmp_path: Path) -> None:
    """libxpu_blas.so uses a symbol of the CUDA-compat runtime without naming it."""
    cudart = provider(tmp_path / "cuda/libcudart.so.12", "cudaGetDriverEntryPoint", soname="libcudart.so.12")
    blas = user(tmp_path / "pkg/libxpu_blas.so", "cudaGetDriverEntryPoint", soname="libxpu_blas.so")
    root = make_so(tmp_path / "pkg/libxdnn_pytorch.so", needed=[blas], runpath="$ORIGIN", soname="libxdnn_pytorch.so")
    assert compare([str(root)])[-1].error == f"{blas}: undefined symbol: cudaGetDriverEntryPoint"
    assert compare([Open(str(cudart), GLOBAL), Open(str(root), GLOBAL)])[-1].loads


def test_a_symbol_of_the_interpreter_serves(tmp_path: Path) -> None:
    assert compare([str(user(tmp_path / "a.so", "Py_IsInitialized"))])[-1].loads


def test_a_preloaded_library_serves(tmp_path: Path) -> None:
    target = provider(tmp_path / "p.so")
    root = user(tmp_path / "a.so")
    from tests.loader.truth import predicted, real

    env = environment(LD_PRELOAD=str(target))
    assert real([Open(str(root))], env)[0].loads
    assert predicted([Open(str(root))], child_host(env))[0].loads


def test_a_weak_undefined_symbol_is_no_trouble(tmp_path: Path) -> None:
    source = "extern int wanted(void) __attribute__((weak)); int use(void) { return wanted ? wanted() : 0; }"
    assert compare([str(make_so(tmp_path / "a.so", source=source))])[-1].loads


def test_undefined_data_fails_too(tmp_path: Path) -> None:
    root = make_so(tmp_path / "a.so", source="extern int wanted; int *use(void) { return &wanted; }")
    assert compare([str(root)])[-1].error == f"{root}: undefined symbol: wanted"


def test_a_hidden_definition_does_not_serve(tmp_path: Path) -> None:
    source = 'int wanted(void) { return 1; } __attribute__((visibility("hidden"))) int other(void) { return 2; }'
    target = make_so(tmp_path / "p.so", source=source)
    calls = [Open(str(target), GLOBAL), Open(str(user(tmp_path / "a.so", "other")))]
    assert not compare(calls)[-1].loads


def test_a_weak_definition_serves(tmp_path: Path) -> None:
    target = make_so(tmp_path / "p.so", source="__attribute__((weak)) int wanted(void) { return 1; }")
    assert compare([Open(str(target), GLOBAL), Open(str(user(tmp_path / "a.so")))])[-1].loads


def test_a_unique_symbol_serves(tmp_path: Path) -> None:
    source = '__asm__(".type wanted, @gnu_unique_object"); int wanted = 3;'
    target = make_so(tmp_path / "p.so", source=source)
    root = make_so(tmp_path / "a.so", source="extern int wanted; int *use(void) { return &wanted; }")
    assert compare([Open(str(target), GLOBAL), Open(str(root))])[-1].loads


def test_a_protected_definition_serves(tmp_path: Path) -> None:
    source = 'int wanted(void) __attribute__((visibility("protected"))); int wanted(void) { return 1; }'
    target = make_so(tmp_path / "p.so", source=source)
    assert compare([Open(str(target), GLOBAL), Open(str(user(tmp_path / "a.so")))])[-1].loads


def test_a_thread_local_definition_serves(tmp_path: Path) -> None:
    target = make_so(tmp_path / "p.so", source="__thread int wanted = 1;")
    root = make_so(tmp_path / "a.so", source="extern __thread int wanted; int use(void) { return wanted; }")
    calls = [Open(str(target), GLOBAL), Open(str(root))]
    compare(calls)


def test_an_absolute_symbol_of_value_zero_serves(tmp_path: Path) -> None:
    target = make_so(tmp_path / "p.so", source='__asm__(".globl wanted\\nwanted = 0");')
    root = make_so(tmp_path / "a.so", source="extern int wanted; int *use(void) { return &wanted; }")
    compare([Open(str(target), GLOBAL), Open(str(root))])


@pytest.mark.parametrize("style", ["sysv", "gnu", "both"])
def test_either_hash_table_will_do(tmp_path: Path, style: str) -> None:
    target = provider(tmp_path / "p.so", flags=[f"-Wl,--hash-style={style}"])
    root = user(tmp_path / "a.so", flags=[f"-Wl,--hash-style={style}"])
    assert compare([Open(str(target), GLOBAL), Open(str(root))])[-1].loads
    assert not compare([str(root)])[-1].loads


def test_symbolic_puts_the_object_first_and_changes_no_verdict(tmp_path: Path) -> None:
    source = "int own(void) { return 1; } int wanted(void); int use(void) { return own() + wanted(); }"
    root = make_so(tmp_path / "a.so", source=source, flags=["-Wl,-Bsymbolic"])
    assert compare([str(root)])[-1].error == f"{root}: undefined symbol: wanted"


# --- which error comes first --------------------------------------------------------------------------------------


def test_relocations_decide_which_of_several_symbols_is_named(tmp_path: Path) -> None:
    source = "".join(f"int f{n}(void); extern int d{n};" for n in range(6))
    source += "int use(int k) { return " + "+".join(f"f{n}()" for n in (4, 1, 5, 0)) + "; }"
    source += "int *data[] = { &d3, &d1, &d0 };"
    compare([str(make_so(tmp_path / "a.so", source=source))])


def test_data_relocations_come_before_those_of_calls(tmp_path: Path) -> None:
    source = "int call(void); extern int data; int use(void) { return call(); } int *pointer = &data;"
    root = make_so(tmp_path / "a.so", source=source)
    assert compare([str(root)])[-1].error == f"{root}: undefined symbol: data"


def test_dependencies_are_relocated_first(tmp_path: Path) -> None:
    inner = user(tmp_path / "libinner.so", "inner", soname="libinner.so")
    root = user(tmp_path / "a.so", "outer", needed=[inner], runpath="$ORIGIN")
    assert compare([str(root)])[-1].error == f"{inner}: undefined symbol: inner"


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 0, 2)])
def test_siblings_are_relocated_in_the_sorted_order(tmp_path: Path, order: tuple[int, ...]) -> None:
    libraries = [user(tmp_path / f"lib{n}.so", f"wanted{n}", soname=f"lib{n}.so") for n in range(3)]
    root = make_so(tmp_path / "a.so", needed=[libraries[n] for n in order], runpath="$ORIGIN")
    compare([str(root)])


@pytest.mark.parametrize("algorithm", ["1", "2"])
def test_a_cycle_is_sorted_as_the_tunable_says(tmp_path: Path, algorithm: str) -> None:
    for n in range(4):
        user(
            tmp_path / f"lib{n}.so",
            f"wanted{n}",
            soname=f"lib{n}.so",
            needed=[f"lib{(n + 1) % 4}.so"],
            runpath="$ORIGIN",
        )
    root = make_so(tmp_path / "a.so", needed=["lib2.so", "lib0.so"], runpath="$ORIGIN")
    compare([str(root)], environment(GLIBC_TUNABLES=f"glibc.rtld.dynamic_sort={algorithm}"))


def test_every_undefined_symbol_is_listed_once(tmp_path: Path) -> None:
    source = "int one(void); int two(void); int use(void) { return one() + two() + one(); }"
    problem = outcome(make_so(tmp_path / "a.so", source=source)).problems[0]
    assert isinstance(problem, UndefinedSymbols)
    assert sorted(entry.symbol for entry in problem.symbols) == ["one", "two"]


def test_a_missing_library_is_reported_instead_of_the_symbols_it_would_have(tmp_path: Path) -> None:
    root = user(tmp_path / "a.so", needed=["libgone.so"])
    found = outcome(root)
    assert found.missing == ("libgone.so",)
    assert not any(isinstance(problem, UndefinedSymbols) for problem in found.problems)


# --- versions -----------------------------------------------------------------------------------------------------

V1 = "V1 { global: wanted; local: *; };"
V1_V2 = "V1 { global: wanted; local: *; }; V2 { global: newer; } V1;"


def versioned(tmp_path: Path, script: str = V1, source: str = "int wanted(void) { return 1; }") -> Path:
    return make_so(tmp_path / "libv.so", soname="libv.so", source=source, version_script=script)


def test_c40_a_missing_version(tmp_path: Path) -> None:
    both = "int wanted(void) { return 1; } int newer(void) { return 2; }"
    root = user(tmp_path / "a.so", "newer", needed=[versioned(tmp_path, V1_V2, both)], runpath="$ORIGIN")
    versioned(tmp_path)
    assert compare([str(root)])[-1].error == f"{tmp_path}/libv.so: version `V2' not found (required by {root})"


def test_a_version_that_is_there_without_the_symbol(tmp_path: Path) -> None:
    root = user(tmp_path / "a.so", needed=[versioned(tmp_path)], runpath="$ORIGIN")
    versioned(tmp_path, "V1 { global: other; local: *; };", "int other(void) { return 1; }")
    assert compare([str(root)])[-1].error == f"{root}: undefined symbol: wanted, version V1"


def test_a_version_of_the_c_library_that_does_not_exist(tmp_path: Path) -> None:
    fake = make_so(tmp_path / "fake/libc.so.6", soname="libc.so.6", source="int wanted(void) { return 1; }",
                   version_script="GLIBC_9.99 { global: wanted; local: *; };")  # fmt: skip
    root = user(tmp_path / "a.so", needed=[fake])
    error = compare([str(root)])[-1].error
    assert error is not None
    assert error.endswith(f"libc.so.6: version `GLIBC_9.99' not found (required by {root})")


def test_a_library_that_lost_its_versions_makes_glibc_abort_before_2_41(tmp_path: Path) -> None:
    root = user(tmp_path / "a.so", needed=[versioned(tmp_path)], runpath="$ORIGIN")
    provider(tmp_path / "libv.so", soname="libv.so")
    assert compare([str(root)])[-1].crash == "exit"
    assert any(isinstance(problem, UnversionedProvider) for problem in outcome(root).problems)
    newer = child_host(environment()).replace(libc_version=(2, 41))
    assert resolve.dlopen(resolve.fresh(newer), str(root)).loads


def test_an_unversioned_object_elsewhere_in_the_scope_serves(tmp_path: Path) -> None:
    root = user(tmp_path / "a.so", needed=[versioned(tmp_path)], runpath="$ORIGIN")
    first = provider(tmp_path / "first.so")
    assert compare([Open(str(first), GLOBAL), Open(str(root))])[-1].loads


def test_a_library_without_versions_and_without_the_symbol(tmp_path: Path) -> None:
    root = user(tmp_path / "a.so", needed=[versioned(tmp_path)], runpath="$ORIGIN")
    make_so(tmp_path / "libv.so", soname="libv.so", source="int nothing(void) { return 1; }")
    compare([str(root)])


def test_an_orphan_version_need(tmp_path: Path) -> None:
    """patchelf --remove-needed leaves the version table behind."""
    root = user(tmp_path / "a.so", needed=[versioned(tmp_path)], runpath="$ORIGIN")
    patch_dynamic(root, 1, new_tag=UNUSED_TAG)
    assert compare([str(root)])[-1].crash == "exit"


def test_a_version_need_of_a_file_that_is_loaded_under_its_soname_only(tmp_path: Path) -> None:
    target = versioned(tmp_path)
    root = user(tmp_path / "a.so", needed=[target], runpath="$ORIGIN")
    patch_dynamic(root, 1, new_tag=UNUSED_TAG)
    compare([Open(str(target), GLOBAL), Open(str(root))])


def test_an_unversioned_reference_takes_the_only_version(tmp_path: Path) -> None:
    bare = provider(tmp_path / "libv.so", soname="libv.so")
    root = user(tmp_path / "a.so", needed=[bare], runpath="$ORIGIN")
    versioned(tmp_path)
    assert compare([str(root)])[-1].loads


TWO = (
    '__asm__(".symver old, wanted@V1"); __asm__(".symver new, wanted@@V2");'
    "int old(void) { return 1; } int new(void) { return 2; }"
)
NO_DEFAULT = (
    '__asm__(".symver old, wanted@V1"); __asm__(".symver new, wanted@V2");'
    "int old(void) { return 1; } int new(void) { return 2; }"
)
THREE = (
    '__asm__(".symver old, wanted@V2"); __asm__(".symver new, wanted@V3");'
    "int first(void) { return 0; } int old(void) { return 1; } int new(void) { return 2; }"
)


@pytest.mark.parametrize(
    ("source", "script"),
    [
        (TWO, "V1 { }; V2 { } V1;"),
        (NO_DEFAULT, "V1 { }; V2 { } V1;"),
        (THREE, "V1 { global: first; }; V2 { } V1; V3 { } V2;"),
        ('__asm__(".symver new, wanted@@V2"); int new(void) { return 2; }', "V1 { }; V2 { } V1;"),
        ('__asm__(".symver new, wanted@V2"); int new(void) { return 2; }', "V1 { }; V2 { } V1;"),
    ],
    ids=["two", "no-default", "three", "default-2", "hidden-2"],
)
def test_an_unversioned_reference_to_several_versions(tmp_path: Path, source: str, script: str) -> None:
    bare = provider(tmp_path / "libv.so", soname="libv.so")
    root = user(tmp_path / "a.so", needed=[bare], runpath="$ORIGIN")
    make_so(tmp_path / "libv.so", soname="libv.so", source=source, version_script=script)
    compare([str(root)])


def test_a_reference_to_an_old_version_that_is_still_there(tmp_path: Path) -> None:
    root = user(tmp_path / "a.so", needed=[versioned(tmp_path)], runpath="$ORIGIN")
    make_so(tmp_path / "libv.so", soname="libv.so", source=TWO, version_script="V1 { }; V2 { } V1;")
    assert compare([str(root)])[-1].loads


def test_a_symbol_that_moved_to_another_file(tmp_path: Path) -> None:
    """Since 2.30 the file name of a version need does not bind the symbol to that file."""
    root = user(tmp_path / "a.so", needed=[versioned(tmp_path), "libw.so"], runpath="$ORIGIN")
    versioned(tmp_path, "V1 { global: other; local: *; };", "int other(void) { return 1; }")
    make_so(tmp_path / "libw.so", soname="libw.so", source="int wanted(void) { return 1; }", version_script=V1)
    compare([str(root)])


def test_the_first_missing_version_in_search_list_order_is_named(tmp_path: Path) -> None:
    both = "int wanted(void) { return 1; } int newer(void) { return 2; }"
    target = versioned(tmp_path, V1_V2, both)
    inner = user(tmp_path / "libinner.so", "newer", soname="libinner.so", needed=[target], runpath="$ORIGIN")
    root = user(tmp_path / "a.so", "newer", needed=[inner, target], runpath="$ORIGIN")
    versioned(tmp_path)
    assert compare([str(root)])[-1].error == f"{tmp_path}/libv.so: version `V2' not found (required by {root})"
    assert len(outcome(root).problems) == 2


def test_a_missing_version_comes_before_an_undefined_symbol(tmp_path: Path) -> None:
    both = "int wanted(void) { return 1; } int newer(void) { return 2; }"
    inner = user(tmp_path / "libinner.so", "gone", soname="libinner.so")
    root = user(tmp_path / "a.so", "newer", needed=[versioned(tmp_path, V1_V2, both), inner], runpath="$ORIGIN")
    versioned(tmp_path)
    assert "version `V2' not found" in (compare([str(root)])[-1].error or "")


# --- preconditions ------------------------------------------------------------------------------------------------


def static_tls(path: Path, size: int, name: str = "use") -> Path:
    """A library with `size` bytes of initial-exec TLS."""
    model = '__attribute__((tls_model("initial-exec")))'
    source = f'static __thread char block[{size}] {model} = "x"; char *{name}(void) {{ return block; }}'
    return make_so(path, source=source)


@pytest.mark.parametrize("size", [16, 1000, 1600, 1712, 1713, 1760, 4000, 100000])
def test_static_tls_must_fit_the_surplus(tmp_path: Path, size: int) -> None:
    compare([str(static_tls(tmp_path / "a.so", size))])


def test_static_tls_that_fills_up_step_by_step(tmp_path: Path) -> None:
    compare([Open(str(static_tls(tmp_path / f"a{n}.so", 300 + 16 * n, f"use{n}"))) for n in range(6)])


@pytest.mark.parametrize("namespaces", [1, 2, 5])
@pytest.mark.parametrize("size", [700, 900, 1200, 1900, 2000])
def test_the_namespaces_tunable_changes_the_room(tmp_path: Path, namespaces: int, size: int) -> None:
    env = environment(GLIBC_TUNABLES=f"glibc.rtld.nns={namespaces}")
    compare([str(static_tls(tmp_path / "a.so", size))], env)


def test_a_tunable_makes_more_room_for_static_tls(tmp_path: Path) -> None:
    root = static_tls(tmp_path / "a.so", 200000)
    assert not compare([str(root)])[-1].loads
    assert compare([str(root)], environment(GLIBC_TUNABLES="glibc.rtld.optional_static_tls=400000"))[-1].loads


def test_relr_without_the_abi_version(tmp_path: Path) -> None:
    source = "static int values[40]; int *table[] = {" + ",".join(f"&values[{n}]" for n in range(40)) + "};"
    root = make_so(tmp_path / "a.so", source=source, needed=["libc.so.6"], flags=["-Wl,-z,pack-relative-relocs"])
    compare([str(root)])
    fake = make_so(tmp_path / "fake/libc.so.6", soname="libc.so.6", source="int wanted(void) { return 1; }",
                   version_script="GLIBC_2.2.5 { global: wanted; local: *; };")  # fmt: skip
    weird = make_so(
        tmp_path / "b.so", source=source + "int wanted(void); int use(void) { return wanted(); }", needed=[fake],
        flags=["-Wl,-z,pack-relative-relocs"],
    )  # fmt: skip
    compare([str(weird)])


@pytest.mark.parametrize("level", [2, 3, 4])
def test_an_isa_level(tmp_path: Path, level: int) -> None:
    root = make_so(tmp_path / "a.so", flags=[f"-Wl,-z,x86-64-v{level}"])
    compare([str(root)])
    older = child_host(environment()).replace(isa_level=1)
    found = resolve.dlopen(resolve.fresh(older), str(root))
    assert found.error == f"{root}: CPU ISA level is lower than required"


def test_an_executable_stack_is_refused_since_2_41(tmp_path: Path) -> None:
    root = make_so(tmp_path / "a.so", flags=["-Wl,-z,execstack"])
    assert compare([str(root)])[-1].loads
    newer = child_host(environment()).replace(libc_version=(2, 41))
    found = resolve.dlopen(resolve.fresh(newer), str(root))
    assert found.error == f"{root}: cannot enable executable stack as shared object requires: Invalid argument"


def test_an_address_space_limit(tmp_path: Path) -> None:
    root = make_so(tmp_path / "a.so", source="char big[1 << 30];")
    host = child_host(environment()).replace(address_space=500 << 20)
    found = resolve.dlopen(resolve.fresh(host), str(root))
    assert found.error == f"{root}: failed to map segment from shared object"
    from tests.loader.truth import PYTHON, real

    limited = real([Open(str(root))], environment(), prefix=["/bin/sh", "-c", 'ulimit -v 512000; exec "$@"', "sh"])
    assert PYTHON
    assert limited[0].error == found.error


def test_text_relocations(tmp_path: Path) -> None:
    source = '__asm__(".text\\n.globl use\\nuse: .quad target\\n.data\\n.globl target\\ntarget: .quad 0");'
    root = make_so(tmp_path / "a.so", source=source, flags=["-Wl,-z,notext"])
    assert compare([str(root)])[-1].loads


def test_a_musl_object_is_not_told_by_its_error(tmp_path: Path) -> None:
    root = make_so(tmp_path / "a.so", needed=["libc.musl-x86_64.so.1"])
    assert not compare([str(root)])[-1].loads

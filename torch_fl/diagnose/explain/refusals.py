"""The files are in order, and this host, or its C library, does not allow the load."""

from __future__ import annotations

from typing import Dict, NamedTuple

from torch_fl._preload import facts
from torch_fl.diagnose.explain import words
from torch_fl.diagnose.finding import Evidence, Fact, Finding, Fix, Page, Severity, register


class _Refusal(NamedTuple):
    code: str
    message: str
    cause: str
    cure: str


_MAP_CURE = "move the file to a file system that is mounted without noexec"

_REFUSALS: Dict[str, _Refusal] = {
    "executable-stack": _Refusal(
        "executable-stack",
        "asks for an executable stack, which this C library does not grant",
        "an object of the library was assembled without a .note.GNU-stack section, or a compiler used trampolines; "
        "since glibc 2.41 dlopen() does not make the stack executable any more",
        "clear the mark with `patchelf --clear-execstack {path}`; the mark is wrong unless code runs on the stack",
    ),
    "static-tls": _Refusal(
        "static-tls",
        "needs more static thread-local storage than is left",
        "the library was built with the initial-exec model, and the room that the loader sets aside for such "
        "libraries is used up",
        "set GLIBC_TUNABLES=glibc.rtld.optional_static_tls to more bytes than the library needs before Python starts",
    ),
    "isa-level": _Refusal(
        "isa-level",
        "is built for a newer processor than this one",
        "the library was compiled for a higher x86-64 level than this processor has",
        "install a build of the package for the baseline of this machine",
    ),
    "relr": _Refusal(
        "relative-relocations",
        "uses packed relocations without the version that announces them",
        "the library was linked with -z pack-relative-relocs by a linker that did not record the need for "
        "GLIBC_ABI_DT_RELR, or the record was removed",
        "rebuild the library without -z pack-relative-relocs, or with a current linker",
    ),
    "noexec-mount": _Refusal(
        "map-refused",
        "lies on a file system from which nothing may be executed",
        "the file system is mounted with noexec, and a library cannot be mapped for execution from there",
        _MAP_CURE,
    ),
    "address-space": _Refusal(
        "map-refused",
        "does not fit into the address space that this process may use",
        "a limit on the address space (ulimit -v) is smaller than what the library needs",
        "raise the limit on the address space (`ulimit -v`) before Python starts",
    ),
    "text-relocations": _Refusal(
        "map-refused",
        "changes its own code while it is relocated, which this system forbids",
        "the library was not compiled as position-independent code (-fPIC)",
        "rebuild the library with -fPIC",
    ),
}

register(
    Page(
        "executable-stack",
        "a library asks for an executable stack",
        "The library is marked as needing an executable stack, and the C library refuses to make it so.",
        "A PT_GNU_STACK header with the flag X asks for an executable stack. glibc before 2.41 made it so while "
        "loading; since 2.41 dlopen() fails instead.",
        "glibc 2.41, NEWS and elf/dl-load.c",
        "Clear the mark with `patchelf --clear-execstack FILE`, or use a newer build of the library. With glibc 2.42 "
        "GLIBC_TUNABLES=glibc.rtld.execstack=2 restores the former behaviour.",
    )
)
register(
    Page(
        "static-tls",
        "the room for static thread-local storage is used up",
        "The library keeps thread-local variables in the block that is laid out when a thread starts. Libraries that "
        "are loaded later share a small surplus in it, and this one does not fit any more.",
        "A library with DF_STATIC_TLS must be placed within the surplus that the loader reserved at start.",
        "glibc elf/dl-reloc.c, _dl_try_allocate_static_tls; tunable glibc.rtld.optional_static_tls",
        "Set GLIBC_TUNABLES=glibc.rtld.optional_static_tls=BYTES before Python starts, or load the library first.",
    )
)
register(
    Page(
        "isa-level",
        "a library is built for a newer processor",
        "The library says which level of the x86-64 instruction set it needs, and this processor does not have it.",
        "GNU_PROPERTY_X86_ISA_1_NEEDED names the levels; the loader compares them with the processor.",
        "glibc sysdeps/x86/dl-prop.h, dl_isa_level_check; x86-64 psABI, micro-architecture levels",
        "Install a build of the package for the baseline x86-64, or run it on a newer machine.",
    )
)
register(
    Page(
        "relative-relocations",
        "packed relocations are not announced",
        "The library stores its relative relocations in the packed form (DT_RELR) and does not require the version "
        "name by which older C libraries would have refused it in time.",
        "An object with DT_RELR must require GLIBC_ABI_DT_RELR of libc.so.6; glibc before 2.36 does not know DT_RELR.",
        "glibc elf/dl-version.c, _dl_check_map_versions",
        "Use a build made with a current linker, or one without -z pack-relative-relocs.",
    )
)
register(
    Page(
        "map-refused",
        "the system refuses to map the library",
        "The file is a good library, and the kernel does not map it for execution. The loader has one text for all "
        "reasons: `failed to map segment from shared object`.",
        "mmap(2) with PROT_EXEC fails on a file system mounted noexec (EPERM or EACCES), beyond RLIMIT_AS (ENOMEM), "
        "and where a security module forbids it.",
        "glibc elf/dl-load.c, _dl_map_object_from_fd; manual page mmap(2)",
        "Move the file to a file system without noexec, raise the limit, or change the policy; the finding says which.",
    )
)


def refused(problem: facts.Refused, label: str = words.WOULD_SAY) -> Finding:
    """A precondition of the load that does not hold on this host."""
    refusal = _REFUSALS[problem.reason]
    return Finding(
        refusal.code,
        Severity.ERROR,
        problem.path,
        f"{problem.path} {refusal.message}",
        (
            Evidence("compared", (Fact(problem.path, problem.detail),)),
            *words.outcome_of(problem.error, problem.crash, label),
        ),
        refusal.cause,
        Fix(refusal.cure.format(path=problem.path)),
    )


register(
    Page(
        "musl-object",
        "the library is built for another C library",
        "The library was linked against musl (Alpine Linux), and this interpreter runs on glibc, or the other way "
        "round. What the loader says about it, such as `invalid ELF header` for libc.so, hides that.",
        "The two C libraries have different names, versions and interfaces; an object names one of them in DT_NEEDED.",
        "musl ldso/dynlink.c; glibc elf/dl-load.c",
        "Install the build of the package for the C library of this system (manylinux for glibc, musllinux for musl).",
    )
)


def foreign_libc(problem: facts.ForeignLibc, runs: str, error: str = "", label: str = words.WOULD_SAY) -> Finding:
    """`runs`: the C library of this interpreter, in words. `error`: what the loader trips over because of it."""
    return Finding(
        "musl-object",
        Severity.ERROR,
        problem.path,
        f"{problem.path} is built for {problem.libc}, and this interpreter runs on {runs}",
        (
            Evidence("compared", (Fact(problem.path, f"needs {problem.evidence}"), Fact("this interpreter", runs))),
            *words.quoted(error or problem.error, label),
        ),
        "the package was made for a system with another C library",
        Fix(f"install the build of the package for {runs}"),
    )

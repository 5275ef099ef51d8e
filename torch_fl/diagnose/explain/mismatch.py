"""A file is whole and is not for this process: unreadable, for another machine, or without its name."""

from __future__ import annotations

import os
from typing import Optional, Sequence, Tuple

from torch_fl.diagnose.explain import words
from torch_fl.diagnose.finding import Evidence, Fact, Finding, Fix, Page, Severity, register

register(
    Page(
        "unreadable-file",
        "the file is there and this user may not read it",
        "A file of the right name exists, and the system refuses to open it. In a search the loader passes over it "
        "and says `No such file or directory`, as if there were none.",
        "open(2) fails with EACCES when the file is not readable, or a directory on the way is not searchable. In a "
        "directory search the loader goes on to the next place.",
        "glibc elf/dl-load.c, open_path; manual page path_resolution(7)",
        "Give the user that runs Python permission to read the file and to enter its directories.",
    )
)


def unreadable_file(
    path: str, requester: str, detail: str, error: Optional[str], label: str = words.WOULD_SAY, at: Sequence[Fact] = ()
) -> Finding:
    """`at`: the components of the path that decide, with owner and mode."""
    asks = (words.requested_by(requester),) if requester and requester != path else ()
    return Finding(
        "unreadable-file",
        Severity.ERROR,
        path,
        f"{path} is present and cannot be read by this user",
        (*asks, Evidence("file", (Fact(path, detail), *at)), *words.quoted(error, label)),
        "the mode of the file or of a directory above it does not allow this user to read it",
        Fix(f"give this user the right to read {at[0].where if at else path}"),
    )


register(
    Page(
        "wrong-architecture",
        "the library is built for another kind of machine",
        "A file of the right name is present and intact, and it is built for another processor, word size or byte "
        "order. For another processor the loader says `No such file or directory`, even for a full path.",
        "A candidate of another e_machine is passed over as if it were absent; one of another ELF class is "
        "remembered, and named if nothing else is found.",
        "glibc elf/dl-load.c, open_verify",
        "Install the build of the package for the machine that the finding names.",
    )
)


def wrong_architecture(
    path: str,
    requester: str,
    built_for: str,
    runs: str,
    error: Optional[str],
    label: str = words.WOULD_SAY,
    chain: Sequence[str] = (),
    search: Tuple[Evidence, ...] = (),
) -> Finding:
    """`built_for` and `runs`: the two machines in words; `runs` is empty where the words already tell."""
    asks = (words.requested_by(requester, chain),) if requester and requester != path else ()
    here = (Fact("this interpreter", runs),) if runs else ()
    return Finding(
        "wrong-architecture",
        Severity.ERROR,
        path,
        f"{path} is present and built for another machine",
        (*asks, Evidence("machines", (Fact(path, built_for), *here)), *search, *words.quoted(error, label)),
        "a package for another kind of machine was installed or copied here; the loader passes over such a file "
        "as if it were absent",
        Fix(f"install the build of the package that ships {os.path.basename(path)} for this machine"),
    )


register(
    Page(
        "no-soname",
        "a library without a SONAME cannot stand in for its name",
        "A library that torch_fl opens by its path before others need it carries no SONAME. The loader then does not "
        "recognise it when the others ask for it by name, and searches again.",
        "A name is matched with loaded objects by path, by the names under which they were asked for, and by "
        "DT_SONAME; the name of the file is not looked at.",
        "glibc elf/dl-load.c, _dl_map_new_object and _dl_name_match_p",
        "Use the library as the vendor built it. A tool that rewrites libraries can put the SONAME back: "
        "`patchelf --set-soname NAME FILE`.",
    )
)


def no_soname(
    path: str, name: str, soname: Optional[str], requesters: Sequence[str], instead: Optional[str] = None
) -> Finding:
    """`soname` is what the file carries instead, None for nothing.

    instead   the copy that they get, and the stack loads with it; None when they get none
    """
    seen = f"SONAME {soname}" if soname else "no SONAME"
    return Finding(
        "no-soname",
        Severity.WARNING if instead else Severity.ERROR,
        path,
        f"{path} has {seen}, and others ask for {name}",
        (
            Evidence("file", (Fact(path, seen),)),
            Evidence("asked for by", tuple(Fact(requester, f"needs {name}") for requester in requesters)),
            *((Evidence("loaded for that name", (Fact(instead, "by the loader's own search"),)),) if instead else ()),
        ),
        "the file was built or rewritten without the name under which the others know it",
        Fix(
            "reinstall the package that ships the file, or give the file its SONAME back with "
            f"`patchelf --set-soname {name} {path}`"
        ),
    )

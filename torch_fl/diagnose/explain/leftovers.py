"""What a process keeps from an earlier load."""

from __future__ import annotations

from typing import Optional, Sequence

from torch_fl.diagnose.explain import words
from torch_fl.diagnose.finding import Evidence, Fact, Finding, Fix, Page, Severity, register

register(
    Page(
        "stale-process",
        "the process was refused what a new one can load",
        "Libraries were opened in this process before, by an import that failed or by the program, and the loader has "
        "now refused another one. The files as they are would load in a new process.",
        "A library stays as it was mapped: opening its path again gives the mapped one, also after the file was "
        "replaced. A directory of a search path that did not exist is not looked at again.",
        "glibc elf/dl-load.c, _dl_map_object (comparison by name) and open_path (directory status)",
        "Start Python anew. In a notebook, restart the kernel.",
    )
)


def stale_process(subject: str, kept: Sequence[Fact], said: Optional[str]) -> Finding:
    """`kept`: libraries that were mapped before this attempt, each with whether its file is still the same."""
    return Finding(
        "stale-process",
        Severity.ERROR,
        subject,
        "this process was refused what a new one can load",
        (Evidence("in this process from before", tuple(kept)), *words.quoted(said, words.SAID)),
        "what was mapped stays mapped, and a directory that was missing is not looked at again, for the life of the "
        "process; by the model of the loader a new process loads everything",
        Fix("start Python anew, and import torch_fl before anything else opens these libraries"),
    )

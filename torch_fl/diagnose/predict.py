"""What the model says of a file, and of the whole stack: torch_fl's plan, torch and torch_fl._C in one process.

Pure in the host, the sources and the files, so that the same functions answer "what if this variable were set".
"""

import os
from typing import Dict, List, NamedTuple, Optional, Sequence, Tuple

from torch_fl._preload import elf, places, plan, resolve, tokens
from torch_fl._preload.host import Host
from torch_fl.diagnose.cure import Change, with_changes
from torch_fl.diagnose.finding import ObjectReport, Prediction
from torch_fl.diagnose.pyside import Torch


class Opening(NamedTuple):
    """One dlopen of a sequence: the path and what it would do."""

    path: str
    outcome: resolve.Outcome


class StackPrediction(NamedTuple):
    """The stack in a fresh process.

    plan       what torch_fl would open
    openings   each dlopen in order, up to the first that fails: the plan (only if complete), torch, torch_fl._C
    complete   whether all of it was foreseen; False when torch or the extension is not there to be opened
    """

    plan: plan.Plan
    openings: Tuple[Opening, ...]
    complete: bool

    @property
    def failed(self) -> Optional[Opening]:
        """The dlopen that would fail, or None."""
        return next((opening for opening in self.openings if not opening.outcome.loads), None)

    @property
    def process(self) -> Optional[resolve.Process]:
        """The process after the last dlopen."""
        return self.openings[-1].outcome.process if self.openings else None


def file(host: Host, path: str) -> resolve.Outcome:
    """dlopen(path, RTLD_NOW) in a fresh process of the host."""
    return resolve.dlopen(resolve.fresh(host), path, resolve.LOCAL, depth=resolve.SYMBOLS)


def after_torch(host: Host, torch: Torch, path: str, depth: str = resolve.SYMBOLS) -> resolve.Outcome:
    """dlopen(path, RTLD_NOW) in a process that has imported torch."""
    process = resolve.fresh(host)
    for library, visible in ((torch.global_deps, resolve.GLOBAL), (torch.extension, resolve.LOCAL)):
        if library is not None:
            process = resolve.dlopen(process, library, visible, depth=resolve.VERSIONS).process
    return resolve.dlopen(process, path, resolve.LOCAL, depth=depth)


def unstarted(host: Host) -> str:
    """Why a process of the host would not even start, or "": a library of LD_PRELOAD lacks one that it needs.

    Such a lack is fatal at program start (glibc elf/rtld.c, _dl_map_object_deps), where a file of LD_PRELOAD that is
    itself missing is only reported.
    """
    process = resolve.fresh(host)
    for loaded in process.maps:
        for name in loaded.elf.needed if loaded.elf is not None else ():
            if process.find(name) is None:
                return f"{name}: cannot open shared object file: No such file or directory"
    return ""


def stack(host: Host, sources: places.Sources, torch: Optional[Torch], extension: Optional[str]) -> StackPrediction:
    """`import torch_fl` in a fresh process: the plan, then torch, then the extension.

    An incomplete plan opens nothing, as in torch_fl itself, and the extension meets the loader unprepared.
    """
    from torch_fl._preload import symbol_edges

    decided = plan.make_plan(sources)
    wanted: List[Tuple[str, str, str]] = []
    if decided.complete:
        decided = symbol_edges.with_symbol_edges(decided, resolve.fresh(host))
        wanted += [
            (step.path, resolve.GLOBAL if step.is_global else resolve.LOCAL, resolve.SYMBOLS) for step in decided.steps
        ]
    if torch is not None and torch.global_deps is not None:
        wanted.append((torch.global_deps, resolve.GLOBAL, resolve.VERSIONS))
    if torch is not None and torch.extension is not None:
        wanted.append((torch.extension, resolve.LOCAL, resolve.VERSIONS))
    if torch is not None and extension is not None:
        wanted.append((extension, resolve.LOCAL, resolve.SYMBOLS))
    process = resolve.fresh(host)
    openings: List[Opening] = []
    for path, visible, depth in wanted:
        outcome = resolve.dlopen(process, path, visible, depth=depth)
        openings.append(Opening(path, outcome))
        if not outcome.loads:
            break
        process = outcome.process
    done = bool(openings) and openings[-1].outcome.loads
    return StackPrediction(decided, tuple(openings), done and torch is not None and extension is not None)


def with_rivals(
    foreseen: StackPrediction,
    host: Host,
    sources: places.Sources,
    torch: Optional[Torch],
    extension: Optional[str],
) -> StackPrediction:
    """The prediction with the copies that the plan passes over, and those that the loader without a plan would take."""
    from torch_fl._preload import rivals

    loader: Dict[str, Optional[str]] = {}
    if torch is not None and extension is not None:
        bare = after_torch(host, torch, extension, resolve.DEPENDENCIES)
        loader = {lookup.name: lookup.path for lookup in bare.lookups}
    return foreseen._replace(plan=rivals.with_rivals(foreseen.plan, sources, loader))


def with_host_changes(host: Host, changes: Sequence[Change]) -> Host:
    """The host of a process that is started after the changes."""
    return host.replace(environment=with_changes(dict(host.environment), changes), mapped=())


def with_source_changes(sources: places.Sources, host: Host, changes: Sequence[Change]) -> places.Sources:
    """The sources of a process that is started after the changes; `host` has the changes already."""
    return sources._replace(
        settings=with_changes(dict(sources.settings), changes), library_path=places.library_path(host), mapped={}
    )


def prediction(outcome: resolve.Outcome) -> Prediction:
    """The part of an outcome that the JSON contract has room for."""
    return Prediction(outcome.loads, outcome.error, outcome.crash)


def object_reports(outcome: resolve.Outcome) -> Tuple[ObjectReport, ...]:
    """Every object of a load, and after them every name that no file answers."""
    rows = [ObjectReport(o.name, o.path, o.how, o.needed_by, o.scope) for o in outcome.objects]
    requesters: Dict[str, List[str]] = {}
    for lookup in outcome.lookups:
        if lookup.path is None:
            requesters.setdefault(lookup.name, []).append(lookup.requester)
    for name in outcome.missing:
        rows.append(ObjectReport(name, None, "", tuple(dict.fromkeys(requesters.get(name, ()))), resolve.LOCAL))
    return tuple(rows)


def copies(process: resolve.Process, sonames: Sequence[str]) -> Tuple[Tuple[str, Tuple[str, ...]], ...]:
    """Loaded files whose SONAME is one of `sonames`, each with the paths of the objects that need it directly."""
    found: List[Tuple[str, Tuple[str, ...]]] = []
    for index, loaded in enumerate(process.maps):
        if loaded.soname in sonames:
            users = tuple(other.name for other in process.maps if index in other.needed)
            found.append((loaded.name, users))
    return tuple(found)


def run_paths(host: Host, path: str) -> Tuple[str, Tuple[Tuple[str, bool], ...]]:
    """(tag, ((directory, exists), ...)) of a file's RUNPATH or RPATH, $ORIGIN filled in; ("", ()) without one."""
    try:
        image = elf.read(path)
    except (OSError, elf.ElfError):
        return "", ()
    tag, value = ("RUNPATH", image.runpath) if image.runpath else ("RPATH", image.rpath)
    if not value:
        return "", ()
    values = tokens.Values(os.path.dirname(path), host.lib_token, host.platform)
    elements = tokens.split(value, ":", values)
    directories = [e.directory.rstrip("/") or host.cwd for e in elements if e.directory is not None]
    return tag, tuple((directory, os.path.isdir(directory)) for directory in directories)

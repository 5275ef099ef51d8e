"""What `import torch_fl` raises when it does not load: the failure's facts, examined and put into words."""

from __future__ import annotations

import os
import sys
from typing import Dict, List

from torch_fl._preload import hook, host
from torch_fl._preload.errors import LoadError
from torch_fl.diagnose import conclude_stack, predict, pyside, render_text
from torch_fl.diagnose.escape import shell_word, visible
from torch_fl.diagnose.explain import leftovers, process, trials
from torch_fl.diagnose.finding import Fact, Finding
from torch_fl.diagnose.pyside import Installed, interpreter_version
from torch_fl.diagnose.unfit import Question


def explain_failure(failure: hook.Failure) -> List[Finding]:
    """Findings for a load that did not succeed, most telling first; at least one."""
    if failure.stage == "interpreter":
        return [process.sub_interpreter(sys.executable)]
    if failure.stage == "device":
        return [process.privateuse_taken(failure.name, failure.path or "", sys.executable)]
    sources = hook.sources(failure.package_directory)._replace(mapped={})
    installed = Installed(
        failure.package_directory,
        hook.extension_file(failure.package_directory),
        pyside.find_torch(),
        sys.executable,
        interpreter_version(),
    )
    built = str(sources.record.get("TORCH_VERSION", ""))
    found = conclude_stack.torch(installed, built, sys.path, failure.text if failure.stage == "torch" else "")
    found += conclude_stack.extension(
        installed, host.current().environment, failure.text if failure.stage == "extension" else ""
    )
    if found:
        return found
    said = failure.refused.text if failure.refused is not None else failure.text
    question = Question(host.current().replace(mapped=()), sources, said)
    prediction = predict.stack(question.host, sources, installed.torch, installed.extension)
    found = conclude_stack.libraries(question, installed, prediction)
    if found:
        return found
    kept = _kept(failure, host.current())
    if prediction.complete and kept:
        return [leftovers.stale_process(failure.path or failure.name, kept, said)]
    return [trials.loader_refused(failure.path or failure.name, said, installed.python)]


def _kept(failure: hook.Failure, here: host.Host) -> List[Fact]:
    """Vendor libraries that were in the process before this attempt, and whether their files are still the same."""
    mapped = {item.name: (item.device, item.inode) for item in here.mapped if item.name}
    first: Dict[str, bool] = {}
    for opened in failure.opened:
        first.setdefault(opened.path, opened.before)
    rows: List[Fact] = []
    for path in (path for path, before in first.items() if before):
        try:
            status = os.stat(path)
            replaced = mapped.get(path, (status.st_dev, status.st_ino)) != (status.st_dev, status.st_ino)
        except OSError:
            replaced = True
        rows.append(Fact(path, "mapped, and replaced since" if replaced else "mapped"))
    return rows


def load_error(failure: hook.Failure) -> LoadError:
    """The exception for a failure: one line that sums up, the findings, how to run the check-up."""
    found = explain_failure(failure)
    return LoadError(message(found), findings=found, name=failure.name, path=failure.path)


def message(found: List[Finding]) -> str:
    """The text of the exception."""
    more = f" ({len(found) - 1} more below)" if len(found) > 1 else ""
    python = shell_word(sys.executable or os.path.basename("python"))
    return "\n".join(
        (
            f"torch_fl does not load: {visible(found[0].message)}{more}",
            "",
            render_text.findings(found),
            "",
            "for the whole check-up, run:",
            f"    $ {visible(python)} -m torch_fl.diagnose",
        )
    )

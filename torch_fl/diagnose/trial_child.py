"""The child of a trial. Its text is handed to `python -c`; it stands alone and says what it does on a pipe.

    argv[1]   number of the pipe to report on
    argv[2]   "open": dlopen argv[3] with RTLD_NOW, nothing else
              "stack": import torch_fl, from argv[3] unless this interpreter finds one, and count the devices

Each line on the pipe is a JSON object. {"stage": ...} is written *before* the stage begins, so that the last line
tells where a process that ended without a word had got to.
"""

from __future__ import annotations

import sys

sys.path[:] = [entry for entry in sys.path if entry or sys.argv[2] == "stack"]  # nothing from the current directory

import json  # noqa: E402
import os  # noqa: E402
import resource  # noqa: E402
from typing import Dict, List, Optional  # noqa: E402


def say(**facts: object) -> None:
    """Write one line on the pipe."""
    os.write(int(sys.argv[1]), (json.dumps(facts) + "\n").encode("ascii"))


def told(error: BaseException) -> Dict[str, str]:
    """The exception at the root of `error`: the one that the loader, or the vendor's code, raised."""
    seen: List[BaseException] = []
    link: Optional[BaseException] = error
    while link is not None and link not in seen:
        seen.append(link)
        link = link.__cause__ or (None if link.__suppress_context__ else link.__context__)
    root = seen[-1]
    return {"type": type(root).__name__, "error": str(root), "outer": type(seen[0]).__name__}


def open_file(path: str) -> None:
    """dlopen `path` as the import of an extension would, without calling anything in it."""
    import ctypes

    say(stage="open")
    ctypes.CDLL(path, mode=os.RTLD_NOW)
    say(loads=True)


def use_stack(site: str) -> None:
    """Import torch_fl and ask its runtime for the number of devices."""
    sys.path.append(site)
    say(stage="import torch")
    import torch

    say(stage="import torch_fl", torch=str(torch.__version__))
    import torch_fl

    say(stage="device count")
    say(loads=True, devices=int(torch_fl.flagos.device_count()))


def main() -> None:
    """Run the mode that argv names. An exception of the examined code is a result, not an error of ours."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a crash here is expected: leave no core file behind
    try:
        if sys.argv[2] == "open":
            open_file(sys.argv[3])
        else:
            use_stack(sys.argv[3])
    except Exception as error:
        say(loads=False, **told(error))
    sys.stdout.flush()
    os._exit(0)  # finalisers of half-loaded vendor code must not turn an answer into a crash


main()

"""What the child process of a trial saw, where that is news."""

from __future__ import annotations

import signal
from typing import Optional, Sequence, Tuple

from torch_fl._preload import catalog
from torch_fl.diagnose.escape import shell_word
from torch_fl.diagnose.explain import words
from torch_fl.diagnose.finding import Evidence, Fact, Finding, Fix, Page, Prediction, Severity, register
from torch_fl.diagnose.trial import Attempt

_STAGES = {
    "": "starting Python",
    "open": "opening the file",
    "import torch": "importing torch",
    "import torch_fl": "importing torch_fl",
    "device count": "asking for the number of devices",
}
_KEPT_LINES = 5
PROFILER_TEXT = "Runtime profiler is disabled"
"""What XPU-RT 5.37 prints before it ends the process of an import that finds tracing not enabled."""


def _printed(output: str) -> Tuple[Evidence, ...]:
    """The last lines that the child printed."""
    lines = [line.rstrip() for line in output.splitlines() if line.strip()][-_KEPT_LINES:]
    return (Evidence("printed last", tuple(Fact("", line) for line in lines)),) if lines else ()


def _trial(attempt: Attempt, ended: str) -> Evidence:
    return Evidence("trial", (Fact("stage", _STAGES.get(attempt.stage, attempt.stage)), Fact("end", ended)))


register(
    Page(
        "vendor-exits",
        "code of a library ends the process",
        "Every library was found and mapped, and then code that runs while the library is loaded ended the process "
        "with an exit status. No exception can be caught, and Python prints no traceback.",
        "The constructors of a library (DT_INIT_ARRAY) run before dlopen() returns; exit() in one of them ends the "
        "whole process. XPU-RT 5.37 does so with `Runtime profiler is disabled` unless XPU_ENABLE_PROFILER_TRACING "
        "was set before.",
        "glibc elf/dl-init.c, _dl_init; XPU-RT",
        "Read what was printed last; it comes from the code that ended the process. For `Runtime profiler is "
        "disabled`, set XPU_ENABLE_PROFILER_TRACING=1 before Python starts.",
    )
)


def vendor_exits(subject: str, attempt: Attempt, cured: bool = False) -> Finding:
    """The child ended by itself, without having reported.

    cured   a second trial, with the profiler of the runtime enabled, went further
    """
    profiler = PROFILER_TEXT in attempt.output
    return Finding(
        "vendor-exits",
        Severity.ERROR,
        subject,
        f"loading {subject} ends the process with exit status {attempt.exit}",
        (_trial(attempt, f"exit status {attempt.exit}"), *_printed(attempt.output)),
        "XPU-RT ends the process because its profiler was not enabled before the import"
        if profiler
        else "code that runs while a library is loaded calls exit(); the lines printed last come from it",
        Fix("enable the profiler of the runtime before Python starts", (f"export {catalog.PROFILER_VARIABLE}=1",))
        if profiler and cured
        else Fix("follow what was printed last, and send it to the vendor of the library that printed it"),
    )


register(
    Page(
        "vendor-crashes",
        "code of a library crashes while it is loaded",
        "Every library was found and mapped, and then a signal ended the process while the code of a library was "
        "initialising itself.",
        "The constructors of a library (DT_INIT_ARRAY) run before dlopen() returns. A signal in one of them ends the "
        "whole process.",
        "glibc elf/dl-init.c, _dl_init; manual page signal(7)",
        "Look for two copies or two versions of one library among the objects of `check --json`. Otherwise it is a "
        "defect of the library whose code ran; its vendor needs what was printed last.",
    )
)


def vendor_crashes(subject: str, attempt: Attempt) -> Finding:
    """A signal ended the child, and the model did not foresee it."""
    name = signal_name(attempt.exit)
    return Finding(
        "vendor-crashes",
        Severity.ERROR,
        subject,
        f"loading {subject} ends the process with {name}",
        (_trial(attempt, name), *_printed(attempt.output)),
        "the model of the loader foresees no crash, so the signal comes from code that runs while a library is loaded",
        Fix("send what was printed last, and the output of `check --json`, to the vendor of the library that crashes"),
    )


def signal_name(status: Optional[int]) -> str:
    """SIGSEGV for -11."""
    try:
        return signal.Signals(-(status or 0)).name
    except ValueError:
        return f"signal {-(status or 0)}"


register(
    Page(
        "load-hangs",
        "loading does not come to an end",
        "The child process that loads the target was still at it when the time was up, and was ended.",
        "The constructors of a library run before dlopen() returns, and may wait for a device or for another process.",
        "glibc elf/dl-init.c, _dl_init",
        "Look for another process that holds the device, and for errors of the driver in dmesg.",
    )
)


def load_hangs(subject: str, attempt: Attempt) -> Finding:
    """The time ran out."""
    return Finding(
        "load-hangs",
        Severity.ERROR,
        subject,
        f"loading {subject} was not finished after {attempt.seconds:.0f} s",
        (_trial(attempt, "ended by the check-up when the time was up"), *_printed(attempt.output)),
        "code that runs while a library is loaded waits for something; the stage tells which code was running",
        Fix("look for other processes that hold the device, and for errors of the driver in dmesg"),
    )


register(
    Page(
        "import-fails",
        "Python code raises while it is imported",
        "The libraries can be loaded, and the import ended in an exception of Python code: of torch, or of torch_fl "
        "itself. The loader has no part in it.",
        "An import runs the code of the module, and an exception in it ends the import.",
        "Python language reference, the import system",
        "Read the exception; the finding quotes it. For an exception of torch, try `import torch` alone.",
    )
)


def import_fails(subject: str, attempt: Attempt, python: str) -> Finding:
    """An exception that is not the loader's."""
    module = "torch" if attempt.stage == "import torch" else "torch_fl"
    return Finding(
        "import-fails",
        Severity.ERROR,
        subject,
        f"{_STAGES.get(attempt.stage, attempt.stage)} raises {attempt.exception}",
        (
            _trial(attempt, f"raised {attempt.exception}"),
            Evidence("Python said", (Fact("", attempt.error or ""),)),
            *_printed(attempt.output),
        ),
        "the libraries load, and the exception comes from the code of a module",
        Fix("repeat the import by itself to see the whole traceback", (f"{shell_word(python)} -c 'import {module}'",)),
    )


register(
    Page(
        "loader-refused",
        "the loader refuses for a reason that is not modelled",
        "The loader gave a text for which torch_fl has no explanation of its own. The text is quoted as it came.",
        "dlerror() returns the name of an object, a colon, and the reason.",
        "manual page dlerror(3)",
        "Search for the quoted text, and send the output of `check --json`, so that an explanation can be added.",
    )
)


def loader_refused(subject: str, error: Optional[str], python: str, label: str = words.SAID) -> Finding:
    """The last resort: there is a text, and nothing explains it."""
    return Finding(
        "loader-refused",
        Severity.ERROR,
        subject,
        f"{subject} does not load",
        words.quoted(error, label),
        "torch_fl has no explanation for this text",
        Fix(
            "send the output of this command to the developers of torch_fl, and search for the quoted text",
            (f"{shell_word(python)} -m torch_fl.diagnose check --json {shell_word(subject)}",),
        ),
    )


register(
    Page(
        "prediction-differs",
        "the model and the trial disagree",
        "torch_fl predicted one outcome, and a child process that really loaded the target had another. The trial is "
        "right. The prediction is a defect of torch_fl, not of the machine that was examined.",
        "The prediction is a reimplementation of the rules of glibc; the trial is glibc itself.",
        "docs/design.md",
        "Send the output of `check --json` for the target to the developers of torch_fl.",
    )
)


def prediction_differs(
    subject: str, prediction: Prediction, attempt: Attempt, host: Sequence[Fact], command: str
) -> Finding:
    """`host`: what a developer needs to know of the machine; `command`: makes the report to be sent."""
    foretold = "loads" if prediction.loads else prediction.error or f"ends the process ({prediction.crash})"
    if attempt.loads:
        seen = "loads"
    elif attempt.error is not None:
        seen = attempt.error
    elif attempt.exit is None:
        seen = "not finished when the time was up"
    else:
        seen = signal_name(attempt.exit) if attempt.exit < 0 else f"exit status {attempt.exit}"
    return Finding(
        "prediction-differs",
        Severity.WARNING if attempt.loads else Severity.ERROR,
        subject,
        f"the prediction for {subject} was wrong",
        (
            Evidence("outcome", (Fact("predicted", foretold), Fact("trial", seen))),
            Evidence("host", tuple(host)),
            *_printed(attempt.output),
        ),
        "the model of the loader in torch_fl has a defect; the trial shows what really happens",
        Fix("send the report to the developers of torch_fl", (command,)),
    )

"""What a check-up looks at: each fact gathered once, when it is first asked for."""

from __future__ import annotations

import os
import sys
from functools import cached_property
from typing import TYPE_CHECKING, Dict, Mapping, Optional, Tuple

from torch_fl._preload import catalog, hook, host, places
from torch_fl.diagnose import predict, pyside
from torch_fl.diagnose.finding import TRIAL_TIMEOUT
from torch_fl.diagnose.progress import Progress, silent
from torch_fl.diagnose.pyside import Installed, interpreter_version

if TYPE_CHECKING:  # what explains and what tries is imported where there is something to explain or to try
    from torch_fl.diagnose.finding import Finding
    from torch_fl.diagnose.trial import Attempt
    from torch_fl.diagnose.unfit import Question

SHOWN_VARIABLES: Tuple[str, ...] = (
    "LD_LIBRARY_PATH",
    "LD_PRELOAD",
    "LD_AUDIT",
    "LD_BIND_NOW",
    "GLIBC_TUNABLES",
    "PYTHONPATH",
    "PYTHONHOME",
    "VIRTUAL_ENV",
    "CONDA_PREFIX",
    catalog.XDNN_DIRECTORIES_VARIABLE,
    catalog.SDK_ROOT_VARIABLE,
    catalog.COMPAT_ROOT_VARIABLE,
    catalog.OP_ROOT_VARIABLE,
    catalog.OP_LIBRARY_VARIABLE,
    catalog.LOAD_VARIABLE,
    catalog.ACCELERATOR_VARIABLE,
    "XPU_VISIBLE_DEVICES",
    "CUDA_VISIBLE_DEVICES",
    catalog.PROFILER_VARIABLE,
)
"""The only variables that a report shows. The environment is never dumped: it holds secrets."""


class Examination:
    """What the checks look at, each fact gathered once, when the first check asks for it.

    directory   the torch_fl package that is examined, None when this interpreter has none
    trials      whether children may load things
    timeout     seconds for one child
    progress    told what is being done
    """

    def __init__(
        self,
        directory: Optional[str],
        trials_wanted: bool = True,
        timeout: float = TRIAL_TIMEOUT,
        progress: Progress = silent,
    ) -> None:
        self.trials_wanted = trials_wanted
        self.timeout = timeout
        self.progress = progress
        self.here = host.current()
        self.fresh = self.here.replace(mapped=())
        self.sources: places.Sources = hook.sources(directory or "/nonexistent")._replace(mapped={})
        self.installed = Installed(
            directory,
            pyside.extension_file(directory) if directory else None,
            pyside.find_torch(),
            sys.executable,
            interpreter_version(),
        )

    @cached_property
    def prediction(self) -> predict.StackPrediction:
        """The whole stack in the model."""
        whole = self.fresh, self.sources, self.installed.torch, self.installed.extension
        return predict.with_rivals(predict.stack(*whole), *whole)

    @cached_property
    def why_no_trial(self) -> str:
        """Why the stack cannot be tried, "" when it can."""
        if not self.trials_wanted:
            return "not wanted (--no-trial)"
        if self.installed.directory is None:
            return "torch_fl is not installed in this interpreter"
        if self.installed.torch is None:
            return "torch is not installed"
        if self.installed.extension is None:
            return "torch_fl._C is not there to be imported"
        if self.sources.settings.get(catalog.LOAD_VARIABLE) == "0":
            return f"{catalog.LOAD_VARIABLE}=0 tells torch_fl to load nothing"
        return ""

    @cached_property
    def attempt(self) -> Optional[Attempt]:
        """The trial of the stack, None when it cannot be made."""
        if self.why_no_trial:
            return None
        return self.try_stack(self.here.environment)

    def try_stack(self, environment: Mapping[str, str]) -> Attempt:
        """One trial of the stack, in any environment."""
        from torch_fl.diagnose import trial

        with self.progress("importing torch_fl in a child process"):
            return trial.use_stack(environment, os.path.dirname(self.installed.directory or ""), self.timeout)

    @cached_property
    def question(self) -> Question:
        """What the findings start from; the trial's text is quoted as the loader's own."""
        from torch_fl.diagnose.unfit import Question

        return Question(self.fresh, self.sources, self.attempt.error if self.attempt else None)

    @cached_property
    def foreseen(self) -> Tuple[Finding, ...]:
        """What the model finds wrong with the libraries; dropped when the trial shows that they load."""
        if self.attempt is not None and self.attempt.loads:
            return ()
        from torch_fl.diagnose import conclude_stack

        return tuple(conclude_stack.libraries(self.question, self.installed, self.prediction))


def describe(case: Examination) -> Dict[str, object]:
    """The environment of a report: interpreter and machine, and the variables of the allow-list that are set."""
    here = case.here
    return {
        "python": case.installed.python,
        "python_version": case.installed.version,
        "torch_version": case.installed.torch.version if case.installed.torch else None,
        "machine": os.uname().machine,
        "libc": f"{here.libc} {'.'.join(map(str, here.libc_version))}",
        "secure_mode": here.secure,
        "package": case.installed.directory,
        "variables": {name: here.environment[name] for name in SHOWN_VARIABLES if name in here.environment},
    }

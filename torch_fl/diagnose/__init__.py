"""Says what is wrong when native libraries do not load. Imports neither torch nor any library it examines.

finding     the records: Finding, Report and what they are made of
explain     facts -> Finding, one function per code; every sentence a user reads
hunt        which directory on this machine holds a missing name
predict     what the loader model says of a file and of the stack
conclude    from predictions to findings, each cure tried before it is advised
trial       the second opinion: a child process that really loads the target
checks      the ordered tuple of checks
render_*    Report -> text, JSON, annotations of a CI run, a summary
progress    the line on a terminal while something takes long
cli         sub-commands and exit status
run         an explanation in the process that failed: the import hook, and the command around a program
failure     what `import torch_fl` raises
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch_fl._preload.errors import LoadError
    from torch_fl._preload.hook import Failure


def install_import_hook() -> None:
    """From now on an extension module that the dynamic loader refuses is explained, whichever package it is of.

    The exception keeps its type, `.name` and `.path`; the findings follow its text, and the original is its
    `__cause__`. Calling it again changes nothing; `uninstall_import_hook()` takes it back.
    """
    from torch_fl.diagnose import run

    run.install()


def uninstall_import_hook() -> None:
    """Undo `install_import_hook`."""
    from torch_fl.diagnose import run

    run.uninstall()


def load_error(failure: Failure) -> LoadError:
    """The exception that `import torch_fl` raises for a failure; everything else is imported only here.

    A crash of the diagnosis must not take the place of the failure: then the loader's text stands alone.
    """
    from torch_fl._preload.errors import LoadError
    from torch_fl.diagnose import failure as wording

    try:
        return wording.load_error(failure)
    except Exception as crash:
        text = (
            f"torch_fl does not load: {failure.text}\n\n"
            f"the diagnosis crashed, which is a defect of torch_fl: {type(crash).__name__}: {crash}"
        )
        return LoadError(text, name=failure.name, path=failure.path)

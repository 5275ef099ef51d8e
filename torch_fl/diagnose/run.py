"""Explains any extension module that the loader refuses, in the process where that happens.

    torch_fl.diagnose.install_import_hook()                 in a program
    python -m torch_fl.diagnose run SCRIPT [ARGS ...]       around a program
    python -m torch_fl.diagnose run -m MODULE [ARGS ...]

An import that succeeds pays one Python call. One that fails raises what it would have raised, of the same type and with
the same `.name` and `.path`; the text is followed by the findings, and the original is its `__cause__`.
"""

import atexit
import importlib.machinery
import os
import sys
from types import ModuleType
from typing import List, NoReturn, Optional, Sequence

USAGE = "python -m torch_fl.diagnose run SCRIPT [ARGS ...]\n       python -m torch_fl.diagnose run -m MODULE [ARGS ...]"


RAISED: List[ImportError] = []
"""What the hook has raised, in order: a program may catch it and fail later, of something that follows from it."""


class ExplainingLoader(importlib.machinery.ExtensionFileLoader):
    """Python's own loader of extension modules, with an explanation where the dynamic loader refuses the file."""

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        try:
            return super().create_module(spec)
        except ImportError as error:
            # Only dlopen's own refusal names this file; what the module's code raised is its own affair.
            if error.path != self.path:
                raise
            told = explained(error)
            RAISED.append(told)
            raise told from error


class ExplainingFinder:
    """Finds nothing by itself: asks the finders after it, and replaces the loader of an extension module."""

    def find_spec(
        self, name: str, path: Optional[Sequence[str]] = None, target: Optional[ModuleType] = None
    ) -> Optional[importlib.machinery.ModuleSpec]:
        """The spec that the other finders give."""
        for finder in sys.meta_path:
            find = None if finder is self else getattr(finder, "find_spec", None)
            spec: Optional[importlib.machinery.ModuleSpec] = find(name, path, target) if find is not None else None
            if spec is None:
                continue
            if type(spec.loader) is importlib.machinery.ExtensionFileLoader:
                spec.loader = ExplainingLoader(spec.loader.name, spec.loader.path)
            return spec
        return None


def install() -> ExplainingFinder:
    """Put the finder in front of all others; once, however often it is called."""
    for finder in sys.meta_path:
        if isinstance(finder, ExplainingFinder):
            return finder
    finder = ExplainingFinder()
    sys.meta_path.insert(0, finder)
    return finder


def uninstall() -> None:
    """Take the finder away again, and forget what it raised."""
    RAISED.clear()
    sys.meta_path[:] = [finder for finder in sys.meta_path if not isinstance(finder, ExplainingFinder)]


def explained(error: ImportError) -> ImportError:
    """The same exception with the findings after its text. Should the diagnosis crash, that is said instead."""
    try:
        more = explanation(error.path or "", str(error))
    except Exception as crash:
        more = f"the diagnosis crashed, which is a defect of torch_fl: {type(crash).__name__}: {crash}"
    return type(error)(f"{error}\n\n{more}", name=error.name, path=error.path)


def explanation(path: str, said: str) -> str:
    """What the findings for a file say, given the loader's text. The process as it is now is what is examined."""
    # Everything is imported here: the program that is watched may never need it.
    from torch_fl._preload import hook, host, resolve
    from torch_fl.diagnose import conclude, render_text
    from torch_fl.diagnose.explain import trials
    from torch_fl.diagnose.unfit import Question

    here = host.current()
    question = Question(here.replace(mapped=()), hook.sources()._replace(mapped={}), said)
    outcome = resolve.dlopen(resolve.running(here), path)
    found = conclude.target(question, path, outcome) or [trials.loader_refused(path, said, sys.executable)]
    return render_text.findings(found)


class NothingToRun(Exception):
    """The command line names no program. The text is for the user."""


# --- the command -------------------------------------------------------------------------------------------------


def run(arguments: Sequence[str]) -> None:
    """Run a script or a module as __main__, watched. Its exceptions and its exit are the caller's.

    Raises NothingToRun for a line that names no program.
    """
    import runpy

    as_module = bool(arguments) and arguments[0] == "-m"
    program = list(arguments[1:] if as_module else arguments)
    if not program or (program[0].startswith("-") and not os.path.exists(program[0])):
        raise NothingToRun(f"run wants a script, or -m and a module; usage: {USAGE}")
    if not as_module and not os.path.exists(program[0]):
        raise NothingToRun(f"{program[0]}: there is no such file")
    install()
    _forget_torch_fl()
    sys.argv[:] = program
    if as_module:
        sys.path[:0] = [os.getcwd()] if sys.path[:1] not in ([""], [os.getcwd()]) else []
        runpy.run_module(program[0], run_name="__main__", alter_sys=True)
        return
    directory = os.path.dirname(os.path.abspath(program[0]))
    if sys.path[:1] in ([""], [os.getcwd()]):
        sys.path[0] = directory  # as `python SCRIPT` has it
    else:
        sys.path.insert(0, directory)
    runpy.run_path(program[0], run_name="__main__")


def _forget_torch_fl() -> None:
    """The torch_fl of this command has loaded nothing; the program's own import of it has to start anew."""
    for name in [name for name in sys.modules if name == "torch_fl" or name.startswith("torch_fl.")]:
        del sys.modules[name]


def command(arguments: List[str]) -> NoReturn:
    """`run` on the command line: exit status 2 when there is nothing to run, else the program's own."""
    if arguments[:1] in (["-h"], ["--help"]):
        sys.stdout.write(f"usage: {USAGE}\n\nRuns a program and explains every extension module that does not load.\n")
        sys.exit(0)
    try:
        run(arguments)
    except NothingToRun as error:
        sys.stderr.write(f"torch_fl.diagnose: error: {error}\n")
        sys.exit(2)
    except BaseException as error:
        if not (isinstance(error, SystemExit) and error.code in (None, 0)):
            atexit.register(sys.stderr.write, swallowed(error))  # below the traceback, where it is looked for
        raise
    sys.exit(0)


def swallowed(error: BaseException) -> str:
    """What a failed program did not show of the imports that failed before; "" when its traceback shows them all."""
    shown: List[BaseException] = []
    link: Optional[BaseException] = None if isinstance(error, SystemExit) else error  # an exit shows no traceback
    while link is not None and link not in shown:
        shown.append(link)
        link = link.__cause__ or (None if link.__suppress_context__ else link.__context__)
    hidden = {other.path: other for other in RAISED if other not in shown}
    return "".join(
        f"\ntorch_fl.diagnose: {path} did not load before that, and the program went on:\n{other}\n"
        for path, other in hidden.items()
    )

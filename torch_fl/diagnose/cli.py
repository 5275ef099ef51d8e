"""The command line. Data go to stdout, progress and our own trouble to stderr.

Exit status: 0 nothing wrong (warnings allowed), 1 at least one error, 2 the check-up itself could not do its work.
"""

from __future__ import annotations

import argparse
import os
import sys
from typing import Any, List, NoReturn, Optional, Sequence

from torch_fl._version import VERSION
from torch_fl.diagnose import pyside
from torch_fl.diagnose.finding import PAGES, TRIAL_TIMEOUT, Finding, Outcome, Report

PROGRAM = "torch_fl.diagnose"
COMMANDS = ("check", "explain", "run", "schema")
FORMATS = ("text", "json", "github", "brief")
RESERVED = ("snapshot", "show", "diff")
"""Names that are no targets: they will be commands."""

NOTHING_WRONG, WRONG, FAILED = 0, 1, 2
WIDTH = 100
"""Columns of the help."""


class _Parser(argparse.ArgumentParser):
    """argparse, with the program's own name in front of its errors, and help of one width everywhere.

    Asking for the terminal's width would import shutil and all that it compresses with, on every run.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(formatter_class=lambda prog: argparse.HelpFormatter(prog, width=WIDTH), **options)

    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        self.exit(FAILED, f"{PROGRAM}: error: {message}\n")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog=f"python -m {PROGRAM}",
        usage=f"python -m {PROGRAM} [check] [TARGET ...] [--format FORMAT] [--no-trial]\n"
        f"       python -m {PROGRAM} explain [CODE]\n"
        f"       python -m {PROGRAM} run {{SCRIPT | -m MODULE}} [ARGS ...]\n"
        f"       python -m {PROGRAM} schema",
        description="Says what is wrong when native libraries do not load. Without a target: the whole torch_fl stack.",
    )
    parser.add_argument("--version", action="version", version=f"{PROGRAM} {VERSION}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True, prog=f"python -m {PROGRAM}")
    check = commands.add_parser(
        "check", prog=f"python -m {PROGRAM} check", help="examine the stack, or each target (the default)"
    )
    check.add_argument("targets", nargs="*", metavar="TARGET", help="a file, or the name of an importable module")
    form = check.add_mutually_exclusive_group()
    form.add_argument("--format", choices=FORMATS, default="text", help="how the report is written (text)")
    form.add_argument("--json", action="store_const", dest="format", const="json", help="the same as --format json")
    form.add_argument(
        "--brief", action="store_const", dest="format", const="brief", help="at most 12 short lines, to be sent on"
    )
    check.add_argument("--no-trial", action="store_true", help="load nothing, not even in a child process")
    check.add_argument(
        "--timeout", type=_seconds, default=TRIAL_TIMEOUT, help=f"seconds for one child process ({TRIAL_TIMEOUT:g})"
    )
    explain = commands.add_parser(
        "explain", prog=f"python -m {PROGRAM} explain", help="what a code means, the rule behind it, the cure"
    )
    commands.add_parser("run", help="run a program; an extension module that does not load is explained")
    commands.add_parser(
        "schema", prog=f"python -m {PROGRAM} schema", help="the JSON Schema that every report in JSON satisfies"
    )
    explain.add_argument("code", nargs="?", metavar="CODE", help="without one, all codes are listed")
    return parser


def _seconds(text: str) -> float:
    value = float(text)
    if not 0 < value < 86400:
        raise argparse.ArgumentTypeError(f"not a time in seconds: {text}")
    return value


def _with_command(arguments: Sequence[str], parser: argparse.ArgumentParser) -> List[str]:
    """`check` is what a line without a command means."""
    first = next((a for a in arguments if not a.startswith("-")), None)
    if first in RESERVED:
        parser.error(f"unknown command: {first}")
    if first in COMMANDS or "-h" in arguments or "--help" in arguments or "--version" in arguments:
        return list(arguments)
    return ["check", *arguments]


class TargetError(Exception):
    """A target that names no file that could be loaded. The text is for the user."""


def resolve_target(target: str) -> str:
    """The absolute path of a target. A module name is looked up without importing anything."""
    if os.sep in target or target.endswith(".so") or os.path.isfile(target):
        return os.path.abspath(target)
    try:
        spec = pyside.find_module(target)
    except (ImportError, ValueError, AttributeError) as error:
        raise TargetError(f"{target}: looking the module up fails: {error}") from error
    if spec is None:
        raise TargetError(f"{target} is neither a file nor a module that this interpreter can import")
    if spec.origin is None or not spec.origin.endswith(pyside.SUFFIXES):
        built_in = spec.origin in ("built-in", "frozen") or spec.name in sys.builtin_module_names
        kind = "built into the interpreter" if built_in else "Python code"
        raise TargetError(f"{target} is {kind}; name one of its extension modules, or a file")
    return os.path.abspath(spec.origin)


def _check(options: argparse.Namespace, directory: Optional[str]) -> int:
    from torch_fl.diagnose import progress
    from torch_fl.diagnose.examination import Examination

    case = Examination(directory, not options.no_trial, options.timeout, progress.on(sys.stderr, PROGRAM))
    targets: List[str] = []
    unimportable: List[Finding] = []
    for target in options.targets:
        try:
            targets.append(resolve_target(target))
        except TargetError as error:
            from torch_fl.diagnose.unimportable import explain

            finding = explain(target, case.here.environment)
            if finding is None:
                sys.stderr.write(f"{PROGRAM}: error: {error}\n")
                return FAILED
            unimportable.append(finding)
    if options.targets:
        from torch_fl.diagnose.targets import examine

        report = examine(case, targets, unimportable)
    else:
        from torch_fl.diagnose.checks import run

        report = run(case)
    _write(_rendered(report, options.format))
    return status(report)


def _rendered(report: Report, form: str) -> str:
    if form == "json":
        from torch_fl.diagnose import render_json

        return render_json.report(report)
    if form == "github":
        from torch_fl.diagnose import render_github

        return render_github.report(report)
    if form == "brief":
        from torch_fl.diagnose import render_brief

        return render_brief.report(report)
    from torch_fl.diagnose import render_text

    return render_text.report(report)


def status(report: Report) -> int:
    """The exit status of a report: an error counts more than a check that crashed."""
    if report.broken:
        return WRONG
    return FAILED if any(check.outcome is Outcome.CRASHED for check in report.checks) else NOTHING_WRONG


def _explain(code: Optional[str]) -> int:
    from torch_fl.diagnose import pages

    if code is None:
        _write(pages.overview())
        return NOTHING_WRONG
    if code not in PAGES:
        known = ", ".join(sorted(PAGES))
        sys.stderr.write(f"{PROGRAM}: error: no such code: {code}; the codes are {known}\n")
        return FAILED
    _write(pages.section(PAGES[code]))
    return NOTHING_WRONG


def _write(text: str) -> None:
    """To stdout, whatever its encoding: what it cannot show is spelled as an escape."""
    encoding = sys.stdout.encoding or "utf-8"
    sys.stdout.write(text.encode(encoding, "backslashreplace").decode(encoding))


def main(arguments: Sequence[str], directory: Optional[str]) -> int:
    """Run one command. `directory`: the torch_fl package to examine, None when there is none."""
    if arguments[:1] == ["run"]:  # what follows belongs to the program, whatever it looks like
        from torch_fl.diagnose.run import command

        command(list(arguments[1:]))
    parser = _parser()
    options = parser.parse_args(_with_command(arguments, parser))
    try:
        if options.command == "explain":
            return _explain(options.code)
        if options.command == "schema":
            from torch_fl.diagnose import render_json

            _write(render_json.schema())
            return NOTHING_WRONG
        return _check(options, directory)
    except BrokenPipeError:
        sys.stderr.close()  # the reader has gone; nothing more can be said
        return FAILED

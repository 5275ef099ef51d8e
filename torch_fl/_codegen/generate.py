"""Renders the generated files. Pure: from the table and the covered overloads to text."""

from __future__ import annotations

from pathlib import Path
from typing import Dict, Iterable, List, Sequence, Tuple

from . import operators
from .operators import Evidence, Operator

ROOT = Path(__file__).resolve().parent.parent.parent
CONF = ROOT / "torch_fl" / "configs" / "backends_kunlunxin.conf"
DOCS = ROOT / "docs" / "operator-support.md"

NATIVE, FALLBACK = "kunlunxin", "none"


def conf(covered: Sequence[str], torch_version: str) -> str:
    """The text of backends_kunlunxin.conf, one route per covered overload."""
    native = {record.aten for record in operators.OPERATORS}
    header = (
        "# Which backend computes which operator on flagos. Written by `python -m torch_fl._codegen`: do not edit.",
        f"# Covers the {len(covered)} overloads of torch {torch_version} that have a kernel for the CPU, or one here.",
        f"#   {NATIVE}  the vendor's xdnn library ({len(native)} overloads)",
        f"#   {FALLBACK}       the CPU fallback ({len(covered) - len(native)} overloads)",
        "",
    )
    routes = (f"{name} = {NATIVE if name in native else FALLBACK}" for name in covered)
    return "\n".join((*header, *routes)) + "\n"


def docs(text: str, covered: Sequence[str], torch_version: str) -> str:
    """docs/operator-support.md with its generated parts renewed.

    A part stands between `<!-- generated: NAME -->` and `<!-- end -->`. Raises ValueError for a marker that is missing.
    """
    for name, body in {
        "summary": summary(covered, torch_version),
        "native": native_table(),
        "functions": function_table(),
        "device-layer": code_list(operators.DEVICE_LAYER),
        "composed": code_list(operators.COMPOSED),
    }.items():
        text = replace_part(text, name, body)
    return text


def replace_part(text: str, name: str, body: str) -> str:
    """`text` with `body` between the markers of part `name`."""
    begin, end = f"<!-- generated: {name} -->\n", "<!-- end -->"
    before, found, rest = text.partition(begin)
    _, closed, after = rest.partition(end)
    if not found or not closed:
        raise ValueError(f"{DOCS.name} has no part between {begin.strip()} and {end}")
    return f"{before}{begin}{body}{end}{after}"


def summary(covered: Sequence[str], torch_version: str) -> str:
    """How many overloads go where, the native ones split by evidence."""
    by_evidence = dict.fromkeys(Evidence, 0)
    for record in operators.OPERATORS:
        by_evidence[operators.evidence(record)] += 1
    native = len(operators.OPERATORS)
    split = ", ".join(f"{count} {kind.value}" for kind, count in by_evidence.items() if count)
    rows = (
        (f"covered overloads of torch {torch_version}", str(len(covered))),
        ("routed to `kunlunxin`", f"{native} ({split})"),
        ("routed to `none`, the CPU fallback", str(len(covered) - native)),
    )
    return table(("routes", "number"), rows)


def native_table() -> str:
    """One row per overload with a native kernel."""
    return table(("ATen overload", "xdnn functions", "evidence", "remark"), map(_native_row, operators.OPERATORS))


def _native_row(record: Operator) -> Tuple[str, ...]:
    functions = ", ".join(f"`{name}`" for name in record.functions)
    return f"`{record.aten}`", functions, operators.evidence(record).value, record.note


def function_table() -> str:
    """One row per library function."""
    rows = (
        (f"`{record.name}`", f"`{', '.join(record.arguments)}`", ", ".join(record.dtypes), record.evidence.value)
        for record in operators.FUNCTIONS
    )
    return table(("function", "arguments after the context", "asked to compute in", "evidence"), rows)


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    lines: List[Sequence[str]] = [header, ["---"] * len(header), *rows]
    return "".join(f"| {' | '.join(cells)} |\n".replace("|  |", "| |") for cells in lines)


def code_list(names: Iterable[str]) -> str:
    """Names as one line of code words."""
    return ", ".join(f"`{name}`" for name in names) + "\n"


def files(covered: Sequence[str], torch_version: str) -> Dict[Path, str]:
    """Every generated file with the text it should have."""
    return {
        CONF: conf(covered, torch_version),
        DOCS: docs(DOCS.read_text(encoding="utf-8"), covered, torch_version),
    }

"""The long explanations as text: what `explain CODE` prints, and docs/diagnostics.md, which is made of the same."""

from __future__ import annotations

import textwrap
from typing import List

import torch_fl.diagnose.explain  # noqa: F401  (fills the registry)
from torch_fl.diagnose.finding import PAGES, Page

_WIDTH = 100

_HEAD = """# What the codes mean

`import torch_fl` and `python -m torch_fl.diagnose` give each kind of trouble a code. This page says for each one what
it means, which rule is behind it and where that rule is written down, and how to cure it. The same text is printed by
`python -m torch_fl.diagnose explain CODE`; it is generated from `torch_fl/diagnose/explain` and a test compares them.

"""


def _paragraph(title: str, text: str) -> str:
    return textwrap.fill(f"{title} {text}", _WIDTH, break_long_words=False, break_on_hyphens=False)


def section(page: Page) -> str:
    """One code, as Markdown that also reads well in a terminal."""
    paragraphs: List[str] = [
        f"## {page.code}",
        f"*{page.title}*",
        _paragraph("**What it means.**", page.meaning),
        _paragraph("**The rule.**", page.rule),
        _paragraph("**Where the rule is written down.**", page.source + "."),
        _paragraph("**The cure.**", page.cure),
    ]
    return "\n\n".join(paragraphs) + "\n"


def overview() -> str:
    """All codes with their titles, one a line."""
    width = max(map(len, PAGES))
    return "".join(f"{code:<{width}}  {PAGES[code].title}\n" for code in sorted(PAGES))


def document() -> str:
    """The whole of docs/diagnostics.md."""
    contents = "".join(f"- [{code}](#{code}): {PAGES[code].title}\n" for code in sorted(PAGES))
    return _HEAD + contents + "\n" + "\n".join(section(PAGES[code]) for code in sorted(PAGES))

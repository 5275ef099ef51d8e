"""Dynamic string tokens and directory lists (glibc elf/dl-load.c: is_dst, _dl_dst_substitute, fillin_rpath)."""

import re
from typing import Iterator, NamedTuple, Optional, Sequence, Tuple

_TOKEN = re.compile(r"\$(?:\{(ORIGIN|PLATFORM|LIB)\}|(ORIGIN|PLATFORM|LIB)(?![A-Za-z0-9_]))")
"""Greedy: $ORIGINX is no token, ${ORIGIN}X is one."""


class Values(NamedTuple):
    """What the tokens stand for. None: the token has no value, and what contains it is dropped."""

    origin: Optional[str]
    lib: str
    platform: Optional[str]


class Element(NamedTuple):
    """One directory of a list. `directory` ends in "/", is "" for the working directory, None when it is dropped."""

    written: str
    directory: Optional[str]
    detail: str = ""


def count(text: str) -> int:
    """How many tokens `text` has."""
    return sum(1 for _ in _TOKEN.finditer(text)) if "$" in text else 0


def expand(
    text: str, values: Values, *, secure: bool = False, of_program: bool = False, trusted: Sequence[str] = ()
) -> str:
    """`text` with its tokens replaced; "" when a token has no value or is refused.

    In secure mode $ORIGIN must be the whole first component, and for the program's own tags the result must lie in
    one of the `trusted` (system) directories.
    """
    if "$" not in text:
        return text
    parts = []
    at = 0
    check = False
    for match in _TOKEN.finditer(text):
        name = match.group(1) or match.group(2)
        if name == "ORIGIN":
            value = values.origin
            if secure and not (match.start() == 0 and text[match.end() : match.end() + 1] in ("", "/")):
                value = None
            check = secure and of_program
        else:
            value = values.platform if name == "PLATFORM" else values.lib
        if value is None:
            return ""
        parts.append(text[at : match.start()])
        parts.append(value)
        at = match.end()
    result = "".join(parts) + text[at:]
    return result if not check or _trusted(result, trusted) else ""


def _trusted(path: str, directories: Sequence[str]) -> bool:
    """is_trusted_path_normalize: whether `path`, normalised as text, starts with a system directory."""
    kept: list[str] = []
    for component in path.split("/"):
        if component == "..":
            del kept[-1:]
        elif component not in ("", "."):
            kept.append(component)
    normal = "/" + "".join(part + "/" for part in kept)
    return bool(path) and any(normal.startswith(directory + "/") for directory in directories)


def split(
    text: str,
    separators: str,
    values: Values,
    *,
    secure: bool = False,
    of_program: bool = False,
    trusted: Sequence[str] = (),
) -> Tuple[Element, ...]:
    """The directories of an RPATH, RUNPATH (separator ":") or LD_LIBRARY_PATH (":;"), duplicates left out.

    An empty element is the working directory; an element whose token has no value is dropped; equal directories
    count once (compared as text, not by inode).
    """
    seen = set()
    found = []
    for written in _pieces(text, separators):
        if not written:
            directory = ""
        else:
            expanded = expand(written, values, secure=secure, of_program=of_program, trusted=trusted)
            if not expanded:
                found.append(Element(written, None, "a token has no value here"))
                continue
            directory = expanded.rstrip("/") + "/"
        if directory in seen:
            found.append(Element(written, None, "named before"))
            continue
        seen.add(directory)
        found.append(Element(written, directory))
    return tuple(found)


def _pieces(text: str, separators: str) -> Iterator[str]:
    for other in separators[1:]:
        text = text.replace(other, separators[0])
    return iter(text.split(separators[0]))

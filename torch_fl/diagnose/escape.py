"""Names that come from files, made safe for a terminal and for a shell."""

from __future__ import annotations

import shlex
import unicodedata

_UNSAFE_CATEGORIES = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")
"""Controls, format characters (among them the bidirectional ones), surrogates (bytes that are no UTF-8), private
and unassigned characters, line and paragraph separators: what can move a cursor, reorder a line or hide."""


def _is_unsafe(character: str) -> bool:
    return unicodedata.category(character) in _UNSAFE_CATEGORIES


def _escaped(character: str) -> str:
    number = ord(character)
    if 0xDC80 <= number <= 0xDCFF:  # surrogateescape: one byte that is not UTF-8
        return f"\\x{number - 0xDC00:02x}"
    if number <= 0xFF:
        return f"\\x{number:02x}"
    return f"\\u{number:04x}" if number <= 0xFFFF else f"\\U{number:08x}"


def visible(text: str) -> str:
    """`text` on one line with every unsafe character spelled as its escape (`\\x1b`, `\\u202e`)."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(_escaped(c) if _is_unsafe(c) else c for c in text)


def well_formed(text: str) -> str:
    """`text` with lone surrogates spelled as escapes, so that it is Unicode and can be written as UTF-8."""
    if text.isascii():
        return text
    return "".join(_escaped(c) if unicodedata.category(c) == "Cs" else c for c in text)


def shell_word(text: str) -> str:
    """`text` as one word of a POSIX shell; with bash's $'...' where it holds unsafe characters."""
    if not any(_is_unsafe(c) for c in text):
        return shlex.quote(text)
    parts = []
    for character in text:
        if character in "\\'":
            parts.append("\\" + character)
        elif _is_unsafe(character):
            parts.extend(f"\\x{byte:02x}" for byte in character.encode("utf-8", "surrogateescape"))
        else:
            parts.append(character)
    return "$'" + "".join(parts) + "'"

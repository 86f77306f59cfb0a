r"""Replacement of the matches of a regular expression in a body."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from time import thread_time
from typing import Any

LONGEST = 0.1
"""Time limit of a substitution, in seconds, since it blocks all other connections."""

_LOOKS = 16
"""Matches between two reads of the clock."""

_PLAIN = re.compile(r"[^\\.^$*+?()\[\]{}|]+")
_GROUP = re.compile(r"\\(?![0-7]{3})(?:([1-9][0-9]?)|g<(\w+)>)")
_ESCAPE = re.compile(r"\\(?:[0-7]{1,3}|x..|u....|U........|N\{[^}]*\}|.?)", re.DOTALL)

_ESCAPED = "\n\\'\"abfnrtv01234567xuUN"
"""Characters with a special meaning after a backslash."""


class TooMuchWork(ValueError):
    """Raised if a substitution exceeds the time limit."""


class Substitution:
    r"""Replaces the matches of `expression` (RE2) by `template`, in which `\1` and `\g<name>` are groups.

    Raise `ValueError` if the template is invalid.
    """

    def __init__(self, expression: Any, template: str) -> None:
        self._expression = expression
        self._pieces = tuple(_pieces(template, expression))
        self._word = self._constant = b""
        texts = [piece for piece in self._pieces if isinstance(piece, bytes)]
        if _PLAIN.fullmatch(expression.pattern) and len(texts) == len(self._pieces):
            self._word, self._constant = expression.pattern.encode(), b"".join(texts)

    def applied(self, text: bytes) -> bytes:
        """Return the substituted text, which must be UTF-8; raise `TooMuchWork` above the time limit.

        A single match may read the rest of the text before it is found, so that the number of matches alone is not a
        bound.
        """
        if self._word:
            return text.replace(self._word, self._constant)
        parts: list[bytes] = []
        done = 0
        for match in self._matches(text):
            start, end = match.span()
            parts.append(text[done:start])
            for piece in self._pieces:
                parts.append(piece if isinstance(piece, bytes) else match[piece] or b"")
            done = end
        if not parts:
            return text
        parts.append(text[done:])
        return b"".join(parts)

    def _matches(self, text: bytes) -> Iterator[Any]:
        began = thread_time()
        for count, match in enumerate(self._expression.finditer(text), 1):
            if not count % _LOOKS and thread_time() - began > LONGEST:
                raise TooMuchWork(f"`{self._expression.pattern}` matches in too many places, or takes too long to")
            place = match.start()
            if place == match.end() and place < len(text) and text[place] & 0xC0 == 0x80:
                continue  # an empty match inside a character
            yield match


def _pieces(template: str, expression: Any) -> Iterator[bytes | int]:
    """Yield the pieces of a template: texts, and group numbers."""
    done = 0
    for found in _GROUP.finditer(template):
        if _is_escaped(template, found.start()):
            continue
        yield from _text(template[done : found.start()])
        yield _group(found[1] or found[2], expression)
        done = found.end()
    yield from _text(template[done:])


def _is_escaped(template: str, place: int) -> bool:
    """Whether the backslash at `place` is the second of a pair."""
    before = template[:place]
    return (len(before) - len(before.rstrip("\\"))) % 2 == 1


def _text(template: str) -> Iterator[bytes]:
    if template:
        yield _ESCAPE.sub(_unescaped, template).encode("utf-8", "surrogateescape")


def _unescaped(escape: re.Match[str]) -> str:
    if escape[0][1:2] and escape[0][1] not in _ESCAPED:
        return escape[0]
    try:
        return codecs.unicode_escape_decode(escape[0])[0]
    except UnicodeDecodeError:
        raise ValueError(f"`{escape[0]}` is not an escape: write a literal backslash twice") from None


def _group(name: str, expression: Any) -> int:
    number = int(name) if name.isdecimal() else expression.groupindex.get(name, -1)
    if not 0 <= number <= expression.groups:
        raise ValueError(f"it refers to group {name}, but the expression has {expression.groups}")
    return int(number)

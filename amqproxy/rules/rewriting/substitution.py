r"""Putting something else in place of what a regular expression matches, in a body."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from time import thread_time
from typing import Any

LONGEST = 0.1
"""Seconds of work after which a substitution is given up: no other connection is served while it lasts."""

_LOOKS = 16
"""Matches between two looks at the clock."""

_PLAIN = re.compile(r"[^\\.^$*+?()\[\]{}|]+")
_GROUP = re.compile(r"\\(?![0-7]{3})(?:([1-9][0-9]?)|g<(\w+)>)")
_ESCAPE = re.compile(r"\\(?:[0-7]{1,3}|x..|u....|U........|N\{[^}]*\}|.?)", re.DOTALL)

_ESCAPED = "\n\\'\"abfnrtv01234567xuUN"
"""What means something else behind a backslash."""


class TooMuchWork(ValueError):
    """What a substitution finds in a text takes too long to be replaced."""


class Substitution:
    r"""Puts `template` in place of what `expression` (RE2) matches; `\1` and `\g<name>` there are its groups.

    `ValueError` when the template is none.
    """

    def __init__(self, expression: Any, template: str) -> None:
        self._expression = expression
        self._pieces = tuple(_pieces(template, expression))
        self._word = self._constant = b""
        texts = [piece for piece in self._pieces if isinstance(piece, bytes)]
        if _PLAIN.fullmatch(expression.pattern) and len(texts) == len(self._pieces):
            self._word, self._constant = expression.pattern.encode(), b"".join(texts)

    def applied(self, text: bytes) -> bytes:
        """The text, which must be UTF-8, after it: in time linear in its matches. `TooMuchWork` if there are too many.

        A single match may look at all the rest of the text before it is found, so their number alone is no bound.
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
                continue  # nothing, within a character
            yield match


def _pieces(template: str, expression: Any) -> Iterator[bytes | int]:
    """What stands in a template: text, and the numbers of groups."""
    done = 0
    for found in _GROUP.finditer(template):
        if _is_escaped(template, found.start()):
            continue
        yield from _text(template[done : found.start()])
        yield _group(found[1] or found[2], expression)
        done = found.end()
    yield from _text(template[done:])


def _is_escaped(template: str, place: int) -> bool:
    """Is the backslash there the second of a pair?"""
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
        raise ValueError(f"`{escape[0]}` is no escape; a backslash is written as two") from None


def _group(name: str, expression: Any) -> int:
    number = int(name) if name.isdecimal() else expression.groupindex.get(name, -1)
    if not 0 <= number <= expression.groups:
        raise ValueError(f"it wants group {name} of an expression that has {expression.groups}")
    return int(number)

"""Tokens of the rule languages, with their positions, which errors point at."""

from __future__ import annotations

import re

import msgspec

from amqproxy.rules.matching.diagnostics import pointed


class TextError(ValueError):
    """An error in a text, with line, column, and a caret under the place; `at` is its index."""

    def __init__(self, what: str, text: str, place: int) -> None:
        super().__init__(pointed(what, text, place))
        self.at = place


class Token(msgspec.Struct, frozen=True):
    """A piece of a text: its kind, its text, and its start."""

    kind: str
    text: str
    place: int


def tokens_of(text: str, pattern: re.Pattern[str]) -> list[Token]:
    """Split a text into tokens, and add an empty token of the kind "end".

    `pattern` must match every character; its group names are the kinds, and "blank" tokens are left out.
    """
    found = [Token(each.lastgroup or "", each[0], each.start()) for each in pattern.finditer(text)]
    return [*(token for token in found if token.kind != "blank"), Token("end", "", len(text))]

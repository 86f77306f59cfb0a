"""A `Token`: a piece of a text in a language of rules, which knows its place there; what is wrong points at one."""

from __future__ import annotations

import re

import msgspec

from amqproxy.rules.matching.diagnostics import pointed


class TextError(ValueError):
    """What is wrong with a text, with its line, its column, and a caret under the place, which is `at` in the text."""

    def __init__(self, what: str, text: str, place: int) -> None:
        super().__init__(pointed(what, text, place))
        self.at = place


class Token(msgspec.Struct, frozen=True):
    """A piece of a text: its kind, what it is, and where it begins."""

    kind: str
    text: str
    place: int


def tokens_of(text: str, pattern: re.Pattern[str]) -> list[Token]:
    """The pieces of a text, and one of the kind "end", which is empty, behind them.

    `pattern` takes every character there can be; its groups name the kinds, and what is "blank" is left out.
    """
    found = [Token(each.lastgroup or "", each[0], each.start()) for each in pattern.finditer(text)]
    return [*(token for token in found if token.kind != "blank"), Token("end", "", len(text))]

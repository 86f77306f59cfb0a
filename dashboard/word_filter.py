"""Filters of plain words: what has them in its names, its keys, its properties, or the beginning of its body."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from amqproxy.rules.context import CommandContext
from amqproxy.rules.matching.attributes import NAMES, AttributeSource
from amqproxy.rules.matching.condition import Condition
from amqproxy.rules.matching.filters import Filter, LookUp
from amqproxy.rules.verdict import Stage

MAX_WORDS = 8
"""Maximum number of words in a filter."""

MAX_SEARCHED = 64 * 1024
"""Characters of a body that are searched."""

_PATHS = (
    *("method", "exchange", "routing_key", "queue", "client.name", "fields", "headers", "body"),
    *(path for path in NAMES if path.startswith("properties.")),
)
"""Attributes that are searched; `fields` has the names and arguments that only some methods have."""

_WORDS = re.compile(r"""[^\s=<>!&|(){}\[\]"'?,\\]+(?:\s+[^\s=<>!&|(){}\[\]"'?,\\]+)*""")
"""Words without the signs of CEL's operators."""


class WordFilter(Filter):
    """A filter that holds for commands with all of the words, in any case, and for which `rest` holds, if given."""

    __slots__ = ("_rest", "_words")

    def __init__(self, words: str, rest: Filter | None = None) -> None:
        self._words = tuple(words.casefold().split())
        self._rest = rest
        self.expression = words if rest is None else f"{words} && {rest.expression}"
        self.names = frozenset(_PATHS) | (rest.names if rest else frozenset())
        self.condition = Condition(
            source=AttributeSource.MOMENT, stage=Stage.BODY, reads=self.names, holds=self._holds_for
        )

    def holds(self, look_up: LookUp) -> bool:
        texts = [each.casefold() for path in _PATHS for each in _texts(look_up(path))]
        if not all(any(word in text for text in texts) for word in self._words):
            return False
        return self._rest is None or self._rest.holds(look_up)

    def _holds_for(self, context: CommandContext) -> bool:
        return self.holds(lambda path: NAMES[path].value(context))


def words_of(expression: str) -> tuple[str, str] | None:
    """Return the plain words that an expression begins with, and the CEL after them; None if it begins otherwise."""
    words, _, rest = expression.strip().partition(" && ")
    if len(words.split()) > MAX_WORDS or _WORDS.fullmatch(words) is None:
        return None
    return words, rest


def _texts(value: Any) -> Iterator[str]:
    """Yield the texts in a value, and the names in its tables."""
    if isinstance(value, str):
        yield value[:MAX_SEARCHED]
    elif isinstance(value, Mapping):
        for name, each in value.items():
            yield str(name)
            yield from _texts(each)
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from _texts(each)
    elif isinstance(value, (bytes, bytearray)):
        yield bytes(value[:MAX_SEARCHED]).decode("utf-8", "replace")
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        yield str(value)

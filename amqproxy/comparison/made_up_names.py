"""Names that a broker or a client generated for one run, and their placeholders in a comparison."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

MAX_NAMES = 4096
"""Generated names of one connection, and consumers of one channel, that get numbered placeholders: the first ones."""

UUID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_MADE_UP = re.compile(
    r"amq\.gen-[\w.+/=-]+|amq\.ctag-[\w.+/=-]+|amq\.rabbitmq\.reply-to\.[\w.+/=-]+"
    rf"|TempQueue{UUID}|tmp_{UUID}"
)
"""Generated names: those of RabbitMQ and of brokers that follow it, and those of Qpid's JMS client."""

_SIGNS = ("amq.", "TempQueue", "tmp_")
"""Substrings, one of which every generated name contains."""


class BrokerNames:
    """The names that the broker generated for one connection, and their placeholders."""

    __slots__ = ("_by_name", "_counts")

    def __init__(self) -> None:
        self._by_name: dict[str, str] = {}
        self._counts: Counter[int] = Counter()

    def learn_queue(self, name: str, channel: int) -> None:
        """Number a queue that the broker named, since the client gave it no name on this channel."""
        if name not in self._by_name and len(self._by_name) < MAX_NAMES:
            self._counts[channel] += 1
            self._by_name[name] = f"<queue:{channel}.{self._counts[channel]}>"

    def text(self, text: str) -> str:
        """Return a name, or a text with names in it such as a reply text, with placeholders for generated names."""
        found = self._by_name.get(text)
        if found is not None:
            return found
        return _MADE_UP.sub(self._stand_in, text) if any(sign in text for sign in _SIGNS) else text

    def value(self, value: Any) -> Any:
        """Return a JSON value with placeholders in all its texts, but not in names of fields."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {name: self.value(each) for name, each in value.items()}
        if isinstance(value, list | tuple):
            return [self.value(each) for each in value]
        return value

    def _stand_in(self, match: re.Match[str]) -> str:
        name = match.group()
        found = self._by_name.get(name)
        if found is not None:
            return found
        return f"<{'consumer' if 'ctag' in name else 'reply-to' if 'reply-to' in name else 'queue'}>"


class ConsumerNames:
    """The consumers of one channel in the order in which they began, and the placeholders of their tags."""

    __slots__ = ("_by_tag", "_count")

    def __init__(self) -> None:
        self._by_tag: dict[str, str] = {}
        self._count = 0

    def begin(self, tag: str) -> str:
        """Number a new consumer; return its placeholder."""
        if self._count < MAX_NAMES:
            self._count += 1
            self._by_tag[tag] = f"<consumer:{self._count}>"
        else:
            self._by_tag.pop(tag, None)
        return self.find(tag)

    def find(self, tag: str) -> str:
        """Return the placeholder of a consumer tag."""
        return self._by_tag.get(tag, "<consumer>")

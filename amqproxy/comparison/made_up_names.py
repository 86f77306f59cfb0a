"""Names that a broker or a client has made up for one run, and what stands for them in a comparison."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

MAX_NAMES = 4096
"""Names that the broker made up for one connection, and consumers of one channel, that are numbered: the first ones."""

UUID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_MADE_UP = re.compile(
    r"amq\.gen-[\w.+/=-]+|amq\.ctag-[\w.+/=-]+|amq\.rabbitmq\.reply-to\.[\w.+/=-]+"
    rf"|TempQueue{UUID}|tmp_{UUID}"
)
"""Names as brokers make them up: RabbitMQ's, and those of others that follow it; and as Qpid's JMS client does."""

_SIGNS = ("amq.", "TempQueue", "tmp_")
"""One of these is in each such name."""


class BrokerNames:
    """The names that the broker has made up for one connection, and what stands for them."""

    __slots__ = ("_by_name", "_counts")

    def __init__(self) -> None:
        self._by_name: dict[str, str] = {}
        self._counts: Counter[int] = Counter()

    def learn_queue(self, name: str, channel: int) -> None:
        """The broker has named a queue for which the client gave no name on this channel."""
        if name not in self._by_name and len(self._by_name) < MAX_NAMES:
            self._counts[channel] += 1
            self._by_name[name] = f"<queue:{channel}.{self._counts[channel]}>"

    def text(self, text: str) -> str:
        """A name, or a text with names in it such as a reply text, with what stands for those."""
        found = self._by_name.get(text)
        if found is not None:
            return found
        return _MADE_UP.sub(self._stand_in, text) if any(sign in text for sign in _SIGNS) else text

    def value(self, value: Any) -> Any:
        """The same for all the texts in a value as JSON has it, but not for names of fields."""
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
    """The consumers of one channel in the order in which they began, and what stands for their tags."""

    __slots__ = ("_by_tag", "_count")

    def __init__(self) -> None:
        self._by_tag: dict[str, str] = {}
        self._count = 0

    def begin(self, tag: str) -> str:
        """A consumer begins."""
        if self._count < MAX_NAMES:
            self._count += 1
            self._by_tag[tag] = f"<consumer:{self._count}>"
        else:
            self._by_tag.pop(tag, None)
        return self.find(tag)

    def find(self, tag: str) -> str:
        """What stands for a consumer tag."""
        return self._by_tag.get(tag, "<consumer>")

"""Text of a finding about an upgrade: the use, the client and its user, and what RabbitMQ does."""

from __future__ import annotations

import re
from typing import NamedTuple

from amqproxy.taps.trace.handshake_facts import HandshakeFacts

MAX_LENGTH = 64
"""Characters of each property that a text shows; clients choose them."""

UNKNOWN_CLIENT = "an unknown client"

PATTERN = '(?s)^(.*) by "([^"]*)"(?: [(]user "([^"]*)"[)])?: RabbitMQ ([^ ]+) (.*)$'
"""Regular expression with a group for each part, as Python, Spark and DuckDB understand it alike.

Only the use may contain quotes, so that a queue's name which looks like the rest of a text does not pass for it.
"""

_TEXT = re.compile(PATTERN)


class UseText(NamedTuple):
    """The parts of the text; `user` is None where the login was not seen, `version` the one that has the effect.

    Double quotes in `client` and `user` are single ones in the text.
    """

    use: str
    client: str
    user: str | None
    version: str
    effect: str

    def __str__(self) -> str:
        user = "" if self.user is None else f' (user "{_unquoted(self.user)}")'
        return f'{self.use} by "{_unquoted(self.client)}"{user}: RabbitMQ {self.version} {self.effect}'

    @classmethod
    def parsed(cls, text: str) -> UseText | None:
        """Return the parts of a finding's text; `None` if it has none."""
        found = _TEXT.fullmatch(text)
        return None if found is None else cls(*found.groups())


def _unquoted(name: str) -> str:
    return name.replace('"', "'")


def client_of(facts: HandshakeFacts) -> str:
    """Return the client's product and version, as far as the handshake was seen."""
    properties = facts.client_properties or {}
    named = [properties.get(name) for name in ("product", "version")]
    return " ".join(each[:MAX_LENGTH] for each in named if isinstance(each, str) and each) or UNKNOWN_CLIENT

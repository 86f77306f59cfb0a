"""Origin of a dead letter: where its first death, in x-death, says that it was published."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from amqproxy.amqp091.properties import Properties


class Origin(msgspec.Struct, frozen=True):
    """The queue of the first death, and the exchange and routing keys by which the message had come there.

    The keys after the first one are those of its header CC.
    """

    queue: str
    exchange: str
    routing_keys: tuple[str, ...]


def origin_of(properties: Properties) -> Origin | None:
    """Return the origin of a dead letter; `None` for a message without a readable x-death."""
    headers = properties.headers
    found = None if headers is None else headers.get("x-death")
    deaths = [each for each in found if isinstance(each, Mapping)] if isinstance(found, Sequence) else []
    if headers is None or not deaths:
        return None
    queue, reason = headers.get("x-first-death-queue"), headers.get("x-first-death-reason")
    # The newest entry is the first one, and entries move to the front when they are counted again.
    first = next((each for each in deaths if (each.get("queue"), each.get("reason")) == (queue, reason)), deaths[-1])
    name, exchange, keys = first.get("queue"), first.get("exchange"), _texts(first.get("routing-keys"))
    if not isinstance(name, str) or not isinstance(exchange, str) or not keys:
        return None
    return Origin(name, exchange, keys)


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(each for each in value if isinstance(each, str)) if isinstance(value, Sequence) else ()

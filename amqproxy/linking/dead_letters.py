"""History of a dead letter, from the headers that RabbitMQ adds: x-death, x-first-death-queue and -reason."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from amqproxy.taps.trace.events import MessageProperties, encoded_headers


class DeadLetter(msgspec.Struct, frozen=True, gc=False):
    """A message that was dead-lettered `count` times, the last time from `queue` for `reason`.

    `routes` are the exchanges and routing keys that the message had in the queues where it died, the first one first: a
    client may have published it again in between, with the headers of its earlier deaths.
    """

    count: int
    queue: str
    reason: str
    routes: tuple[tuple[str, str], ...]


def dead_letter(properties: MessageProperties) -> DeadLetter | None:
    """Return the history of a dead letter; `None` for other messages."""
    headers = properties.headers
    if headers is None or b"x-death" not in encoded_headers(properties):
        return None  # the usual case, in which nothing is decoded
    found = headers.get("x-death")
    deaths = [each for each in found if isinstance(each, Mapping)] if isinstance(found, Sequence) else []
    if not deaths:
        return None
    queue, reason = headers.get("x-first-death-queue"), headers.get("x-first-death-reason")
    # The newest is the first, and entries move to the front when they are counted again.
    first = [each for each in deaths if each.get("queue") == queue and each.get("reason") == reason]
    routes = dict.fromkeys(route for each in (*first, *reversed(deaths)) if (route := _route(each)) is not None)
    return DeadLetter(
        count=sum(each["count"] for each in deaths if isinstance(each.get("count"), int)),
        queue=_text(deaths[0].get("queue")),
        reason=_text(deaths[0].get("reason")),
        routes=tuple(routes),
    )


def _route(death: Mapping[str, Any]) -> tuple[str, str] | None:
    exchange, keys = death.get("exchange"), death.get("routing-keys")
    if not isinstance(exchange, str) or not isinstance(keys, Sequence) or not keys or not isinstance(keys[0], str):
        return None
    return exchange, keys[0]


def returns_to_queue(properties: MessageProperties) -> int:
    """Return how often a quorum queue has got the message back: its header x-delivery-count."""
    headers = properties.headers
    if headers is None or b"x-delivery-count" not in encoded_headers(properties):
        return 0
    count = headers.get("x-delivery-count")
    return count if isinstance(count, int) else 0


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""

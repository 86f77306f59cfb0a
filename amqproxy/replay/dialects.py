"""The protocols that replays play."""

from __future__ import annotations

from amqproxy.capture.decoded import Decoded
from amqproxy.replay.amqp010.dialect import Amqp010ReplayDialect
from amqproxy.replay.amqp091.dialect import Amqp091ReplayDialect
from amqproxy.replay.dialect import ReplayDialect
from amqproxy.replay.steps import Step

_USUAL: ReplayDialect = Amqp091ReplayDialect()

DIALECTS: dict[str, ReplayDialect] = {each.name: each for each in (_USUAL, Amqp010ReplayDialect())}


def dialect_of(first: Decoded | Step) -> ReplayDialect:
    """Return the dialect of a connection by its first part; that of 0-9-1 if this does not name a protocol."""
    return DIALECTS.get(getattr(first, "protocol", ""), _USUAL)

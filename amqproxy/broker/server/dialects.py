"""The protocols that clients of the broker may speak: the only place in this room that lists them."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from amqproxy.amqp010.protocol_header import NAME as AMQP010
from amqproxy.amqp091.protocol_header import LIKE_0_9_1
from amqproxy.broker.amqp010.connection import Amqp010Connection
from amqproxy.broker.amqp010.orphan_recovery import recover_orphans
from amqproxy.broker.amqp010.transaction_recovery import TransactionRecovery
from amqproxy.broker.amqp091.connection import Amqp091Connection
from amqproxy.broker.connections.client_connection import ClientConnection
from amqproxy.broker.server.amqp010.reading import Amqp010Reading
from amqproxy.broker.server.amqp091.reading import Amqp091Reading
from amqproxy.broker.server.reading import Reading
from amqproxy.taps.metrics import Metrics

__all__ = [
    "FIRST",
    "Dialect",
    "TransactionRecovery",
    "recover_orphans",
    "spoken",
]  # two of them for `persistence`


class Dialect(NamedTuple):
    """One protocol: what serves its clients, and what reads their frames once more for taps and counters."""

    connection: Callable[..., ClientConnection]
    reading: Callable[[Metrics | None], Reading]


FIRST = Dialect(Amqp091Connection, Amqp091Reading)
"""Serves each client until its protocol header is known, and those whose protocol is unknown: it answers them."""

_OTHERS = {AMQP010: Dialect(Amqp010Connection, Amqp010Reading)}


def spoken(protocol: str) -> Dialect | None:
    """Return the dialect of a protocol header's name; None for a protocol that the broker does not speak."""
    return FIRST if protocol in LIKE_0_9_1 else _OTHERS.get(protocol)

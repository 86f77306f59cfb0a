"""The protocols whose sessions and broker connections the control socket lists."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from amqproxy.amqp010.protocol_header import NAME as AMQP010
from amqproxy.amqp091.protocol_header import NAME as AMQP091
from amqproxy.broker.amqp010.connection import Amqp010Connection
from amqproxy.broker.amqp010.transaction_branch import TransactionBranch
from amqproxy.broker.amqp091.connection import Amqp091Connection
from amqproxy.control.amqp010 import broker_entries as amqp010_broker
from amqproxy.control.amqp010 import entries as amqp010
from amqproxy.control.amqp091 import broker_entries as amqp091_broker
from amqproxy.control.amqp091 import entries as amqp091

Entry = dict[str, Any]


class SessionDialect(NamedTuple):
    """Functions that make the protocol-specific part of entries from a session's traffic."""

    connection: Callable[[Any], Entry]
    channels: Callable[[Any], Iterator[Entry]]
    consumers: Callable[[Any], Iterator[Entry]]


class BrokerDialect(NamedTuple):
    """Functions that make the protocol-specific part of entries from a connection to the broker."""

    protocol: str
    state: Callable[[Any], str]
    mechanism: Callable[[Any], str]
    limits: Callable[[Any], Entry]
    held: Callable[[Any], Entry]
    """Numbers of the connection's consumers, unsettled deliveries and exclusive queues."""
    channels: Callable[[Any, Any], Iterator[Entry]]
    """Entries of the channels of a `ServedConnection`, and its connection."""
    consumers: Callable[[Any], Iterator[Entry]]
    counts: Callable[[Any], Iterator[tuple[int, tuple[int, ...]]]]
    """Number of each channel of a connection, with its message counts in the order of `COUNTS`."""


SESSIONS = {
    AMQP091: SessionDialect(amqp091.connection, amqp091.channels, amqp091.consumers),
    AMQP010: SessionDialect(amqp010.connection, amqp010.channels, amqp010.consumers),
}

_BROKER = {
    kind: BrokerDialect(
        *(protocol, part.state, part.mechanism, part.limits, part.held, part.channels, part.consumers, part.counts)
    )
    for kind, protocol, part in (
        (Amqp091Connection, AMQP091, amqp091_broker),
        (Amqp010Connection, AMQP010, amqp010_broker),
    )
}


def broker_dialect(connection: object) -> BrokerDialect:
    """Return the dialect of a connection to the broker."""
    return next(dialect for kind, dialect in _BROKER.items() if isinstance(connection, kind))


def broker_protocols() -> list[str]:
    """Return the names of the protocols whose clients the broker may have."""
    return [dialect.protocol for dialect in _BROKER.values()]


def branch_entry(branch: object) -> Entry | None:
    """Return the entry of a branch of a distributed transaction; None if its protocol lists none."""
    return amqp010_broker.branch_entry(branch) if isinstance(branch, TransactionBranch) else None

"""State tables of AMQP 0-9-1: the legal sender of each method in each state, and its replies.

Sections 1.4 to 1.9 for the methods, 2.2.4 for a connection, 1.5.2 for a channel. `connection.Connection` walks these
tables.
"""

from __future__ import annotations

from enum import StrEnum

from amqproxy.amqp091.methods import BY_NAME
from amqproxy.peer import CLIENT as CLIENT
from amqproxy.peer import SERVER as SERVER
from amqproxy.peer import Peer as Peer


class ConnectionState(StrEnum):
    """State of a connection, named after the last event."""

    NEW = "new"
    GREETED = "greeted"
    STARTED = "started"
    ANSWERED = "answered"
    CHALLENGED = "challenged"
    TUNED = "tuned"
    AGREED = "agreed"
    OPENING = "opening"
    OPEN = "open"
    CLOSED_BY_CLIENT = "closed by client"
    CLOSED_BY_SERVER = "closed by server"
    CLOSED_BY_BOTH = "closed by both"
    CLOSED = "closed"


class ChannelState(StrEnum):
    """State of a channel; a closed channel has no state."""

    OPENING = "opening"
    OPEN = "open"
    CLOSED_BY_CLIENT = "closed by client"
    CLOSED_BY_SERVER = "closed by server"
    CLOSED_BY_BOTH = "closed by both"


HANDSHAKE: dict[ConnectionState, dict[tuple[Peer, str], ConnectionState]] = {
    ConnectionState.NEW: {(CLIENT, "protocol-header"): ConnectionState.GREETED},
    ConnectionState.GREETED: {
        (SERVER, "connection.start"): ConnectionState.STARTED,
        (SERVER, "protocol-header"): ConnectionState.CLOSED,  # the version that it would have accepted
    },
    ConnectionState.STARTED: {(CLIENT, "connection.start-ok"): ConnectionState.ANSWERED},
    ConnectionState.ANSWERED: {
        (SERVER, "connection.secure"): ConnectionState.CHALLENGED,
        (SERVER, "connection.tune"): ConnectionState.TUNED,
    },
    ConnectionState.CHALLENGED: {(CLIENT, "connection.secure-ok"): ConnectionState.ANSWERED},
    ConnectionState.TUNED: {(CLIENT, "connection.tune-ok"): ConnectionState.AGREED},
    ConnectionState.AGREED: {(CLIENT, "connection.open"): ConnectionState.OPENING},
    ConnectionState.OPENING: {(SERVER, "connection.open-ok"): ConnectionState.OPEN},
    ConnectionState.OPEN: {
        (SERVER, "connection.blocked"): ConnectionState.OPEN,
        (SERVER, "connection.unblocked"): ConnectionState.OPEN,
        (CLIENT, "connection.update-secret"): ConnectionState.OPEN,
        (SERVER, "connection.update-secret-ok"): ConnectionState.OPEN,
    },
}
"""Transitions of a connection by methods on channel 0, except closing."""

MAY_CLOSE = frozenset(HANDSHAKE) - {ConnectionState.NEW, ConnectionState.GREETED}
"""States in which either side may send connection.close."""

HAS_CHANNELS = frozenset({ConnectionState.OPENING, ConnectionState.OPEN})
"""States in which channels may be used: a client need not wait for connection.open-ok."""

CONNECTION_CLOSING: dict[ConnectionState, dict[tuple[Peer, str], ConnectionState]] = {
    ConnectionState.CLOSED_BY_CLIENT: {
        (SERVER, "connection.close-ok"): ConnectionState.CLOSED,
        (SERVER, "connection.close"): ConnectionState.CLOSED_BY_BOTH,
    },
    ConnectionState.CLOSED_BY_SERVER: {
        (CLIENT, "connection.close-ok"): ConnectionState.CLOSED,
        (CLIENT, "connection.close"): ConnectionState.CLOSED_BY_BOTH,
    },
    ConnectionState.CLOSED_BY_BOTH: {
        (CLIENT, "connection.close-ok"): ConnectionState.CLOSED_BY_CLIENT,
        (SERVER, "connection.close-ok"): ConnectionState.CLOSED_BY_SERVER,
    },
    ConnectionState.CLOSED: {},
}

CHANNEL_CLOSING: dict[ChannelState, dict[tuple[Peer, str], ChannelState | None]] = {
    ChannelState.OPENING: {
        (SERVER, "channel.open-ok"): ChannelState.OPEN,
        (CLIENT, "channel.close"): ChannelState.CLOSED_BY_CLIENT,
        (SERVER, "channel.close"): ChannelState.CLOSED_BY_SERVER,
    },
    ChannelState.OPEN: {
        (CLIENT, "channel.close"): ChannelState.CLOSED_BY_CLIENT,
        (SERVER, "channel.close"): ChannelState.CLOSED_BY_SERVER,
    },
    ChannelState.CLOSED_BY_CLIENT: {
        (SERVER, "channel.close-ok"): None,
        (SERVER, "channel.close"): ChannelState.CLOSED_BY_BOTH,
    },
    ChannelState.CLOSED_BY_SERVER: {
        (CLIENT, "channel.close-ok"): None,
        (CLIENT, "channel.close"): ChannelState.CLOSED_BY_BOTH,
    },
    ChannelState.CLOSED_BY_BOTH: {
        (CLIENT, "channel.close-ok"): ChannelState.CLOSED_BY_CLIENT,
        (SERVER, "channel.close-ok"): ChannelState.CLOSED_BY_SERVER,
    },
}
"""Transitions of a channel; `None` is its end, after which its number may be used again."""

REPLIES: dict[str, tuple[str, ...]] = {
    "connection.update-secret": ("connection.update-secret-ok",),
    "channel.flow": ("channel.flow-ok",),
    "access.request": ("access.request-ok",),
    "exchange.declare": ("exchange.declare-ok",),
    "exchange.delete": ("exchange.delete-ok",),
    "exchange.bind": ("exchange.bind-ok",),
    "exchange.unbind": ("exchange.unbind-ok",),
    "queue.declare": ("queue.declare-ok",),
    "queue.bind": ("queue.bind-ok",),
    "queue.purge": ("queue.purge-ok",),
    "queue.delete": ("queue.delete-ok",),
    "queue.unbind": ("queue.unbind-ok",),
    "basic.qos": ("basic.qos-ok",),
    "basic.consume": ("basic.consume-ok",),
    "basic.cancel": ("basic.cancel-ok",),
    "basic.get": ("basic.get-ok", "basic.get-empty"),
    "basic.recover": ("basic.recover-ok",),
    "basic.credit": ("basic.credit-ok",),
    "confirm.select": ("confirm.select-ok",),
    "tx.select": ("tx.select-ok",),
    "tx.commit": ("tx.commit-ok",),
    "tx.rollback": ("tx.rollback-ok",),
}
"""Replies to each request, unless it has `no_wait`."""

ANSWERS = {reply: request for request, replies in REPLIES.items() for reply in replies}
"""Request of each reply."""

_BOTH = frozenset(Peer)
_BY_CLIENT = frozenset({CLIENT})
_BY_SERVER = frozenset({SERVER})

_SENT_BY_BOTH = {
    "connection.close",
    "connection.close-ok",
    "channel.flow",
    "channel.flow-ok",
    "channel.close",
    "channel.close-ok",
    "basic.cancel",
    "basic.cancel-ok",
    "basic.ack",
    "basic.nack",
}
_SENT_BY_SERVER = {
    "connection.start",
    "connection.secure",
    "connection.tune",
    "connection.open-ok",
    "connection.blocked",
    "connection.unblocked",
    "channel.open-ok",
    "basic.return",
    "basic.deliver",
    "basic.credit-drained",
}


def _senders(name: str) -> frozenset[Peer]:
    if name in _SENT_BY_BOTH:
        return _BOTH
    if name in _SENT_BY_SERVER or name in ANSWERS:
        return _BY_SERVER
    return _BY_CLIENT


SENDERS: dict[str, frozenset[Peer]] = {name: _senders(name) for name in BY_NAME}
"""Legal senders of each method."""

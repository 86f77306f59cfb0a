"""Who may send which method, in which state, and what answers it: AMQP 0-9-1 as tables.

Sections 1.4 to 1.9 for the methods, 2.2.4 for the connection's life, 1.5.2 for a channel's. The
machine that walks these tables is `connection.Connection`.
"""

from __future__ import annotations

from enum import StrEnum

from amqproxy.amqp091.methods import BY_NAME


class Peer(StrEnum):
    """One of the two that a connection joins; each frame has one of them as its sender."""

    CLIENT = "client"
    SERVER = "server"

    @property
    def other(self) -> Peer:
        return Peer.SERVER if self is Peer.CLIENT else Peer.CLIENT


CLIENT, SERVER = Peer.CLIENT, Peer.SERVER


class State(StrEnum):
    """Where a connection is in its life; a name says what happened last."""

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
    """Where a channel is in its life; a channel that is closed is no more."""

    OPENING = "opening"
    OPEN = "open"
    CLOSED_BY_CLIENT = "closed by client"
    CLOSED_BY_SERVER = "closed by server"
    CLOSED_BY_BOTH = "closed by both"


HANDSHAKE: dict[State, dict[tuple[Peer, str], State]] = {
    State.NEW: {(CLIENT, "protocol-header"): State.GREETED},
    State.GREETED: {
        (SERVER, "connection.start"): State.STARTED,
        (SERVER, "protocol-header"): State.CLOSED,  # the versions that it would have taken
    },
    State.STARTED: {(CLIENT, "connection.start-ok"): State.ANSWERED},
    State.ANSWERED: {
        (SERVER, "connection.secure"): State.CHALLENGED,
        (SERVER, "connection.tune"): State.TUNED,
    },
    State.CHALLENGED: {(CLIENT, "connection.secure-ok"): State.ANSWERED},
    State.TUNED: {(CLIENT, "connection.tune-ok"): State.AGREED},
    State.AGREED: {(CLIENT, "connection.open"): State.OPENING},
    State.OPENING: {(SERVER, "connection.open-ok"): State.OPEN},
    State.OPEN: {
        (SERVER, "connection.blocked"): State.OPEN,
        (SERVER, "connection.unblocked"): State.OPEN,
        (CLIENT, "connection.update-secret"): State.OPEN,
        (SERVER, "connection.update-secret-ok"): State.OPEN,
    },
}
"""What moves a connection on channel 0, but for the closing below."""

MAY_CLOSE = frozenset(HANDSHAKE) - {State.NEW, State.GREETED}
"""The states in which either side may send connection.close."""

HAS_CHANNELS = frozenset({State.OPENING, State.OPEN})
"""The states in which channels may be used: a client need not wait for connection.open-ok."""

CONNECTION_CLOSING: dict[State, dict[tuple[Peer, str], State]] = {
    State.CLOSED_BY_CLIENT: {
        (SERVER, "connection.close-ok"): State.CLOSED,
        (SERVER, "connection.close"): State.CLOSED_BY_BOTH,
    },
    State.CLOSED_BY_SERVER: {
        (CLIENT, "connection.close-ok"): State.CLOSED,
        (CLIENT, "connection.close"): State.CLOSED_BY_BOTH,
    },
    State.CLOSED_BY_BOTH: {
        (CLIENT, "connection.close-ok"): State.CLOSED_BY_CLIENT,
        (SERVER, "connection.close-ok"): State.CLOSED_BY_SERVER,
    },
    State.CLOSED: {},
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
"""What moves a channel; None is the end of it, when its number may be used again."""

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
"""The methods that are answered, when they do not say `no_wait`, and by what."""

ANSWERS = {reply: request for request, replies in REPLIES.items() for reply in replies}
"""What each reply answers."""

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
"""Who may send each method."""

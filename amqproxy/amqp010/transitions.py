"""State tables of AMQP 0-10: the legal sender of each control and command in each state.

Section 4.3 for the protocol headers, 9.1 for a connection, 3.5 and 9.2 for a session on a channel. They are walked by
`connection.Connection` and `channel.Channel`.
"""

from __future__ import annotations

from enum import StrEnum

from amqproxy.amqp010 import commands, controls
from amqproxy.amqp010.methods import BY_NAME
from amqproxy.peer import CLIENT, SERVER, Peer


class ConnectionState(StrEnum):
    """State of a connection, named after the last event."""

    NEW = "new"
    GREETED = "greeted"
    NEGOTIATED = "negotiated"
    STARTED = "started"
    ANSWERED = "answered"
    CHALLENGED = "challenged"
    TUNED = "tuned"
    AGREED = "agreed"
    OPENING = "opening"
    OPEN = "open"
    REDIRECTED = "redirected"
    CLOSED_BY_CLIENT = "closed by client"
    CLOSED_BY_SERVER = "closed by server"
    CLOSED_BY_BOTH = "closed by both"
    CLOSED = "closed"


class SessionState(StrEnum):
    """State of a session on the channel that it is, or was, attached to."""

    ATTACHING_BY_CLIENT = "attaching by client"
    ATTACHING_BY_SERVER = "attaching by server"
    ATTACHED = "attached"
    DETACHING_BY_CLIENT = "detaching by client"
    DETACHING_BY_SERVER = "detaching by server"
    DETACHING_BY_BOTH = "detaching by both"
    CUT_BY_CLIENT = "cut by client"
    CUT_BY_SERVER = "cut by server"
    DETACHED = "detached"


HANDSHAKE: dict[ConnectionState, dict[tuple[Peer, str], ConnectionState]] = {
    ConnectionState.NEW: {(CLIENT, "protocol-header"): ConnectionState.GREETED},
    ConnectionState.GREETED: {
        (SERVER, "protocol-header"): ConnectionState.NEGOTIATED,
        (SERVER, "other-protocol-header"): ConnectionState.CLOSED,  # a version that it would have accepted
    },
    ConnectionState.NEGOTIATED: {(SERVER, "connection.start"): ConnectionState.STARTED},
    ConnectionState.STARTED: {(CLIENT, "connection.start-ok"): ConnectionState.ANSWERED},
    ConnectionState.ANSWERED: {
        (SERVER, "connection.secure"): ConnectionState.CHALLENGED,
        (SERVER, "connection.tune"): ConnectionState.TUNED,
    },
    ConnectionState.CHALLENGED: {(CLIENT, "connection.secure-ok"): ConnectionState.ANSWERED},
    ConnectionState.TUNED: {(CLIENT, "connection.tune-ok"): ConnectionState.AGREED},
    ConnectionState.AGREED: {(CLIENT, "connection.open"): ConnectionState.OPENING},
    ConnectionState.OPENING: {
        (SERVER, "connection.open-ok"): ConnectionState.OPEN,
        (SERVER, "connection.redirect"): ConnectionState.REDIRECTED,
    },
    ConnectionState.OPEN: {},
    ConnectionState.REDIRECTED: {},
}
"""Transitions of a connection, except closing."""

MAY_CLOSE = frozenset(HANDSHAKE) - {ConnectionState.NEW, ConnectionState.GREETED}
"""States in which either side may send connection.close, on any channel."""

HAS_CHANNELS = frozenset({ConnectionState.OPEN})
"""States in which channels may be used: unlike in 0-9-1, a client must wait for connection.open-ok."""

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

ATTACHMENT: dict[SessionState, dict[tuple[Peer, str], SessionState]] = {
    SessionState.ATTACHING_BY_CLIENT: {
        (CLIENT, "session.attach"): SessionState.ATTACHING_BY_CLIENT,
        (SERVER, "session.attached"): SessionState.ATTACHED,
        (SERVER, "session.detached"): SessionState.CUT_BY_SERVER,
        (CLIENT, "session.detach"): SessionState.DETACHING_BY_CLIENT,
    },
    SessionState.ATTACHING_BY_SERVER: {
        (SERVER, "session.attach"): SessionState.ATTACHING_BY_SERVER,
        (CLIENT, "session.attached"): SessionState.ATTACHED,
        (CLIENT, "session.detached"): SessionState.CUT_BY_CLIENT,
        (SERVER, "session.detach"): SessionState.DETACHING_BY_SERVER,
    },
    SessionState.ATTACHED: {
        (CLIENT, "session.attach"): SessionState.ATTACHED,  # repeated, which is idempotent
        (SERVER, "session.attach"): SessionState.ATTACHED,
        (CLIENT, "session.attached"): SessionState.ATTACHED,
        (SERVER, "session.attached"): SessionState.ATTACHED,
        (CLIENT, "session.detach"): SessionState.DETACHING_BY_CLIENT,
        (SERVER, "session.detach"): SessionState.DETACHING_BY_SERVER,
        (CLIENT, "session.detached"): SessionState.CUT_BY_CLIENT,
        (SERVER, "session.detached"): SessionState.CUT_BY_SERVER,
    },
    SessionState.DETACHING_BY_CLIENT: {
        (SERVER, "session.attached"): SessionState.DETACHING_BY_CLIENT,  # to the attach before the detach
        (SERVER, "session.detached"): SessionState.DETACHED,
        (SERVER, "session.detach"): SessionState.DETACHING_BY_BOTH,
    },
    SessionState.DETACHING_BY_SERVER: {
        (CLIENT, "session.attached"): SessionState.DETACHING_BY_SERVER,
        (CLIENT, "session.detached"): SessionState.DETACHED,
        (CLIENT, "session.detach"): SessionState.DETACHING_BY_BOTH,
    },
    SessionState.DETACHING_BY_BOTH: {
        (CLIENT, "session.detached"): SessionState.DETACHING_BY_CLIENT,
        (SERVER, "session.detached"): SessionState.DETACHING_BY_SERVER,
    },
    SessionState.CUT_BY_CLIENT: {
        (SERVER, "session.detach"): SessionState.DETACHED,
        (SERVER, "session.detached"): SessionState.DETACHED,
    },
    SessionState.CUT_BY_SERVER: {
        (CLIENT, "session.detach"): SessionState.DETACHED,
        (CLIENT, "session.detached"): SessionState.DETACHED,
    },
    SessionState.DETACHED: {},
}
"""Transitions of a session on a channel. "Cut by" a peer: it has sent session.detached without being asked to detach.

Commands that the other peer sends before it sees that are discarded.
"""

ATTACHES = frozenset({"session.attach", "session.attached", "session.detach", "session.detached"})
"""Controls that need no session attached to their channel (section 9.2, attachment)."""

_HANDLERS = {
    "server": frozenset({SERVER}),
    "client": frozenset({CLIENT}),
    "sender": frozenset(Peer),  # of commands, which both peers are
    "receiver": frozenset(Peer),
}


def _senders(name: str) -> frozenset[Peer]:
    method = BY_NAME[name]
    return frozenset(handler.other for role in (*method.must, *method.may) for handler in _HANDLERS[role])


ENTERED = (commands, controls)
"""Modules whose import fills BY_NAME, from which the table below is made."""

SENDERS: dict[str, frozenset[Peer]] = {name: _senders(name) for name in BY_NAME}
"""Legal senders of each control and command: the other peer of each that the specification requires to handle it."""

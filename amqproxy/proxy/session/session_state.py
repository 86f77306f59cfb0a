"""The states of a session, from its first byte to its last, as a table; docs/states.md draws it."""

from __future__ import annotations

from enum import StrEnum


class SessionState(StrEnum):
    """Where a session is in its life."""

    GREETING = "greeting"
    """The client finishes its TLS handshake and sends its protocol header."""
    DIALLING = "dialling"
    """The upstream is being connected to."""
    RELAYING = "relaying"
    """Both directions are relayed; the handshake of AMQP is a part of it."""
    TUNNELLING = "tunnelling"
    """Bytes of a protocol that we do not read are passed on."""
    DRAINING = "draining"
    """Contents in progress go on to their end, and none begins."""
    LEAVING = "leaving"
    """The client has been sent connection.close, and has its time to answer."""
    ENDING = "ending"
    """Nothing is relayed any more; both peers are sent connection.close, and answer."""
    OVER = "over"
    """Both sockets are closed."""


class SessionEvent(StrEnum):
    """What moves a session on."""

    HEADER = "protocol header"
    CONNECTED = "upstream connected"
    UNREAD = "upstream connected, another protocol"
    DRAIN = "drain"
    DRAINED = "contents complete"
    ENDED = "end"
    CLOSED = "sockets closed"


_ENDS = {SessionEvent.ENDED: SessionState.ENDING}

SESSION_TRANSITIONS: dict[SessionState, dict[SessionEvent, SessionState]] = {
    SessionState.GREETING: {SessionEvent.HEADER: SessionState.DIALLING, **_ENDS},
    SessionState.DIALLING: {
        SessionEvent.CONNECTED: SessionState.RELAYING,
        SessionEvent.UNREAD: SessionState.TUNNELLING,
        **_ENDS,
    },
    SessionState.RELAYING: {SessionEvent.DRAIN: SessionState.DRAINING, **_ENDS},
    SessionState.TUNNELLING: _ENDS,
    SessionState.DRAINING: {SessionEvent.DRAINED: SessionState.LEAVING, **_ENDS},
    SessionState.LEAVING: _ENDS,
    SessionState.ENDING: {SessionEvent.CLOSED: SessionState.OVER},
    SessionState.OVER: {},
}
"""For each state, which event leads to which other one."""


class SessionLife:
    """The state that one session is in."""

    __slots__ = ("state",)

    def __init__(self) -> None:
        self.state = SessionState.GREETING

    def move(self, event: SessionEvent) -> None:
        """Enter the next state; `KeyError` when the table knows no way."""
        self.state = SESSION_TRANSITIONS[self.state][event]

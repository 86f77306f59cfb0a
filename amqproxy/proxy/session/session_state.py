"""The states of a session, from its first byte to its last, as a table; docs/states.md draws it."""

from __future__ import annotations

from enum import StrEnum


class SessionState(StrEnum):
    """States of a session."""

    GREETING = "greeting"
    """The client finishes its TLS handshake and sends its protocol header."""
    DIALLING = "dialling"
    """The connection to the upstream is being established."""
    RELAYING = "relaying"
    """Both directions are relayed; the AMQP handshake is part of this state."""
    TUNNELLING = "tunnelling"
    """Bytes of a protocol that is not decoded are relayed."""
    DRAINING = "draining"
    """Contents in progress are completed, and no new one begins."""
    LEAVING = "leaving"
    """The client has been sent connection.close, and has limited time to answer."""
    ENDING = "ending"
    """Relaying has ended; both peers are sent connection.close, and answer."""
    OVER = "over"
    """Both sockets are closed."""


class SessionEvent(StrEnum):
    """Events that change the state of a session."""

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
"""The next state for each state and event."""


class SessionLife:
    """The current state of one session."""

    __slots__ = ("state",)

    def __init__(self) -> None:
        self.state = SessionState.GREETING

    def move(self, event: SessionEvent) -> None:
        """Enter the next state; raises `KeyError` if the table has no transition for the event."""
        self.state = SESSION_TRANSITIONS[self.state][event]

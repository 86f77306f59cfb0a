"""How RabbitMQ ends a connection after the last method."""

from __future__ import annotations

from enum import Enum, auto

CLOSING_TIME = 30.0
"""Seconds that a client has to answer connection.close, or to close its socket after close-ok."""

PENALTY = 3.0
"""Seconds until a client is cut that could not log in, or did anything else wrong before connection.open."""


class SocketClosing(Enum):
    """What becomes of the socket."""

    CLOSED = auto()
    """The client asked for it and was answered: the socket stays open until the client closes it."""
    AGREED = auto()
    """The client has agreed to our close, or speaks another protocol: we close our half."""
    REFUSED = auto()
    """Nothing more is sent or read, until the socket is closed."""
    LOST = auto()
    """It is cut at once, by a reset: what was on its way is lost, and nothing more is taken."""


def closing_time(heartbeat: int) -> float:
    """The seconds that a client has for its part in a close, as with RabbitMQ."""
    return float(heartbeat) if 0 < heartbeat < CLOSING_TIME else CLOSING_TIME

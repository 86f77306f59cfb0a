"""Socket closing after a connection's last method, and its time limits, as in RabbitMQ."""

from __future__ import annotations

from enum import Enum, auto

CLOSING_TIME = 30.0
"""Seconds within which a client must answer connection.close, or close its socket after close-ok."""

PENALTY = 3.0
"""Seconds until the broker cuts a client that failed to log in or made another error before connection.open."""


class SocketClosing(Enum):
    """The ways to close a client's socket."""

    CLOSED = auto()
    """The client asked for the close and was answered: the socket stays open until the client closes it."""
    AGREED = auto()
    """The client has agreed to the broker's close, or speaks another protocol: the broker closes its half."""
    REFUSED = auto()
    """A refused client: the broker sends and reads nothing more until it closes the socket."""
    LOST = auto()
    """Immediate reset: bytes in flight are lost, and no more input is taken."""


def closing_time(heartbeat: int) -> float:
    """Return the client's time limit for its part in a close, in seconds, as in RabbitMQ."""
    return float(heartbeat) if 0 < heartbeat < CLOSING_TIME else CLOSING_TIME

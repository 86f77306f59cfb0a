"""Settings and limits of a mock's connections."""

from __future__ import annotations

from typing import NamedTuple

HANDSHAKE_TIME = 10.0
"""Seconds that a client has until its connection is open, as with RabbitMQ."""

CLOSING_TIME = 5.0
"""Seconds that a client has to answer a close, and to close the socket then."""

MAX_HELD = 64 << 20
"""Bytes of incomplete contents that one connection may hold; more close the connection."""


class MockSettings(NamedTuple):
    """How a recording is played.

    `speed` is how many times as fast as it was recorded, 0 without any delay. Unless None, `user` is the name and the
    password that clients must log in with. If it `is_strict`, what has no answer closes the connection.
    """

    speed: float = 1.0
    user: tuple[str, str] | None = None
    is_strict: bool = False

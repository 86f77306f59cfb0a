"""Settings and limits of a mock's connections."""

from __future__ import annotations

from typing import NamedTuple

HANDSHAKE_TIME = 10.0
"""Seconds that a client has to open its connection, as with RabbitMQ."""

CLOSING_TIME = 5.0
"""Seconds that a client has to answer a close, and to close its socket."""

MAX_HELD = 64 << 20
"""Bytes of incomplete contents that one connection may hold; more close it."""


class MockSettings(NamedTuple):
    """Settings of a mock.

    `speed` is a factor on the recorded speed, 0 for no delays. Unless None, `user` is the name and the password that
    clients must log in with. If it `is_strict`, a command without an answer closes the connection, else the channel.
    """

    speed: float = 1.0
    user: tuple[str, str] | None = None
    is_strict: bool = False

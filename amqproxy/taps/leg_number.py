"""Numbers of the two connections of a session, where the records of both are read."""

from __future__ import annotations

UPSTREAM = 1 << 32
"""Difference between the number of an upstream leg and that of its client's, which are two connections."""


def shown_number(stream: int) -> int:
    """Return the number under which people know a connection: an upstream leg has that of its client's."""
    return stream % UPSTREAM

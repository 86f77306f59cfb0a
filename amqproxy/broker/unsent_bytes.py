"""Count of the bytes waiting to be sent to all clients of a broker; on the hot path of every delivery."""

from __future__ import annotations

MOST_WAITING = 512 * 1024 * 1024
"""Bytes waiting to be sent to all clients together above which each client's output limit shrinks to its share."""


class UnsentBytes:
    """The `count` of bytes waiting to be sent to all clients together, and their limit `most`."""

    def __init__(self, most: int = MOST_WAITING) -> None:
        self.count = 0
        self.most = most

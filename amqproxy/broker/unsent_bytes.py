"""How many bytes wait to be sent to all clients of a broker together. On the way of every delivery."""

from __future__ import annotations

MOST_WAITING = 512 * 1024 * 1024
"""Bytes waiting to be sent to all clients together, above which there is little room for each of them."""


class UnsentBytes:
    """Bytes that wait to be sent to all clients together, of which there are to be no more than `most`."""

    def __init__(self, most: int = MOST_WAITING) -> None:
        self.count = 0
        self.most = most

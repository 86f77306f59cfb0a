"""Connections whose login was refused, kept open for a while before they are cut, to slow down password guessing."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

L = TypeVar("L")

MOST_OF_ADDRESS = 100
"""Refused connections kept for one address; beyond that, the oldest is cut."""

MOST = 1000
"""Refused connections kept for all addresses together; beyond that, the oldest is cut."""


class RefusedLogins(Generic[L]):
    """Refused connections by address; `cut` is called with each that exceeds the limits.

    This bounds the connections of a client that tries many passwords at once, without affecting other clients.
    """

    def __init__(self, cut: Callable[[L], None], *, most_of_address: int = MOST_OF_ADDRESS, most: int = MOST) -> None:
        self._cut = cut
        self._most_of_address = most_of_address
        self._most = most
        self._kept: OrderedDict[L, str] = OrderedDict()
        self._by_address: dict[str, OrderedDict[L, None]] = {}

    def __len__(self) -> int:
        return len(self._kept)

    def add(self, connection: L, address: str) -> None:
        """Add a connection whose login was just refused, and cut the oldest one beyond the limits."""
        self._kept[connection] = address
        theirs = self._by_address.setdefault(address, OrderedDict())
        theirs[connection] = None
        if len(theirs) > self._most_of_address:
            self._cut_first(theirs)
        elif len(self._kept) > self._most:
            self._cut_first(self._kept)

    def _cut_first(self, connections: OrderedDict[L, None] | OrderedDict[L, str]) -> None:
        connection = next(iter(connections))
        self.discard(connection)
        self._cut(connection)

    def discard(self, connection: L) -> None:
        """Remove a connection, if it is kept."""
        address = self._kept.pop(connection, None)
        if address is not None:
            theirs = self._by_address[address]
            del theirs[connection]
            if not theirs:
                del self._by_address[address]

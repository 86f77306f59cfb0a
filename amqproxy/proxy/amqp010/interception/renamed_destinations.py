"""Subscriptions of one session that rules have given another destination at the broker."""

from __future__ import annotations

from amqproxy.proxy.interception.queued_bytes import QueuedBytes

ENTRY_COST = 512
"""Bytes of memory that one destination takes, about, besides both names."""


class RenamedDestinations:
    """The broker's destinations by the client's, from message.subscribe to message.cancel; they count for `load`.

    Their number is bounded with that of the session's subscriptions.
    """

    __slots__ = ("_load", "_names")

    def __init__(self, load: QueuedBytes) -> None:
        self._load = load
        self._names: dict[str, str] = {}

    def __len__(self) -> int:
        return len(self._names)

    def get(self, destination: str) -> str | None:
        """The name at the broker; None where that is the client's."""
        return self._names.get(destination)

    def add(self, destination: str, renamed: str) -> None:
        """Note the names of a subscription, which begins."""
        self.remove(destination)
        if renamed != destination:
            self._names[destination] = renamed
            self._load.add(_cost(destination, renamed))

    def remove(self, destination: str) -> None:
        """Forget a subscription, which is cancelled."""
        renamed = self._names.pop(destination, None)
        if renamed is not None:
            self._load.remove(_cost(destination, renamed))

    def clear(self) -> None:
        """Forget all: the session has ended."""
        for destination in list(self._names):
            self.remove(destination)


def _cost(destination: str, renamed: str) -> int:
    return ENTRY_COST + len(destination) + len(renamed)

"""Subscriptions of one session to which rules have given another destination at the broker."""

from __future__ import annotations

from amqproxy.proxy.interception.queued_bytes import QueuedBytes

ENTRY_COST = 512
"""Approximate bytes of memory for one destination, besides both names."""


class RenamedDestinations:
    """The broker's destinations by the client's, from message.subscribe to message.cancel, charged to `load`.

    Their number is bounded by that of the session's subscriptions.
    """

    __slots__ = ("_load", "_names")

    def __init__(self, load: QueuedBytes) -> None:
        self._load = load
        self._names: dict[str, str] = {}

    def __len__(self) -> int:
        return len(self._names)

    def get(self, destination: str) -> str | None:
        """Return the destination at the broker; `None` if it is the client's."""
        return self._names.get(destination)

    def add(self, destination: str, renamed: str) -> None:
        """Record both destinations of a new subscription."""
        self.remove(destination)
        if renamed != destination:
            self._names[destination] = renamed
            self._load.add(_cost(destination, renamed))

    def remove(self, destination: str) -> None:
        """Forget a cancelled subscription."""
        renamed = self._names.pop(destination, None)
        if renamed is not None:
            self._load.remove(_cost(destination, renamed))

    def clear(self) -> None:
        """Forget all subscriptions, at the end of the session."""
        for destination in list(self._names):
            self.remove(destination)


def _cost(destination: str, renamed: str) -> int:
    return ENTRY_COST + len(destination) + len(renamed)

"""How many spans may be open or wait to be exported, and how many bytes they may take."""

from __future__ import annotations

from threading import Lock


class SpanBudget:
    """`most` spans in `memory` bytes, of all connections; the thread that exports gives back what it has exported."""

    __slots__ = ("_lock", "_memory", "_most", "_size", "_spans")

    def __init__(self, most: int, memory: int) -> None:
        self._most = most
        self._memory = memory
        self._spans = 0
        self._size = 0
        self._lock = Lock()

    @property
    def spans(self) -> int:
        """How many there are."""
        return self._spans

    def take(self, cost: int, spans: int, size: int) -> bool:
        """Take room for one more span of `cost` bytes, for a connection that has so many, in `size` bytes.

        No connection may have more than is left free for the others: one that leaves many messages open does not take
        the others' spans.
        """
        with self._lock:
            if spans >= self._most - self._spans or size + cost > self._memory - self._size:
                return False
            self._spans += 1
            self._size += cost
        return True

    def give(self, spans: int, size: int) -> None:
        """Give back what was taken for spans."""
        with self._lock:
            self._spans -= spans
            self._size -= size

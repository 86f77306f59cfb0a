"""Limits on the number and the memory of the spans that are open or wait to be exported."""

from __future__ import annotations

from threading import Lock


class SpanBudget:
    """Budget of `most` spans in `memory` bytes for all connections; the exporting thread returns their room."""

    __slots__ = ("_lock", "_memory", "_most", "_size", "_spans")

    def __init__(self, most: int, memory: int) -> None:
        self._most = most
        self._memory = memory
        self._spans = 0
        self._size = 0
        self._lock = Lock()

    @property
    def spans(self) -> int:
        """Number of spans taken."""
        return self._spans

    def take(self, cost: int, spans: int, size: int) -> bool:
        """Take room for a span of `cost` bytes; return whether it fits. Its connection has `spans` of `size` bytes.

        No connection may have more than is left free for the others, so that one that leaves many messages open does
        not use up their spans.
        """
        with self._lock:
            if spans >= self._most - self._spans or size + cost > self._memory - self._size:
                return False
            self._spans += 1
            self._size += cost
        return True

    def give(self, spans: int, size: int) -> None:
        """Return the room of `spans` spans of `size` bytes together."""
        with self._lock:
            self._spans -= spans
            self._size -= size

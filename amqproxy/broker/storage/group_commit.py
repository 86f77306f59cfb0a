"""Group commit: the time for which a batch gathers before it is committed.

A message that is consumed before the commit is never written and is confirmed at once; one that waits is confirmed
later. So a batch gathers only if that has spared the disk most of the last messages, and only if many come together.
"""

from __future__ import annotations

PATIENCE = 0.05
"""Seconds for which a batch gathers, if that pays."""

FEW, SMALL = 32, 128 * 1024
"""Messages, and bytes of them, that are written at once: their publisher may wait for the confirm before the next."""

PROBE = 16
"""While gathering does not pay, one of this many batches gathers to probe whether it does again."""


class GroupCommit:
    """Adaptive gathering time, learned from past batches; `rows` and `spared` are a `Journal`'s counts."""

    def __init__(self) -> None:
        self._rows = 0
        self._spared = 0
        self._hurried = 0

    def patience(self, rows: int, waiting_bytes: int) -> float:
        """Return the seconds for which the batch should gather, counted from its first message."""
        is_little = rows - self._rows < FEW and waiting_bytes < SMALL
        return 0.0 if is_little or self._hurried % PROBE else PATIENCE

    def taken(self, rows: int, spared: int) -> None:
        """Learn from a taken batch whether the next one should gather."""
        came, went = rows - self._rows, spared - self._spared
        self._rows, self._spared = rows, spared
        if came > 1:
            self._hurried = 0 if 2 * went >= came else self._hurried + 1

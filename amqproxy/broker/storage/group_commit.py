"""How long to collect a batch before it is committed.

A message that is used before that never goes there at all, and is confirmed at once; one that waits is confirmed the
later. So a batch is waited for where that has spared the disk most of the last ones, and only where many come together.
"""

from __future__ import annotations

PATIENCE = 0.05
"""Seconds that a batch gathers, if it is worth it."""

FEW, SMALL = 32, 128 * 1024
"""Messages, and bytes of them, that are written at once: their publisher may wait for the confirm before the next."""

PROBE = 16
"""Where it is not worth it, each one of so many batches is to find out whether it is by now."""


class GroupCommit:
    """Learns from what became of each batch; `rows` and `spared` are a `Journal`'s counts."""

    def __init__(self) -> None:
        self._rows = 0
        self._spared = 0
        self._hurried = 0

    def patience(self, rows: int, waiting_bytes: int) -> float:
        """Seconds from its first message on that the batch, which has so many bytes by now, is to gather."""
        is_little = rows - self._rows < FEW and waiting_bytes < SMALL
        return 0.0 if is_little or self._hurried % PROBE else PATIENCE

    def taken(self, rows: int, spared: int) -> None:
        """A batch is taken: is the next one to be waited for?"""
        came, went = rows - self._rows, spared - self._spared
        self._rows, self._spared = rows, spared
        if came > 1:
            self._hurried = 0 if 2 * went >= came else self._hurried + 1

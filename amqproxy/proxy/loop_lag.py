"""How late the event loop is: how long a task waits for its turn after its time has come."""

from __future__ import annotations

from collections import deque

KEPT = 60
"""Samples that are remembered; there is one a second."""


class LoopLag:
    """Samples of the delay, in seconds."""

    def __init__(self) -> None:
        self._samples: deque[float] = deque(maxlen=KEPT)

    def note(self, seconds: float) -> None:
        """A task was resumed so long after its time."""
        self._samples.append(max(0.0, seconds))

    @property
    def last(self) -> float:
        """The newest sample; 0 where there is none."""
        return self._samples[-1] if self._samples else 0.0

    @property
    def most(self) -> float:
        """The largest of the last minute."""
        return max(self._samples, default=0.0)

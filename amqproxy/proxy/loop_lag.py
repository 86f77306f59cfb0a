"""Lag of the event loop: how late tasks are resumed after their time."""

from __future__ import annotations

from collections import deque

KEPT = 60
"""Number of samples kept; one is taken every second."""


class LoopLag:
    """Recent samples of the lag, in seconds."""

    def __init__(self) -> None:
        self._samples: deque[float] = deque(maxlen=KEPT)

    def note(self, seconds: float) -> None:
        """Record that a task was resumed `seconds` after its time."""
        self._samples.append(max(0.0, seconds))

    @property
    def last(self) -> float:
        """The newest sample; 0 if there is none."""
        return self._samples[-1] if self._samples else 0.0

    @property
    def most(self) -> float:
        """The largest sample of the last minute."""
        return max(self._samples, default=0.0)

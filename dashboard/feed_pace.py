"""How fast a proxy's packets are asked for: so that to show them takes a bounded part of the processor."""

from __future__ import annotations

import time
from collections.abc import Callable

SHARE = 0.25
"""The part of a processor that the dashboard takes for what passes, where more passes than it could show."""

SAMPLING_SHARE = 0.05
"""The same where far more passes: of that, some is shown as an example."""

FAR_MORE = 5
"""How many times as much as could be shown is far more than that."""

WINDOW = 1.0
"""Seconds, at least, over which that is found out; after two of them without a loss, it is over."""

BURST = 0.3
"""Seconds of work that may be done at once, after it was quiet."""

LONGEST_PAUSE = 0.25
"""Seconds after which more is asked for, whatever it has taken: else what others ask of us could keep us from it."""

LATE = 0.4
"""Seconds that what is read may be old."""

PATIENCE = 0.3
"""Seconds after which what is late is skipped, if it is late still: a machine may keep us from work for a while."""

PATIENT_BATCHES = 8
"""Batches that are read meanwhile: of so few, where there are no more, nothing has to be skipped."""

FRESH = 0.1
"""Seconds that what is read next is old at most, after that."""


class FeedPace:
    """The pace of one feed. `spent` is how much of the processor its thread has taken.

    `shown` and `lost` count frames: they are to be raised by who reads it.
    """

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, spent: Callable[[], float] = time.thread_time
    ) -> None:
        self._clock = clock
        self._spent = spent
        self.shown = self.lost = 0
        self.share = SHARE
        self._judged_at, self._spent_by_then = clock(), spent()
        self._allowed = BURST
        self._at = clock()
        self._spent_before = spent()
        self._late_since: float | None = None
        self._late_batches = 0

    def pause(self) -> float:
        """How long to wait now until more is asked for."""
        now, spent = self._clock(), self._spent()
        if now - self._judged_at >= (WINDOW if self.lost else 2 * WINDOW):
            self._judge(now, spent)
        earned = self._allowed + (now - self._at) * self.share
        self._allowed = max(min(earned, BURST) - (spent - self._spent_before), -LONGEST_PAUSE * self.share)
        self._at, self._spent_before = now, spent
        return max(0.0, -self._allowed / self.share)

    def _judge(self, now: float, spent: float) -> None:
        """Is it far more that passes than could be shown, by what each that was shown has taken?"""
        passed = self.shown + self.lost
        could_take, took = SHARE * (now - self._judged_at), spent - self._spent_by_then
        is_far_more = self.lost and passed * took > FAR_MORE * could_take * self.shown
        self.share = SAMPLING_SHARE if is_far_more else SHARE
        self._judged_at, self._spent_by_then = now, spent
        self.shown = self.lost = 0

    def max_age(self, behind: float) -> float | None:
        """How old what comes next may be, where what came last was so many seconds old; None: as old as it is."""
        if behind <= LATE:
            self._late_since, self._late_batches = None, 0
            return None
        now = self._clock()
        if self._late_since is None:
            self._late_since = now
        self._late_batches += 1
        if self._late_batches < PATIENT_BATCHES or now - self._late_since < PATIENCE:
            return None
        self._late_since, self._late_batches = None, 0
        return FRESH

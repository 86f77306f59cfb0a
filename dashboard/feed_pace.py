"""Pace at which a proxy's packets are requested, so that showing them takes a bounded share of the processor."""

from __future__ import annotations

import time
from collections.abc import Callable

SHARE = 0.25
"""Share of a processor that showing traffic may take, if more traffic passes than can be shown."""

SAMPLING_SHARE = 0.05
"""Share of a processor if far more traffic passes than can be shown, so that only samples of it are shown."""

FAR_MORE = 5
"""Ratio of the passing traffic to the traffic that can be shown, beyond which it counts as far more."""

WINDOW = 1.0
"""Minimum time in seconds over which an overload is judged; after twice that time without a loss, it is over."""

BURST = 0.3
"""Seconds of processor time that may be used at once after a quiet period."""

LONGEST_PAUSE = 0.25
"""Longest pause in seconds, whatever the work has cost: otherwise the cost of other requests could stop the feed."""

LATE = 0.4
"""Lag in seconds beyond which a batch counts as late."""

PATIENCE = 0.3
"""Seconds that a lag must last before packets are skipped, since the machine may suspend this process briefly."""

PATIENT_BATCHES = 8
"""Minimum number of late batches before packets are skipped; a smaller backlog is read without skipping."""

PATIENT_FRAMES = 512
"""Minimum number of frames in these batches; one large message fills hundreds of batches with few frames."""

FRESH = 0.1
"""Maximum lag in seconds right after packets were skipped."""


class FeedPace:
    """Pace of one feed; `spent` returns the processor time of its thread.

    The feed's reader increments `shown` and `lost`, which count frames, and `took`, the processor time of those shown.
    """

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, spent: Callable[[], float] = time.thread_time
    ) -> None:
        self._clock = clock
        self._spent = spent
        self.shown = self.lost = 0
        self.took = 0.0
        self.share = SHARE
        self._judged_at = clock()
        self._allowed = BURST
        self._at = clock()
        self._spent_before = spent()
        self._late_since: float | None = None
        self._late_batches = self._late_from = 0

    def pause(self) -> float:
        """Return the seconds to wait before the next request."""
        now, spent = self._clock(), self._spent()
        if now - self._judged_at >= (WINDOW if self.lost else 2 * WINDOW):
            self._judge(now)
        earned = self._allowed + (now - self._at) * self.share
        self._allowed = max(min(earned, BURST) - (spent - self._spent_before), -LONGEST_PAUSE * self.share)
        self._at, self._spent_before = now, spent
        return max(0.0, -self._allowed / self.share)

    def _judge(self, now: float) -> None:
        """Choose the share of the processor, by the cost of each frame shown and the number of frames that passed.

        Only `took` counts: a feed that shows few frames would otherwise charge them with the dashboard's fixed costs,
        take its frames for expensive ones, and never leave the lower share again.
        """
        passed, could_take = self.shown + self.lost, SHARE * (now - self._judged_at)
        is_far_more = self.lost and passed * self.took > FAR_MORE * could_take * self.shown
        self.share = SAMPLING_SHARE if is_far_more else SHARE
        self._judged_at = now
        self.shown = self.lost = 0
        self.took = 0.0

    def max_age(self, behind: float, frames: int) -> float | None:
        """Return the maximum lag of the next batch in seconds, after one `behind` seconds late; `None` for no limit.

        `frames` is the number of frames received since the start.
        """
        if behind <= LATE:
            self._late_since, self._late_batches = None, 0
            return None
        now = self._clock()
        if self._late_since is None:
            self._late_since, self._late_from = now, frames
        self._late_batches += 1
        is_short = self._late_batches < PATIENT_BATCHES or frames - self._late_from < PATIENT_FRAMES
        if is_short or now - self._late_since < PATIENCE:
            return None
        self._late_since, self._late_batches = None, 0
        return FRESH

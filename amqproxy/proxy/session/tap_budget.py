"""Limits on the time that sessions spend showing frames to taps that may miss some."""

from __future__ import annotations

SHARE = 0.2
"""Share of all time, for all sessions together."""

OWN_SHARE = 0.01
"""Share of all time guaranteed to one session, even when the others use up the common budget."""

BURST = 0.05
"""Seconds that may be spent at once, after a period of little use."""

_OWN_BURST = BURST * OWN_SHARE / SHARE


class TapBudget:
    """A time budget that refills steadily: `share` seconds a second, up to `burst` seconds."""

    __slots__ = ("_burst", "_left", "_share", "_since")

    def __init__(self, share: float = SHARE, burst: float = BURST) -> None:
        self._share = share
        self._burst = burst
        self._left = burst
        self._since = 0.0

    def take(self, seconds: float, now: float) -> None:
        """Charge seconds to the budget, which may become negative."""
        self._refill(now)
        self._left -= seconds

    def has_left(self, now: float) -> bool:
        """Whether any time is left."""
        self._refill(now)
        return self._left > 0

    def is_full(self, now: float) -> bool:
        """Whether the budget has refilled to its burst."""
        self._refill(now)
        return self._left >= self._burst

    def _refill(self, now: float) -> None:
        if now > self._since:
            self._left = min(self._burst, self._left + self._share * (now - self._since))
            self._since = now


class TapShare:
    """One session's use of the common budget.

    While it `is_hidden`, no frame of the session is shown: `frames_before` is the number of frames that had passed when
    that began.
    """

    __slots__ = ("_common", "_counted_until", "_own", "frames_before", "is_hidden")

    def __init__(self, common: TapBudget) -> None:
        self._common = common
        self._own = TapBudget(OWN_SHARE, _OWN_BURST)
        self._counted_until = 0.0
        self.is_hidden = False
        self.frames_before = 0

    def spend(self, began: float, now: float) -> bool:
        """Charge the time since `began` for showing frames; return whether showing must pause."""
        seconds = now - max(began, self._counted_until)
        self._counted_until = now
        self._common.take(seconds, now)
        self._own.take(min(seconds, _OWN_BURST), now)  # longer only if the system took the processor away
        return not (self._common.has_left(now) or self._own.has_left(now))

    def may_show(self, now: float) -> bool:
        """Whether there is time to show frames again."""
        return self._own.is_full(now) or self._common.has_left(now)

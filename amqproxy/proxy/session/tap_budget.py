"""How much time sessions may take to show frames to taps that may miss some."""

from __future__ import annotations

SHARE = 0.2
"""Of all time, for all sessions together."""

OWN_SHARE = 0.01
"""Of all time, for one session: also while others use up all there is."""

BURST = 0.05
"""Seconds that may be used at once, after a while in which little was."""

_OWN_BURST = BURST * OWN_SHARE / SHARE


class TapBudget:
    """Time that is given back steadily: `share` of it, up to `burst` seconds."""

    __slots__ = ("_burst", "_left", "_share", "_since")

    def __init__(self, share: float = SHARE, burst: float = BURST) -> None:
        self._share = share
        self._burst = burst
        self._left = burst
        self._since = 0.0

    def take(self, seconds: float, now: float) -> None:
        """Use some, be it there or not."""
        self._refill(now)
        self._left -= seconds

    def has_left(self, now: float) -> bool:
        """Is there any?"""
        self._refill(now)
        return self._left > 0

    def is_full(self, now: float) -> bool:
        """Is all there that may be?"""
        self._refill(now)
        return self._left >= self._burst

    def _refill(self, now: float) -> None:
        if now > self._since:
            self._left = min(self._burst, self._left + self._share * (now - self._since))
            self._since = now


class TapShare:
    """One session's use of the budget that it shares with all others.

    While it `is_hidden`, nothing of the session is shown: `frames_before` is what had passed when that began.
    """

    __slots__ = ("_common", "_counted_until", "_own", "frames_before", "is_hidden")

    def __init__(self, common: TapBudget) -> None:
        self._common = common
        self._own = TapBudget(OWN_SHARE, _OWN_BURST)
        self._counted_until = 0.0
        self.is_hidden = False
        self.frames_before = 0

    def spend(self, began: float, now: float) -> bool:
        """Frames that came at `began` have been shown by now; is it time to show no more for a while?"""
        seconds = now - max(began, self._counted_until)
        self._counted_until = now
        self._common.take(seconds, now)
        self._own.take(min(seconds, _OWN_BURST), now)  # a turn is shorter, unless the system took the processor away
        return not (self._common.has_left(now) or self._own.has_left(now))

    def may_show(self, now: float) -> bool:
        """Is there time again?"""
        return self._own.is_full(now) or self._common.has_left(now)

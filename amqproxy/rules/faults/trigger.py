"""On which occasions a fault happens, of all that there are."""

from __future__ import annotations

from collections.abc import Callable


class Trigger:
    """Counts the occasions of one rule, or of one session under it, and how often it made use of them."""

    __slots__ = ("_begun", "_happened", "_seen")

    def __init__(self) -> None:
        self._seen = 0
        self._happened = 0
        self._begun = 0.0

    def is_due(
        self,
        now: float,
        random: Callable[[], float],
        *,
        probability: float = 1.0,
        nth: int = 1,
        count: int | None = None,
        duration: float | None = None,
    ) -> bool:
        """Is it to happen on this occasion? From the `nth` on (the first is 1), `count` times at most (None: always),
        for `duration` seconds from the first occasion there was, and then by chance."""
        self._seen += 1
        if self._seen == 1:
            self._begun = now
        if self._seen < nth or (count is not None and self._happened >= count):
            return False
        if duration is not None and now >= self._begun + duration:
            return False
        if probability < 1 and random() >= probability:
            return False
        self._happened += 1
        return True

"""Selection of the occasions on which a fault happens."""

from __future__ import annotations

from collections.abc import Callable


class Trigger:
    """Counter of the occasions of a rule or of one session, and of the faults that happened."""

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
        every: int = 1,
        count: int | None = None,
        duration: float | None = None,
    ) -> bool:
        """Count an occasion, and return whether the fault happens on it.

        It happens from the `nth` occasion on (the first is 1), then on each `every`-th after it, at most `count` times
        (`None`: always), for `duration` seconds from the first occasion, with `probability`.
        """
        self._seen += 1
        if self._seen == 1:
            self._begun = now
        if self._seen < nth or (count is not None and self._happened >= count):
            return False
        if (self._seen - nth) % every:
            return False
        if duration is not None and now >= self._begun + duration:
            return False
        if probability < 1 and random() >= probability:
            return False
        self._happened += 1
        return True

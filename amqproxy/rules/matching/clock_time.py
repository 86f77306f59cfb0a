"""Times of the day and days of the week in which a rule holds."""

from __future__ import annotations

import re
from typing import Literal

import msgspec

Weekday = Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"]
WEEKDAYS: tuple[Weekday, ...] = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")

DAY = 86_400
"""Seconds of a day."""

_OFFSET = re.compile(r"([+-])(\d\d):(\d\d)")


class ClockTime(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, rename={"start": "from"}):
    """The time from `start` until just before `to`, HH:MM or HH:MM:SS, on `days`; over midnight if `to` comes first.

    The time is UTC, shifted by `offset` ("+02:00"), without summer time. A period that begins on one of the days and
    spans midnight ends on the next.
    """

    start: str | int = "00:00"
    to: str | int = "24:00"
    days: tuple[Weekday, ...] = WEEKDAYS
    offset: str = "+00:00"

    def __post_init__(self) -> None:
        for key, value in (("from", self.start), ("to", self.to)):
            try:
                seconds_of_day(value)
            except ValueError as error:
                raise ValueError(f".{key}: {error}") from None
        if not self.days:
            raise ValueError(".days: the list is empty: leave it out, or name a day")
        if _OFFSET.fullmatch(self.offset) is None:
            raise ValueError(f".offset: `{self.offset}` is not of the form +02:00")

    def holds(self, time: float) -> bool:
        """Whether `time`, in seconds since 1970, is in the period."""
        days, second = divmod(int(time) + self._ahead, DAY)
        start, to = seconds_of_day(self.start), seconds_of_day(self.to)
        if start < to:
            return start <= second < to and self._is_meant(days)
        return (second >= start and self._is_meant(days)) or (second < to and self._is_meant(days - 1))

    @property
    def _ahead(self) -> int:
        form = _OFFSET.fullmatch(self.offset)
        assert form is not None  # checked by __post_init__
        return (-1 if form[1] == "-" else 1) * (int(form[2]) * 3600 + int(form[3]) * 60)

    def _is_meant(self, days: int) -> bool:
        return WEEKDAYS[(days + 3) % 7] in self.days  # 1970-01-01 was a Thursday


def seconds_of_day(text: str | int) -> int:
    """Return the seconds from midnight to HH:MM or HH:MM:SS; 24:00 is the end of the day."""
    if isinstance(text, int):
        raise ValueError("YAML reads an unquoted time as a number: put it in quotes")
    parts = text.split(":")
    if len(parts) not in (2, 3) or not all(len(part) == 2 and part.isascii() and part.isdigit() for part in parts):
        raise ValueError(f"`{text}` is not of the form HH:MM or HH:MM:SS")
    hours, minutes, seconds = (*map(int, parts), 0)[:3]
    total = hours * 3600 + minutes * 60 + seconds
    if minutes > 59 or seconds > 59 or total > DAY:
        raise ValueError(f"there is no {text} in a day")
    return total

"""The time span that is shown: `--start` and `--end`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

import msgspec

from amqproxy.capture.decoded import Decoded

SECOND = 1_000_000_000
DAY = 86_400 * SECOND

_CLOCK = re.compile(r"(?P<hour>\d{1,2}):(?P<minute>\d\d)(?::(?P<second>\d\d)(?:\.(?P<part>\d{1,9}))?)?", re.ASCII)
_SECONDS = re.compile(r"(?P<sign>\+?)(?P<seconds>\d{1,12})(?:\.(?P<part>\d{1,9}))?", re.ASCII)
_FRACTION = re.compile(r"(?<=:\d\d)\.(\d{1,9})", re.ASCII)


class Moment(msgspec.Struct, frozen=True):
    """A time as it was written: in nanoseconds since 1970, since the day began, or since the capture began."""

    ns: int
    since: str = "1970"

    def at(self, first_ns: int) -> int:
        """Return the moment in nanoseconds since 1970, in a capture that begins at `first_ns`."""
        if self.since == "1970":
            return self.ns
        return self.ns + (first_ns if self.since == "capture" else first_ns - first_ns % DAY)


def moment(text: str) -> Moment:
    """Parse a moment: 2026-01-31T10:59:05.5 (UTC, or with an offset), 10:59:05.5, 1769857145.5, or +2.5 (seconds).

    `ValueError` for anything else.
    """
    text = text.strip()
    found = _CLOCK.fullmatch(text)
    if found:
        hour, minute, second = (int(found[name] or 0) for name in ("hour", "minute", "second"))
        if hour < 24 and minute < 60 and second < 60:
            return Moment(((hour * 60 + minute) * 60 + second) * SECOND + _nanoseconds(found["part"]), "day")
    found = _SECONDS.fullmatch(text)
    if found:
        ns = int(found["seconds"]) * SECOND + _nanoseconds(found["part"])
        return Moment(ns, "capture" if found["sign"] else "1970")
    try:
        part = _FRACTION.search(text)
        date = datetime.fromisoformat(_FRACTION.sub("", text, count=1))
    except ValueError:
        raise ValueError(
            f"{text!r} is not a time: write 2026-01-31T10:59:05.5 (UTC), 10:59:05.5 (of the first day), "
            "1769857145.5 (since 1970) or +2.5 (seconds after the first frame)"
        ) from None
    aware = date if date.tzinfo else date.replace(tzinfo=UTC)
    since = aware - datetime(1970, 1, 1, tzinfo=UTC)
    return Moment((since.days * 86_400 + since.seconds) * SECOND + _nanoseconds(part[1] if part else None))


def _nanoseconds(part: str | None) -> int:
    return int((part or "0").ljust(9, "0"))


class TimeWindow:
    """The time from `start` until before `end`; None is unbounded.

    Moments that do not count from 1970 are relative to the first decoded item.
    """

    def __init__(self, start: Moment | None = None, end: Moment | None = None) -> None:
        self._start, self._end = start, end
        self._start_ns: int | None = None
        self._end_ns: int | None = None
        self._is_known = False

    def begun(self, decoded: Iterable[Decoded]) -> Iterator[Decoded]:
        """Yield the input unchanged, after resolving the window from its first item."""
        for each in decoded:
            if not self._is_known:
                self._is_known = True
                self._start_ns = None if self._start is None else self._start.at(each.ts_ns)
                self._end_ns = None if self._end is None else self._end.at(each.ts_ns)
            yield each

    def holds(self, ts_ns: int) -> bool:
        """Whether a time is in the window."""
        return (self._start_ns is None or ts_ns >= self._start_ns) and (self._end_ns is None or ts_ns < self._end_ns)

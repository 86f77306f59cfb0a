"""The time that a question is about, and the earlier time that it compares with."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import msgspec

SECOND = 1_000_000_000

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(s|min|m|h|d|w)", re.ASCII)
_UNITS = {"s": 1, "m": 60, "min": 60, "h": 3600, "d": 86_400, "w": 7 * 86_400}

_BY_TIME = ("rollup_minute", "anomalies")
"""Tables whose rows have only `time`."""

_LONG = {"connections": "opened_ns", "channels": "opened_ns"}
"""Tables whose rows last: they belong to each time in which they were open."""


class Span(msgspec.Struct, frozen=True):
    """From `start_ns` on and before `end_ns`, in nanoseconds since 1970; `before_ns` begins the time compared with."""

    start_ns: int
    end_ns: int
    before_ns: int

    @property
    def earlier(self) -> Span:
        """The time compared with, as long as this one."""
        return Span(self.before_ns, self.before_ns + self.end_ns - self.start_ns, self.before_ns)

    def condition(self, table: str, when: str = "", *, has_partitions: bool = True) -> str:
        """The condition, in SQL, for rows of `table` within this time, the `earlier` one, or `all` until its end.

        With `has_partitions`, the date as the tables are stored by it is one of its columns.
        """
        if when == "earlier":
            return self.earlier.condition(table, has_partitions=has_partitions)
        start_ns = None if when == "all" else self.start_ns
        if table in _LONG:
            parts = [f"{_LONG[table]} < {self.end_ns}"]
            parts += [] if start_ns is None else [f"(closed_ns IS NULL OR closed_ns >= {start_ns})"]
            start_ns = None
        elif table in _BY_TIME:
            parts = [f"unix_micros(time) < {self.end_ns // 1000}"]
            parts += [] if start_ns is None else [f"unix_micros(time) >= {start_ns // 1000}"]
        else:
            parts = [f"ts_ns < {self.end_ns}"]
            parts += [] if start_ns is None else [f"ts_ns >= {start_ns}"]
        return " AND ".join([*parts, *([_days(start_ns, self.end_ns)] if has_partitions else [])])


def lasts(table: str) -> bool:
    """Do its rows last, and are stored by when they began?"""
    return table in _LONG


def _days(start_ns: int | None, end_ns: int) -> str:
    """The partitions, which spares reading the others."""
    last = f"date <= DATE '{_date(end_ns)}'"
    return last if start_ns is None else f"date >= DATE '{_date(start_ns)}' AND {last}"


def _date(ns: int) -> str:
    return (_EPOCH + timedelta(microseconds=ns // 1000)).date().isoformat()


def span(
    newest_ns: int,
    seconds: int,
    *,
    start_ns: int | None = None,
    end_ns: int | None = None,
    before_ns: int | None = None,
) -> Span:
    """The span from `start_ns` to `end_ns`: of so many seconds, if only one of them is given.

    With neither, it ends with the newest that was recorded, at `newest_ns`. What it is compared with is as long, and
    just before it unless `before_ns` says when it begins. `ValueError` for a span that ends before it begins.
    """
    length = seconds * SECOND
    if end_ns is None:
        end_ns = newest_ns + 1 if start_ns is None else start_ns + length
    if start_ns is None:
        start_ns = end_ns - length
    if start_ns >= end_ns:
        raise ValueError("the time asked for ends before it begins")
    return Span(start_ns, end_ns, start_ns - (end_ns - start_ns) if before_ns is None else before_ns)


def seconds_of(text: str) -> int:
    """The seconds of a duration such as 90s, 30m, 12h, 7d or 4w. `ValueError` for anything else."""
    found = _DURATION.fullmatch(text.strip())
    seconds = round(float(found[1]) * _UNITS[found[2]]) if found else 0
    if seconds <= 0:
        raise ValueError(f"{text!r} is no duration: write 30m, 12h, 7d or 4w")
    return seconds

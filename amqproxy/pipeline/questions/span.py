"""Time span of a question, and the earlier span that it compares with."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import msgspec

SECOND = 1_000_000_000

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(s|min|m|h|d|w)", re.ASCII)
_UNITS = {"s": 1, "m": 60, "min": 60, "h": 3600, "d": 86_400, "w": 7 * 86_400}

_BY_TIME = ("rollup_minute", "anomalies", "clocks")
"""Tables whose rows have only `time`."""

_LONG = {"connections": "opened_ns", "channels": "opened_ns"}
"""Tables with long-lived rows, which belong to each span in which they were open."""


class Span(msgspec.Struct, frozen=True):
    """The time from `start_ns` up to `end_ns`, exclusive, in ns since 1970; `before_ns` starts the compared span."""

    start_ns: int
    end_ns: int
    before_ns: int

    @property
    def earlier(self) -> Span:
        """The compared span, of the same length."""
        return Span(self.before_ns, self.before_ns + self.end_ns - self.start_ns, self.before_ns)

    def condition(self, table: str, when: str = "", *, has_partitions: bool = True) -> str:
        """Return the SQL condition for rows of `table` within this span, the `earlier` one, or `all` until its end.

        With `has_partitions`, the table has the partition column `date`.
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
    """Whether rows of the table are long-lived, and stored by their start."""
    return table in _LONG


def _days(start_ns: int | None, end_ns: int) -> str:
    """Return the condition on partitions, which avoids reading the others."""
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
    """Return the span from `start_ns` to `end_ns`, of the given length if only one of them is given.

    With neither, it ends with the newest record, at `newest_ns`. The compared span is just before it, unless
    `before_ns` is its start. Raise `ValueError` for a span that ends before it begins.
    """
    length = seconds * SECOND
    if end_ns is None:
        end_ns = newest_ns + 1 if start_ns is None else start_ns + length
    if start_ns is None:
        start_ns = end_ns - length
    if start_ns >= end_ns:
        raise ValueError("the time span ends before it begins")
    return Span(start_ns, end_ns, start_ns - (end_ns - start_ns) if before_ns is None else before_ns)


def seconds_of(text: str) -> int:
    """Return the seconds of a duration such as 90s, 30m, 12h, 7d or 4w; raise `ValueError` for anything else."""
    found = _DURATION.fullmatch(text.strip())
    seconds = round(float(found[1]) * _UNITS[found[2]]) if found else 0
    if seconds <= 0:
        raise ValueError(f"{text!r} is not a duration: write 30m, 12h, 7d or 4w")
    return seconds

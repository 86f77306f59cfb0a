"""Time span of a query, divided into steps, and the subject of the query."""

from __future__ import annotations

from enum import StrEnum

import msgspec

SECOND = 1_000_000_000
"""In nanoseconds."""

HOUR = 3600 * SECOND

MAX_POINTS = 3000
"""Maximum number of points of a series."""


class Step(StrEnum):
    """Length of one point of a series. Days are UTC days."""

    MINUTE = "minute"
    HOUR = "hour"
    DAY = "day"

    @property
    def ns(self) -> int:
        return {Step.MINUTE: 60 * SECOND, Step.HOUR: HOUR, Step.DAY: 24 * HOUR}[self]


class Subject(StrEnum):
    """Subject by which traffic is grouped."""

    ALL = "all"
    EXCHANGE = "exchange"
    QUEUE = "queue"
    USER = "user"
    CONNECTION = "connection"


class TooManyPoints(ValueError):
    """Raised if the steps are too small for the span; the text has the remedy."""


class Span(msgspec.Struct, frozen=True):
    """A time span, end exclusive, in steps, with the subject of the query."""

    start_ns: int
    end_ns: int
    step: Step
    by: Subject = Subject.ALL
    name: str | None = None
    virtual_host: str | None = None

    @classmethod
    def chosen(
        cls,
        start_ns: int,
        end_ns: int,
        step: Step | None,
        by: Subject = Subject.ALL,
        name: str | None = None,
        virtual_host: str | None = None,
    ) -> Span:
        """Return the span with the given step, or with a suitable one; raise `TooManyPoints`."""
        chosen = step or next((each for each in Step if (end_ns - start_ns) // each.ns <= 400), Step.DAY)
        start = start_ns // chosen.ns * chosen.ns
        if (end_ns - start) // chosen.ns > MAX_POINTS:
            raise TooManyPoints(f"a step of a {chosen} would make more than {MAX_POINTS} points: take longer steps")
        return cls(start, max(end_ns, start), chosen, by, name, virtual_host)

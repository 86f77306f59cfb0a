"""Queries for the rows of a list."""

from __future__ import annotations

import msgspec

from amqproxy.dashboard.selection import Place


class ListQuery(msgspec.Struct, frozen=True, kw_only=True):
    """At most `limit` rows: the first after `after`, else the last before `before`, else the last of all.

    Times are in nanoseconds since 1970.
    """

    filter: str | None = None
    faults: bool = False
    place: Place = Place()
    before: int | None = None
    after: int | None = None
    limit: int = 500
    start_ns: int | None = None
    end_ns: int | None = None

    def holds(self, ts_ns: int) -> bool:
        """Whether a time is in the requested range."""
        return (self.start_ns is None or ts_ns >= self.start_ns) and (self.end_ns is None or ts_ns < self.end_ns)

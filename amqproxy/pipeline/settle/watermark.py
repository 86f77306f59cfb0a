"""Watermarks: the time until which the traffic of a virtual host is known, for captures of several proxies in
batches.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

import msgspec
from pyspark.sql.types import LongType, StringType, StructType

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_MARKS = StructType().add("virtual_host", StringType()).add("known_ns", LongType()).add("late_ns", LongType())


class Watermark(msgspec.Struct, frozen=True, kw_only=True):
    """Watermark of one virtual host; times in ns since 1970."""

    known_ns: int
    """No live chain is expected to have anything earlier in a later batch."""
    late_ns: int = 0
    """Anything earlier is late: previous batches have dropped the rows that it belongs to."""
    is_behind: bool = False
    """Whether a chain is behind another."""


def watermark(horizons: Collection[int], before: Collection[int], window_ns: int) -> Watermark:
    """Return the watermark of `horizons`, the latest time in each chain, and of those `before` this batch.

    A chain that is further behind than the window counts as ended.
    """
    known_ns, known_before = _earliest(horizons, window_ns), _earliest(before, window_ns)
    return Watermark(
        known_ns=known_ns,
        late_ns=known_before - window_ns if before else 0,
        is_behind=any(each > known_ns for each in horizons),
    )


def _earliest(horizons: Collection[int], window_ns: int) -> int:
    """Return the earliest horizon within the window; 0 if there is none."""
    return min((each for each in horizons if each >= max(horizons) - window_ns), default=0)


class Watermarks:
    """Watermarks of all virtual hosts, a single one if there is one chain, and their use in SQL."""

    def __init__(self, spark: SparkSession, found: Watermark | Mapping[str | None, Watermark]) -> None:
        self.tables: dict[str, Any] = {}
        """Tables for a query with `join`."""
        if isinstance(found, Watermark):
            self.is_behind = found.is_behind
            self.known_ns, self.late_ns = f"{found.known_ns}L", f"{found.late_ns}L"
            return
        self.is_behind = any(each.is_behind for each in found.values())
        self.known_ns, self.late_ns = "m.known_ns", "m.late_ns"
        rows = [(host, each.known_ns, each.late_ns) for host, each in found.items()]
        self.tables["marks"] = spark.createDataFrame(rows, _MARKS)

    def join(self, alias: str) -> str:
        """Return the SQL join that provides `known_ns` and `late_ns` of the rows' virtual host."""
        return f"LEFT JOIN {{marks}} m ON m.virtual_host <=> {alias}.virtual_host" if self.tables else ""

"""Until when all that passed in a virtual host is known, where captures of several proxies come a batch at a time."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Watermark(msgspec.Struct, frozen=True, kw_only=True):
    """Of one virtual host; times in ns since 1970."""

    known_ns: int
    """No chain that goes on is expected to have anything earlier in a later batch."""
    late_ns: int = 0
    """Anything earlier comes later than expected: the batches before have forgotten what it belongs to."""
    is_behind: bool = False
    """Whether one of the chains is not as far as another."""


def watermark(horizons: Collection[int], before: Collection[int], window_ns: int) -> Watermark:
    """What `horizons`, the latest time in each chain, and those `before` this batch come to.

    A chain that is further behind than the window has ended.
    """
    known_ns, known_before = _earliest(horizons, window_ns), _earliest(before, window_ns)
    return Watermark(
        known_ns=known_ns,
        late_ns=known_before - window_ns if before else 0,
        is_behind=any(each > known_ns for each in horizons),
    )


def _earliest(horizons: Collection[int], window_ns: int) -> int:
    """The earliest of those that are not further behind than the window; 0 where there is none."""
    return min((each for each in horizons if each >= max(horizons) - window_ns), default=0)


class Watermarks:
    """Those of all virtual hosts, which are one where there is one chain; and how SQL reads them."""

    def __init__(self, spark: SparkSession, found: Watermark | Mapping[str | None, Watermark]) -> None:
        self.tables: dict[str, Any] = {}
        """For a query with `join`."""
        if isinstance(found, Watermark):
            self.is_behind = found.is_behind
            self.known_ns, self.late_ns = f"{found.known_ns}L", f"{found.late_ns}L"
            return
        self.is_behind = any(each.is_behind for each in found.values())
        self.known_ns, self.late_ns = "m.known_ns", "m.late_ns"
        rows = [(host, each.known_ns, each.late_ns) for host, each in found.items()]
        self.tables["marks"] = spark.createDataFrame(rows, "virtual_host STRING, known_ns LONG, late_ns LONG")

    def join(self, alias: str) -> str:
        """What a query adds to its FROM, to read `known_ns` and `late_ns` of the virtual host that rows have."""
        return f"LEFT JOIN {{marks}} m ON m.virtual_host <=> {alias}.virtual_host" if self.tables else ""

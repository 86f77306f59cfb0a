"""Small inputs in one partition, which avoids exchanges, so that a query is one stage."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amqproxy.pipeline.engine import engine_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SMALL_BYTES = 4 * 1024 * 1024
"""Size on disk up to which one core is faster than several that exchange rows, in bytes."""


def in_one_partition(*tables: DataFrame) -> tuple[DataFrame, ...] | None:
    """Return these tables with one partition each; `None` if they exceed `SMALL_BYTES` together.

    An engine without partitions has sizes of 0.
    """
    size = sum(engine_of(each).size(each) for each in tables)
    if size and size > SMALL_BYTES:
        return None
    return tuple(each.coalesce(1) for each in tables)

"""Small inputs in one partition, which avoids exchanges, so that a query is one stage."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amqproxy.pipeline.duck import duck

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SMALL_BYTES = 4 * 1024 * 1024
"""Size on disk up to which one core is faster than several that exchange rows, in bytes."""


def in_one_partition(*tables: DataFrame) -> tuple[DataFrame, ...] | None:
    """Return these tables with one partition each; `None` if they exceed `SMALL_BYTES` together.

    Without Spark there is only one.
    """
    if all(duck(each) is not None for each in tables):
        return tables
    if sum(map(_bytes, tables)) > SMALL_BYTES:
        return None
    return tuple(each.coalesce(1) for each in tables)


def _bytes(table: DataFrame) -> int:
    """Return Spark's estimate of the size of a table in bytes."""
    return int(table._jdf.queryExecution().optimizedPlan().stats().sizeInBytes())

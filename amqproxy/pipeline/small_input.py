"""Little to work on is worked on in one partition: nothing is exchanged then, so that a query is one stage."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SMALL_BYTES = 4 * 1024 * 1024
"""Up to so many bytes, as they are on the disk, one core is quicker than several that have to exchange rows."""


def in_one_partition(*tables: DataFrame) -> tuple[DataFrame, ...] | None:
    """These tables with one partition each; None if all together have more than `SMALL_BYTES`."""
    if sum(map(_bytes, tables)) > SMALL_BYTES:
        return None
    return tuple(each.coalesce(1) for each in tables)


def _bytes(table: DataFrame) -> int:
    """How much is to be read, about, as far as Spark knows."""
    return int(table._jdf.queryExecution().optimizedPlan().stats().sizeInBytes())

"""Intermediate results of a job that several queries read, computed once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amqproxy.pipeline.engine import engine_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class KeptTables:
    """Results that are kept, in memory or on disk, until `release`."""

    def __init__(self) -> None:
        self._kept: list[DataFrame] = []

    def keep(self, table: DataFrame) -> DataFrame:
        """Compute a table now, once, and drop its plan, so that plans based on it stay short.

        It is not persisted: `SparkSession.sql` drops its view of a table, and the cache with it.
        """
        kept = table.localCheckpoint()
        self._kept.append(kept)
        return kept

    def release(self) -> None:
        """Free the results; no further query may use them."""
        for each in self._kept:
            engine_of(each).free(each)
        self._kept.clear()

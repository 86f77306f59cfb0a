"""What several tables are made of is computed once, and kept until they are written."""

from __future__ import annotations

from pyspark.sql import DataFrame


class Kept:
    """DataFrames that Spark keeps when they are first computed, in memory or on disk, until they are released.

    Those of all messages only if they are `shared`: if there is more than one table of them.
    """

    def __init__(self, *, is_shared: bool) -> None:
        self._is_shared = is_shared
        self._frames: list[DataFrame] = []

    def small(self, frame: DataFrame) -> DataFrame:
        """Keep what is small: connections, channels."""
        kept = frame.persist()
        self._frames.append(kept)
        return kept

    def shared(self, frame: DataFrame) -> DataFrame:
        """Keep what has a row for each message, if it is shared."""
        return self.small(frame) if self._is_shared else frame

    def release(self) -> None:
        """Nothing more is computed from it."""
        for each in self._frames:
            each.unpersist()
        self._frames.clear()

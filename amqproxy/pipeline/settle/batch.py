"""The events of a batch and what the one before it has carried, as tables that SQL reads.

Queries are SQL text, not chains of calls: each call of DataFrame's is several into the JVM, of which settling a handful
of events took ten thousand.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame

from amqproxy.pipeline.settle.carry import OPEN
from amqproxy.pipeline.small_input import in_one_partition


class Batch:
    """The tables `events` and `carried`, and what is made of them that several others need.

    Of the last batch nothing is carried on. What is kept, Spark keeps in memory or on disk until `release` is called.
    """

    def __init__(self, events: DataFrame, carried: DataFrame | None, *, is_last: bool) -> None:
        self._spark = events.sparkSession
        self.nothing = self._spark.sql(_NOTHING)
        """A table of `carry.OPEN` without rows."""
        carried = self.nothing if carried is None else carried
        small = in_one_partition(events, carried)
        self.is_small = small is not None
        self.events, self.carried = small or (events, carried)
        self.is_last = is_last
        self._kept: list[DataFrame] = []

    def sql(self, text: str, **tables: Any) -> DataFrame:
        """The result of a query, in which `{name}` is a table, `{events}` and `{carried}` among them, or a number.

        Tables that are joined behind `{hint}` have the alias `w`, `r` or `s`.
        """
        hint = _ONE_PARTITION if self.is_small else ""
        return self._spark.sql(text.replace("{hint}", hint), events=self.events, carried=self.carried, **tables)

    def kept(self, table: DataFrame) -> DataFrame:
        """Have a table computed once, at once; how is forgotten, so that plans of what is made of it stay short.

        It is not persisted: `SparkSession.sql` drops the view that it makes of a table, and what is cached with it.
        """
        kept = table.localCheckpoint()
        self._kept.append(kept)
        return kept

    def shared(self, table: DataFrame) -> DataFrame:
        """Have a table of all messages computed once, if more than one is made of it: what is settled, what is open."""
        return table if self.is_last else self.kept(table)

    def release(self) -> None:
        """Nothing more is computed from what is kept."""
        for each in self._kept:
            each._jdf.queryExecution().logical().rdd().unpersist(False)
        self._kept.clear()


_ONE_PARTITION = "/*+ SHUFFLE_HASH(w, r, s) */"
"""Both sides of each join are in the same partition already: neither is exchanged nor broadcast."""

_NOTHING = (
    "SELECT " + ", ".join(f"CAST(NULL AS {each.dataType.simpleString()}) AS `{each.name}`" for each in OPEN.fields)
) + " WHERE false"

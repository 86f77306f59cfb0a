"""The events of a batch and what the one before it has carried, as tables that SQL reads.

Queries are SQL text, not chains of calls: each call of DataFrame's is several into the JVM, of which settling a handful
of events took ten thousand.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame

from amqproxy.pipeline.settle.carry import OPEN
from amqproxy.pipeline.small_input import in_one_partition

FEW = 500_000
"""Up to so many narrow rows, a join broadcasts them, and so exchanges nothing else."""


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

    def is_few(self, rows: int) -> bool:
        """Are these so few rows that each table with them may be broadcast?"""
        return rows <= FEW

    def sql(self, text: str, *, few: bool = False, **tables: Any) -> DataFrame:
        """The result of a query, in which `{name}` is a table, `{events}` and `{carried}` among them, or a number.

        Tables that are joined behind `{hint}` have the alias `w`, `r` or `s`. `few`: they have up to `FEW` rows each.
        """
        hint = _ONE_PARTITION if self.is_small else _BROADCAST if few else ""
        return self._spark.sql(text.replace("{hint}", hint), events=self.events, carried=self.carried, **tables)

    def kept(self, table: DataFrame) -> DataFrame:
        """Have a table computed once, at once; how is forgotten, so that plans of what is made of it stay short.

        It is not persisted: `SparkSession.sql` drops the view that it makes of a table, and what is cached with it.
        """
        kept = table.localCheckpoint()
        self._kept.append(kept)
        return kept

    def shared(self, table: DataFrame, *, is_cheap: bool = False) -> DataFrame:
        """Have a table of all messages computed once, if more than one is made of it: what is settled, what is open.

        `is_cheap`: to compute it again takes less than to keep a large one.
        """
        return table if self.is_last or (is_cheap and not self.is_small) else self.kept(table)

    def release(self) -> None:
        """Nothing more is computed from what is kept."""
        for each in self._kept:
            each._jdf.queryExecution().logical().rdd().unpersist(False)
        self._kept.clear()


_ONE_PARTITION = "/*+ SHUFFLE_HASH(w, r, s) */"
"""Both sides of each join are in the same partition already: neither is exchanged nor broadcast."""

_BROADCAST = "/*+ BROADCAST(w, r, s) */"

_NOTHING = (
    "SELECT " + ", ".join(f"CAST(NULL AS {each.dataType.simpleString()}) AS `{each.name}`" for each in OPEN.fields)
) + " WHERE false"

"""Events of a batch and rows carried from the previous one, as SQL tables.

Queries are SQL text, not chains of calls: each DataFrame call makes several calls into the JVM, and settling a handful
of events took ten thousand.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame

from amqproxy.pipeline.kept_tables import KeptTables
from amqproxy.pipeline.settle.carry import OPEN
from amqproxy.pipeline.small_input import in_one_partition

FEW = 500_000
"""Number of narrow rows up to which a join broadcasts them, and so exchanges nothing else."""


class Batch:
    """The tables `events` and `carried`, and results that several other tables need.

    The last batch carries nothing. Spark keeps shared results in memory or on disk until `release` is called.
    """

    def __init__(self, events: DataFrame, carried: DataFrame | None, *, is_last: bool) -> None:
        self._spark = events.sparkSession
        self.nothing = self._spark.sql(_NOTHING)
        """An empty table with the columns of `carry.OPEN`."""
        carried = self.nothing if carried is None else carried
        small = in_one_partition(events, carried)
        self.is_small = small is not None
        self.events, self.carried = small or (events, carried)
        self.is_last = is_last
        self._kept = KeptTables()

    def is_few(self, rows: int) -> bool:
        """Whether so few rows may be broadcast in each table."""
        return rows <= FEW

    def sql(self, text: str, *, few: bool = False, **tables: Any) -> DataFrame:
        """Return the result of a query, in which `{name}` is a table, including `{events}` and `{carried}`, or a
        number.

        Tables joined after `{hint}` have the alias `w`, `r` or `s`. `few`: they have up to `FEW` rows each.
        """
        hint = _ONE_PARTITION if self.is_small else _BROADCAST if few else ""
        return self._spark.sql(text.replace("{hint}", hint), events=self.events, carried=self.carried, **tables)

    def kept(self, table: DataFrame) -> DataFrame:
        """Compute a table now, once: see `KeptTables`."""
        return self._kept.keep(table)

    def shared(self, table: DataFrame, *, is_cheap: bool = False) -> DataFrame:
        """Compute a table of all messages once if several results need it: settled rows and open rows.

        `is_cheap`: recomputing it costs less than keeping a large one.
        """
        return table if self.is_last or (is_cheap and not self.is_small) else self.kept(table)

    def release(self) -> None:
        """Free the shared results; no further query may use them."""
        self._kept.release()


_ONE_PARTITION = "/*+ SHUFFLE_HASH(w, r, s) */"
"""The two sides of each join are in the same partition already: neither is exchanged nor broadcast."""

_BROADCAST = "/*+ BROADCAST(w, r, s) */"

_NOTHING = (
    "SELECT " + ", ".join(f"CAST(NULL AS {each.dataType.simpleString()}) AS `{each.name}`" for each in OPEN.fields)
) + " WHERE false"

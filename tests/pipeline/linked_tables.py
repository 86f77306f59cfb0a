"""The tables messages, deliveries and clocks, in memory, linked batch by batch as `jobs.link` does on disk."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from amqproxy.pipeline.links import link
from amqproxy.pipeline.links.linking import WINDOW_NS
from amqproxy.pipeline.schema import CLOCKS, DELIVERIES, MESSAGES, STORED
from amqproxy.pipeline.settle import Settled
from amqproxy.pipeline.span import HOUR

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Row = dict[str, Any]


class LinkedTables:
    """Tables to which batches are added."""

    def __init__(self, spark: SparkSession, window_ns: int = WINDOW_NS) -> None:
        self._spark = spark
        self._window_ns = window_ns
        self._batch = 0
        self.messages, self.deliveries = _empty(MESSAGES), _empty(DELIVERIES)
        self.clocks = to_arrow_schema(CLOCKS, timezone="UTC").empty_table()

    def add(self, settled: Settled) -> None:
        """Add the rows of a batch, and link."""
        self._batch += 1
        self.messages = pa.concat_tables([self.messages, self._stored(settled.messages.toArrow(), MESSAGES)])
        self.deliveries = pa.concat_tables([self.deliveries, self._stored(settled.deliveries.toArrow(), DELIVERIES)])
        messages, deliveries = self._frame(self.messages, MESSAGES), self._frame(self.deliveries, DELIVERIES)
        clocks = self._spark.createDataFrame(self.clocks, CLOCKS)
        after = None if self._batch == 1 else self._batch - 1
        linked = link(messages, deliveries, clocks, after=after, window_ns=self._window_ns)
        is_replaced = _is_in_hours(self.deliveries, linked.hours)
        again = linked.apply(self._frame(self.deliveries.filter(is_replaced), DELIVERIES)).toArrow()
        kept = self.deliveries.filter(pc.invert(is_replaced))
        self.deliveries = pa.concat_tables([kept, again.select(kept.schema.names).cast(kept.schema)])
        of_clocks = pc.is_in(
            pc.divide(self.clocks.column("time").cast(pa.int64()), 3_600_000_000),
            pa.array(linked.clock_hours, pa.int64()),
        )
        new = linked.clocks(linked.clock_hours).toArrow().select(CLOCKS.names).cast(self.clocks.schema)
        self.clocks = pa.concat_tables([self.clocks.filter(pc.invert(of_clocks)), new])
        linked.release()

    def _frame(self, rows: pa.Table, kind: StructType) -> DataFrame:
        return self._spark.createDataFrame(rows.combine_chunks(), _with_batch(kind))  # Spark stops at an empty one

    def _stored(self, rows: pa.Table, kind: StructType) -> pa.Table:
        schema = to_arrow_schema(_with_batch(kind), timezone="UTC")
        rows = rows.append_column("batch", pa.array([self._batch] * rows.num_rows, pa.int64()))
        return rows.select(schema.names).cast(schema)


def _with_batch(kind: StructType) -> StructType:
    return StructType([*kind.fields, STORED["batch"]])


def _empty(kind: StructType) -> pa.Table:
    return to_arrow_schema(_with_batch(kind), timezone="UTC").empty_table()


def _is_in_hours(rows: pa.Table, hours: frozenset[int]) -> pa.Array:
    return pc.is_in(pc.divide(rows.column("ts_ns"), HOUR), pa.array(hours, pa.int64()))

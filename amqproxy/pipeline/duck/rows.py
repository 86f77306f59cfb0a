"""Rows of a query in DuckDB, with the part of Spark's `DataFrame` that the jobs use."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa
from pyspark.sql import Row

if TYPE_CHECKING:
    import duckdb
    from pyspark.sql.types import StructType

BATCH_ROWS = 65_536
"""Rows that are handed over at a time."""


class Session(Protocol):
    """The part of a session that its rows use."""

    database: duckdb.DuckDBPyConnection

    def sql(self, text: str) -> DuckRows:
        """Return the rows of a query in Spark's dialect."""

    def made(self, query: str) -> DuckRows:
        """Return the rows of a query in DuckDB's dialect."""

    def kept(self, rows: DuckRows) -> DuckRows:
        """Compute rows now, once."""

    def table(self, found: pa.Table) -> DuckRows:
        """Return the rows of an Arrow table."""

    def empty(self, columns: StructType) -> DuckRows:
        """Return no rows with these columns."""


class DuckRows:
    """Rows of a view or table of `sparkSession`, named `view`, which are computed whenever they are asked for."""

    def __init__(self, session: Session, view: str) -> None:
        self.sparkSession = session
        self.view = view

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return [each[0] for each in self._cursor("LIMIT 0").description]

    def where(self, condition: str) -> DuckRows:
        return self._query(f"SELECT * FROM {self.view} WHERE {condition}")

    def select(self, *names: str) -> DuckRows:
        return self._query(f"SELECT {', '.join(f'`{each}`' for each in names)} FROM {self.view}")

    def unionByName(self, other: DuckRows, allowMissingColumns: bool = False) -> DuckRows:  # noqa: N802, N803
        return self._made(f"SELECT * FROM {self.view} UNION ALL BY NAME SELECT * FROM {other.view}")

    def unionAll(self, other: DuckRows) -> DuckRows:  # noqa: N802
        return self._query(f"SELECT * FROM {self.view} UNION ALL SELECT * FROM {other.view}")

    def coalesce(self, partitions: int) -> DuckRows:
        return self

    def repartition(self, *names: str) -> DuckRows:
        return self

    def sortWithinPartitions(self, *names: str) -> DuckRows:  # noqa: N802
        return self._query(f"SELECT * FROM {self.view} ORDER BY {', '.join(f'`{each}`' for each in names)}")

    def mapInArrow(  # noqa: N802
        self, function: Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]], schema: StructType
    ) -> DuckRows:
        """Return the rows that a function makes of all of these, in batches."""
        made = list(function(self.batches()))
        return self.sparkSession.table(pa.Table.from_batches(made)) if made else self.sparkSession.empty(schema)

    def localCheckpoint(self) -> DuckRows:  # noqa: N802
        """Compute the rows now, once."""
        return self.sparkSession.kept(self)

    def toArrow(self) -> pa.Table:  # noqa: N802
        return self.sparkSession.database.sql(f"SELECT * FROM {self.view}").to_arrow_table()

    def first(self) -> Row | None:
        found = self._rows("LIMIT 1")
        return found[0] if found else None

    def collect(self) -> list[Row]:
        return self._rows("")

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows as Arrow batches."""
        yield from self.sparkSession.database.sql(f"SELECT * FROM {self.view}").to_arrow_reader(BATCH_ROWS)

    def _rows(self, limit: str) -> list[Row]:
        cursor = self._cursor(limit)
        names = [each[0] for each in cursor.description]
        return [Row(**dict(zip(names, map(_as_row, values), strict=True))) for values in cursor.fetchall()]

    def _cursor(self, limit: str) -> Any:
        return self.sparkSession.database.execute(f"SELECT * FROM {self.view} {limit}")

    def _query(self, text: str) -> DuckRows:
        return self.sparkSession.sql(text.replace("{", "{{").replace("}", "}}"))

    def _made(self, text: str) -> DuckRows:
        return self.sparkSession.made(text)


def _as_row(value: Any) -> Any:
    return Row(**value) if isinstance(value, dict) else value

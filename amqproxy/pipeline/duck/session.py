"""A session on DuckDB, with the part of `SparkSession` that the jobs use."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from string import Formatter
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.dataset as ds
from duckdb.func import FunctionNullHandling, PythonUDFType
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from amqproxy.pipeline import storage
from amqproxy.pipeline.duck.dialect import MACROS, duckdb_text, regexp_replaced
from amqproxy.pipeline.duck.rows import DuckRows
from amqproxy.pipeline.source import CaptureReader, options_of

_PLACE = re.compile(r"__(\w+?)__")


class DuckSession:
    """A database in memory, with views and tables of numbered names.

    It takes at most four fifths of the machine's memory; the rest goes to the directory `spill`.
    """

    def __init__(self, *, spill: str | None = None) -> None:
        config: dict[str, Any] = {"autoinstall_known_extensions": False}
        if spill is not None:
            config["temp_directory"] = spill
        self.database = duckdb.connect(":memory:", config=config)
        self.database.execute("SET TimeZone = 'UTC'")
        for macro in MACROS:
            self.database.execute(f"CREATE TEMP MACRO {macro}")
        text = duckdb.sqltype("VARCHAR")
        self.database.create_function(
            "regexp_replaced",
            regexp_replaced,
            [text, text, text],
            text,
            type=PythonUDFType.ARROW,
            null_handling=FunctionNullHandling.SPECIAL,
        )
        self._made = 0

    def close(self) -> None:
        """Drop everything."""
        self.database.close()

    def sql(self, text: str, **tables: Any) -> DuckRows:
        """Return the rows of a query in Spark's dialect, in which `{name}` is one of the tables, or a number."""
        places = {name: f"__{name}__" for _, name, _, _ in Formatter().parse(text) if name}
        query = duckdb_text(text.format(**places))
        return self.made(_PLACE.sub(lambda found: _text(tables[found[1]]), query))

    def made(self, query: str) -> DuckRows:
        """Return the rows of a query in DuckDB's dialect; sums of integers have 64 bits, as Spark's."""
        name = self._name()
        self.database.execute(f"CREATE TEMP VIEW {name} AS {query}")
        described = self.database.execute(f"SELECT * FROM {name} LIMIT 0").description
        wide = [each[0] for each in described if each[1] == "HUGEINT"]
        if not wide:
            return DuckRows(self, name)
        narrow = ", ".join(f'CAST("{each}" AS BIGINT) AS "{each}"' for each in wide)
        return self.made(f"SELECT * REPLACE ({narrow}) FROM {name}")

    def kept(self, rows: DuckRows) -> DuckRows:
        """Compute rows now, once."""
        name = self._name()
        self.database.execute(f"CREATE TEMP TABLE {name} AS SELECT * FROM {rows.view}")
        return DuckRows(self, name)

    def table(self, found: pa.Table | ds.Dataset) -> DuckRows:
        """Return the rows of an Arrow table or dataset."""
        name = self._name()
        self.database.register(name, found)
        return DuckRows(self, name)

    def empty(self, columns: StructType) -> DuckRows:
        """Return no rows with these columns."""
        return self.table(to_arrow_schema(columns, timezone="UTC").empty_table())

    def createDataFrame(self, rows: pa.Table | list[Any], schema: StructType | None = None) -> DuckRows:  # noqa: N802
        if isinstance(rows, pa.Table):
            arrow = rows if schema is None else rows.cast(to_arrow_schema(schema, timezone="UTC"))
            return self.table(arrow)
        assert schema is not None
        named = [dict(zip(schema.names, each, strict=True)) for each in rows]
        return self.table(pa.Table.from_pylist(named, to_arrow_schema(schema, timezone="UTC")))

    def parquet(self, columns: StructType, paths: Sequence[str], *, has_partitions: bool = False) -> DuckRows:
        """Return the rows of Parquet files, or of a directory of them; a missing column is null.

        If it `has_partitions`, directories such as `hour=7` are columns.
        """
        schema = to_arrow_schema(columns, timezone="UTC")
        places = [storage.place(each) for each in paths]
        where = [each.path for each in places]
        return self.table(
            ds.dataset(
                where[0] if len(where) == 1 else where,
                schema=schema,
                format="parquet",
                filesystem=places[0].files,
                partitioning=ds.HivePartitioning(schema) if has_partitions else None,
            )
        )

    def captures(self, files: Sequence[str], options: Mapping[str, str]) -> DuckRows:
        """Return the rows of captures; `options` are those of the data source."""
        chosen = options_of({**options, "paths": json.dumps(list(files))})
        reader = CaptureReader(chosen)
        batches = (batch for partition in reader.partitions() for batch in reader.read(partition))
        schema = to_arrow_schema(chosen.schema, timezone="UTC")
        name = self._name()
        self.database.register(f"{name}_read", pa.RecordBatchReader.from_batches(schema, batches))
        self.database.execute(f"CREATE TEMP TABLE {name} AS SELECT * FROM {name}_read")
        self.database.unregister(f"{name}_read")
        return DuckRows(self, name)

    def _name(self) -> str:
        self._made += 1
        return f"rows_{self._made}"


def _text(value: Any) -> str:
    return value.view if isinstance(value, DuckRows) else str(value)

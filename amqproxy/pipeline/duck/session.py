"""A session on DuckDB, with the part of `SparkSession` that the jobs use."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from string import Formatter
from tempfile import TemporaryDirectory
from typing import Any
from uuid import uuid4

import duckdb
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import ArrayType, DataType, StructType, TimestampType

from amqproxy.pipeline import storage
from amqproxy.pipeline.duck.functions import create_functions
from amqproxy.pipeline.duck.processes import cores, spread
from amqproxy.pipeline.duck.rows import DuckRows
from amqproxy.pipeline.duck.translations import Translations
from amqproxy.pipeline.engine import Work
from amqproxy.pipeline.source import CapturePartition, CaptureReader, SourceOptions, options_of

_PLACE = re.compile(r"__(\w+?)__")
_PATTERNS = re.compile(r"[*?\[]")
_SUM = re.compile(r"\b(?:list_)?sum\(", re.IGNORECASE)

LEAST_BYTES = 16 * 1024 * 1024
"""Size of captures from which several processes read them: each takes a second to start."""

MAX_PARTITIONS = 1_000_000
"""Maximum of hours that are written at a time."""


class DuckSession:
    """A database in memory, with views and tables of numbered names; an `Engine` of the jobs.

    It takes at most four fifths of the machine's memory; the rest goes to a temporary directory, in `directory` if that
    is given.
    """

    def __init__(self, directory: str | None = None) -> None:
        self._directory = TemporaryDirectory(prefix="amqproxy-pipeline-", dir=directory)
        config: dict[str, Any] = {
            "autoinstall_known_extensions": False,
            "temp_directory": f"{self._directory.name}/spilled",
        }
        self.database = duckdb.connect(":memory:", config=config)
        self.database.execute("SET TimeZone = 'UTC'")
        create_functions(self.database)
        self._translations = Translations()
        self._made = 0
        self._progress: tuple[int, int] | None = None

    def close(self) -> None:
        """Drop everything."""
        self._translations.keep()
        self.database.close()
        self._directory.cleanup()

    def sql(self, text: str, **tables: Any) -> DuckRows:
        """Return the rows of a query in Spark's dialect, in which `{name}` is one of the tables, or a number."""
        places = {name: f"__{name}__" for _, name, _, _ in Formatter().parse(text) if name}
        query = self._translations.of(text.format(**places))
        return self.made(_PLACE.sub(lambda found: _text(tables[found[1]]), query))

    def made(self, query: str) -> DuckRows:
        """Return the rows of a query in DuckDB's dialect; sums of integers have 64 bits, as Spark's."""
        name = self._name()
        self.database.execute(f"CREATE TEMP VIEW {name} AS {query}")
        if _SUM.search(query) is None:  # to ask for the types costs as much again
            return DuckRows(self, name)
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

    # --- as an engine of the jobs

    def parquet(self, columns: StructType | None, paths: Sequence[str], table: str | None = None) -> DuckRows:
        if storage.is_remote(paths[0]):
            return self._by_arrow(columns, paths, table)
        files = [str(file) for path in map(Path, paths) for file in _files_of(path)]
        if not files:
            assert columns is not None
            return self.empty(columns)
        listed = ", ".join(map(_file, files))
        has_partitions = str(table is not None).lower()
        read = f"read_parquet([{listed}], union_by_name = true, hive_partitioning = {has_partitions})"
        if columns is None:
            return self.made(f"SELECT * FROM {read}")
        found = {each[0] for each in self.database.execute(f"SELECT * FROM {read} LIMIT 0").description}
        values = {each.name: f'"{each.name}"' if each.name in found else "NULL" for each in columns}
        chosen = ", ".join(f'CAST({values[each.name]} AS {_type(each.dataType)}) AS "{each.name}"' for each in columns)
        return self.made(f"SELECT {chosen} FROM {read}")

    def _by_arrow(self, columns: StructType | None, paths: Sequence[str], table: str | None) -> DuckRows:
        """Return columns of files in a bucket, which DuckDB would need an extension for."""
        schema = None if columns is None else to_arrow_schema(columns, timezone="UTC")
        places = [storage.place(each) for each in paths]
        where = [each.path for each in places]
        return self.table(
            ds.dataset(
                where[0] if len(where) == 1 else where,
                schema=schema,
                format="parquet",
                filesystem=places[0].files,
                partitioning=None if table is None else ds.partitioning(flavor="hive", schema=schema),
            )
        )

    def captures(self, files: Sequence[str], options: Mapping[str, str]) -> DuckRows:
        chosen = options_of({**options, "paths": json.dumps(list(files))})
        tasks = CaptureReader(chosen).partitions()
        directory = f"{self._directory.name}/{self._name()}"
        Path(directory).mkdir()
        read = self.spread(partial(_read, chosen, directory), tasks)
        if not read:
            return self.empty(chosen.schema)
        return self.table(ds.dataset(read, to_arrow_schema(chosen.schema, timezone="UTC"), format="ipc"))

    def write(self, rows: DuckRows, path: str, columns: StructType, partitions: Sequence[str] = ()) -> None:
        made = ", ".join(f'CAST("{each.name}" AS {_type(each.dataType)}) AS "{each.name}"' for each in columns)
        kinds = {each.name: each for each in to_arrow_schema(columns, timezone="UTC")}
        for name in partitions:
            if name not in kinds:
                made += f', "{name}"'
                kinds[name] = pa.field(name, pa.bool_())
        place, schema = storage.place(path), pa.schema(kinds.values())
        with suppress(FileNotFoundError):
            place.files.delete_dir(place.path)
        batches = self.made(f"SELECT {made} FROM {rows.view}").batches()
        if not partitions:  # there is a file even without rows
            if not storage.is_remote(path):
                place.files.create_dir(place.path)
            target = f"{place.path}/part-0.parquet"
            with pq.ParquetWriter(target, schema, compression="zstd", filesystem=place.files) as file:
                for batch in batches:
                    file.write_batch(batch.cast(schema))
            return
        parquet = ds.ParquetFileFormat()
        ds.write_dataset(
            batches,
            place.path,
            schema=schema,
            filesystem=place.files,
            format=parquet,
            file_options=parquet.make_write_options(compression="zstd"),
            partitioning=ds.partitioning(pa.schema([kinds[each] for each in partitions]), flavor="hive"),
            existing_data_behavior="overwrite_or_ignore",
            max_partitions=MAX_PARTITIONS,
            use_threads=False,
        )

    def spread(self, work: Work, tasks: Sequence[CapturePartition]) -> list[str]:
        processes = min(cores(), len(tasks))
        if processes < 2 or sum(each.size for each in tasks) < LEAST_BYTES:
            return list(work(tasks))
        found: list[str] = []
        self._progress = 0, len(tasks)
        try:
            for number, files in enumerate(spread(work, tasks, processes), 1):
                self._progress = number, len(tasks)
                found += files
        finally:
            self._progress = None
        return found

    def progress(self) -> tuple[int, int] | None:
        return self._progress

    def size(self, rows: DuckRows) -> int:
        return 0

    def free(self, rows: DuckRows) -> None:
        self.database.execute(f"DROP TABLE {rows.view} CASCADE")

    def _name(self) -> str:
        self._made += 1
        return f"rows_{self._made}"


def _read(options: SourceOptions, directory: str, partitions: Iterable[CapturePartition]) -> Iterator[str]:
    """Yield the file with the rows of each partition."""
    schema = to_arrow_schema(options.schema, timezone="UTC")
    for partition in partitions:
        path = f"{directory}/{uuid4().hex}.arrow"
        with pa.ipc.new_file(path, schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as file:
            for batch in CaptureReader(options).read(partition):
                file.write_batch(batch.cast(schema))
        yield path


def _files_of(path: Path) -> Iterable[Path]:
    """Return the Parquet files in a directory, or the file."""
    return sorted(path.rglob("*.parquet")) if path.is_dir() else (path,)


def _file(path: str) -> str:
    """Return the path of a file as text of SQL that is not read as a pattern."""
    text = _PATTERNS.sub(r"[\g<0>]", path).replace("'", "''")
    return f"'{text}'"


def _type(kind: DataType) -> str:
    """Return the DuckDB type of a column."""
    match kind:
        case TimestampType():
            return "TIMESTAMPTZ"
        case ArrayType():
            return f"{_type(kind.elementType)}[]"
        case StructType():
            fields = (f'"{each.name}" {_type(each.dataType)}' for each in kind.fields)
            return f"STRUCT({', '.join(fields)})"
    return kind.simpleString()


def _text(value: Any) -> str:
    return value.view if isinstance(value, DuckRows) else str(value)

"""Tables on disk: `DIR/messages/date=2026-11-23/hour=7/*.parquet`, readable in any notebook.

A table is read with the columns that `schema` declares: a column that is missing in a file is null in its rows.
Uncommitted files are not read. Rows are written through the ledger, which gives complete files their names.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.types import StructType

from amqproxy.pipeline import storage
from amqproxy.pipeline.engine import engine_of
from amqproxy.pipeline.ledger import Contents, Ledger, contents, is_open_file
from amqproxy.pipeline.schema import STORED, TABLES, stored

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_ORDER = {"events": ("type",)}
"""Sort order of the rows of an hour, before their time: readers of one event type then read only its pages."""

_BATCH = re.compile(r"/batch-(\d+)-")
_HOUR = re.compile(r"/date=([^/]+)/hour=(\d+)/")


class Tables:
    """Tables in a directory or bucket, as of the last commit."""

    def __init__(self, path: str) -> None:
        self.path = path.rstrip("/") or path
        self._known: Contents | None = None

    @classmethod
    def of(cls, ledger: Ledger) -> Tables:
        """Return the tables of a driver, as of its latest commit."""
        found = cls(ledger.path)
        found._known = ledger.contents
        return found

    def names(self) -> list[str]:
        """Return the names of tables with rows."""
        return sorted(name for name, files in self._contents().files.items() if files)

    def files(self, name: str) -> list[str]:
        """Return the committed files of a table, relative to the directory."""
        return self._contents().files.get(name, [])

    def read(
        self,
        spark: SparkSession,
        name: str,
        *,
        after: int = 0,
        hours: Iterable[tuple[str, int]] | None = None,
    ) -> DataFrame:
        """Return a table with its declared columns, `date`, `hour` and `batch`; empty if it has no rows.

        `after`: only rows of later batches. `hours`: only rows of these dates and hours.
        """
        wanted = None if hours is None else set(hours)
        files = [
            file for file in self.files(name) if batch_of(file) > after and (wanted is None or hour_of(file) in wanted)
        ]
        rows = self.read_files(spark, name, files)
        return rows.where(f"batch > {after}") if after else rows

    def read_files(self, spark: SparkSession, name: str, files: Sequence[str]) -> DataFrame:
        """Return some files of a table."""
        columns = _nullable(stored(TABLES[name]) if name in TABLES else STORED)
        if not files:
            return spark.createDataFrame([], columns).where("false")  # which Spark knows to be small
        paths = [f"{self.path}/{file}" for file in files]
        return engine_of(spark).parquet(columns if name in TABLES else None, paths, f"{self.path}/{name}")

    def files_with(self, name: str, chains: Collection[str]) -> list[str]:
        """Return the files of a table with rows of these chains that no later batch replaces anyway."""
        from pyarrow import dataset as ds

        files = [file for file in self.files(name) if not is_open_file(file)]
        if not files or not chains:
            return []
        where = storage.place(self.path)
        paths = {f"{where.path}/{file}": file for file in files}
        rows = ds.dataset(list(paths), format="parquet", filesystem=where.files).scanner(
            columns=["__filename"], filter=ds.field("chain").isin(list(chains))
        )
        found = {paths[path] for batch in rows.to_batches() for path in batch.column(0).unique().to_pylist()}
        return [file for file in files if file in found]

    def _contents(self) -> Contents:
        return contents(self.path) if self._known is None else self._known


def stage(
    ledger: Ledger,
    name: str,
    rows: DataFrame,
    *,
    apart: str | None = None,
    in_one_partition: bool = False,
    is_open: bool = False,
) -> None:
    """Write the rows of a table for the ledger's next batch; they stay invisible until that is committed.

    Each row goes to the hour of its `time`. Rows with a `batch` keep it. Rows for which `apart`, an SQL expression,
    holds do not become part of the table: `Ledger.staged_apart` returns their files. With `is_open`, the rows are in
    files of their own, which the next batch replaces.
    """
    batch = "batch" if "batch" in rows.columns else f"{ledger.next_batch}L"
    seconds = "coalesce(time, timestamp_seconds(0))"
    placed = {"date": f"to_date({seconds})", "hour": f"hour({seconds})", "batch": batch}
    partitions = ["date", "hour"]
    if apart is not None:
        placed["is_apart"] = apart
        partitions.insert(0, "is_apart")
    names = [*TABLES[name].names, *placed]
    columns = ", ".join(f"{placed.get(each, f'`{each}`')} AS `{each}`" for each in names)
    hint = "" if in_one_partition else f"/*+ REBALANCE({', '.join(partitions)}) */"
    order = ", ".join([*partitions, *_ORDER.get(name, ()), "time"])
    whole_hours = rows.sparkSession.sql(
        f"SELECT {hint} * FROM (SELECT {columns} FROM {{rows}}) SORT BY {order}", rows=rows
    )
    target = f"{ledger.path}/{ledger.staging_open(name) if is_open else ledger.staging(name)}"
    engine_of(rows).write(whole_hours, target, stored(TABLES[name]), partitions)


def stage_again(
    ledger: Ledger, name: str, rows: DataFrame, chains: Collection[str], *, in_one_partition: bool = False, **how: Any
) -> list[str]:
    """Stage rows, as `stage`, in place of all earlier rows of these chains; return the files that are replaced."""
    replaced = Tables.of(ledger).files_with(name, chains)
    if replaced:
        spark = rows.sparkSession
        others = without_chains(Tables.of(ledger).read_files(spark, name, replaced), chains)
        names = [*TABLES[name].names, "batch"]
        new = spark.sql(f"SELECT *, {ledger.next_batch}L AS batch FROM {{rows}}", rows=rows)
        rows = new.select(*names).unionByName(others.select(*names))
    stage(ledger, name, rows, in_one_partition=in_one_partition and not replaced, **how)
    return replaced


def only_chains(rows: DataFrame, chains: Collection[str]) -> DataFrame:
    """Return the rows of these chains."""
    return _joined(rows, "SEMI", chains)


def without_chains(rows: DataFrame, chains: Collection[str]) -> DataFrame:
    """Return the rows of other chains."""
    return _joined(rows, "ANTI", chains)


def _joined(rows: DataFrame, how: str, chains: Collection[str]) -> DataFrame:
    spark = rows.sparkSession
    names = spark.createDataFrame(pa.table({"chain": pa.array(sorted(chains), pa.string())}))
    text = f"SELECT r.* FROM {{rows}} r LEFT {how} JOIN {{names}} n ON n.chain = r.chain"
    return spark.sql(text, rows=rows, names=names)


def read_state(spark: SparkSession, columns: StructType, *paths: str) -> DataFrame:
    """Return these columns of the rows that jobs have written with `write_state`, or staged in files."""
    return engine_of(spark).parquet(columns, paths)


def write_state(rows: DataFrame, path: str, columns: StructType) -> None:
    """Write the rows that a job carries to its next run."""
    engine_of(rows).write(rows, path, columns)


def batch_of(file: str) -> int:
    """Return the batch that wrote a file."""
    found = _BATCH.search(file)
    return int(found[1]) if found else 0


def hour_of(file: str) -> tuple[str, int]:
    """Return the date and the hour of the rows in a file."""
    found = _HOUR.search(file)
    return (found[1], int(found[2])) if found else ("", 0)


def _nullable(columns: StructType) -> StructType:
    """Make all columns nullable, since old files may lack any of them."""
    return StructType([type(field)(field.name, field.dataType, True, field.metadata) for field in columns.fields])

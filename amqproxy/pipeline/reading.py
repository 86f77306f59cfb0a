"""Tables read without Spark: Arrow reads their files, DuckDB evaluates queries.

A query sees the committed rows of its hours, and has bounded time and memory. It reads only these files: DuckDB itself
cannot open any. A missing table has no rows, and a column that is missing in a file is null. Values, including file
names, are parameters of a query, never parts of its text.

Needs pyarrow and DuckDB: `amqproxy[analytics]`.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import cache
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.dataset as ds

from amqproxy.pipeline import storage
from amqproxy.pipeline.ledger import CommittedFiles, LedgerError
from amqproxy.pipeline.span import HOUR

MAX_FILES = 50_000
"""Maximum number of files that a query reads."""


NULL_ORDER = "nulls_first_on_asc_last_on_desc"
"""Place of nulls in an order, as Spark has them."""

_HOUR = re.compile(r"/date=([0-9-]+)/hour=(\d+)/")


class Unreadable(Exception):
    """Raised if the tables cannot be read, with the reason."""


class TooMuch(Unreadable):
    """Raised if a query exceeds its time or memory; the text has the remedy."""


class Reader:
    """Answers queries about the tables in a directory or bucket, also from several threads at once, within these
    bounds.
    """

    def __init__(self, path: str, *, memory: str = "256MB", threads: int = 2, seconds: float = 20.0) -> None:
        self.path = path
        self._committed_files = CommittedFiles(path)
        self._seconds = seconds
        self._config: dict[str, str | bool | int | float | list[str]] = {
            "memory_limit": memory,
            "threads": threads,
            "default_null_order": NULL_ORDER,
            "enable_external_access": False,
            "autoload_known_extensions": False,
            "autoinstall_known_extensions": False,
        }

    def names(self) -> list[str]:
        """Return the names of tables with rows; raise `Unreadable`."""
        return sorted(name for name, files in self._committed().items() if files)

    def span(self, tables: Iterable[str]) -> tuple[int, int] | None:
        """Return start and end of these tables in whole hours, in ns since 1970; raise `Unreadable`."""
        committed = self._committed()
        hours = [_hour_of(file) for table in tables for file in committed.get(table, ())]
        return (min(hours) * HOUR, (max(hours) + 1) * HOUR) if hours else None

    def query(
        self,
        text: str,
        tables: Mapping[str, pa.Schema],
        parameters: Mapping[str, Any],
        start_ns: int | None = None,
        end_ns: int | None = None,
        *,
        whole: Collection[str] = (),
    ) -> list[dict[str, Any]]:
        """Return the rows of a query over these tables' columns, from the hours between two times; raise `Unreadable`.

        The tables `whole` are read from their beginning. The query itself must select the rows within the first and the
        last hour.
        """
        starts = {name: None if name in whole else start_ns for name in tables}
        try:
            return self._query(text, tables, parameters, starts, end_ns)
        except FileNotFoundError:  # compacted or rewritten meanwhile
            with _arrow_errors(self.path):
                return self._query(text, tables, parameters, starts, end_ns)

    def _query(
        self,
        text: str,
        tables: Mapping[str, pa.Schema],
        parameters: Mapping[str, Any],
        starts: Mapping[str, int | None],
        end_ns: int | None,
    ) -> list[dict[str, Any]]:
        committed = self._committed()
        with duckdb.connect(":memory:", config=self._config) as database:
            for name, schema in tables.items():
                files = [file for file in committed.get(name, ()) if _is_between(_hour_of(file), starts[name], end_ns)]
                with _arrow_errors(self.path):
                    database.register(name, self._dataset(name, files, schema))
            timer = threading.Timer(self._seconds, database.interrupt)
            timer.start()
            try:
                found = database.execute(text, parameters)
                columns = [column[0] for column in found.description or ()]
                return [dict(zip(columns, row, strict=True)) for row in found.fetchall()]
            except duckdb.InterruptException:
                raise TooMuch(
                    f"this took more than {self._seconds:.0f} s: ask for a shorter time, or run "
                    f"`amqproxy pipeline compact --tables {self.path}`"
                ) from None
            except duckdb.OutOfMemoryException:
                limit = self._config["memory_limit"]
                raise TooMuch(f"this needs more memory than the limit of {limit}: ask for a shorter time") from None
            except (duckdb.Error, pa.ArrowException, OSError) as error:
                if "No such file" in str(error):
                    raise FileNotFoundError(str(error)) from None
                raise Unreadable(f"{self.path} cannot be read: {_first_line(error)}") from None
            finally:
                timer.cancel()

    def _dataset(self, table: str, files: Sequence[str], schema: pa.Schema) -> ds.Dataset | pa.Table:
        if len(files) > MAX_FILES:
            raise TooMuch(
                f"{table} has {len(files)} files in that time, more than {MAX_FILES}: run "
                f"`amqproxy pipeline compact --tables {self.path}`, or ask for a shorter time"
            )
        if not files:
            return schema.empty_table()
        place = storage.place(self.path)
        paths = [f"{place.path}/{file}" for file in files]
        return ds.dataset(paths, schema=schema, format="parquet", filesystem=place.files)

    def _committed(self) -> dict[str, list[str]]:
        with _arrow_errors(self.path):
            return self._committed_files.now()


def _is_between(hour: int, start_ns: int | None, end_ns: int | None) -> bool:
    return (start_ns is None or hour >= start_ns // HOUR) and (end_ns is None or hour <= (end_ns - 1) // HOUR)


@cache
def _day_of(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()) // 3600


def _hour_of(file: str) -> int:
    """Return the hour of a file's rows, in hours since 1970."""
    found = _HOUR.search(file)
    return _day_of(found[1]) + int(found[2]) if found else 0


@contextmanager
def _arrow_errors(path: str) -> Iterator[None]:
    try:
        yield
    except (OSError, pa.ArrowException, LedgerError) as error:
        raise Unreadable(f"{path} cannot be read: {_first_line(error)}") from None


def _first_line(error: BaseException) -> str:
    return next(iter(str(error).splitlines()), "") or type(error).__name__

"""Writers for the parts of a batch that come from clients: all together or, if that fails, one by one."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import Any

import msgspec

from amqproxy.broker.storage import definition_records
from amqproxy.broker.storage.batch import POSITION_BITS, JournalBatch, JournalRow, LogOwner, RejectedWrite
from amqproxy.broker.storage.packing import encoded, pack

ROWS_AT_ONCE = (2048, 256, 32, 4, 1)
"""Rows in one statement. Each statement is one struggle with the interpreter's lock, so the fewer the better."""


def insert(writer: sqlite3.Connection, table: str, width: int, rows: Sequence[Any]) -> None:
    """Insert rows, many in a statement."""
    start = 0
    marks = "(" + ", ".join("?" * width) + ")"
    for size in ROWS_AT_ONCE:
        while len(rows) - start >= size:
            values = list(chain.from_iterable(rows[start : start + size]))
            writer.execute(f"insert or replace into {table} values {', '.join([marks] * size)}", values)
            start += size


class WriteTogether:
    """Writer of the parts of a batch that come from clients, all together: if one cannot be written, none is."""

    def __init__(self, writer: sqlite3.Connection, batch: JournalBatch) -> None:
        self.writer = writer
        self.batch = batch

    def create_log(self, number: int, owner: LogOwner) -> None:
        values = number, owner.kind, encoded(owner.vhost), encoded(owner.name), owner.priority
        self.writer.execute("insert or replace into lane values (?, ?, ?, ?, ?, 0, 0, 0, 0)", values)

    def insert_bodies(self) -> None:
        insert(self.writer, "body", 2, [(number, pack(message)) for number, message in self.batch.bodies.items()])

    def insert_rows(self) -> None:
        insert(self.writer, "entry", 5, [values_of(row) for row in self.batch.rows])

    def define(self, key: str, value: definition_records.DefinitionRecord | None) -> None:
        if value is None:
            self.writer.execute("delete from definition where key = ?", (encoded(key),))
        else:
            values = encoded(key), definition_records.encode(value)
            self.writer.execute("insert or replace into definition values (?, ?)", values)


class WriteOneByOne(WriteTogether):
    """Writer of the same parts one by one, so that only unwritable parts are rejected.

    It is slow, and used after `WriteTogether` failed.
    """

    def create_log(self, number: int, owner: LogOwner) -> None:
        if (error := self._try(lambda: super(WriteOneByOne, self).create_log(number, owner))) is not None:
            lost = [row.id for row in self.batch.rows if row.id >> POSITION_BITS == number]
            self.batch.refused.extend(RejectedWrite(id_, error) for id_ in lost)

    def insert_bodies(self) -> None:
        self._bodies_refused: dict[int, Exception] = {}
        for number, message in self.batch.bodies.items():
            error = self._try(lambda: insert(self.writer, "body", 2, [(number, pack(message))]))  # noqa: B023
            if error is not None:
                self._bodies_refused[number] = error

    def insert_rows(self) -> None:
        lost = {refusal.what for refusal in self.batch.refused}
        bodies = self._bodies_refused if self.batch.bodies else {}
        for row in self.batch.rows:
            if row.id in lost:
                continue
            error = bodies.get(row.shared) if row.shared is not None else None
            error = error or self._try(lambda: insert(self.writer, "entry", 5, [values_of(row)]))  # noqa: B023
            if error is not None:
                self.batch.refused.append(RejectedWrite(row.id, error))

    def define(self, key: str, value: definition_records.DefinitionRecord | None) -> None:
        error = self._try(lambda: super(WriteOneByOne, self).define(key, value))
        if error is not None:
            self.batch.refused.append(RejectedWrite(key, error))

    def _try(self, write: Callable[[], None]) -> Exception | None:
        """Call `write` and return the error that makes the part unwritable, if any; errors of the disk are raised."""
        try:
            write()
        except Exception as error:
            if is_of_the_disk(error):
                raise
            return error
        return None


def values_of(row: JournalRow) -> tuple[Any, ...]:
    """Return the column values of a row."""
    id_, size, expires_at, shared, message, _ = row
    return id_, size, expires_at, shared, pack(message) if shared is None else None


def is_of_the_disk(error: Exception) -> bool:
    """Whether the error comes from the disk or from scarce system resources, so that a retry may succeed."""
    # SQLite reports damage as a plain `DatabaseError`, and invalid values as other subclasses.
    return isinstance(error, (sqlite3.OperationalError, OSError, MemoryError)) or type(error) is sqlite3.DatabaseError


RUN = 256
"""Length of a run of consecutive ids that is deleted by a separate statement."""


def runs(ids: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Yield first and last number of each run of consecutive numbers, in ascending order."""
    first = last = None
    for id_ in sorted(ids):
        if first is None or last is None:
            first = last = id_
        elif id_ == last + 1:
            last = id_
        else:
            yield first, last
            first = last = id_
    if first is not None and last is not None:
        yield first, last


def json_array(values: Iterable[Any]) -> str:
    return msgspec.json.encode(list(values)).decode()

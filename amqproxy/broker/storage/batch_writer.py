"""Writes the parts of a batch that come from clients: all of them together, or, where that fails, one by one."""

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
    """The parts of a batch that come from clients, written together: if one cannot be, none is."""

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
    """Writes the same one by one, so that only what cannot be written is rejected. Slow: used after `WriteTogether`
    failed.
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
        """Write something, and what keeps it from ever being written. What the disk does is raised."""
        try:
            write()
        except Exception as error:
            if is_of_the_disk(error):
                raise
            return error
        return None


def values_of(row: JournalRow) -> tuple[Any, ...]:
    """A row for its table."""
    id_, size, expires_at, shared, message, _ = row
    return id_, size, expires_at, shared, pack(message) if shared is None else None


def is_of_the_disk(error: Exception) -> bool:
    """Is it the disk, or what the system has to spare, that does not take something, and may take it later?"""
    # What SQLite finds damaged is its plain error, and what is wrong with values one of the others.
    return isinstance(error, (sqlite3.OperationalError, OSError, MemoryError)) or type(error) is sqlite3.DatabaseError


RUN = 256
"""Ids in a row that are worth a statement of their own."""


def runs(ids: Iterable[int]) -> Iterator[tuple[int, int]]:
    """The first and last of each run of successive numbers, in their order."""
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

"""The broker's memory on the disk: one SQLite database, written a batch at a time by one thread.

A batch is one transaction, and it is reported when the disk has it for good: after SIGKILL, or without power, all that
was reported is found again, and no batch in part. What cannot be written, because the disk is full or fails, is
reported, kept and tried again. What can never be written is refused by itself, and the rest of its batch is written.
A message that cannot be read any more is lost alone, too.
"""

from __future__ import annotations

import os
import queue
import sqlite3
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import Any, NamedTuple

from amqproxy.broker.storage import definition_records
from amqproxy.broker.storage.batch import (
    MAX_MESSAGE_LOGS,
    MAX_POSITION,
    POSITION_BITS,
    JournalBatch,
    LogOwner,
    LogState,
    RecoveredLog,
    RejectedWrite,
)
from amqproxy.broker.storage.batch_writer import (
    RUN,
    WriteOneByOne,
    WriteTogether,
    insert,
    is_of_the_disk,
    json_array,
    runs,
)
from amqproxy.broker.storage.data_directory import ROOM_AND_RIGHTS, StoreError, had_store, lock, mark, sync
from amqproxy.broker.storage.message_log import NEVER
from amqproxy.broker.storage.packing import DAMAGED, PackedMessage, decoded, unpack
from amqproxy.broker.storage.schema import SCHEMA
from amqproxy.process.supervision import contained

FORMAT = 3
"""Format version of the database; a newer one is not opened."""

APPLICATION_ID = 0x616D7178
NAME = "broker.sqlite"

RETRY_AFTER = 1.0
"""Seconds between two attempts to write."""

FETCH_BYTES = 1024 * 1024
"""Bytes of messages that one `fetch` brings at most, beyond the first."""

CHECKPOINT_PAGES = 1024
"""Pages in the write-ahead log, above which a commit also copies them to the database."""

SLACK_PAGES = 1024
"""Free pages that a file may always have."""

SHRINK_PAGES = 256
"""Pages that are given back to the disk at once: enough to keep pace, and too few to be felt."""

_SELECT = (
    "select entry.id - ?, coalesce(expires_at, 9e999), coalesce(count, 0), "
    "coalesce(entry.content, body.content), coalesce(turn, 0), size from entry "
    "left join body on body.number = entry.body left join delivery_count on delivery_count.id = entry.id"
)
_SELECT_IDS = "select id from entry where id between ? and ? order by id limit ?"

REMEDY = "it is left as it is: put a copy from a backup in its place, or move it away to begin with nothing"


class StoreContents(NamedTuple):
    """Contents of a store without the messages, of which it has only the numbers; `shared` is for `Journal.recover`."""

    durables: list[definition_records.AnyDurable]
    message_logs: list[RecoveredLog]
    shared: dict[int, int]


class Store:
    """The database in `directory`, which is made if it is not there, and which no other process may have open.

    `committed` is called, in the store's own thread, with each batch that the disk has, in their order; `failed` with
    the reason whenever an attempt to write has failed. `damaged` is called with the id of each message that is found
    to be unreadable, and why. `max_bytes` is how large the database may grow. Reading is for the caller's thread, one
    at a time. It `has_lost_database` where it had to make a database though there was one in the directory before.
    """

    def __init__(
        self,
        directory: Path,
        *,
        committed: Callable[[JournalBatch], None] = lambda batch: None,
        failed: Callable[[Exception], None] = lambda error: None,
        damaged: Callable[[int, Exception], None] = lambda id_, error: None,
        retry_after: float = RETRY_AFTER,
        max_bytes: int | None = None,
    ) -> None:
        self.path = directory / NAME
        self.max_bytes = max_bytes
        self._committed = committed
        self._failed = failed
        self._damaged = damaged
        self._retry_after = retry_after
        with ExitStack() as stack:
            was_used = had_store(directory)
            self._lock = lock(directory)
            stack.callback(os.close, self._lock)
            self._writer = stack.enter_context(closing(self._connect()))
            self.has_lost_database = self._check_format() and was_used
            self._reader = stack.enter_context(closing(self._connect()))
            stack.pop_all()  # `close` does it
        self._batches: queue.SimpleQueue[JournalBatch | None] = queue.SimpleQueue()
        self._is_closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="store", daemon=True)
        self._thread.start()

    def _connect(self) -> sqlite3.Connection:
        with ExitStack() as stack:
            try:
                os.close(os.open(self.path, os.O_CREAT | os.O_RDWR, 0o600))
                connection = sqlite3.connect(
                    self.path, isolation_level=None, check_same_thread=False, cached_statements=64, timeout=60
                )
                stack.enter_context(closing(connection))
                self._tune(connection)
            except (sqlite3.OperationalError, OSError) as error:
                reason = error.strerror if isinstance(error, OSError) else error
                raise StoreError(f"{self.path} cannot be opened: {reason}; {ROOM_AND_RIGHTS}") from error
            except sqlite3.Error as error:
                raise StoreError(f"{self.path} cannot be opened: {error}; {REMEDY}") from error
            stack.pop_all()
        return connection

    def _tune(self, connection: sqlite3.Connection) -> None:
        """Set the pragmas of a connection."""
        connection.execute("pragma page_size = 16384")
        connection.execute("pragma auto_vacuum = incremental")
        connection.execute("pragma journal_mode = wal")
        # In WAL mode, anything less leaves a commit in the system's cache.
        connection.execute("pragma synchronous = full")
        connection.execute(f"pragma wal_autocheckpoint = {CHECKPOINT_PAGES}")
        connection.execute("pragma journal_size_limit = 67108864")

    def _check_format(self) -> bool:
        """Check or create the database's tables; return whether they were created."""
        try:
            (found,) = self._writer.execute("pragma user_version").fetchone()
            (application,) = self._writer.execute("pragma application_id").fetchone()
            (tables,) = self._writer.execute("select count(*) from sqlite_master").fetchone()
            if found > FORMAT:
                raise StoreError(
                    f"{self.path} was written by a newer amqproxy: format {found}, here {FORMAT}; use that one"
                )
            if tables and application != APPLICATION_ID:
                raise StoreError(
                    f"{self.path} is not a broker's: it has application id {application:#x}; name another directory"
                )
            if not tables:
                self._writer.executescript(
                    f"begin; {SCHEMA} pragma application_id = {APPLICATION_ID}; pragma user_version = {FORMAT}; commit;"
                )
                sync(self.path.parent)
                mark(self.path.parent)
            elif found < FORMAT:  # 3 has a kind of definition more
                change = "alter table delivery_count add column turn integer not null default 0; " if found == 1 else ""
                self._writer.executescript(f"begin; {change}pragma user_version = {FORMAT}; commit;")
            return not tables
        except sqlite3.Error as error:
            raise StoreError(f"{self.path} is damaged: {error}; {REMEDY}") from error

    def close(self) -> None:
        """Write the submitted batches, as far as the disk takes them, and release the directory."""
        if self._is_closing.is_set():
            return
        self._is_closing.set()
        self._batches.put(None)
        self._thread.join()
        self._reader.close()
        self._writer.close()
        os.close(self._lock)

    # --- reading

    def load(self) -> StoreContents:
        """Load everything except the messages, in time independent of their number, and drop orphans."""
        execute = self._reader.execute
        try:
            self._drop_orphans()
            durables = [
                definition_records.decode(value) for (value,) in execute("select value from definition order by key")
            ]
            message_logs = [
                RecoveredLog(LogOwner(kind, decoded(vhost), decoded(name), priority), LogState(number, *counts))
                for number, kind, vhost, name, priority, *counts in execute("select * from lane order by number")
            ]
            shared = dict(execute("select id, body from entry where body is not null"))
        except (sqlite3.Error, definition_records.UnreadableRecord) as error:
            raise StoreError(f"{self.path} is damaged: {error}; {REMEDY}") from error
        return StoreContents(durables, message_logs, shared)

    def _drop_orphans(self) -> None:
        """Drop messages of no log, bodies and counts of no message; a store that was never tampered with has none."""
        execute = self._reader.execute
        edge = 0
        numbers = [number for (number,) in execute("select number from lane order by number")]
        for number in [*numbers, MAX_MESSAGE_LOGS + 1]:
            for table in ("entry", "delivery_count"):
                gap = (edge, (number << POSITION_BITS) - 1)
                if execute(f"select 1 from {table} where id between ? and ? limit 1", gap).fetchone():
                    execute(f"delete from {table} where id between ? and ?", gap)
            edge = (number + 1) << POSITION_BITS
        orphans = "select number from body where number not in (select body from entry where body is not null)"
        if execute(f"{orphans} limit 1").fetchone():
            execute(f"delete from body where number in ({orphans})")

    def fetch(self, log_number: int, position: int, limit: int) -> list[PackedMessage]:
        """Messages of a log from a position on: one at least, if there is one; `DAMAGED` where one is unreadable."""
        first = log_number << POSITION_BITS
        edges = first, first + position, first + MAX_POSITION, limit
        found = []
        size = 0
        try:
            cursor = self._reader.execute(f"{_SELECT} where entry.id between ? and ? order by entry.id limit ?", edges)
            for values in cursor:
                found.append(self._stored(first, *values))
                size += found[-1].size or len(found[-1].message.body)
                if size >= FETCH_BYTES:
                    break
            cursor.close()
        except sqlite3.Error as error:
            if is_of_the_disk(error) and type(error) is not sqlite3.DatabaseError:
                raise StoreError(f"{self.path} cannot be read: {error}; {ROOM_AND_RIGHTS}") from error
            return self._fetch_each(edges)
        return found

    def _fetch_each(self, edges: tuple[int, int, int, int]) -> list[PackedMessage]:
        """Fetch messages one by one from a damaged file."""
        first = edges[0]
        try:
            ids = self._reader.execute(_SELECT_IDS, edges[1:]).fetchall()
        except sqlite3.Error as error:
            raise StoreError(f"{self.path} is damaged: {error}; {REMEDY}") from error
        found = []
        for (id_,) in ids:
            try:
                values = self._reader.execute(f"{_SELECT} where entry.id = ?", (first, id_)).fetchone()
            except sqlite3.DatabaseError as error:
                self._damaged(id_, error)
                found.append(PackedMessage(id_ - first, NEVER, 0, DAMAGED))
            else:
                found.append(self._stored(first, *values))
        return found

    def _stored(
        self, first: int, at: int, expires_at: Any, delivery_count: Any, content: Any, turn: Any, size: Any
    ) -> PackedMessage:
        try:
            return PackedMessage(at, float(expires_at), int(delivery_count), unpack(content), int(turn))
        except (struct.error, TypeError, ValueError) as error:
            self._damaged(first + at, error)
            when = expires_at if isinstance(expires_at, float) else NEVER
            return PackedMessage(at, when, 0, DAMAGED, 0, size if isinstance(size, int) else 0)

    def times(self, log_number: int) -> Iterator[tuple[int, float]]:
        """Iterate over position and expiry time of a message log's messages."""
        first = log_number << POSITION_BITS
        select = "select id - ?, coalesce(expires_at, 9e999) from entry where id between ? and ? order by id"
        try:
            yield from self._reader.execute(select, (first, first, first + MAX_POSITION))
        except sqlite3.Error as error:
            raise StoreError(f"{self.path} is damaged: {error}; {REMEDY}") from error

    # --- writing

    def submit(self, batch: JournalBatch) -> None:
        """Write a batch, after all that were submitted before it."""
        self._batches.put(batch)

    def _run(self) -> None:
        """Run the thread; only `close` may end it, because otherwise nothing would be stored any more."""
        while (batch := self._batches.get()) is not None:
            is_written = False
            while not is_written:
                with contained("cannot write", path=str(self.path)):
                    is_written = self._write(batch)
                if not is_written and self._is_closing.wait(self._retry_after):
                    return
            is_reported = False
            while not is_reported:
                with contained("cannot report a finished write"):
                    self._committed(batch)
                    is_reported = True
                if not is_reported and self._is_closing.wait(self._retry_after):
                    return
            if self._batches.empty():
                with contained("no space given back to the disk"):
                    self._shrink()

    def _shrink(self) -> None:
        """Return some free pages of the file to the disk, if most of the file is free."""
        with suppress(sqlite3.Error):
            (free,) = self._writer.execute("pragma freelist_count").fetchone()
            (pages,) = self._writer.execute("pragma page_count").fetchone()
            if free > SLACK_PAGES and free > pages // 2:
                # Only a script is gone on with when a step has neither rows nor an end.
                self._writer.executescript(f"pragma incremental_vacuum({SHRINK_PAGES})")

    def _write(self, batch: JournalBatch) -> bool:
        """Write a batch except its unwritable parts; return False if the disk failed and a retry is needed."""
        batch.refused.clear()
        for parts in (WriteTogether, WriteOneByOne):
            try:
                if not batch.is_empty:
                    self._commit(batch, parts(self._writer, batch))
            except Exception as error:  # noqa: BLE001  if the thread ended, nothing would be stored any more, unnoticed
                batch.refused.clear()
                with suppress(sqlite3.Error):
                    self._writer.rollback()
                if is_of_the_disk(error):
                    self._failed(error)
                    return False
                fault = error
            else:
                break
        else:
            batch.refused.extend(RejectedWrite(row.id, fault) for row in batch.rows)
            batch.refused.extend(RejectedWrite(key, fault) for key in batch.durables)
        return True

    def _commit(self, batch: JournalBatch, parts: WriteTogether) -> None:
        execute = self._writer.execute
        if self.max_bytes is not None:
            (page_size,) = execute("pragma page_size").fetchone()
            execute(f"pragma max_page_count = {max(1, self.max_bytes // page_size)}")
        execute("begin immediate")
        for number in batch.logs_deleted:
            edges = number << POSITION_BITS, (number << POSITION_BITS) + MAX_POSITION
            execute("delete from lane where number = ?", (number,))
            execute("delete from entry where id between ? and ?", edges)
            execute("delete from delivery_count where id between ? and ?", edges)
        for first, last, kept in batch.cleared:
            keep = json_array([first + position for position in kept])
            for table in ("entry", "delivery_count"):
                delete = f"delete from {table} where id between ? and ? and id not in (select value from json_each(?))"
                execute(delete, (first, last, keep))
        for number, owner in batch.logs_created.items():
            parts.create_log(number, owner)
        if batch.bodies:
            parts.insert_bodies()
        if batch.rows:
            parts.insert_rows()
        if batch.settled:
            self._delete_settled(batch.settled)
        if batch.bodies_dropped:
            dropped = json_array(batch.bodies_dropped)
            execute("delete from body where number in (select value from json_each(?))", (dropped,))
        if batch.message_logs:
            execute(
                "update lane set messages = each.value ->> 1, octets = each.value ->> 2, last = each.value ->> 3, "
                "delivered = each.value ->> 4 from json_each(?) as each where lane.number = each.value ->> 0",
                (json_array(batch.message_logs),),
            )
        if batch.delivery_counts:
            insert(self._writer, "delivery_count", 3, [(id_, *each) for id_, each in batch.delivery_counts.items()])
        for key, value in batch.durables.items():
            parts.define(key, value)
        execute("commit")

    def _delete_settled(self, settled: list[int]) -> None:
        """Delete settled messages; queues are mostly first in, first out, so most ids come in runs."""
        single: list[int] = []
        for first, last in runs(settled):
            if last - first < RUN:
                single += range(first, last + 1)
            else:
                self._writer.execute("delete from entry where id between ? and ?", (first, last))
        if single:
            self._writer.execute(
                "delete from entry where id in (select value from json_each(?))", (json_array(single),)
            )
        self._writer.execute(
            "delete from delivery_count where id in (select value from json_each(?))", (json_array(settled),)
        )

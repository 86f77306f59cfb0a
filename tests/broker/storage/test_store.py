"""What is on the disk after a commit, whatever comes next."""

import errno
import os
import queue
import sqlite3
import tempfile
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amqproxy.broker.message import Message
from amqproxy.broker.storage import batch_writer
from amqproxy.broker.storage.batch import MAX_MESSAGE_LOGS, POSITION_BITS, DurabilityTicket, JournalBatch, LogOwner
from amqproxy.broker.storage.batch_writer import ROWS_AT_ONCE, RUN, runs
from amqproxy.broker.storage.data_directory import LOCK_NAME, ROOM_AND_RIGHTS, StoreError
from amqproxy.broker.storage.definition_records import DurableQueue
from amqproxy.broker.storage.journal import Journal
from amqproxy.broker.storage.message_log import EMBEDDED, MessageLog
from amqproxy.broker.storage.packing import DAMAGED
from amqproxy.broker.storage.store import FORMAT, NAME, REMEDY, Store
from tests.example_count import example_count

HERE = LogOwner("queue", "/", "q")
ODD = LogOwner("queue", "/", "caf\udce9", 3)
LONG = bytes(EMBEDDED + 1)
TIMEOUT = 60.0


class Kept:
    """A journal, with a store that writes it at once."""

    def __init__(self, directory: Path, **options: Any) -> None:
        self.directory = directory
        self.done: queue.SimpleQueue[JournalBatch] = queue.SimpleQueue()
        self.failures: queue.SimpleQueue[Exception] = queue.SimpleQueue()
        self.damaged: queue.SimpleQueue[int] = queue.SimpleQueue()
        self.store = Store(
            directory,
            committed=self.done.put,
            failed=self.failures.put,
            damaged=lambda id_, error: self.damaged.put(id_),
            **options,
        )
        self.journal = Journal()
        contents = self.store.load()
        self.durables = contents.durables
        self.journal.recover(contents.message_logs, contents.shared)

    def commit(self) -> None:
        self.store.submit(self.journal.take_batch())
        self.journal.committed(self.done.get(timeout=TIMEOUT))

    def reopened(self) -> "Kept":
        """As a process finds it that comes after; what was not committed is lost."""
        self.store.close()
        return Kept(self.directory)

    def waiting(self, message_log: MessageLog) -> dict[int, bytes]:
        found: dict[int, bytes] = {}
        while some := self.store.fetch(message_log.number, max(found, default=-1) + 1, 1000):
            found.update((stored.position, stored.message.body) for stored in some)
        return found

    def select(self, sql: str) -> list[Any]:
        return self.store._reader.execute(sql).fetchall()


@pytest.fixture
def kept(tmp_path: Path) -> Kept:
    return Kept(tmp_path)


def message(body: bytes = b"body") -> Message:
    return Message("x", "k", b"header", body)


# --- what comes back


def test_messages_come_back_in_their_order(kept: Kept) -> None:
    message_log = kept.journal.message_log(HERE)
    for position in (1, 2, 3, 9):
        message_log.enqueued(position, message(b"%d" % position), 12.5 if position == 2 else float("inf"))
    kept.commit()
    message_log.delivered(2)
    message_log.returned(2, 4)
    message_log.settled(1, 1)
    kept.commit()
    kept = kept.reopened()
    again = kept.journal.message_log(HERE)
    assert (again.messages, again.body_bytes, again.last, again.delivered_to) == (3, 3, 9, 2)
    found = kept.store.fetch(again.number, 0, 10)
    assert [(each.position, each.expires_at, each.delivery_count, each.message.body) for each in found] == [
        (2, 12.5, 4, b"2"),
        (3, float("inf"), 0, b"3"),
        (9, float("inf"), 0, b"9"),
    ]
    assert (found[0].message.exchange, found[0].message.routing_key, found[0].message.header) == ("x", "k", b"header")


def test_what_was_not_committed_is_lost(kept: Kept) -> None:
    message_log = kept.journal.message_log(HERE)
    message_log.enqueued(1, message())
    kept.commit()
    message_log.settled(1, 4)
    message_log.enqueued(2, message())
    kept = kept.reopened()
    assert list(kept.waiting(kept.journal.message_log(HERE))) == [1]


def test_a_fetch_is_bounded(kept: Kept) -> None:
    message_log = kept.journal.message_log(HERE)
    other = kept.journal.message_log(ODD)
    for position in range(1, 6):
        message_log.enqueued(position, message(bytes(600_000)))
    other.enqueued(1, message())
    kept.commit()
    fetch = kept.store.fetch
    assert [each.position for each in fetch(message_log.number, 0, 3)] == [1, 2]
    assert [each.position for each in fetch(message_log.number, 5, 3)] == [5]
    assert fetch(message_log.number, 6, 3) == []
    assert [each.position for each in fetch(other.number, 0, 3)] == [1]


def test_names_need_not_be_text(kept: Kept) -> None:
    queue_ = DurableQueue(vhost="/", name=ODD.name)
    kept.journal.remember(queue_)
    kept.journal.message_log(ODD).enqueued(1, Message(ODD.name, ODD.name, b"", b""))
    kept.commit()
    kept = kept.reopened()
    assert kept.durables == [queue_]
    [stored] = kept.store.fetch(kept.journal.message_logs[ODD].number, 0, 1)
    assert stored.message.exchange == stored.message.routing_key == ODD.name


def test_definitions_come_and_go(kept: Kept) -> None:
    queues = [DurableQueue(vhost="/", name=name) for name in "abc"]
    for each in queues:
        kept.journal.remember(each)
    kept.commit()
    kept.journal.forget(queues[1].key)
    kept.journal.remember(DurableQueue(vhost="/", name="c", auto_delete=True))
    kept.commit()
    assert kept.reopened().durables == [queues[0], DurableQueue(vhost="/", name="c", auto_delete=True)]


def test_a_long_body_is_stored_once_and_goes_with_its_last_message(kept: Kept) -> None:
    message_logs = [kept.journal.message_log(LogOwner("queue", "/", str(number))) for number in range(10)]
    long = message(LONG)
    for message_log in message_logs:
        message_log.enqueued(1, long)
    kept.commit()
    assert kept.select("select count(*), max(length(content)) from entry") == [(10, None)]
    kept = kept.reopened()
    message_logs = list(kept.journal.message_logs.values())
    assert all(kept.waiting(message_log) == {1: LONG} for message_log in message_logs)
    for message_log in message_logs[:9]:
        message_log.settled(1, len(LONG))
    kept.commit()
    assert kept.waiting(message_logs[9]) == {1: LONG}
    message_logs[9].settled(1, len(LONG))
    kept.commit()
    assert kept.select("select count(*) from body") == [(0,)]


def test_a_deleted_message_log_takes_all_with_it_and_its_number_is_used_again(kept: Kept) -> None:
    message_log, other = kept.journal.message_log(HERE), kept.journal.message_log(ODD)
    for each in (message_log, other):
        each.enqueued(1, message())
        each.returned(1, 1)
    kept.commit()
    kept.journal.delete_log(message_log)
    kept.commit()
    kept = kept.reopened()
    assert list(kept.journal.message_logs) == [ODD]
    again = kept.journal.message_log(HERE)
    assert again.number == message_log.number
    kept.commit()
    assert kept.waiting(again) == {}
    assert kept.select("select count(*) from delivery_count") == [(1,)]


@pytest.mark.parametrize("count", [0, 1, 5, 40, RUN - 1, RUN, RUN + 1, ROWS_AT_ONCE[0] * 2 + 300])
def test_any_number_of_messages_in_one_batch(kept: Kept, count: int) -> None:
    message_log = kept.journal.message_log(HERE)
    for position in range(1, count + 1):
        message_log.enqueued(position, message(b"%d" % position))
    kept.commit()
    assert kept.waiting(message_log) == {position: b"%d" % position for position in range(1, count + 1)}
    for position in range(1, count + 1):
        if position % 1000:
            message_log.settled(position, len(b"%d" % position))
    kept.commit()
    assert list(kept.waiting(message_log)) == list(range(1000, count + 1, 1000))


def test_orphans_are_dropped(kept: Kept) -> None:
    kept.journal.message_log(HERE).enqueued(1, message())
    kept.commit()
    kept.store.close()
    connection = sqlite3.connect(kept.directory / NAME)
    for number in (0, 5, MAX_MESSAGE_LOGS):
        connection.execute("insert into entry values (?, 1, null, null, x'')", ((number << POSITION_BITS) + 7,))
        connection.execute("insert into delivery_count values (?, 1, 0)", ((number << POSITION_BITS) + 7,))
    connection.execute("insert into body values (3, x'')")
    connection.commit()
    connection.close()
    kept = Kept(kept.directory)
    assert kept.waiting(kept.journal.message_log(HERE)) == {1: b"body"}
    for table, count in (("entry", 1), ("delivery_count", 0), ("body", 0)):
        assert kept.select(f"select count(*) from {table}") == [(count,)]


def test_space_is_given_back(kept: Kept) -> None:
    message_log = kept.journal.message_log(HERE)
    for position in range(1, 1001):
        message_log.enqueued(position, message(bytes(40_000)))
    kept.commit()
    kept = kept.reopened()
    before = (kept.directory / NAME).stat().st_size
    message_log = kept.journal.message_log(HERE)
    message_log.purged()
    for position in range(1001, 1030):
        message_log.enqueued(position, message())
        kept.commit()
    kept = kept.reopened()
    assert (kept.directory / NAME).stat().st_size < before * 0.7


@pytest.mark.parametrize(
    ("ids", "expected"),
    [([], []), ([5], [(5, 5)]), ([3, 1, 2], [(1, 3)]), ([1, 2, 4, 5, 9], [(1, 2), (4, 5), (9, 9)])],
)
def test_runs(ids: list[int], expected: list[tuple[int, int]]) -> None:
    assert list(runs(ids)) == expected


# --- what is wrong with a directory


def corrupted(directory: Path, fault: str) -> None:
    with closing(sqlite3.connect(directory / NAME)) as connection, connection:
        if fault == "newer":
            connection.execute(f"pragma user_version = {FORMAT + 1}")
        elif fault == "foreign":
            connection.execute("pragma application_id = 7")
        elif fault == "definition":
            connection.execute("insert into definition values (x'00', x'ff')")
        elif fault == "table":
            connection.execute("drop table lane")
        elif fault == "entries":
            connection.execute("drop table entry")
    if fault == "no database":
        (directory / NAME).write_bytes(b"rubbish" * 10_000)


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        ("newer", f"{NAME} was written by a newer amqproxy: format {FORMAT + 1}, here {FORMAT}; use that one"),
        ("foreign", f"{NAME} is not a broker's: it has application id 0x7; name another directory"),
        ("no database", f"{NAME} cannot be opened: file is not a database; {REMEDY}"),
        ("definition", f"{NAME} is damaged: .*; {REMEDY}"),
        ("table", f"{NAME} is damaged: no such table: lane; {REMEDY}"),
        ("entries", f"{NAME} is damaged: no such table: entry; {REMEDY}"),
    ],
)
def test_what_is_wrong_is_in_the_error(kept: Kept, fault: str, expected: str) -> None:
    kept.journal.message_log(HERE).enqueued(1, message())
    kept.commit()
    kept.store.close()
    corrupted(kept.directory, fault)
    with pytest.raises(StoreError, match=str(kept.directory / expected)):
        Kept(kept.directory).store.fetch(1, 0, 1)


def test_a_directory_has_one_user(kept: Kept) -> None:
    expected = rf"is in use by another process \({os.getpid()}\); stop that one"
    with pytest.raises(StoreError, match=expected):
        Store(kept.directory)
    (kept.directory / LOCK_NAME).write_bytes(b"")
    with pytest.raises(StoreError, match="is in use by another process; stop that one"):
        Store(kept.directory)
    kept.reopened().store.close()


def test_a_failed_opening_lets_go_of_the_directory(tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(b"rubbish" * 1000)
    for _ in range(2):
        with pytest.raises(StoreError, match="not a database"):
            Store(tmp_path)


def test_no_other_user_may_read_it(kept: Kept) -> None:
    kept.commit()
    for name in (NAME, f"{NAME}-wal", LOCK_NAME):
        assert (kept.directory / name).stat().st_mode & 0o077 == 0


def test_a_directory_that_cannot_be(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match=f"data cannot be used: Not a directory; {ROOM_AND_RIGHTS}"):
        Store(tmp_path / "file" / "data")


@pytest.mark.parametrize("name", [LOCK_NAME, NAME])
def test_a_directory_that_one_may_not_write_to(kept: Kept, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rights are no hindrance to root, who may well run this."""
    kept.store.close()

    def opened(path: Path, flags: int, mode: int = 0o777) -> int:
        if Path(path).name == name:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))
        return real(path, flags, mode)

    real = os.open
    monkeypatch.setattr(os, "open", opened)
    with pytest.raises(StoreError, match=f"cannot be .*: Read-only file system; {ROOM_AND_RIGHTS}"):
        Store(kept.directory)
    monkeypatch.undo()
    Store(kept.directory).close()


def test_an_older_format_is_brought_up_to_date(kept: Kept) -> None:
    message_log = kept.journal.message_log(HERE)
    message_log.enqueued(1, message())
    kept.commit()
    kept.store.close()
    with closing(sqlite3.connect(kept.directory / NAME)) as connection, connection:
        connection.execute("drop table delivery_count")
        connection.execute("create table delivery_count(id integer primary key, count integer not null)")
        connection.execute("insert into delivery_count values (?, 3)", ((message_log.number << POSITION_BITS) + 1,))
        connection.execute("pragma user_version = 1")
    for _ in range(2):
        store = Store(kept.directory)
        store.load()
        assert [(each.delivery_count, each.turn) for each in store.fetch(message_log.number, 0, 1)] == [(3, 0)]
        store.close()


# --- a full disk


def test_a_full_disk_is_reported_and_waited_out(tmp_path: Path) -> None:
    kept = Kept(tmp_path, retry_after=0.01)
    message_log = kept.journal.message_log(HERE)
    message_log.enqueued(1, message())
    kept.commit()
    kept.store.max_bytes = 1_000_000
    for position in range(2, 40):
        message_log.enqueued(position, message(bytes(50_000)))
    batch = kept.journal.take_batch()
    kept.store.submit(batch)
    for _ in range(2):
        assert "full" in str(kept.failures.get(timeout=TIMEOUT))
    assert kept.done.empty()
    assert list(kept.waiting(message_log)) == [1]
    kept.store.max_bytes = 100_000_000
    assert kept.done.get(timeout=TIMEOUT) is batch
    assert list(kept.waiting(message_log)) == list(range(1, 40))
    kept.store.close()


def test_times_are_read_without_the_messages(kept: Kept) -> None:
    message_log, other = kept.journal.message_log(HERE), kept.journal.message_log(HERE._replace(name="other"))
    for position, expires_at in ((1, 5.5), (2, float("inf")), (3, 7.0)):
        message_log.enqueued(position, message(bytes(10_000)), expires_at)
        other.enqueued(position, message())
    message_log.settled(1, 10_000)
    kept.commit()
    assert list(kept.store.times(message_log.number)) == [(2, float("inf")), (3, 7.0)]


def test_an_error_of_the_disk_is_waited_out_whatever_its_kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = Kept(tmp_path, retry_after=0.01)
    message_log = kept.journal.message_log(HERE)
    message_log.enqueued(1, message())
    insert = batch_writer.insert
    errors: list[Exception] = [
        sqlite3.OperationalError("disk I/O error"),
        sqlite3.DatabaseError("database disk image is malformed"),
        OSError(errno.EIO, "Input/output error"),
        MemoryError("no room"),
    ]

    def fails(*arguments: Any) -> None:
        if errors:
            raise errors.pop()
        insert(*arguments)

    monkeypatch.setattr(batch_writer, "insert", fails)
    kept.commit()
    texts = [str(kept.failures.get(timeout=TIMEOUT)) for _ in range(4)]
    assert texts == ["no room", "[Errno 5] Input/output error", "database disk image is malformed", "disk I/O error"]
    assert kept.waiting(message_log) == {1: b"body"}
    kept.store.close()


# --- what can never be written, or read

UNWRITABLE = "\ud800"
"""A name that no bytes stand for."""


def refused(kept: Kept) -> list[Any]:
    """What the store refuses of all that has gathered; the rest is on the disk then."""
    batch = kept.journal.take_batch()
    kept.store.submit(batch)
    kept.journal.committed(kept.done.get(timeout=TIMEOUT))
    assert kept.failures.empty()
    return [refusal.what for refusal in batch.refused]


def test_what_can_never_be_written_is_refused_by_itself(kept: Kept) -> None:
    """And not tried again; all else in its batch is written, and so is what comes later."""
    message_log = kept.journal.message_log(HERE)
    message_log.enqueued(1, message(b"1"))
    message_log.enqueued(2, Message("x", UNWRITABLE, b"header", b"2"))
    message_log.enqueued(3, message(b"3"))
    kept.journal.remember(DurableQueue(vhost="/", name=UNWRITABLE))
    kept.journal.remember(DurableQueue(vhost="/", name="q"))
    number = message_log.number << POSITION_BITS
    assert refused(kept) == [number + 2, DurableQueue(vhost="/", name=UNWRITABLE).key]
    message_log.enqueued(4, message(b"4"))
    assert refused(kept) == []
    assert kept.waiting(message_log) == {1: b"1", 3: b"3", 4: b"4"}
    assert [each.key for each in kept.reopened().durables] == [DurableQueue(vhost="/", name="q").key]


def test_a_shared_body_that_can_never_be_written_is_refused_with_its_messages(kept: Kept) -> None:
    message_log, other = kept.journal.message_log(HERE), kept.journal.message_log(HERE._replace(name="other"))
    long = Message("x", UNWRITABLE, b"header", LONG)
    for each in (message_log, other):
        each.enqueued(1, long)
        each.enqueued(2, message())
    assert refused(kept) == [each.number << POSITION_BITS | 1 for each in (message_log, other)]
    assert kept.waiting(message_log) == kept.waiting(other) == {2: b"body"}


def test_a_message_log_that_can_never_be_written_is_refused_with_its_messages(kept: Kept) -> None:
    message_log, other = kept.journal.message_log(HERE._replace(name=UNWRITABLE)), kept.journal.message_log(HERE)
    for each in (message_log, other):
        each.enqueued(1, message())
    assert refused(kept) == [message_log.number << POSITION_BITS | 1]
    assert kept.waiting(other) == {1: b"body"}


def test_a_batch_that_fails_in_all_its_parts_is_refused_as_a_whole(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*arguments: Any) -> None:
        raise RuntimeError("on purpose")

    message_log = kept.journal.message_log(HERE)
    message_log.enqueued(1, message())
    kept.journal.remember(DurableQueue(vhost="/", name="q"))
    monkeypatch.setattr(kept.store, "_commit", fails)
    assert refused(kept) == [message_log.number << POSITION_BITS | 1, DurableQueue(vhost="/", name="q").key]
    monkeypatch.undo()
    message_log.enqueued(2, message())
    assert refused(kept) == []


def test_who_waits_for_what_is_refused_is_notified(kept: Kept) -> None:
    message_log = kept.journal.message_log(HERE)
    notified: list[tuple[str, bool]] = []
    tickets = {"good": DurabilityTicket(), "bad": DurabilityTicket()}
    for position, (name, key) in enumerate((("good", "k"), ("bad", "k"), ("bad", UNWRITABLE)), 1):
        message_log.enqueued(position, Message("x", key, b"", b""), ticket=tickets[name])

    def notify(name: str) -> None:
        notified.append((name, tickets[name].is_refused))

    for name, ticket in tickets.items():
        kept.journal.when_safe(ticket, partial(notify, name))
    refused(kept)
    assert notified == [("good", False), ("bad", True)]
    assert (message_log.refused, kept.journal.events.failures) == ({3}, 1)
    message_log.settled(3, 0)
    assert message_log.refused == set()


@pytest.mark.parametrize(
    "damage",
    [
        "update entry set content = x'01' where id = {}",
        "update entry set content = null where id = {}",
        "update entry set content = x'00ff00ff00000000ff00' where id = {}",
        "update entry set content = 'text' where id = {}",
        "update entry set expires_at = 'never' where id = {}",
        "insert into delivery_count values ({}, x'00', 0)",
    ],
)
def test_a_damaged_message_costs_itself(kept: Kept, damage: str) -> None:
    message_log = kept.journal.message_log(HERE)
    for position in (1, 2, 3):
        message_log.enqueued(position, message(b"%d" % position))
    kept.commit()
    id_ = message_log.number << POSITION_BITS | 2
    with closing(sqlite3.connect(kept.directory / NAME)) as connection, connection:
        connection.execute(damage.format(id_))
    one, two, three = kept.store.fetch(message_log.number, 0, 10)
    assert (one.message.body, three.message.body) == (b"1", b"3")
    assert (two.position, two.message, two.size) == (2, DAMAGED, 1)
    assert kept.damaged.get_nowait() == id_


def test_a_page_that_cannot_be_read_costs_what_is_on_it(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    message_log = kept.journal.message_log(HERE)
    for position in (1, 2, 3):
        message_log.enqueued(position, message(b"%d" % position))
    kept.commit()
    id_ = message_log.number << POSITION_BITS | 2

    class Reader:
        """Finds one row damaged."""

        def __init__(self, reader: Any) -> None:
            self.reader = reader

        def execute(self, sql: str, values: Any) -> Any:
            if "content" in sql and (values[1] == id_ or len(values) == 4):
                raise sqlite3.DatabaseError("database disk image is malformed")
            return self.reader.execute(sql, values)

    monkeypatch.setattr(kept.store, "_reader", Reader(kept.store._reader))
    found = kept.store.fetch(message_log.number, 0, 10)
    assert [each.position for each in found] == [1, 2, 3]
    assert [each.message is DAMAGED for each in found] == [False, True, False]
    assert kept.damaged.get_nowait() == id_


def test_a_disk_that_cannot_be_read_now_costs_nothing(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    class Reader:
        def execute(self, *_: Any) -> Any:
            raise sqlite3.OperationalError("disk I/O error")

    message_log = kept.journal.message_log(HERE)
    message_log.enqueued(1, message())
    kept.commit()
    with monkeypatch.context() as patch:
        patch.setattr(kept.store, "_reader", Reader())
        with pytest.raises(StoreError, match="cannot be read: disk I/O error"):
            kept.store.fetch(message_log.number, 0, 1)
    assert kept.waiting(message_log) == {1: b"body"}


def test_a_store_closes_with_a_full_disk(tmp_path: Path) -> None:
    kept = Kept(tmp_path, max_bytes=300_000)
    message_log = kept.journal.message_log(HERE)
    message_log.enqueued(1, message(bytes(1_000_000)))
    kept.store.submit(kept.journal.take_batch())
    kept.failures.get(timeout=TIMEOUT)
    kept = kept.reopened()
    assert kept.journal.message_logs == {}


# --- random programs


class Reference:
    """What a message log is expected to hold: by position, the body, when it expires, and its delivery count."""

    def __init__(self) -> None:
        self.waiting: dict[int, tuple[bytes, float, int]] = {}
        self.last = 0
        self.delivered = 0

    def copy(self) -> "Reference":
        other = Reference()
        other.waiting, other.last, other.delivered = dict(self.waiting), self.last, self.delivered
        return other


STEPS = ("enqueue", "fan out", "deliver", "settle", "return", "purge", "trim", "delete", "define", "forget")
OWNERS = [LogOwner("queue", "/", "q"), LogOwner("queue", "/", "q", 1), LogOwner("exchange", "/", "x")]
steps = st.tuples(st.sampled_from([*STEPS, *STEPS[:5], "commit", "reopen"]), st.integers(0, 999), st.integers(0, 999))


@settings(max_examples=example_count(60), deadline=None)
@given(st.lists(steps, max_size=60))
def test_the_disk_holds_what_was_committed(program: list[tuple[str, int, int]]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        kept = Kept(Path(directory))
        now: tuple[dict[LogOwner, Reference], dict[str, DurableQueue]] = ({}, {})
        committed: tuple[dict[LogOwner, Reference], dict[str, DurableQueue]] = ({}, {})
        for step, first, second in [*program, ("commit", 0, 0), ("reopen", 0, 0)]:
            if step == "commit":
                kept.commit()
                committed = ({owner: message_log.copy() for owner, message_log in now[0].items()}, dict(now[1]))
            elif step == "reopen":
                kept = kept.reopened()
                now = ({owner: message_log.copy() for owner, message_log in committed[0].items()}, dict(committed[1]))
                check(kept, *now)
            else:
                play(kept, *now, step, first, second)
        kept.store.close()


def play(
    kept: Kept,
    message_logs: dict[LogOwner, Reference],
    durables: dict[str, DurableQueue],
    step: str,
    first: int,
    second: int,
) -> None:
    """Do a step in the journal, and in the reference."""
    journal = kept.journal
    owner = OWNERS[first % len(OWNERS)]
    if step in ("enqueue", "fan out"):
        body = b"%d" % second if second % 3 else LONG
        expires_at = float(second) if second % 2 else float("inf")
        sent = message(body)
        for each in OWNERS if step == "fan out" else [owner]:
            reference = message_logs.setdefault(each, Reference())
            message_log = journal.message_log(each)
            reference.last += 1 + second % 2
            reference.waiting[reference.last] = (body, expires_at, 0)
            message_log.enqueued(reference.last, sent, expires_at)
        return
    if step in ("define", "forget"):
        durable = DurableQueue(vhost="/", name=str(first % 4), arguments=b"%d" % second)
        if step == "define":
            durables[durable.key] = durable
            journal.remember(durable)
        else:
            durables.pop(durable.key, None)
            journal.forget(durable.key)
        return
    if owner not in message_logs:
        return
    message_log, reference = journal.message_logs[owner], message_logs[owner]
    positions = sorted(reference.waiting)
    position = positions[second % len(positions)] if positions else 0
    if step == "delete":
        del message_logs[owner]
        journal.delete_log(message_log)
    elif step == "purge":
        held = {each: len(reference.waiting[each][0]) for each in positions if (each + second) % 3 == 0}
        reference.waiting = {each: reference.waiting[each] for each in held}
        message_log.purged(held)
    elif position and step == "deliver":
        reference.delivered = max(reference.delivered, position)
        message_log.delivered(position)
    elif position and step == "settle":
        message_log.settled(position, len(reference.waiting.pop(position)[0]))
    elif position and step == "return":
        reference.waiting[position] = (*reference.waiting[position][:2], second)
        message_log.returned(position, second)
    elif position and step == "trim":
        reference.waiting = {each: kept for each, kept in reference.waiting.items() if each > position}
        body_bytes = sum(len(body) for body, _, _ in reference.waiting.values())
        message_log.trimmed(position, len(reference.waiting), body_bytes)


def check(kept: Kept, message_logs: dict[LogOwner, Reference], durables: dict[str, DurableQueue]) -> None:
    """The disk holds this, and nothing else."""
    assert {each.key: each for each in kept.durables} == durables
    assert set(kept.journal.message_logs) == set(message_logs)
    for owner, reference in message_logs.items():
        message_log = kept.journal.message_logs[owner]
        found = kept.store.fetch(message_log.number, 0, 1000)
        assert [each.position for each in found] == sorted(reference.waiting)
        assert {
            each.position: (each.message.body, each.expires_at, each.delivery_count) for each in found
        } == reference.waiting
        assert (message_log.messages, message_log.last) == (len(reference.waiting), reference.last)
        assert message_log.body_bytes == sum(len(body) for body, _, _ in reference.waiting.values())
        assert message_log.delivered_to == reference.delivered
    (entries,) = kept.select("select count(*) from entry")
    assert entries == (sum(len(reference.waiting) for reference in message_logs.values()),)
    assert {number for (number,) in kept.select("select number from body")} == {
        number for message_log in kept.journal.message_logs.values() for number in message_log.shared.values()
    }


def test_a_database_that_has_vanished_is_noticed_once(tmp_path: Path) -> None:
    lost = []
    for does_vanish in (False, False, True, False):
        if does_vanish:
            (tmp_path / NAME).unlink()
        store = Store(tmp_path)
        lost.append(store.has_lost_database)
        store.close()
    assert lost == [False, False, True, False]


def test_an_emptied_directory_is_noticed_by_its_mark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    attributes: set[str] = set()
    monkeypatch.setattr(os, "setxattr", lambda path, name, value: attributes.add(name), raising=False)
    monkeypatch.setattr(os, "listxattr", lambda path: list(attributes), raising=False)
    Store(tmp_path).close()
    for file in tmp_path.iterdir():
        file.unlink()
    store = Store(tmp_path)
    store.close()
    assert store.has_lost_database


@pytest.mark.parametrize("missing", [OSError(errno.ENOTSUP, "not supported"), AttributeError("listxattr")])
def test_where_directories_have_no_marks_an_empty_one_is_new(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, missing: Exception
) -> None:
    def fail(*arguments: object) -> None:
        raise missing

    monkeypatch.setattr(os, "setxattr", fail, raising=False)
    monkeypatch.setattr(os, "listxattr", fail, raising=False)
    store = Store(tmp_path)
    store.close()
    assert not store.has_lost_database

"""What waits in a durable queue, before and after a restart."""

from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amqproxy.amqp091.properties import Properties
from amqproxy.broker.message import Message
from amqproxy.broker.queues import backlog as backlog_module
from amqproxy.broker.queues.consumer import QueueEntry
from amqproxy.broker.queues.durable_backlog import DurableBacklog
from amqproxy.broker.queues.queue_storage import QueueStorage
from amqproxy.broker.storage.packing import DAMAGED, PackedMessage
from tests.broker.disk import Disk, Memory
from tests.broker.yard import Yard
from tests.example_count import example_count

NEVER = float("inf")
QUEUE: Any = None


def message(body: bytes, delivery_mode: int = 2) -> Message:
    return Message.made("", "q", Properties(delivery_mode=delivery_mode), body)


@pytest.fixture
def disk() -> Disk:
    return Disk()


def again(disk: Disk) -> DurableBacklog:
    return DurableBacklog(disk.again(), disk.fetch)


def bodies(backlog: DurableBacklog) -> list[bytes]:
    return [each.body for each in backlog]


def taken(backlog: DurableBacklog) -> list[bytes]:
    return [backlog.take(QUEUE).message.body for _ in range(len(backlog))]


def test_persistent_messages_come_back_in_their_order(disk: Disk) -> None:
    backlog = DurableBacklog(disk.message_log)
    for body, mode in ((b"a", 2), (b"b", 1), (b"c", 2), (b"d", 2)):
        backlog.add(message(body, mode), NEVER)
    first = backlog.take(QUEUE)
    backlog.put_back(first)
    backlog = again(disk)
    assert (len(backlog), bodies(backlog)) == (3, [b"a", b"c", b"d"])
    entries = [backlog.take(QUEUE) for _ in range(3)]
    assert [(entry.message.body, entry.is_redelivered) for entry in entries] == [
        (b"a", True),
        (b"c", False),
        (b"d", False),
    ]


def test_what_was_done_does_not_come_back(disk: Disk) -> None:
    backlog = DurableBacklog(disk.message_log)
    for body in (b"a", b"b", b"c"):
        backlog.add(message(body), NEVER)
    disk.commit()
    backlog.done(backlog.take(QUEUE))
    held = backlog.take(QUEUE)
    assert held.message.body == b"b"
    assert bodies(again(disk)) == [b"b", b"c"]


def test_what_is_handed_out_at_once_is_kept_until_it_is_done(disk: Disk) -> None:
    backlog = DurableBacklog(disk.message_log)
    backlog.done(backlog.entry(QUEUE, message(b"a"), NEVER))
    backlog.entry(QUEUE, message(b"b"), NEVER)
    backlog.done(backlog.entry(QUEUE, message(b"c", 1), NEVER))
    assert disk.journal.waiting_bytes > 0
    backlog = again(disk)
    assert [(len(backlog), backlog.take(QUEUE).is_redelivered)] == [(1, True)]


def test_new_messages_wait_behind_those_from_before(disk: Disk) -> None:
    DurableBacklog(disk.message_log).add(message(b"a"), NEVER)
    backlog = again(disk)
    backlog.add(message(b"b"), NEVER)
    first = backlog.take(QUEUE)
    backlog.put_back(first)
    assert taken(backlog) == [b"a", b"b"]
    assert bodies(again(disk)) == [b"a", b"b"]


def test_a_purge_keeps_what_is_out(disk: Disk) -> None:
    backlog = DurableBacklog(disk.message_log)
    for body in (b"a", b"b", b"c"):
        backlog.add(message(body), NEVER)
    held = backlog.take(QUEUE)
    backlog.clear()
    assert len(backlog) == 0
    backlog.add(message(b"d"), NEVER)
    backlog.put_back(held)
    assert bodies(backlog) == [b"a", b"d"]
    assert bodies(again(disk)) == [b"a", b"d"]


def test_delivery_counts_and_expiries_come_back(disk: Disk) -> None:
    backlog = DurableBacklog(disk.message_log)
    backlog.add(message(b"a"), 5.0)
    entry = backlog.take(QUEUE)
    entry.delivery_count = 3
    backlog.put_back(entry)
    backlog = again(disk)
    assert backlog.expires_at == 5.0
    entry = backlog.take(QUEUE)
    assert (entry.delivery_count, entry.expires_at) == (3, 5.0)


def test_the_disk_is_read_as_it_is_wanted(disk: Disk) -> None:
    backlog = DurableBacklog(disk.message_log)
    for number in range(5000):
        backlog.add(message(b"%d" % number), NEVER)
    backlog = again(disk)
    assert (len(backlog), disk.fetches) == (5000, [])
    assert backlog.expires_at == NEVER
    assert disk.fetches == [1]
    assert taken(backlog) == [b"%d" % number for number in range(5000)]
    assert disk.fetches == [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 1024, 1024, 905]


steps = st.tuples(
    st.sampled_from(
        ["add", "add transient", "entry", "take", "put back", "done", "clear", "page_out", "commit", "restart"]
    ),
    st.integers(0, 99),
)


SMALL = {"HEAD_MESSAGES": 2, "HEAD_BYTES": 300, "BLOCK_MESSAGES": 3}


@patch.multiple(backlog_module, **SMALL)
@settings(max_examples=example_count(300), deadline=None)
@given(st.lists(steps, max_size=60))
def test_as_a_list_would_do(program: list[tuple[str, int]]) -> None:
    disk, memory = Disk(), Memory()
    backlog = DurableBacklog(disk.message_log, disk.fetch)
    waiting: list[tuple[int, bool]] = []  # a number, and is it persistent?
    out: dict[int, tuple[QueueEntry, bool]] = {}
    seen: set[int] = set()
    last = 0
    for step, pick in [*program, ("restart", 0)]:
        if step in ("add", "add transient"):
            last += 1
            backlog.add(message(b"%d" % last, 2 if step == "add" else 1), NEVER)
            waiting.append((last, step == "add"))
        elif step == "entry" and not waiting:
            last += 1
            out[last] = (backlog.entry(QUEUE, message(b"%d" % last), NEVER), True)
            seen.add(last)
        elif step == "take" and waiting:
            number, is_persistent = waiting.pop(0)
            entry = backlog.take(QUEUE)
            assert int(entry.message.body) == number
            out[number] = (entry, is_persistent)
            seen.add(number)
        elif step == "put back" and out:
            number = sorted(out)[pick % len(out)]
            entry, is_persistent = out.pop(number)
            backlog.put_back(entry)
            waiting = sorted([*waiting, (number, is_persistent)])
        elif step == "done" and out:
            backlog.done(out.pop(sorted(out)[pick % len(out)])[0])
        elif step == "clear":
            backlog.clear()
            waiting = []
        elif step == "commit":
            disk.commit()
        elif step == "page_out":
            backlog.page_out(memory, 1000 * (pick % 3))
        elif step == "restart":
            back = [(number, kept) for number, kept in waiting if kept] + [
                (number, True) for number, (_, kept) in out.items() if kept
            ]
            waiting, out = sorted(back), {}
            memory.rows.clear()
            backlog = again(disk)
        assert len(backlog) == len(waiting)
        assert [int(body) for body in bodies(backlog)] == [number for number, _ in waiting]
    assert backlog.bytes_paged_out >= 0
    entries = [backlog.take(QUEUE) for _ in waiting]
    assert (backlog.bytes_paged_out, memory.rows) == (0, {})
    assert [entry.is_redelivered for entry in entries] == [number in seen for number, _ in waiting]


@pytest.mark.parametrize("type_", ["classic", "quorum"])
@pytest.mark.parametrize("damage", ["damaged", "missing", "all missing"])
def test_what_the_disk_has_lost_costs_itself_and_not_its_queue(type_: str, damage: str) -> None:
    """The next consumer gets the rest, the counts are right again, and the loss is reported."""
    yard, disk = Yard(), Disk("v")
    queue = yard.queue(type_, storage=QueueStorage(disk.journal, disk.fetch))
    yard.publish(queue, "a", "b", "c", delivery_mode=2)
    disk.again()
    ids = sorted(disk.rows)
    if damage == "damaged":
        disk.rows[ids[0]] = disk.rows[ids[0]]._replace(message=DAMAGED, size=1)
    else:
        for id_ in ids[: 1 if damage == "missing" else 3]:
            del disk.rows[id_]
    queue = yard.queue(type_, storage=QueueStorage(disk.journal, disk.fetch))
    queue.recovered(yard.now)
    taker = yard.consumer(queue)
    left = [] if damage == "all missing" else ["b", "c"]
    assert taker.bodies == left
    assert (queue.message_count, queue.body_bytes) == (0, 0)
    assert [(event, fields["count"]) for event, fields in yard.failures] == [
        ("messages lost", 3 if damage == "all missing" else 1)
    ]
    yard.publish(queue, "d", delivery_mode=2)
    assert taker.bodies == [*left, "d"]
    taker.ack(*range(len(taker.entries)))
    disk.commit()
    assert disk.rows == {}


def test_a_disk_that_cannot_be_read_costs_only_the_client_that_asks() -> None:
    """And nothing is lost: it is handed out as soon as it can be read."""

    def fails(*_: int) -> list[PackedMessage]:
        raise OSError("Input/output error")

    yard, disk = Yard(), Disk("v")
    yard.publish(yard.queue(storage=QueueStorage(disk.journal, disk.fetch)), "-", "a", "b", delivery_mode=2)
    disk.again()
    queue = yard.queue(storage=QueueStorage(disk.journal, disk.fetch))
    backlog = queue._backlogs[0][1]
    assert backlog.take(queue) is not None
    paged = backlog._paged
    assert paged is not None
    paged._fetch = fails
    taker = yard.consumer(queue)
    yard.publish(queue, "c", delivery_mode=2)
    assert taker.bodies == []
    assert {event for event, _ in yard.failures} == {"handing out failed", "reading failed"}
    with pytest.raises(OSError, match="Input"):
        queue.get(yard.now)
    paged._fetch = disk.fetch
    queue.pump(yard.now)
    assert taker.bodies == ["a", "b", "c"]


def test_what_the_store_has_refused_stays_in_memory(disk: Disk) -> None:
    backlog = DurableBacklog(disk.message_log, disk.fetch)
    for number in range(3000):
        backlog.add(message(b"%04d" % number), NEVER)
    disk.commit()
    disk.message_log.refused.add(1500)
    del disk.rows[sorted(disk.rows)[1499]]
    backlog.page_out(Memory(), 1 << 30)
    assert taken(backlog) == [b"%04d" % number for number in range(3000)]

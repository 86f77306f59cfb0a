"""What is paged out, how much, and that clients notice nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from amqproxy.amqp091.wire import Table
from amqproxy.broker.broker import Broker
from amqproxy.broker.paging import SLICE
from amqproxy.broker.queues.queue import Queue
from amqproxy.broker.queues.queue_storage import QueueStorage
from amqproxy.broker.storage.journal import Journal
from amqproxy.broker.storage.page_file import PageFiles
from tests.broker.disk import Memory
from tests.broker.yard import message

NOW = 1000.0
MIB = 1024 * 1024


class House:
    """A broker that may use 200 MiB, and so pages from 100 MiB on."""

    def __init__(self) -> None:
        self.broker = Broker(memory_limit=200 * MIB)
        self.memory = Memory()
        self.broker.paging.page_store = self.memory
        self.broker.paging.relieved = lambda: self.relieved.append(True)
        self.relieved: list[bool] = []

    def queue(self, name: str, mib: int, *, each: int = 1024, **arguments: Any) -> Queue:
        """A queue with so much in it."""
        table = Table({f"x-{key.replace('_', '-')}": value for key, value in arguments.items()})
        is_durable = "queue_type" in arguments
        queue = self.broker.vhosts["/"].declare_queue(
            name, None, durable=is_durable, exclusive=False, auto_delete=False, arguments=table, now=NOW
        )
        for number in range(mib * MIB // (each + 256)):
            queue.publish(message(b"%06d" % number + bytes(each - 6)), NOW)
        return queue

    def page(self, mib: int) -> int:
        """So much memory is in use; how many times there was something to do until there was no more."""
        self.broker.check_limits(NOW, memory=mib * MIB)
        times = 0
        while self.broker.next_deadline() == 0.0:
            self.broker.tick(NOW)
            times += 1
        return times


@pytest.fixture
def house() -> House:
    return House()


def mib(queue: Queue) -> float:
    return queue.bytes_in_memory / MIB


def drained(queue: Queue) -> list[bytes]:
    return [entry.message.body for entry in iter(lambda: queue.get(NOW), None)]


def test_the_longest_go_first_and_no_more_than_must(house: House) -> None:
    short, long, longer = house.queue("a", 2), house.queue("b", 12), house.queue("c", 20)
    assert house.page(99) == 0
    assert house.page(112) >= 2
    assert mib(longer) + mib(long) == pytest.approx(20, abs=1)
    assert (mib(short), mib(longer)) == (pytest.approx(2, abs=0.1), pytest.approx(10, abs=2))
    assert house.relieved == [True]
    assert house.page(100) == 0


def test_a_slice_at_a_time(house: House) -> None:
    queue = house.queue("q", 30)
    house.broker.check_limits(NOW, memory=150 * MIB)
    house.broker.tick(NOW)
    assert mib(queue) == pytest.approx(30 - SLICE / MIB, abs=1)


def test_heads_stay_and_clients_notice_nothing(house: House) -> None:
    queues = [house.queue("a", 5), house.queue("b", 5, each=100_000), house.queue("c", 5, max_priority=3)]
    queues += [house.queue("d", 5, queue_type="quorum"), house.queue("e", 5, each=40)]
    counts = [queue.message_count for queue in queues]
    house.page(1000)
    assert all(0 < mib(queue) < 0.4 for queue in queues)
    assert [queue.message_count for queue in queues] == counts
    for queue in queues:
        numbers = [int(body[:6]) for body in drained(queue)]
        assert numbers == sorted(numbers)
        assert (queue.message_count, queue.body_bytes, queue.bytes_in_memory) == (0, 0, 0)
    assert house.memory.rows == {}


def test_a_purge_and_a_deletion_drop_what_is_away(house: House) -> None:
    one, other = house.queue("a", 5), house.queue("b", 5)
    house.page(1000)
    assert house.memory.rows
    one.purge()
    assert (one.message_count, one.bytes_in_memory) == (0, 0)
    house.broker.vhosts["/"].delete_queue("b", None)
    assert house.memory.rows == {}
    assert other.is_deleted


def test_limits_and_times_hold_for_what_is_away(house: House) -> None:
    queue = house.queue("q", 5, message_ttl=10_000, max_length=3000)
    house.page(1000)
    assert queue.message_count == 3000
    for number in range(10):
        queue.publish(message(b"new %d" % number), NOW + 5)
    assert queue.message_count == 3000
    house.broker.tick(NOW + 10)
    assert queue.message_count == 10
    house.broker.tick(NOW + 15)
    assert (queue.message_count, house.memory.rows) == (0, {})


def test_what_is_requeued_is_first_again(house: House) -> None:
    queue = house.queue("q", 5)
    house.page(1000)
    taken = [queue.get(NOW) for _ in range(500)]
    entries = [each for each in taken if each is not None]
    for entry in entries:
        queue.hold(entry, None)
    queue.requeue(entries[100:], NOW)
    assert [int(body[:6]) for body in drained(queue)] == list(range(100, 4096))


def test_dead_letters_go_from_queue_to_queue(house: House) -> None:
    target = house.queue("t", 0)
    queue = house.queue("q", 5, dead_letter_exchange="", dead_letter_routing_key="t", message_ttl=10_000)
    house.page(1000)
    house.broker.tick(NOW + 10)
    assert (queue.message_count, target.message_count) == (0, 4096)
    assert [int(body[:6]) for body in drained(target)] == list(range(4096))


def test_a_full_disk_is_an_alarm_and_loses_nothing(house: House) -> None:
    queue = house.queue("q", 5)
    house.memory.is_full = True
    house.page(150)
    assert house.broker.alarms == {"disk"}
    assert queue.message_count == 4096
    house.broker.set_alarm("disk", True, NOW)
    house.memory.is_full = False
    house.page(150)
    assert house.broker.alarms == {"disk"}  # another cause's still
    house.broker.set_alarm("disk", False, NOW)
    assert house.broker.alarms == set()
    assert mib(queue) < 0.4
    house.memory.is_full = True
    house.queue("other", 5)
    house.page(150)
    assert house.broker.alarms == {"disk"}
    house.page(50)
    assert house.broker.alarms == set()


def test_without_a_limit_or_a_place_nothing_is_paged(house: House) -> None:
    house.broker.paging.page_store = None
    house.queue("q", 5)
    assert house.page(1000) == 0
    unlimited = Broker()
    unlimited.paging.page_store = house.memory
    unlimited.check_limits(NOW, memory=1 << 50)
    assert not unlimited.paging.is_due


def test_what_its_message_log_has_is_just_let_go(house: House) -> None:
    """Once it is on the disk for good, which the first look cannot know."""
    journal = Journal()
    house.broker.use_storage(QueueStorage(journal, lambda log_number, position, limit: []))
    queue = house.queue("q", 5, queue_type="quorum")
    house.page(1000)
    assert mib(queue) > 4
    journal.committed(journal.take_batch())
    house.page(1000)
    assert mib(queue) < 0.4
    assert house.memory.rows == {}
    delayed = house.broker.vhosts["/"].declare_exchange(
        "x",
        "x-delayed-message",
        durable=True,
        auto_delete=False,
        internal=False,
        arguments=Table({"x-delayed-type": "fanout"}),
    )
    held = house.broker.vhosts["/"].delayed
    held.hold(NOW + 1, delayed, message(bytes(1000)))
    journal.committed(journal.take_batch())
    house.page(1000)
    assert held.bytes_in_memory == 0


def test_page_files_are_a_page_store(house: House, tmp_path: Path) -> None:
    house.broker.paging.page_store = page_store = PageFiles(tmp_path)
    queue = house.queue("q", 5)
    house.page(1000)
    assert page_store.size > 4 * MIB
    assert [int(body[:6]) for body in drained(queue)] == list(range(4096))
    assert page_store.size == 0

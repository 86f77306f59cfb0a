"""Where quorum queues are not as classic ones are."""

from __future__ import annotations

from typing import Any

import pytest

from amqproxy.amqp091.errors import NotImplementedByServer, ResourceLocked
from amqproxy.broker.message import Message
from amqproxy.broker.queues.backlog import NEVER
from amqproxy.broker.queues.consumer import QueueEntry
from amqproxy.broker.queues.queue import Queue
from amqproxy.broker.queues.queue_storage import QueueStorage
from amqproxy.broker.queues.quorum import PREFETCH, RequeueFirst
from amqproxy.broker.storage.batch import DurabilityTicket
from tests.broker.disk import Disk, Memory
from tests.broker.yard import Taker, Yard, message


@pytest.fixture
def yard() -> Yard:
    return Yard()


def count(entry: QueueEntry) -> Any:
    """x-delivery-count on the way out; None where it is not there."""
    sent = Message("", "", entry.header, entry.message.body)
    return (sent.properties.headers or {}).get("x-delivery-count")


def waiting(queue: Any) -> list[str]:
    return [each.body.decode() for each in queue]


def test_without_a_limit_what_is_requeued_goes_behind_all(yard: Yard) -> None:
    queue = yard.queue("quorum")
    yard.publish(queue, *"1234")
    one, two, three = yard.get(queue, 3)
    queue.requeue([three], yard.now)
    queue.requeue([one, two], yard.now)
    assert waiting(queue) == ["4", "3", "1", "2"]
    assert [(entry.message.body, count(entry)) for entry in yard.get(queue, 4)] == [
        (b"4", 0),
        (b"3", 1),
        (b"1", 1),
        (b"2", 1),
    ]


def test_with_a_limit_it_goes_before_all_in_the_order_it_came_back(yard: Yard) -> None:
    queue = yard.queue("quorum", delivery_limit=9)
    yard.publish(queue, *"1234")
    one, two, three = yard.get(queue, 3)
    queue.requeue([three], yard.now)
    queue.requeue([one, two], yard.now)
    assert waiting(queue) == ["3", "1", "2", "4"]


def test_what_a_channel_leaves_goes_before_all(yard: Yard) -> None:
    queue = yard.queue("quorum")
    yard.publish(queue, *"123")
    queue.give_back(yard.get(queue, 2), yard.now)
    assert waiting(queue) == ["1", "2", "3"]
    assert count(yard.get(queue)[0]) == 1


def test_counts_on_deliveries(yard: Yard) -> None:
    """It is always in basic.get-ok, in basic.deliver from the second time on."""
    queue = yard.queue("quorum")
    taker = yard.consumer(queue, prefetch=1)
    yard.publish(queue, "1", "2")
    assert [count(entry) for entry in taker.entries] == [None]
    taker.requeue(0)
    taker.ack(1)
    assert [(entry.message.body, count(entry), entry.is_redelivered) for entry in taker.entries[1:]] == [
        (b"2", None, False),
        (b"1", 1, True),
    ]
    yard.publish(queue, "3")
    (entry,) = yard.get(queue)
    assert (count(entry), entry.is_redelivered) == (0, False)


@pytest.mark.parametrize("limit", [0, 1, 3])
def test_delivery_limit(yard: Yard, limit: int) -> None:
    queue = yard.queue("quorum", delivery_limit=limit)
    yard.publish(queue, "1")
    for _ in range(limit):
        queue.requeue(yard.get(queue), yard.now)
    assert (queue.message_count, yard.dead) == (1, [])
    queue.give_back(yard.get(queue), yard.now)
    assert (queue.message_count, queue.unacked, yard.dead) == (0, 0, [("1", "delivery_limit")])


def test_other_headers_stay(yard: Yard) -> None:
    queue = yard.queue("quorum")
    yard.publish(queue, "1", headers={"mine": 1}, delivery_mode=2)
    (entry,) = yard.get(queue)
    sent = Message("", "", entry.header, entry.message.body)
    assert sent.properties.delivery_mode == 2
    assert [(field.name, field.type) for field in sent.properties.headers.fields] == [  # type: ignore[union-attr]
        ("mine", "I"),
        ("x-delivery-count", "l"),
    ]


def test_times_of_what_came_back(yard: Yard) -> None:
    for limit in ({}, {"delivery_limit": 9}):
        yard.dead.clear()
        queue = yard.queue("quorum", message_ttl=1000, **limit)
        yard.publish(queue, "1", "2")
        queue.requeue(yard.get(queue), yard.now)
        yard.wait(1)
        assert sorted(yard.dead) == [("1", "expired"), ("2", "expired")]


def test_reject_publish_goes_one_over_and_then_waits_until_it_is_well_below(yard: Yard) -> None:
    queue = yard.queue("quorum", max_length=10, overflow="reject-publish")
    assert yard.publish(queue, *("x" * 13)) == [True] * 11 + [False] * 2
    for _ in range(2):
        queue.get(yard.now)
    assert yard.publish(queue, "x") == [False]  # 9 of 10
    queue.get(yard.now)
    assert yard.publish(queue, *"xxxx") == [True] * 3 + [False]  # from 8 of 10


def test_reject_publish_dlx_means_nothing(yard: Yard) -> None:
    queue = yard.queue("quorum", max_length=1, overflow="reject-publish-dlx")
    assert yard.publish(queue, "1", "2") == [True, True]
    assert (waiting(queue), yard.dead) == (["2"], [("1", "maxlen")])


def test_consumers(yard: Yard) -> None:
    """None excludes another, and each has a prefetch."""
    queue = yard.queue("quorum")
    yard.consumer(queue, exclusive=True)
    queue.check_consumer(exclusive=True, no_ack=False, prefetch=0, is_limited=False)
    with pytest.raises(NotImplementedByServer, match="queue 'q' in vhost 'v' does not support global qos"):
        queue.check_consumer(exclusive=False, no_ack=False, prefetch=0, is_limited=True)
    assert [each.prefetch for each in queue.consumers] == [PREFETCH]


def test_get_beside_a_single_active_consumer(yard: Yard) -> None:
    with pytest.raises(ResourceLocked, match="cannot obtain access to locked queue 'q' in vhost 'v'"):
        yard.queue("quorum", single_active_consumer=True).get(yard.now)


@pytest.mark.parametrize("flag", ["if_unused", "if_empty"])
def test_delete_asks_nothing(yard: Yard, flag: str) -> None:
    queue = yard.queue("quorum")
    queue.check_delete(if_unused=False, if_empty=False)
    with pytest.raises(NotImplementedByServer) as refused:
        queue.check_delete(**{"if_unused": False, "if_empty": False, flag: True})
    assert refused.value.text == (
        f"cannot delete queue 'q' in vhost 'v'. queue.delete operations with {flag.replace('_', '-')} flag set are not "
        "supported by quorum queues"
    )


def test_clear_forgets_what_came_back(yard: Yard) -> None:
    queue = yard.queue("quorum")
    yard.publish(queue, *"123")
    one, two = yard.get(queue, 2)
    queue.requeue([one], yard.now)
    queue.give_back([two], yard.now)
    assert queue.purge() == 3
    yard.publish(queue, "4")
    assert waiting(queue) == ["4"]
    assert yard.get(queue)[0].delivery_count == 0


def test_many_times_round_leaves_nothing_behind(yard: Yard) -> None:
    queue = yard.queue("quorum")
    yard.publish(queue, *"123")
    for _ in range(50):
        queue.requeue(yard.get(queue), yard.now)
    assert sorted(waiting(queue)) == ["1", "2", "3"]
    counts = [entry.delivery_count for entry in yard.get(queue, 3)]
    assert sum(counts) == 50


def test_backlog_of_a_time() -> None:
    backlog, queue = RequeueFirst(), Yard().queue("quorum")
    backlog.add(message("1"), 5.0)
    entry = backlog.take(queue)
    backlog.put_back(entry)
    assert (backlog.expires_at, len(backlog)) == (5.0, 1)
    assert backlog.take(queue) is entry
    backlog.put_behind(entry)
    assert (backlog.expires_at, len(backlog)) == (5.0, 1)
    assert backlog.take(queue) is entry
    assert backlog.expires_at == NEVER


def test_priorities_of_consumers(yard: Yard) -> None:
    queue = yard.queue("quorum")
    low = yard.consumer(queue)
    high: Taker = yard.consumer(queue, prefetch=1, arguments={"x-priority": 1})
    yard.publish(queue, "1", "2")
    assert (low.bodies, high.bodies) == (["2"], ["1"])


# --- kept; what RabbitMQ finds after kill -9 was seen in 3.10


class Again:
    """A quorum queue whose message log is on a disk."""

    def __init__(self, **arguments: Any) -> None:
        self.disk = Disk("v")
        self.arguments = arguments
        self.yard = Yard()
        self.queue = self.start()

    def start(self) -> Queue:
        """The queue as a broker finds it that begins now."""
        self.disk.again()
        storage = QueueStorage(self.disk.journal, self.disk.fetch)
        self.queue = self.yard.queue("quorum", storage=storage, **self.arguments)
        self.queue.recovered(self.yard.now)
        return self.queue

    def rest(self) -> list[tuple[str, bool, int]]:
        entries = self.yard.get(self.queue, self.queue.message_count)
        return [(each.message.body.decode(), each.is_redelivered, each.delivery_count) for each in entries]


def test_what_was_requeued_behind_stays_there() -> None:
    again = Again()
    again.yard.publish(again.queue, *"12345", delivery_mode=1)
    first, _, _ = again.yard.get(again.queue, 3)
    again.queue.requeue([first], again.yard.now)
    again.start()
    expected = [("2", True, 1), ("3", True, 1), ("4", False, 0), ("5", False, 0), ("1", True, 1)]
    assert again.rest() == expected
    again.start()  # all of them were out
    assert again.rest() == [(body, True, count + 1) for body, _, count in expected]


def test_what_had_come_back_is_first_and_then_what_was_out() -> None:
    again = Again(delivery_limit=5)
    again.yard.publish(again.queue, *"12345")
    _, second, _ = again.yard.get(again.queue, 3)
    again.queue.requeue([second], again.yard.now)
    again.start()
    assert again.rest() == [("2", True, 1), ("1", True, 1), ("3", True, 1), ("4", False, 0), ("5", False, 0)]


def test_what_is_out_again_is_counted_again() -> None:
    again = Again()
    again.yard.publish(again.queue, *"123456")
    again.queue.give_back(again.yard.get(again.queue, 3), again.yard.now)
    again.yard.get(again.queue, 1)
    again.start()
    expected = [("2", True, 1), ("3", True, 1), ("1", True, 2), ("4", False, 0), ("5", False, 0), ("6", False, 0)]
    assert [(each.body.decode()) for each in again.queue] == [body for body, _, _ in expected]
    again.start()
    assert again.rest() == expected


def test_a_restart_may_be_the_delivery_too_many() -> None:
    again = Again(delivery_limit=1)
    again.yard.publish(again.queue, *"1234")
    _, second = again.yard.get(again.queue, 2)
    again.queue.requeue([second], again.yard.now)
    again.yard.get(again.queue, 3)
    again.start()
    assert again.yard.dead == [("2", "delivery_limit")]
    assert (again.queue.message_count, again.queue.body_bytes) == (3, 3)
    assert [body for body, _, _ in again.rest()] == ["1", "3", "4"]
    assert len(again.disk.rows) == 4
    again.disk.commit()
    assert len(again.disk.rows) == 3


def test_what_memory_has_no_room_for_keeps_its_order() -> None:
    again, memory = Again(), Memory()
    yard, queue = again.yard, again.queue
    yard.publish(queue, *map(str, range(3000)))
    queue.requeue(yard.get(queue, 2), yard.now)
    again.disk.commit()
    assert queue.page_out(memory, 1 << 30) > 2900 * 256
    queue.requeue(yard.get(queue, 1), yard.now)
    expected = [*map(str, range(3, 3000)), "0", "1", "2"]
    assert [each.body.decode() for each in queue] == expected
    again.start()
    assert [each.body.decode() for each in again.queue] == expected
    assert [body for body, _, _ in again.rest()] == expected


def test_what_is_put_behind_is_not_safe_before_it_is_there() -> None:
    again = Again()
    ticket = DurabilityTicket()
    again.queue.publish(message("1"), again.yard.now, ticket)
    again.queue.requeue(again.yard.get(again.queue), again.yard.now)
    assert ticket.left == 1
    again.queue.ack(again.yard.get(again.queue), again.yard.now)
    again.disk.commit()
    assert again.disk.rows == {}

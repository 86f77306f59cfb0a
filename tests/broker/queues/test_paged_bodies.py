"""Bodies of what is out, or has come back, on the disk: clients notice nothing, and memory is what it should be."""

from __future__ import annotations

from typing import Any

import pytest

from amqproxy.amqp091.methods import (
    BasicAck,
    BasicConsume,
    BasicGet,
    BasicNack,
    BasicQos,
    BasicReject,
    QueuePurge,
    TxCommit,
    TxRollback,
    TxSelect,
)
from amqproxy.amqp091.wire import Table
from amqproxy.broker.broker import Broker
from amqproxy.broker.queues.backlog import NEVER
from amqproxy.broker.queues.consumer import QueueEntry
from amqproxy.broker.queues.paged_bodies import BLOCK_BYTES, LEAST_BODY, PagedBodies, page_in, page_out_bodies, whole
from amqproxy.broker.queues.queue_storage import QueueStorage
from amqproxy.broker.storage.journal import Journal
from tests.broker.client import Client, connected, noted
from tests.broker.disk import Memory
from tests.broker.yard import Yard, message

SIZE = 10_000
MIB = 1024 * 1024


def body(number: int) -> bytes:
    return b"%04d" % number + bytes(SIZE - 4)


def entries(count: int, size: int = SIZE) -> list[QueueEntry]:
    queue = Yard().queue()
    return [
        QueueEntry(queue, message(body(number)[:size], priority=number % 3), number, NEVER) for number in range(count)
    ]


def test_what_is_put_away_is_what_is_brought_back() -> None:
    memory, made = Memory(), entries(100)
    headers = [each.message.header for each in made]
    freed = page_out_bodies(made, memory, 50 * SIZE)
    assert 50 * SIZE <= freed < 50 * SIZE + BLOCK_BYTES
    assert sum(len(each.message.body) for each in made) == 100 * SIZE - freed
    assert [each.message.header for each in made] == headers
    assert [whole(each).body for each in made] == [body(number) for number in range(100)]
    for each in reversed(made):
        page_in(each)
    assert [each.message.body for each in made] == [body(number) for number in range(100)]
    PagedBodies.last_read = None
    assert memory.rows == {}


def test_what_is_short_is_not_worth_it() -> None:
    made = entries(100, LEAST_BODY - 1)
    assert page_out_bodies(made, Memory(), 1 << 30) == 0
    assert all(each.paged_body is None for each in made)


def test_a_disk_that_takes_nothing() -> None:
    memory, made = Memory(), entries(100)
    memory.is_full = True
    with pytest.raises(OSError, match="full"):
        page_out_bodies(made, memory, 1 << 30)
    assert [each.message.body for each in made] == [body(number) for number in range(100)]


# --- as a broker does it


class House:
    """A client that has got messages, which are not in memory any more."""

    def __init__(self, count: int = 100, **arguments: Any) -> None:
        self.memory = Memory()
        self.broker = Broker(memory_limit=2 * MIB)
        self.broker.paging.page_store = self.memory
        if "x_queue_type" in arguments:
            journal = Journal()
            self.broker.use_storage(QueueStorage(journal, lambda log_number, position, limit: []))
        self.client = connected(self.broker)
        self.arguments = {name.replace("_", "-"): value for name, value in arguments.items()}
        self.client.declare("grave")
        self.client.declare("q", durable="x_queue_type" in arguments, arguments=self.arguments)
        self.client.channel(2)
        for number in range(count):
            self.client.publish("", "q", body(number), channel=2, delivery_mode=2)
        self.client.send(1, BasicQos(0, count))
        offset = {"x-stream-offset": "first"} if arguments.get("x_queue_type") == "stream" else {}
        self.client.send(1, BasicConsume(queue="q", arguments=Table(offset)))
        assert bodies(self.client) == [body(number) for number in range(count)]
        self.before = self.broker.bytes_in_memory
        self.page()

    def page(self) -> None:
        self.broker.check_limits(0.0, memory=100 * MIB, base=0)
        while self.broker.paging.is_due:
            self.broker.paging.work(0.0)
        self.broker.set_alarm("memory", False, 0.0)

    @property
    def saved(self) -> int:
        return self.before - self.broker.bytes_in_memory


def bodies(client: Client) -> list[bytes]:
    """All that comes: more is delivered as soon as there is room for more."""
    found: list[bytes] = []
    while received := client.receive():
        found += [each.body for each in received if each.body]
    return found


@pytest.mark.parametrize(
    "arguments", [{}, {"x_queue_type": "quorum"}, {"x_queue_type": "quorum", "x_delivery_limit": 9}]
)
def test_what_is_requeued_comes_back_whole_and_waits_on_the_disk_until_then(arguments: dict[str, Any]) -> None:
    house = House(**arguments)
    assert house.saved == 100 * SIZE
    house.client.send(1, BasicQos(0, 1, False))
    watcher = connected(house.broker)
    is_behind = arguments == {"x_queue_type": "quorum"}  # and so is as one that was never out
    house.client.send(1, BasicNack(10, True, True))
    assert bodies(house.client) == [body(number) for number in range(10)]
    house.client.connection.lose(0.0)
    if not is_behind:
        assert house.before - house.broker.bytes_in_memory > 80 * SIZE
    watcher.send(1, BasicConsume(queue="q", no_ack=True))
    expected = [*range(10, 100), *range(10)] if is_behind else [*range(100)]
    assert sorted(bodies(watcher)) == sorted(body(number) for number in expected)
    PagedBodies.last_read = None
    assert house.memory.rows == {}


def test_what_is_acked_is_never_read_again() -> None:
    house = House()
    house.memory.unreadable = {block.first for block in house.memory.rows}
    assert house.client.answers(BasicAck(50, True)) == ""
    house.client.send(1, BasicAck(0, True))
    assert house.memory.rows == {}
    assert house.broker.events.failures == 0


def test_what_is_rejected_is_dead_lettered_whole() -> None:
    house = House(x_dead_letter_exchange="", x_dead_letter_routing_key="grave")
    house.client.send(1, BasicReject(1, False))
    house.client.send(1, BasicNack(100, True, False))
    watcher = connected(house.broker)
    watcher.send(1, BasicConsume(queue="grave", no_ack=True))
    assert bodies(watcher) == [body(number) for number in range(100)]


def test_what_cannot_be_read_any_more_costs_itself() -> None:
    house = House(x_dead_letter_exchange="", x_dead_letter_routing_key="grave")
    failures = noted(house.broker)
    house.memory.unreadable = {block.first for block in house.memory.rows}
    PagedBodies.last_read = None
    house.client.send(1, BasicReject(1, False))
    house.client.connection.lose(0.0)
    watcher = connected(house.broker)
    watcher.publish("", "q", b"new")
    watcher.send(1, BasicGet(queue="q", no_ack=True))
    assert bodies(watcher) == [b"new"]
    assert sum(fields["count"] for _, fields in failures) == 100
    assert watcher.depth("q") == 0


def test_a_purge_and_a_closed_channel_leave_nothing() -> None:
    house = House()
    house.client.connection.lose(0.0)
    watcher = connected(house.broker)
    assert watcher.ask(QueuePurge(queue="q")).message_count == 100
    PagedBodies.last_read = None
    assert house.memory.rows == {}


def test_a_transaction_that_is_rolled_back_has_it_all_again() -> None:
    house = House()
    for method in (TxSelect(), BasicNack(100, True, True), TxRollback()):
        house.client.send(1, method)
    house.client.receive()
    house.client.send(1, BasicNack(100, True, True))
    house.client.send(1, TxCommit())
    assert bodies(house.client) == [body(number) for number in range(100)]


def test_streams_need_nothing_of_it_again() -> None:
    """What a consumer of one has is the stream's, and never wanted back."""
    house = House(x_queue_type="stream")
    assert house.memory.rows == {}
    assert house.client.answers(BasicAck(0, True)) == ""


def test_what_comes_back_may_be_too_much_for_memory_too() -> None:
    """It goes to the disk as what never was out does."""
    house = House(count=3)
    client = connected(house.broker)
    for number in range(200):
        client.publish("", "q", body(number))
    client.send(1, BasicConsume(queue="q"))
    assert len(bodies(client)) == 200
    client.connection.lose(0.0)
    before = house.broker.bytes_in_memory
    house.page()
    assert before - house.broker.bytes_in_memory > 150 * SIZE
    watcher = connected(house.broker)
    watcher.send(1, BasicConsume(queue="q", no_ack=True))
    assert bodies(watcher) == [body(number) for number in range(200)]


def test_a_full_disk_is_an_alarm_and_loses_nothing() -> None:
    house = House()
    client = connected(house.broker)
    house.memory.is_full = True
    for number in range(200):
        client.publish("", "grave", body(number))
    client.send(1, BasicConsume(queue="grave"))
    assert len(bodies(client)) == 200
    house.page()
    assert "disk" in house.broker.alarms
    client.connection.lose(0.0)
    watcher = connected(house.broker)
    watcher.send(1, BasicConsume(queue="grave", no_ack=True))
    assert bodies(watcher) == [body(number) for number in range(200)]

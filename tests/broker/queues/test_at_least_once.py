"""Dead letters that are kept until they have arrived, and what becomes of them until then."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from amqproxy.amqp091.methods import (
    BasicAck,
    BasicGet,
    BasicNack,
    BasicPublish,
    BasicReject,
    ConfirmSelect,
    ExchangeDeclare,
    QueueDeclare,
    QueueDelete,
    QueuePurge,
)
from amqproxy.amqp091.wire import Table
from amqproxy.broker.broker import Broker
from amqproxy.broker.events import BrokerEvent
from amqproxy.broker.queues.at_least_once import SEND_AGAIN_AFTER
from amqproxy.broker.queues.policies import make_policy
from amqproxy.broker.queues.queue_storage import QueueStorage
from amqproxy.broker.storage.batch import LogOwner
from amqproxy.broker.storage.journal import Journal
from tests.broker.amqp010.stored import StoredBroker
from tests.broker.client import Client, connected
from tests.broker.disk import Memory

SURE = {
    "x-queue-type": "quorum",
    "x-dead-letter-exchange": "dlx",
    "x-dead-letter-strategy": "at-least-once",
    "x-overflow": "reject-publish",
}


class House:
    """A queue `q` that keeps its letters, an exchange `dlx` that nothing is bound to, and a queue `grave`."""

    def __init__(self, **arguments: Any) -> None:
        self.journal = Journal()
        self.broker = Broker()
        self.broker.use_storage(QueueStorage(self.journal, lambda log_number, position, limit: []))
        self.client: Client = connected(self.broker)
        self.client.ask(ExchangeDeclare(exchange="dlx", type="fanout"))
        named = {f"x-{name.replace('_', '-')}": value for name, value in arguments.items()}
        self.client.declare("q", durable=True, arguments={**SURE, **named})
        self.client.declare("grave")

    @property
    def kept(self) -> int:
        """How many messages of the queue the disk has, or will have."""
        return self.journal.message_logs[LogOwner("queue", "/", "q")].messages

    def publish(self, *bodies: bytes) -> None:
        for body in bodies:
            self.client.publish("", "q", body)

    def answer(self) -> str:
        """What a publisher receives, once the disk has what it published."""
        self.client.send(1, BasicPublish(routing_key="q"), b"x")
        self.journal.committed(self.journal.take_batch())
        return self.client.transcript()

    def reject(self, count: int) -> None:
        for _ in range(count):
            self.client.send(1, BasicGet(queue="q"))
            self.client.send(1, BasicReject(self.client.receive()[0].method.delivery_tag, False))

    def wait(self, seconds: float) -> None:
        self.client.now += seconds
        self.broker.tick(self.client.now)

    def letters(self) -> list[bytes]:
        found = []
        while self.client.depth("grave"):
            self.client.send(1, BasicGet(queue="grave", no_ack=True))
            found.append(self.client.receive()[0].body)
        return found


def test_what_has_nowhere_to_go_is_kept_until_it_has() -> None:
    """RabbitMQ 3.10 does the same, and takes the same three minutes (179 s were measured)."""
    house = House(message_ttl=100)
    house.publish(b"1", b"2", b"3")
    house.wait(0.2)
    assert (house.client.depth("q"), house.kept) == (0, 3)
    house.client.bind("grave", "dlx")
    house.wait(SEND_AGAIN_AFTER - 1)
    assert house.letters() == []
    house.wait(1)
    assert (house.letters(), house.kept) == ([b"1", b"2", b"3"], 0)
    assert house.broker.next_deadline() > house.client.now + SEND_AGAIN_AFTER


def test_what_arrives_at_once_is_kept_no_longer() -> None:
    house = House()
    house.client.bind("grave", "dlx")
    house.publish(b"1", b"2")
    house.reject(2)
    assert (house.letters(), house.kept) == ([b"1", b"2"], 0)


def test_each_queue_gets_it_once_however_long_another_takes() -> None:
    house = House()
    house.client.declare("full", arguments={"x-max-length": 1, "x-overflow": "reject-publish"})
    for name in ("grave", "full"):
        house.client.bind(name, "dlx")
    house.client.publish("", "full", b"x")
    house.publish(b"1")
    house.reject(1)
    assert (house.letters(), house.client.depth("full"), house.kept) == ([b"1"], 1, 1)
    house.client.ask(QueuePurge(queue="full"))
    house.wait(SEND_AGAIN_AFTER)
    assert (house.letters(), house.client.depth("full"), house.kept) == ([], 1, 0)


@pytest.mark.parametrize("arguments", [{"overflow": "drop-head"}, {"dead_letter_strategy": "at-most-once"}])
def test_at_most_once_where_it_is_not_asked_for_or_cannot_be(arguments: dict[str, str]) -> None:
    house = House(**arguments)
    house.publish(b"1")
    house.reject(1)
    assert house.kept == 0


def test_a_circle_is_the_end_of_it() -> None:
    house = House(message_ttl=100)
    house.client.bind("q", "dlx")
    house.publish(b"1")
    house.wait(0.2)
    assert (house.client.depth("q"), house.kept) == (0, 0)


def test_letters_count_for_the_limits_of_their_queue() -> None:
    house = House(max_length=2)
    house.client.ask(ConfirmSelect())
    assert [house.answer() for _ in range(3)] == 3 * [BasicAck.name]
    house.reject(3)
    assert house.client.depth("q") == 0
    assert house.answer() == BasicNack.name
    house.client.bind("grave", "dlx")
    house.wait(SEND_AGAIN_AFTER)
    assert house.answer() == BasicAck.name


def test_it_is_reported_once_that_the_queue_has_let_it_go() -> None:
    house = House()
    events: list[BrokerEvent] = []
    house.broker.events.observers.append(events.append)
    house.publish(b"1")
    house.reject(1)
    house.wait(SEND_AGAIN_AFTER)
    house.wait(SEND_AGAIN_AFTER)
    assert [event.name for event in events].count("message.dropped") == 1


def test_a_policy_that_asks_for_it_no_more_sends_all_for_the_last_time() -> None:
    house = House()
    vhost = house.broker.vhosts["/"]
    house.client.declare("p", durable=True, arguments={"x-queue-type": "quorum"})
    definition = {name.removeprefix("x-"): value for name, value in SURE.items() if name != "x-queue-type"}
    vhost.set_policy(make_policy("sure", "^p$", definition), house.client.now)
    message_log = house.journal.message_logs[LogOwner("queue", "/", "p")]
    house.client.publish("", "p", b"1")
    house.client.send(1, BasicGet(queue="p"))
    house.client.send(1, BasicReject(house.client.receive()[0].method.delivery_tag, False))
    assert message_log.messages == 1
    vhost.clear_policy("sure", house.client.now)
    house.wait(SEND_AGAIN_AFTER)
    assert message_log.messages == 0


def test_a_deletion_is_their_end() -> None:
    house = House()
    house.publish(b"1")
    house.reject(1)
    house.client.ask(QueueDelete(queue="q"))
    house.client.bind("grave", "dlx")
    house.wait(SEND_AGAIN_AFTER)
    assert house.letters() == []


def test_memory_may_have_no_room_for_them() -> None:
    house = House()
    memory = Memory()
    bodies = [b"%04d" % number + bytes(10_000) for number in range(50)]
    house.publish(*bodies)
    house.reject(50)
    queue = house.broker.vhosts["/"].queues["q"]
    before = queue.bytes_in_memory
    assert queue.page_out(memory, 1 << 30) == before - queue.bytes_in_memory == 50 * 10_004
    house.client.bind("grave", "dlx")
    house.wait(SEND_AGAIN_AFTER)
    assert (house.letters(), house.kept) == (bodies, 0)


def test_a_restart_finds_them_again() -> None:
    """As messages of their queue, which expire, or are rejected, once more."""
    house = House()
    house.publish(b"1")
    house.reject(1)
    batch = house.journal.take_batch()
    assert [row.message.body for row in batch.rows] == [b"1"]
    assert batch.settled == []


@pytest.mark.parametrize(("is_rejected", "reason"), [(True, "rejected"), (False, "expired")])
def test_letters_that_wait_are_letters_after_a_restart(tmp_path: Path, is_rejected: bool, reason: str) -> None:
    with StoredBroker(tmp_path) as stored:
        client = connected(stored.broker)
        for method in (
            ExchangeDeclare(exchange="dlx", type="fanout", durable=True),
            QueueDeclare(queue="q", durable=True, arguments=Table(SURE)),
            QueueDeclare(queue="grave", durable=True),
        ):
            client.send(1, method)
            stored.go_on()
        client.send(1, BasicPublish(routing_key="q"), b"ready")
        client.send(1, BasicGet(queue="q"))
        client.publish("", "q", b"letter", expiration=None if is_rejected else "1")
        if is_rejected:
            client.send(1, BasicGet(queue="q"))
            client.send(1, BasicReject(2, False))
        else:
            client.now += 1
            stored.broker.tick(client.now)
        stored.go_on()
    with StoredBroker(tmp_path) as stored:
        client = connected(stored.broker)
        assert client.depth("q") == 1
        vhost = stored.broker.vhosts["/"]
        vhost.bind(vhost.exchanges["dlx"], vhost.queues["grave"], "", Table())
        stored.broker.tick(client.now)
        stored.go_on()
        assert (client.depth("q"), client.depth("grave")) == (1, 1)
        (letter,) = vhost.queues["grave"]
        assert (letter.body, letter.properties.headers["x-death"][0]["reason"]) == (b"letter", reason)
    with StoredBroker(tmp_path) as stored:
        assert [each.body for each in stored.broker.vhosts["/"].queues["q"]] == [b"ready"]

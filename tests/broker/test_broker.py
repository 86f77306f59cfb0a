"""What the broker does with all its connections, and queues: what fails with one of them is not the others'."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from amqproxy.amqp010.controls import SessionRequestTimeout
from amqproxy.amqp091.frame import encode_frame, encode_method
from amqproxy.amqp091.methods import BasicAck, BasicConsume, BasicGet, BasicPublish
from amqproxy.amqp091.properties import ContentHeader
from amqproxy.amqp091.wire import Table
from amqproxy.broker.access.users import User
from amqproxy.broker.amqp091.connection import Amqp091Connection
from amqproxy.broker.broker import CHANNEL_COST, CONNECTION_COST, Broker
from amqproxy.broker.queues.backlog import NEVER
from amqproxy.broker.queues.consumer import CONSUMER_COST, QueueEntry
from amqproxy.broker.queues.paged_messages import MESSAGE_COST
from amqproxy.broker.queues.queue import Queue
from tests.broker.amqp010.client import Client010
from tests.broker.client import Client, connected, noted
from tests.broker.yard import Yard, message


def fails(*arguments: object, **options: object) -> Any:
    raise RuntimeError("on purpose")


class FailingConnection(Amqp091Connection):
    """Whatever the broker wants of it, it fails."""

    tick = close = alarms_changed = fails

    def is_of(self, user: User) -> bool:
        return True

    def is_named(self, name: str) -> bool:
        return False


class FailingQueue(Queue):
    tick = _given_back = fails


def failing_connection(broker: Broker) -> FailingConnection:
    return FailingConnection(broker, is_loopback=True, wake=lambda: None)


def hear_of_an_alarm(broker: Broker) -> None:
    broker.set_alarm("memory", True, 0.0)
    broker.set_alarm("memory", False, 0.0)


@pytest.mark.parametrize(
    "act",
    [
        lambda broker: broker.close_connections("bye", 0.0),
        lambda broker: broker.delete_user("guest", 0.0),
        hear_of_an_alarm,
    ],
)
def test_all_connections_are_notified_though_one_fails(act: Callable[[Broker], object]) -> None:
    """That one is over, and the failure is reported once for each time."""
    broker = Broker()
    failing, client = failing_connection(broker), connected(broker)
    failures = noted(broker)
    if act is hear_of_an_alarm:
        client.declare("q")
        broker.set_alarm("disk", True, 0.0)
        client.send(1, BasicPublish(routing_key="q"), b"x")
        broker.set_alarm("disk", False, 0.0)
        assert client.transcript() == "connection.blocked · connection.unblocked"
        act(broker)
        assert client.depth("q") == 1
    else:
        act(broker)
        assert client.transcript().startswith("connection 320")
    assert failing.is_over
    assert {event for event, _ in failures} == {"connection failed"}


def test_deleting_a_user_passes_over_who_has_not_logged_in() -> None:
    broker = Broker()
    Client(broker)
    client = connected(broker)
    assert broker.delete_user("guest", 0.0)
    assert client.transcript().startswith("connection 320")


def test_a_connection_whose_tick_fails_is_over_and_the_others_have_theirs() -> None:
    broker = Broker()
    failing = failing_connection(broker)
    client = Client(broker).open(heartbeat=10)
    broker.timed_connections.set(failing, 0.0)
    failures = noted(broker)
    broker.tick(client.now + 6)
    client.receive()
    assert client.heartbeats == 1
    assert failing.is_over
    assert [event for event, _ in failures] == ["connection failed"]


def test_a_queue_whose_tick_fails_keeps_no_other_from_its_own() -> None:
    broker = Broker()
    client = connected(broker)
    for name in ("a", "b"):
        client.declare(name, arguments={"x-message-ttl": 100})
        client.publish("", name)
    vhost = broker.vhosts["/"]
    vhost.timed_queues.set(FailingQueue("failing", vhost, arguments=Table()), 0.0)
    failures = noted(broker)
    broker.tick(client.now + 1)
    assert [client.depth(name) for name in ("a", "b")] == [0, 0]
    assert [(event, fields["queue"]) for event, fields in failures] == [("a queue's tick failed", "failing")]


def test_a_virtual_host_whose_tick_fails_keeps_no_other_from_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = Broker()
    client = connected(broker)
    client.declare("a", arguments={"x-message-ttl": 100})
    client.publish("", "a")
    other = broker.add_vhost("other")
    broker.vhosts = {"other": other, "/": broker.vhosts["/"]}
    monkeypatch.setattr(other, "delayed", None)
    failures = noted(broker)
    broker.tick(client.now + 1)
    assert client.depth("a") == 0
    assert [(event, fields["vhost"]) for event, fields in failures] == [("a virtual host's tick failed", "other")]


def test_what_a_client_held_goes_back_to_each_queue_though_one_of_them_fails() -> None:
    broker = Broker()
    client, watcher = connected(broker), connected(broker)
    client.channel(2)
    for queue, channel in (("a", 1), ("b", 2)):
        client.declare(queue)
        client.publish("", queue)
        client.send(channel, BasicGet(queue=queue))
        client.receive()
    client.declare("mine", exclusive=True)
    failing = FailingQueue("failing", Yard(), arguments=Table())
    client.connection.channels[1].deliveries.unacked.add(2, QueueEntry(failing, message(), 1, NEVER))
    client.connection.lose(client.now)
    assert (watcher.depth("a"), watcher.depth("b")) == (1, 1)
    assert "mine" not in broker.vhosts["/"].queues
    assert broker.events.failures == 1


def test_memory_that_the_broker_does_not_hold_is_not_short() -> None:
    """What the allocators keep for later counts for as long as the broker holds a good part of the limit itself."""
    broker = Broker(memory_limit=1_000_000)
    client = connected(broker)
    client.declare("q")
    for memory, base, is_short in [
        (1_100_000, None, True),
        (1_100_000, 100_000, False),
        (1_100_000, 600_000, True),
        (900_000, 900_000, False),
    ]:
        broker.check_limits(0.0, memory=memory, base=base)
        assert broker.alarms == ({"memory"} if is_short else set())
    client.publish("", "q", bytes(400_000))
    broker.check_limits(0.0, memory=1_100_000, base=100_000)
    assert broker.alarms == {"memory"}


def test_consumers_take_memory() -> None:
    broker = Broker()
    client = connected(broker)
    client.declare("q")
    session = Client010(broker).open().session()
    before = broker.bytes_in_memory
    client.send(1, BasicConsume(queue="q", consumer_tag="c"))
    assert broker.bytes_in_memory == before + CONSUMER_COST + client.connection.waiting
    client.receive()
    for number in range(3):
        session.subscribe("q", f"d{number}")
    assert broker.bytes_in_memory == before + 4 * CONSUMER_COST
    session.control(SessionRequestTimeout(60))
    session.client.receive()
    session.client.connection.lose(session.client.now)
    assert broker.bytes_in_memory == before + 4 * CONSUMER_COST - CHANNEL_COST - CONNECTION_COST
    client.connection.lose(client.now)
    session.client.now += 61
    session.client.tick()
    assert broker.bytes_in_memory == before - 2 * (CHANNEL_COST + CONNECTION_COST)


def test_bytes_in_memory() -> None:
    """All that a client can make the broker hold counts: what waits, what is out, what is unsent."""
    broker = Broker()
    client = connected(broker)
    client.declare("q")
    before = broker.bytes_in_memory
    for _ in range(3):
        client.publish("", "q", bytes(1000))
    assert broker.bytes_in_memory == before + 3 * (1000 + MESSAGE_COST)
    client.send(1, BasicGet(queue="q"))
    assert broker.bytes_in_memory > before + 4 * (1000 + MESSAGE_COST) - MESSAGE_COST
    client.receive()
    assert broker.bytes_in_memory == before + 3 * (1000 + MESSAGE_COST)
    client.send(1, BasicAck(1))
    assert broker.bytes_in_memory == before + 2 * (1000 + MESSAGE_COST)
    client.channel(2)
    assert broker.bytes_in_memory == before + 2 * (1000 + MESSAGE_COST) + CHANNEL_COST
    client.feed(encode_method(2, BasicPublish()) + encode_frame(2, 2, ContentHeader(3000).encode()))
    client.feed(encode_frame(3, 2, bytes(700)) + encode_frame(3, 2, bytes(300)))
    assert broker.bytes_in_memory == before + 2 * (1000 + MESSAGE_COST) + CHANNEL_COST + 1000
    client.connection.lose(client.now)
    assert broker.bytes_in_memory == before + 2 * (1000 + MESSAGE_COST) - CHANNEL_COST - CONNECTION_COST

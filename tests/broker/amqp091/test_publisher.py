"""What a channel remembers of its publishes is forgotten as soon as it is not so any more."""

from __future__ import annotations

import pytest

from amqproxy.amqp091.frame import encode_frame, encode_method
from amqproxy.amqp091.methods import (
    BasicAck,
    BasicConsume,
    BasicGet,
    BasicGetEmpty,
    BasicNack,
    BasicPublish,
    ConfirmSelect,
    ExchangeDeclare,
    ExchangeDelete,
    QueueDelete,
    QueueUnbind,
)
from amqproxy.amqp091.properties import ContentHeader, Properties
from amqproxy.broker.access.permissions import Permission, TopicPermission
from amqproxy.broker.amqp091 import publisher
from amqproxy.broker.amqp091.publisher import MAX_ROUTES, SETTLEMENT
from amqproxy.broker.broker import Broker
from amqproxy.broker.queues.queue_storage import QueueStorage
from amqproxy.broker.storage.journal import Journal
from tests.broker.client import Client, connected


@pytest.fixture
def client() -> Client:
    client = connected()
    for name in ("a", "b"):
        client.declare(name)
    client.bind("a", "amq.topic", "k")
    assert client.publish("amq.topic", "k") == ""
    assert client.depth("a") == 1
    return client


def test_a_binding_that_comes_and_goes(client: Client) -> None:
    client.bind("b", "amq.topic", "#")
    client.publish("amq.topic", "k")
    assert (client.depth("a"), client.depth("b")) == (2, 1)
    client.ask(QueueUnbind(queue="a", exchange="amq.topic", routing_key="k"))
    client.publish("amq.topic", "k")
    assert (client.depth("a"), client.depth("b")) == (2, 2)


def test_a_queue_that_goes_and_comes_again(client: Client) -> None:
    client.publish("", "b", mandatory=True)
    client.ask(QueueDelete(queue="b"))
    assert client.publish("", "b", mandatory=True) == "basic.return"
    client.declare("b")
    assert client.publish("", "b", mandatory=True) == ""
    assert client.depth("b") == 1


def test_an_exchange_that_goes(client: Client) -> None:
    client.ask(ExchangeDeclare(exchange="x", type="fanout"))
    assert client.publish("x", "") == ""
    client.ask(ExchangeDelete(exchange="x"))
    assert "NOT_FOUND - no exchange 'x'" in client.publish("x", "")


def test_permissions_that_are_taken_away(client: Client) -> None:
    user = client.broker.users["guest"]
    user.permit_topic("/", "amq.topic", TopicPermission("^other$", ".*"))
    assert "ACCESS_REFUSED - access to topic 'k'" in client.publish("amq.topic", "k")
    client.channel()
    user.permit_topic("/", "amq.topic", None)
    assert client.publish("amq.topic", "k") == ""
    user.permit("/", Permission(".*", "", ".*"))
    assert "ACCESS_REFUSED - access to exchange 'amq.topic'" in client.publish("amq.topic", "k")


def test_each_header_is_its_own(client: Client) -> None:
    """The same again, another of the same length, one with keys of its own, and one that is refused, every time."""
    data = b""
    for message_id in ("one", "one", "two"):
        data += encode_method(1, BasicPublish(routing_key="b"))
        data += encode_frame(2, 1, ContentHeader(0, Properties(message_id=message_id)).encode())
    client.feed(data)
    client.publish("", "b", headers={"CC": ["a"]})
    client.publish("", "b", headers={"CC": ["a"]})
    assert (client.depth("a"), client.depth("b")) == (3, 5)
    assert [each.properties.message_id for each in client.broker.vhosts["/"].queues["b"]][:3] == ["one", "one", "two"]
    assert "invalid expiration 'x'" in client.publish("", "b", expiration="x")
    client.channel()
    assert "invalid expiration 'x'" in client.publish("", "b", expiration="x")


@pytest.mark.parametrize("sizes", [[0], [5], [2, 3], [1] * 5, [2, 0, 3]])
def test_bodies_in_any_number_of_frames(client: Client, sizes: list[int]) -> None:
    body = b"hello"[: sum(sizes)]
    client.feed(encode_method(1, BasicPublish(routing_key="b")))
    client.feed(encode_frame(2, 1, ContentHeader(len(body)).encode()))
    place = 0
    for size in sizes if body else []:
        client.feed(encode_frame(3, 1, body[place : place + size]))
        place += size
    client.publish("", "b", b"next")
    assert [each.body for each in client.broker.vhosts["/"].queues["b"]] == [body, b"next"]


def test_more_ways_than_are_remembered(client: Client) -> None:
    client.bind("b", "amq.topic", "key.*")
    for number in range(2 * MAX_ROUTES):
        client.publish("amq.topic", f"key.{number % (MAX_ROUTES + 1)}")
    assert client.publish("amq.topic", "k") == ""
    assert (client.depth("a"), client.depth("b")) == (2, 2 * MAX_ROUTES)


# ------------------------------------------------------------------------------------------------------- confirms


class Confirming:
    """A client in confirm mode, with a queue that takes everything (`q`), one that is full (`full`), and none else.

    With a journal, `q` is durable, and what it is given is safe once `commit` is called.
    """

    def __init__(self, *, is_kept: bool = False) -> None:
        broker = Broker()
        self.journal = Journal()
        if is_kept:
            broker.use_storage(QueueStorage(self.journal, lambda log_number, position, limit: []))
        self.client = client = connected(broker)
        client.declare("q", durable=True)
        client.declare("full", arguments={"x-max-length": 0, "x-overflow": "reject-publish"})
        if is_kept:
            self.commit()
        client.ask(ConfirmSelect())

    def publish(self, *queues: str, mandatory: bool = False) -> str:
        """Publish to these, all in one read; what came then, as in `ack 1`, `nack 3…` where it is multiple."""
        data = b""
        for queue in queues:
            data += encode_method(1, BasicPublish(routing_key=queue, mandatory=mandatory))
            data += encode_frame(2, 1, ContentHeader(0, Properties(delivery_mode=2)).encode())
        self.client.feed(data)
        return self.transcript()

    def transcript(self) -> str:
        words = []
        for each in self.client.receive():
            method = each.method
            word = method.name.removeprefix("basic.")
            if isinstance(method, BasicNack):
                assert method.requeue
            if isinstance(method, (BasicAck, BasicNack)):
                word += f" {method.delivery_tag}{'…' * method.multiple}"
            words.append(word)
        return " · ".join(words)

    def commit(self) -> None:
        self.journal.committed(self.journal.take_batch())


@pytest.mark.parametrize(
    ("queues", "expected"),
    [
        ("q", "ack 1"),
        ("q q q", "ack 3…"),
        ("nil", "ack 1"),
        ("nil nil", "ack 1 · ack 2"),
        ("q nil", "ack 2 · ack 1"),
        ("q q nil q", "ack 3 · ack 4…"),
        ("full", "nack 1…"),
        ("full full full", "nack 3…"),
        ("full nil full", "ack 2 · nack 3…"),
        ("q full", "ack 1 · nack 2…"),
        ("full q", "nack 1… · ack 2"),
        ("q q full full nil q full q q", "ack 5 · ack 2… · nack 4… · ack 6 · nack 7… · ack 9…"),
    ],
)
def test_each_publish_is_settled_once(queues: str, expected: str) -> None:
    assert Confirming().publish(*queues.split()) == expected


def test_a_message_that_is_returned_is_confirmed_at_once() -> None:
    assert Confirming().publish("q", "nil", "nil", mandatory=True) == "return · ack 2 · return · ack 3 · ack 1"


@pytest.mark.parametrize(
    ("queues", "at_once", "once_safe"),
    [
        ("q", "", "ack 1"),
        ("q nil q", "ack 2", "ack 3…"),
        ("q full nil q full", "ack 3 · nack 2 · nack 5", "ack 4…"),
        ("full nil", "ack 2 · nack 1…", ""),
    ],
)
def test_what_waits_for_the_disk_holds_up_nothing_else(queues: str, at_once: str, once_safe: str) -> None:
    confirming = Confirming(is_kept=True)
    assert confirming.publish(*queues.split()) == at_once
    confirming.commit()
    assert confirming.transcript() == once_safe


class FailsOnce:
    """A struct that cannot be packed, the first time."""

    def __init__(self) -> None:
        self.has_failed = False

    def pack(self, *values: int) -> bytes:
        if not self.has_failed:
            self.has_failed = True
            raise MemoryError("on purpose")
        return SETTLEMENT.pack(*values)


def failed(client: Client) -> str:
    """What it receives after the next tick, which is when it ends."""
    client.broker.tick(client.now)
    return client.transcript()


def test_a_confirm_that_fails_ends_its_connection_and_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    confirming = Confirming(is_kept=True)
    other = connected(confirming.client.broker)
    other.ask(ConfirmSelect())
    assert confirming.publish("q") == ""
    assert other.publish("", "q", delivery_mode=2) == ""
    monkeypatch.setattr(publisher, "SETTLEMENT", FailsOnce())
    confirming.commit()
    assert confirming.journal.events.failures == 1
    assert failed(confirming.client).startswith("connection 541 0.0 INTERNAL_ERROR")
    assert [each.method for each in other.receive()] == [BasicAck(1, False)]


def test_who_uses_a_message_is_not_at_fault_where_its_confirm_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    confirming = Confirming(is_kept=True)
    other = connected(confirming.client.broker)
    other.ask(BasicConsume(queue="q"))
    assert confirming.publish("q") == ""
    assert len(other.receive()) == 1
    monkeypatch.setattr(publisher, "SETTLEMENT", FailsOnce())
    other.send(1, BasicAck(1))
    assert failed(confirming.client).startswith("connection 541 0.0 INTERNAL_ERROR")
    assert other.ask(BasicGet(queue="q")) == BasicGetEmpty()
    confirming.commit()
    assert confirming.journal.events.failures == 1


def test_acks_that_wait_for_the_disk_stay_in_their_order() -> None:
    confirming = Confirming(is_kept=True)
    assert confirming.publish("q") == ""
    batch = confirming.journal.take_batch()
    assert confirming.publish("full", "q", "nil") == "ack 4 · nack 2"
    assert confirming.publish("full") == "nack 5"
    confirming.journal.committed(batch)
    assert confirming.transcript() == "ack 1"
    confirming.commit()
    assert confirming.transcript() == "ack 3"
    assert confirming.publish("full") == "nack 6…"


def test_a_confirm_does_not_wait_for_what_its_publish_pushed_out() -> None:
    confirming = Confirming(is_kept=True)
    pushed_out = {"x-max-length": 0, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "q"}
    confirming.client.declare("transient", arguments=pushed_out)
    assert confirming.publish("transient") == "ack 1"
    assert confirming.client.depth("q") == 1
    assert confirming.publish("q", "transient") == ""
    confirming.commit()
    assert confirming.transcript() == "ack 3…"

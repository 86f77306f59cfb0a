"""What a channel remembers of its publishes is forgotten as soon as it is not so any more."""

from __future__ import annotations

import pytest

from amqproxy.amqp091.frames import encode_frame, encode_method
from amqproxy.amqp091.methods import BasicPublish, ExchangeDeclare, ExchangeDelete, QueueDelete, QueueUnbind
from amqproxy.amqp091.properties import ContentHeader, Properties
from amqproxy.broker.permissions import Permission, TopicPermission
from amqproxy.broker.publishes import MAX_WAYS
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
    octets = b""
    for message_id in ("one", "one", "two"):
        octets += encode_method(1, BasicPublish(routing_key="b"))
        octets += encode_frame(2, 1, ContentHeader(0, Properties(message_id=message_id)).encode())
    client.feed(octets)
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
    client.bind("b", "amq.topic", "way.*")
    for number in range(2 * MAX_WAYS):
        client.publish("amq.topic", f"way.{number % (MAX_WAYS + 1)}")
    assert client.publish("amq.topic", "k") == ""
    assert (client.depth("a"), client.depth("b")) == (2, 2 * MAX_WAYS)

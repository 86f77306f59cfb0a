"""State of the broker's 0-9-1 connections, for taps that join: from then on they know all that the others know."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from amqproxy.amqp091.frame import encode_frame, encode_method
from amqproxy.amqp091.methods import (
    BasicAck,
    BasicCancel,
    BasicConsume,
    BasicGet,
    BasicNack,
    BasicPublish,
    ChannelClose,
    ChannelOpen,
    ConfirmSelect,
    Method,
    QueueDeclare,
    QueueDelete,
)
from amqproxy.amqp091.properties import ContentHeader, Properties
from amqproxy.broker.broker import Broker
from tests.broker.client import Client
from tests.broker.server.joining_tap import JoiningTap, TappedConnection

SEEDS = range(100, 160)


class TappedClient(Client):
    """A client of the broker that a tap sees."""

    def __init__(self, broker: Broker) -> None:
        super().__init__(broker)
        self.tap = JoiningTap()
        self.connection: Any = TappedConnection(self.connection, self.tap)

    def take(self) -> None:
        """Take what the broker has sent."""
        self.rest()
        if self.connection.take_output():
            self.connection.sent(self.now)

    def begin(self) -> None:
        self.open()
        for number in (1, 2):
            self.send(number, ChannelOpen())
        self.take()

    def receive(self) -> list[object]:  # type: ignore[override]
        self.take()
        return []

    def expect_none_but(self, received: list[object], *names: str) -> None:  # type: ignore[override]
        """Expect nothing: the broker's answers are for the tap."""


def content(number: int, key: str, body: bytes) -> bytes:
    header = encode_frame(2, number, ContentHeader(len(body), Properties()).encode())
    return encode_method(number, BasicPublish(routing_key=key)) + header + encode_frame(3, number, body)


def requests(random: Random) -> tuple[int, Method]:
    """A request of the consumer."""
    return random.choice(
        [
            (1, BasicConsume(queue="q", consumer_tag=f"c{random.randrange(3)}", no_wait=random.random() < 0.5)),
            (1, BasicCancel(consumer_tag=f"c{random.randrange(3)}", no_wait=random.random() < 0.5)),
            (2, BasicConsume(queue="r", consumer_tag=f"r{random.randrange(10**6)}", no_ack=True)),
            (2, BasicGet(queue="q")),
            (2, QueueDelete(queue="r")),
            (2, QueueDeclare(queue="r")),
            (1, BasicAck(random.randrange(1, 9), multiple=random.random() < 0.5)),
            (1, BasicNack(random.randrange(1, 9))),
            (3, ChannelOpen()),
            (3, ChannelClose(200)),
        ]
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_who_joins_knows_what_the_others_know(seed: int) -> None:
    random, broker = Random(seed), Broker()
    publisher, consumer = TappedClient(broker), TappedClient(broker)
    for each in (publisher, consumer):
        each.begin()
    publisher.send(1, ConfirmSelect())
    publisher.send(1, QueueDeclare(queue="q"))
    publisher.send(1, QueueDeclare(queue="r"))
    publisher.take()
    joins = [random.randrange(30) for _ in range(2)]
    for step in range(60):
        for each, at in zip((publisher, consumer), joins, strict=True):
            if step == at:
                each.tap.join()
        match random.randrange(5):
            case 0:
                publisher.take()
            case 1:
                consumer.take()
            case 2 | 3:
                data = content(random.randrange(1, 3), random.choice("qr"), b"%d" % step * random.randrange(1, 9))
                cut = random.randrange(len(data) + 1)
                for part in (data[:cut], data[cut:]):
                    if part:
                        publisher.feed(part)
                        if random.random() < 0.3:
                            publisher.take()
            case 4:
                number, method = requests(random)
                if number == 3 and isinstance(method, ChannelOpen) == (3 in consumer.connection.channels):
                    continue
                if number in consumer.connection.channels or number == 3:
                    consumer.send(number, method)
    for each in (publisher, consumer):
        each.take()
        each.take()
        if each.tap.snapshot is not None:
            whole, joined = each.tap.claims
            assert joined == whole
            each.tap.snapshot = None


def test_most_who_join_are_shown_the_state_at_once() -> None:
    broker = Broker()
    client = TappedClient(broker)
    client.begin()
    client.send(1, QueueDeclare(queue="q"))
    client.send(1, BasicConsume(queue="q", consumer_tag="c"))
    client.take()
    client.tap.join()
    client.feed(content(1, "q", b"x"))
    client.take()
    snapshot = client.tap.snapshot
    assert snapshot is not None
    assert (snapshot.handshake.user, snapshot.handshake.virtual_host) == ("guest", "/")
    assert [(each.number, each.mode, each.last_queue) for each in snapshot.channels] == [
        (1, "normal", "q"),
        (2, "normal", None),
    ]
    assert [(each.tag, each.queue) for each in snapshot.channels[0].consumers] == [("c", "q")]
    assert client.tap.claims[1] == [("publish", 1, None, False, b"x"), ("deliver", 1, 1, "q", True, b"x")]

"""Clients and messages switch from RabbitMQ 3.10 to 4.3 and back, while parties are killed: none is lost."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.real.blue_green import BlueGreen, Client, Consumer, Publisher, declare, depth, preload
from tests.real.poll import until
from tests.real.rabbitmq import RabbitMQ, running
from tests.real.rabbitmq_installation import installation

pytestmark = [
    pytest.mark.real,
    pytest.mark.once,
    # pika leaves sockets open where a connection ends in its handshake
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

WINDOW = 256
"""Messages that a mover may have on both brokers."""

PREFETCH = 10
"""Messages that a consumer may receive again."""


@pytest.fixture(scope="module")
def green(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RabbitMQ]:
    with running(tmp_path_factory.mktemp("rabbitmq"), installation("4.3")) as node:
        yield node


@pytest.fixture
def place(tmp_path: Path, rabbitmq: RabbitMQ, green: RabbitMQ, monkeypatch: pytest.MonkeyPatch) -> Iterator[BlueGreen]:
    monkeypatch.setenv("SWITCH_PASSWORD", "guest")
    found = BlueGreen(tmp_path, rabbitmq.port, green.port)
    yield found
    found.kill()


def finished(clients: list[Client], place: BlueGreen) -> None:
    """End the clients."""
    for each in clients:
        each.is_over.set()
    for each in clients:
        each.join(60)
    assert not [each.queue for each in clients if each.is_alive()]


def test_a_switch_and_its_way_back_with_kills(place: BlueGreen, green: RabbitMQ) -> None:
    queues = [f"switch.{number}" for number in range(4)]
    count, kills = 1500, 0
    declare(place, green.port, queues)
    preload(place, place.brokers["blue"], queues, count)
    publishers = [Publisher(place, queue, count, 0.05) for queue in queues]
    consumers = [Consumer(place, queue, 0.02) for queue in queues]
    clients: list[Client] = [*publishers, *consumers]
    try:
        for each in clients:
            each.start()
        until(lambda: place.connected() == {"blue": 8, "green": 0}, "all clients to be at blue")
        until(lambda: all(each.seen for each in consumers), "all consumers to have begun")
        place.ask("switches-begin", source="blue", target="green", strict=True, rate=1000, queues=[])
        until(lambda: place.switch()["moved"] > 100, "the move to have begun")
        for each in until(place.movers, "a mover"):
            each.kill()
            kills += 1
        until(lambda: place.switch()["moved"] > 600, "the move to go on")
        place.kill()
        kills += 1
        place.start()
        place.until("green")
        until(lambda: place.connected() == {"blue": 0, "green": 8}, "all clients to be at green")
        assert all(each.codes[320] for each in clients)
        assert [depth(place, place.brokers["blue"], queue) for queue in queues] == [0] * 4
        for each in consumers:
            each.pause = 0.0
        reached = [each.next for each in publishers]
        until(
            lambda: all(each.next > before + 3 for each, before in zip(publishers, reached, strict=True)), "publishes"
        )
        place.ask("switches-back", switch="blue-green")
        place.until("blue")
        until(lambda: place.connected() == {"blue": 8, "green": 0}, "all clients to be at blue again")
        for each in publishers:
            each.is_over.set()
        until(lambda: all(p.next <= len(c.seen) for p, c in zip(publishers, consumers, strict=True)), "all deliveries")
    finally:
        finished(clients, place)
    for publisher, consumer in zip(publishers, consumers, strict=True):
        missing = set(range(publisher.next)) - consumer.known
        assert missing == set()
        assert consumer.seen == sorted(consumer.seen)
    repeats = sum(each.repeats for each in consumers)
    cuts = kills + 2
    assert repeats <= kills * WINDOW + cuts * len(queues) * (PREFETCH + 1)

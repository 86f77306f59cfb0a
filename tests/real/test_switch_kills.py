"""A switch of 100,000 messages under 200 clients, there and back, with kill -9 of each party: none is lost.

`make switch` runs this; `SWITCH_SEED` repeats the order and the moments of a run's kills.
"""

from __future__ import annotations

import logging
import os
import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.real.blue_green import (
    PREFETCH,
    WINDOW,
    BlueGreen,
    Client,
    Consumer,
    Publisher,
    declare,
    depth,
    finished,
    preload,
)
from tests.real.poll import until
from tests.real.rabbitmq import RabbitMQ, running
from tests.real.rabbitmq_installation import installation

pytestmark = [
    pytest.mark.real,
    pytest.mark.soak,
    pytest.mark.timeout(1800),
    # pika leaves sockets open where a connection ends in its handshake
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

LOG = logging.getLogger(__name__)

QUEUES = [f"switch.{number}" for number in range(100)]
"""Each has a publisher and a consumer."""

WAITING = 1000
"""Messages that wait in each queue."""

LONG = 600.0
"""Seconds for a switch, in which brokers start again twice."""


@pytest.fixture
def deadline() -> None:
    """None of its own: the kills take longer than other tests may."""


@pytest.fixture
def brokers(tmp_path: Path) -> Iterator[dict[str, RabbitMQ]]:
    (tmp_path / "blue").mkdir()
    (tmp_path / "green").mkdir()
    with (
        running(tmp_path / "blue", installation("")) as blue,
        running(tmp_path / "green", installation("4.3")) as green,
    ):
        yield {"blue": blue, "green": green}


@pytest.fixture
def place(tmp_path: Path, brokers: dict[str, RabbitMQ], monkeypatch: pytest.MonkeyPatch) -> Iterator[BlueGreen]:
    monkeypatch.setenv("SWITCH_PASSWORD", "guest")
    found = BlueGreen(tmp_path, brokers["blue"].port, brokers["green"].port)
    yield found
    found.kill()


class Killer:
    """Kills each party once, in a random order and at random moments, and starts it again."""

    def __init__(self, place: BlueGreen, brokers: dict[str, RabbitMQ], chance: random.Random) -> None:
        self.place = place
        self.brokers = brokers
        self.chance = chance
        self.killed: list[str] = []

    def kill_each(self) -> None:
        parties = ["proxy", "mover", *self.brokers]
        self.chance.shuffle(parties)
        for party in parties:
            moved = until(lambda: self.place.switch()["moved"], "the move to go on", LONG)
            time.sleep(self.chance.uniform(0.0, 1.0))
            LOG.info(f"kill -9 of {party} after {moved} messages")
            self.kill(party)
            self.killed.append(party)

    def kill(self, party: str) -> None:
        if party == "proxy":
            self.place.kill()
            self.place.start()
        elif party == "mover":
            for each in self.place.movers():
                each.kill()
        else:
            self.brokers[party].kill()
            self.brokers[party].start()


def test_kills_of_each_party_there_and_back(place: BlueGreen, brokers: dict[str, RabbitMQ]) -> None:
    logging.getLogger("pika").setLevel(logging.CRITICAL)
    seed = int(os.environ.get("SWITCH_SEED", random.randrange(2**32)))
    LOG.info(f"SWITCH_SEED={seed}")
    killer = Killer(place, brokers, random.Random(seed))
    declare(place, brokers["green"].port, QUEUES)
    preload(place, brokers["blue"].port, QUEUES, WAITING)
    publishers = [Publisher(place, queue, WAITING, 1.0) for queue in QUEUES]
    consumers = [Consumer(place, queue, 0.2) for queue in QUEUES]
    clients: list[Client] = [*publishers, *consumers]
    try:
        for each in clients:
            each.start()
        until(lambda: place.connected() == {"blue": 200, "green": 0}, "all clients to be at blue", LONG)
        began = time.monotonic()
        place.ask("switches-begin", source="blue", target="green", strict=True, rate=200)
        killer.kill_each()
        place.until("green", LONG)
        LOG.info(f"at green after {time.monotonic() - began:.0f} s")
        until(lambda: place.connected() == {"blue": 0, "green": 200}, "all clients to be at green", LONG)
        assert [depth(place, brokers["blue"].port, queue) for queue in QUEUES] == [0] * len(QUEUES)
        began = time.monotonic()
        place.ask("switches-back", switch="blue-green")
        killer.kill_each()
        place.until("blue", LONG)
        LOG.info(f"at blue after {time.monotonic() - began:.0f} s")
        until(lambda: place.connected() == {"blue": 200, "green": 0}, "all clients to be at blue again", LONG)
        assert [depth(place, brokers["green"].port, queue) for queue in QUEUES] == [0] * len(QUEUES)
        for each in publishers:
            each.is_over.set()
        for each in consumers:
            each.pause = 0.0
        until(lambda: all(p.next <= len(c.seen) for p, c in zip(publishers, consumers, strict=True)), "rest", LONG)
    finally:
        finished(clients, place)
    missing = sum(len(set(range(p.next)) - c.known) for p, c in zip(publishers, consumers, strict=True))
    disorderly = [each.queue for each in consumers if each.seen != sorted(each.seen)]
    repeats = sum(each.repeats for each in consumers)
    uncertain = len(killer.killed) * WINDOW + sum(each.connections * PREFETCH for each in consumers)
    uncertain += sum(each.connections for each in publishers)
    LOG.info(f"{sum(each.next for each in publishers)} messages, {repeats} repeats of {uncertain} that were uncertain")
    assert (missing, disorderly) == (0, [])
    assert repeats <= uncertain

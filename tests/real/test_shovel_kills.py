"""Shovels of the integrated broker from and to RabbitMQ, with kill -9 of each party: none is lost, and a message is
repeated only if its delivery was not acknowledged at a kill.

`make workbench` runs it with 1,000,000 messages.
"""

from __future__ import annotations

import json
import logging
import signal
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pika
import psutil
import pytest
from pika.exceptions import AMQPError

from amqproxy.amqp091.commands import Command
from amqproxy.amqp091.methods import BasicPublish
from amqproxy.amqp091.properties import Properties
from tests.real.own import OwnBroker
from tests.real.poll import until
from tests.real.publishers import CONFIRM_SELECT
from tests.real.rabbitmq import RabbitMQ
from tests.real.rabbitmq_installation import installation
from tests.real.raw import Peer

pytestmark = pytest.mark.real

LOG = logging.getLogger(__name__)

SOURCE, DESTINATION = "source", "destination"

PREFETCH = 500
"""Deliveries that are not acknowledged at a kill at most: each may be repeated."""

WINDOW = 1000

PATIENCE = 900.0

KILLED = ("node", "own", "shovels")
"""Parties: RabbitMQ, the integrated broker, and its shovel process."""


def publish(port: int, queue: str, count: int) -> None:
    """Publish numbered persistent messages, which are confirmed."""
    with Peer.opened(port, 1) as peer:
        peer.send(CONFIRM_SELECT)
        peer.expect(85, 11)
        confirmed = 0
        for first in range(0, count, WINDOW):
            last = min(count, first + WINDOW)
            commands = (
                Command(1, BasicPublish(routing_key=queue), Properties(delivery_mode=2), b"%d" % number)
                for number in range(first, last)
            )
            peer.send(*(each.encode(0) for each in commands))
            while confirmed < last:
                confirmed = max(confirmed, int.from_bytes(peer.expect(60, 80).payload[4:12]))


class Parties:
    """RabbitMQ, and the integrated broker whose shovel moves `count` messages out to it, or in from it."""

    def __init__(self, directory: Path, minor: str, count: int, *, is_out: bool) -> None:
        self.node = RabbitMQ(directory / "node", installation("" if minor == "3.10" else minor))
        self._directory = directory
        self.count = count
        self.is_out = is_out
        self.kills = 0
        self.own: OwnBroker | None = None
        self.node.directory.mkdir()
        self.node.start()

    def close(self) -> None:
        if self.own is not None:
            self.own.kill()
        self.node.stop()

    def start_own(self, *options: str) -> None:
        """Start the integrated broker, with what it had before."""
        self.own = OwnBroker(self._directory, "--data", str(self._directory / "data"), *options)

    @property
    def ports(self) -> tuple[int, int]:
        """The ports of source and destination."""
        assert self.own is not None
        return (self.own.port, self.node.port) if self.is_out else (self.node.port, self.own.port)

    def fill(self) -> None:
        self.start_own()
        for port, queue in zip(self.ports, (SOURCE, DESTINATION), strict=True):
            # A classic queue of RabbitMQ forgets acknowledgements at kill -9: thousands of messages return to it.
            arguments = {"x-queue-type": "quorum"} if port == self.node.port else None
            with pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", port)) as connection:
                connection.channel().queue_declare(queue, durable=True, arguments=arguments)
        began = time.monotonic()
        publish(self.ports[0], SOURCE, self.count)
        LOG.info(f"{self.count} messages published in {time.monotonic() - began:.0f} s")
        assert self.own is not None
        self.own.kill()

    def start(self) -> None:
        """Start the integrated broker with its shovel."""
        uris = ["amqp://", f"amqp://guest:guest@127.0.0.1:{self.node.port}"]
        source, destination = uris if self.is_out else uris[::-1]
        value: Mapping[str, Any] = {
            "src-uri": source,
            "src-queue": SOURCE,
            "dest-uri": destination,
            "dest-queue": DESTINATION,
            "src-prefetch-count": PREFETCH,
            "reconnect-delay": 1,
        }
        file = self._directory / "definitions.json"
        parameter = {"vhost": "/", "component": "shovel", "name": "s", "value": value}
        file.write_text(json.dumps({"parameters": [parameter]}))
        self.start_own("--definitions", str(file))

    def depth(self, side: int) -> int:
        """The number of ready messages, -1 if the broker does not answer."""
        try:
            with pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", self.ports[side])) as connection:
                found = connection.channel().queue_declare((SOURCE, DESTINATION)[side], passive=True)
                return found.method.message_count  # type: ignore[no-any-return]
        except (AMQPError, OSError):
            return -1

    def kill(self, party: str) -> None:
        """Kill a party, and start it again unless another one does so."""
        self.kills += 1
        assert self.own is not None
        children = self._shovel_processes()
        match party:
            case "node":
                self.node.kill()
                self.node.start()
            case "own":
                self.own.kill()
                psutil.wait_procs(children, 60)  # they end with the broker
                assert not any(each.is_running() for each in children)
                self.start_own()  # the shovel is in its store
            case "shovels":
                [child] = children
                child.kill()

    def _shovel_processes(self) -> list[psutil.Process]:
        assert self.own is not None
        return [each for each in self.own.psutil.children(recursive=True) if "amqproxy.shovels.child" in each.cmdline()]

    def check(self) -> None:
        """Compare what has arrived with what was sent."""
        began = time.monotonic()
        until(lambda: self.depth(1) >= self.count and self.depth(0) == 0, "all to arrive", PATIENCE, 0.2)
        LOG.info(f"the rest arrived after {time.monotonic() - began:.1f} s")
        found: Counter[int] = Counter()
        with pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", self.ports[1])) as connection:
            for method, _, body in connection.channel().consume(DESTINATION, auto_ack=True, inactivity_timeout=3):
                if method is None:
                    break
                found[int(body)] += 1
        lost = set(range(self.count)) - set(found)
        duplicates = found.total() - self.count
        LOG.info(f"{len(lost)} of {self.count} lost, {duplicates} duplicates after {self.kills} kills")
        assert not lost
        assert duplicates <= self.kills * PREFETCH


def move(parties: Parties, killed: tuple[str, ...]) -> None:
    """Move all messages, with a kill whenever a further share of them has arrived."""
    logging.getLogger("pika").setLevel(logging.CRITICAL)
    parties.fill()
    parties.start()
    began = time.monotonic()
    for number, party in enumerate(killed, 1):
        wanted = number * parties.count // (len(killed) + 1)
        until(lambda wanted=wanted: parties.depth(1) >= wanted, "a share to arrive", PATIENCE, 0.05)
        arrived = parties.depth(1)
        LOG.info(f"{arrived} have arrived after {time.monotonic() - began:.1f} s; kill of {party}")
        parties.kill(party)
    parties.check()


@pytest.fixture(params=["out", "in"])
def is_out(request: pytest.FixtureRequest) -> bool:
    return bool(request.param == "out")


def test_each_party_is_killed(is_out: bool, tmp_path: Path) -> None:
    parties = Parties(tmp_path, "3.10", 12_000, is_out=is_out)
    try:
        move(parties, KILLED)
    finally:
        parties.close()


@pytest.fixture
def long() -> None:
    """Time for 1,000,000 messages."""
    signal.alarm(0)


@pytest.mark.soak
@pytest.mark.usefixtures("long")
@pytest.mark.parametrize("minor", ["3.10", "4.3"])
def test_a_million_messages(minor: str, is_out: bool, tmp_path: Path) -> None:
    parties = Parties(tmp_path, minor, 1_000_000, is_out=is_out)
    try:
        move(parties, (*KILLED, *KILLED))
    finally:
        parties.close()

"""What a broker does to a shared connection reaches each of its clients as if it were the client's own."""

from __future__ import annotations

import select
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.real import raw
from tests.real.fleet import Fleet
from tests.real.own import OwnBroker
from tests.real.poll import until
from tests.real.publishers import CONFIRM_SELECT, declare
from tests.real.raw import Peer

pytestmark = [pytest.mark.real, pytest.mark.once]

BLOCKED, UNBLOCKED = (10, 60), (10, 61)
QUEUE = "upstream"


class Shared:
    """Our own broker, and a proxy whose clients share connections to it."""

    def __init__(self, directory: Path, **pool: Any) -> None:
        (directory / "broker").mkdir()
        self.broker = OwnBroker(directory / "broker")
        self.fleet = Fleet(directory, self.broker.port, pool=pool)
        self._alarms = 0
        self._peers: list[Peer] = []
        declare(self.broker.port, QUEUE)

    def connected(self, name: str, *announced: str, heartbeat: int = 0) -> Peer:
        """Return a client that announces capabilities; each name is a product, with habits of its own."""
        properties = raw.product(name, *announced)
        peer = Peer.opened(self.fleet.port, properties=properties, heartbeat=heartbeat)
        self._peers.append(peer)
        return peer

    def opened(self, name: str, *announced: str, heartbeat: int = 0) -> Peer:
        """Return a client with an open channel with confirms."""
        peer = self.connected(name, *announced, heartbeat=heartbeat)
        peer.send(raw.channel_open(1))
        peer.expect(20, 11)
        peer.send(CONFIRM_SELECT)
        peer.expect(85, 11)
        return peer

    def alarm(self, informed: Peer) -> None:
        """Fill the broker's memory, and publish until it has answered with connection.blocked."""
        self._alarms += 1
        publisher = self.opened(f"publisher {self._alarms}")
        self.broker.ctl("set_vm_memory_high_watermark", "0")
        while not select.select([informed.stream], [], [], 0.05)[0]:
            publisher.send(raw.message(1, QUEUE, b"during the alarm"))

    def kill(self) -> None:
        for peer in self._peers:
            peer.stream.close()
        self.fleet.kill()
        self.broker.process.send_signal(signal.SIGCONT)
        self.broker.kill()


@pytest.fixture
def shared(tmp_path: Path) -> Iterator[Shared]:
    found = Shared(tmp_path)
    yield found
    found.kill()


def test_alarms_are_told_in_pairs_to_those_who_want_to_know(shared: Shared) -> None:
    informed = [shared.opened(f"informed {each}", "connection.blocked") for each in range(3)]
    others = [shared.opened(f"other {each}") for each in range(3)]
    for _ in range(5):
        shared.alarm(informed[0])
        for peer in informed:
            peer.expect(*BLOCKED)
        late = shared.connected("late", "connection.blocked")
        late.expect(*BLOCKED)
        shared.broker.ctl("set_vm_memory_high_watermark", "0.4")
        for peer in [*informed, late]:
            peer.expect(*UNBLOCKED)
    for peer in [*informed, *others]:
        peer.send(raw.message(1, QUEUE, b"after"))
        peer.expect(60, 80)  # the next that comes: nothing was told to the others


def test_a_client_that_is_pinned_during_an_alarm_is_told_its_end(shared: Shared) -> None:
    peer = shared.opened("pinned", "connection.blocked")
    shared.alarm(peer)
    peer.expect(*BLOCKED)
    peer.send(raw.method(1, 60, 10, b"\0\0\0\0\0\1\0"))
    told = []
    while (60, 11) not in told:
        told.append(peer.read().method)  # type: ignore[union-attr]
    shared.broker.ctl("set_vm_memory_high_watermark", "0.4")
    peer.send(raw.message(1, QUEUE, b"after"))
    while (60, 80) not in told:
        told.append(peer.read().method)  # type: ignore[union-attr]
    alarms = [each for each in told if each in (BLOCKED, UNBLOCKED)]
    assert alarms == [UNBLOCKED, BLOCKED] * (len(alarms) // 2) + [UNBLOCKED]


def test_a_drained_broker_tells_every_client(shared: Shared) -> None:
    peers = [shared.opened(f"client {each}") for each in range(5)]
    shared.broker.terminate()
    for peer in peers:
        close = peer.closed()
        assert close is not None
        assert close.code == 320


def test_heartbeats_of_each_leg_are_its_own(shared: Shared) -> None:
    """A broker that is stopped, and a client that is silent, cost no other leg its heartbeats."""
    alive, silent = shared.opened("alive", heartbeat=1), shared.opened("silent", heartbeat=1)
    shared.broker.process.send_signal(signal.SIGSTOP)
    began = time.monotonic()
    gaps, last = [], began
    while len(gaps) < 6:
        frame = alive.read()
        assert frame is not None
        if frame.kind == raw.HEARTBEAT:
            gaps.append(time.monotonic() - last)
            last = time.monotonic()
            alive.send(raw.frame(raw.HEARTBEAT, 0))
    assert time.monotonic() - began >= 2  # they were not sent all at once
    until(lambda: is_closed(silent), "the silent client to be closed")
    shared.broker.process.send_signal(signal.SIGCONT)
    alive.send(raw.message(1, QUEUE, b"after"))
    while (frame := alive.read()) is not None and frame.kind == raw.HEARTBEAT:
        pass
    assert frame is not None
    assert frame.method == (60, 80)


def is_closed(peer: Peer) -> bool:
    """Read what has come; return whether that was the end."""
    frame = peer.read()
    return frame is None or frame.close is not None

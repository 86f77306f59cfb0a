"""What is read once more of a connection of 0-10."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from amqproxy.amqp010.commands import ExecutionSync, MessageAccept
from amqproxy.amqp010.protocol_header import HEADER
from amqproxy.amqp010.sequence import SequenceSet
from amqproxy.broker.broker import Broker
from amqproxy.broker.server.amqp010.reading import Amqp010Reading
from amqproxy.broker.server.connection_tap import ConnectionTap
from amqproxy.peer import CLIENT, SERVER
from amqproxy.taps.amqp010.chunk import Amqp010Chunk
from amqproxy.taps.metrics import Metrics
from tests.broker.amqp010.client import Client010
from tests.broker.server.joining_tap import JoiningTap, TappedConnection
from tests.proxy.amqp010_script import ATTACH, method

SYNC = method(ExecutionSync())


class Shown:
    """A tap that keeps the chunks that it is shown."""

    def __init__(self, reading: Amqp010Reading) -> None:
        self.chunks: list[Amqp010Chunk] = []
        self._reading = reading

    def saw_frames(self, session: object, sender: object, chunk: Amqp010Chunk) -> None:
        self.chunks.append(chunk)

    def read(self, sender: object, data: bytes) -> bytes | None:
        """What is wrong."""
        has_frames, error = self._reading.read(sender, data)  # type: ignore[arg-type]
        if has_frames:
            self._reading.show(self, ConnectionTap(None, 1, "c", is_tls=False), sender)  # type: ignore[arg-type]
        return None if error is None else error.received


@pytest.mark.parametrize("size", [1, 3, 100])
def test_the_brokers_header_comes_first(size: int) -> None:
    metrics = Metrics()
    reading = Amqp010Reading(metrics)
    shown = Shown(reading)
    sent, headers = HEADER + SYNC * 2, []
    for start in range(0, len(sent), size):
        header, data = reading.take_header(sent[start : start + size])
        headers += [header] if header else []
        assert shown.read(SERVER, data) is None
    assert headers == [HEADER]
    assert shown.chunks[0].offset == 8
    assert b"".join(bytes(chunk.data) for chunk in shown.chunks) == SYNC * 2
    assert sum(metrics.tallies["0-10"][SERVER].frames) == 2


def test_frames_as_taps_are_shown_them() -> None:
    shown = Shown(Amqp010Reading(None))
    shown.read(CLIENT, ATTACH[0][1] + SYNC + SYNC[:3])
    (chunk,) = shown.chunks
    assert (chunk.data, chunk.offset, len(chunk)) == (ATTACH[0][1] + SYNC, 8, 3)
    assert chunk.command_ids == [None, None, 0]


def test_what_is_no_frame_ends_its_direction() -> None:
    reading = Amqp010Reading(None)
    shown = Shown(reading)
    assert shown.read(CLIENT, SYNC + b"\xff" * 15) == b"\xff" * 15
    assert len(shown.chunks[0]) == 1
    assert reading.read(CLIENT, SYNC) == (False, None)
    assert reading.read(SERVER, SYNC) == (True, None)


class TappedClient(Client010):
    """A client of the broker that a tap sees."""

    def __init__(self, broker: Broker) -> None:
        super().__init__(broker)
        self.tap = JoiningTap()
        self.connection: Any = TappedConnection(self.connection, self.tap)


@pytest.mark.parametrize("seed", range(40))
def test_who_joins_knows_what_the_others_know(seed: int) -> None:
    random, broker = Random(seed), Broker()
    publisher, consumer = TappedClient(broker), TappedClient(broker)
    sending, taking = (each.open().session(1, name) for each, name in ((publisher, b"p"), (consumer, b"c")))
    sending.declare("q")
    taking.subscribe("q", "d")
    joins = [random.randrange(20) for _ in range(2)]
    for step in range(50):
        for each, at in zip((publisher, consumer), joins, strict=True):
            if step == at:
                each.tap.join()
        match random.randrange(6):
            case 0:
                sending.take()
            case 1:
                taking.take()
            case 2 | 3:
                sending.transfer(b"%d" % step, accept_mode=random.randrange(2))
            case 4 if taking.messages:
                position, _ = taking.messages.pop(random.randrange(len(taking.messages)))
                taking.send(MessageAccept(SequenceSet.of([position])))
            case 5:
                taking.subscribe("q", f"d{step}", accept_mode=1, messages=3)
    for session in (sending, taking):
        session.take()
    for each in (publisher, consumer):
        assert each.tap.snapshot is not None
        whole, joined = each.tap.claims
        assert joined == whole
        assert whole

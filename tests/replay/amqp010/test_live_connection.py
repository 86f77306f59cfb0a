"""The live side of a replay over AMQP 0-10: what it does of its own accord."""

from __future__ import annotations

import pytest

from amqproxy.amqp010 import controls
from amqproxy.amqp010.assembly import Assembly
from amqproxy.amqp010.commands import ExecutionSync, MessageSubscribe
from amqproxy.amqp010.controls import ConnectionHeartbeat
from amqproxy.amqp010.frame import Frame
from amqproxy.amqp010.methods import Method
from amqproxy.amqp010.protocol_header import HEADER
from amqproxy.amqp010.sequence import SequenceSet
from amqproxy.amqp091.methods import BasicAck, BasicNack
from amqproxy.replay.amqp010.live_connection import Amqp010LiveConnection
from amqproxy.replay.amqp010.session import PlayedSession, PlayedSubscription
from amqproxy.replay.broker_link import NEVER, Life, ReplayedStream
from amqproxy.replay.deliveries import DeliveryBoard
from amqproxy.replay.names import SharedNames
from amqproxy.replay.result import ReplayResult
from amqproxy.replay.target import Target
from tests.amqp010.samples import split
from tests.replay.amqp010.recordings import completed, transfer


def opened(*, step: int = 1 << 20) -> Amqp010LiveConnection:
    """A connection that has come as far as open-ok, given so many bytes at a time."""
    target = Target(user="u", password="p")
    replayed = ReplayedStream(1, "a-b", target, SharedNames(), DeliveryBoard(), ReplayResult())
    live = Amqp010LiveConnection(replayed, wake=lambda: None)
    live._is_joined = True
    live.connected(0.0)
    for methods in (
        [controls.ConnectionStart()],
        [controls.ConnectionTune(10, 8192, 0, 60), controls.ConnectionOpenOk()],
    ):
        data = b"".join(Assembly(0, method).encode() for method in methods)
        data = HEADER + data if isinstance(methods[0], controls.ConnectionStart) else data
        for start in range(0, len(data), step):
            live.receive(data[start : start + step], 1.0)
    return live


def sent(live: Amqp010LiveConnection) -> list[Method]:
    """What it has sent since the last time."""
    data = bytes(live.outbox).removeprefix(HEADER)
    live.outbox.clear()
    return [Frame(raw).method for raw in split(data)]


def give(live: Amqp010LiveConnection, channel: int, *methods: Method | Assembly) -> None:
    for each in methods:
        whole = each if isinstance(each, Assembly) else Assembly(channel, each)
        body = whole.body if whole.has_body else None
        live.receive(Assembly(channel, whole.method, whole.header, body).encode(), 2.0)


@pytest.mark.parametrize("step", [1, 3, 1 << 20])
def test_it_logs_in_where_the_recording_does_not(step: int) -> None:
    start_ok, tune_ok, open_ = sent(opened(step=step))
    assert (start_ok.mechanism, start_ok.response) == ("PLAIN", b"\0u\0p")  # type: ignore[attr-defined]
    assert tune_ok == controls.ConnectionTuneOk(10, 8192, 0)
    assert open_ == controls.ConnectionOpen("/")


def test_what_the_broker_sends_is_completed() -> None:
    live = opened()
    session = live._attach(1, b"s")
    sent(live)
    give(live, 1, controls.SessionAttached(b"s"), controls.SessionCommandPoint(5, 0), ExecutionSync(), ExecutionSync())
    assert session.is_attached
    assert sent(live) == [completed((5, 5)), completed((5, 6))]
    give(live, 1, controls.SessionCompleted(SequenceSet([(0, 3)]), True), controls.SessionFlush(completed=True))
    assert sent(live) == [controls.SessionKnownCompleted(SequenceSet([(0, 3)])), completed((5, 6))]
    assert 3 in session.completed


def test_a_delivery_waits_for_the_recording() -> None:
    live = opened()
    session = live._attach(1, b"s")
    give(live, 1, controls.SessionAttached(b"s"), controls.SessionCommandPoint(0, 0))
    session.subscriptions["t"] = PlayedSubscription("/\0q", MessageSubscribe("q", "t"))
    sent(live)
    give(live, 1, transfer("t", b"one", key="q"), transfer("unknown", b"two", key="q"))
    assert sent(live) == []  # a window moves as the recorded client has it moved
    (delivery,) = live._board.unmatched()
    assert (delivery.tag, delivery.command.body) == (0, b"one")
    assert [each.kind for each in live._result.differences] == ["extra"]
    live.settle(delivery, BasicAck())
    live.settle(delivery, BasicNack(requeue=True))
    live.settle(delivery, BasicNack(requeue=False))
    assert [each.name for each in sent(live)] == ["message.accept", "message.release", "message.reject"]
    assert session.next_id == 3


def test_heartbeats() -> None:
    live = opened()
    sent(live)
    assert live.tick(10.0) is NEVER  # it has agreed on none
    live._interval = 10
    assert live.tick(10.0) == 12.5
    assert sent(live) == [ConnectionHeartbeat()]
    assert live.tick(30.0) is NEVER
    assert live.life is Life.ENDED
    assert "silent" in live.error


def test_a_broker_that_ends_the_session_or_the_connection() -> None:
    live = opened()
    session: PlayedSession = live._attach(1, b"s")
    sent(live)
    give(live, 1, controls.SessionAttached(b"s"), controls.SessionDetach(b"s"))
    assert sent(live) == [controls.SessionDetached(b"s", 0)]
    assert session.is_over
    give(live, 0, controls.ConnectionClose(320, "shutdown"))
    assert sent(live) == [controls.ConnectionCloseOk()]
    assert (live.life, live.ending, live.error) == (Life.ENDED, "close", "the connection was closed: 320 shutdown")

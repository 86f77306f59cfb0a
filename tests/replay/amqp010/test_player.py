"""What a player of AMQP 0-10 does: the same as recorded, and where a live broker goes another way."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from amqproxy.amqp010 import controls
from amqproxy.amqp010.assembly import Assembly
from amqproxy.amqp010.commands import (
    ExchangeBound,
    ExecutionException,
    ExecutionResult,
    ExecutionSync,
    FileQos,
    MessageAccept,
    MessageCancel,
    MessageFlow,
    MessageRelease,
    MessageSubscribe,
    QueueDeclare,
    QueueDelete,
    QueueQuery,
)
from amqproxy.amqp010.domains import CreditUnit
from amqproxy.amqp010.protocol_header import HEADER
from amqproxy.amqp010.results import ExchangeBoundResult
from amqproxy.amqp010.sequence import SequenceSet
from amqproxy.capture.decoded import SkippedBytes
from amqproxy.comparison.difference import SentOtherwise
from amqproxy.replay.result import ReplayResult
from amqproxy.testing.local_broker import LocalBroker
from tests.real.amqp010_peer import Amqp010Peer
from tests.replay.amqp010.recordings import Amqp010Recording, completed, transfer
from tests.replay.playing import played, texts

INFINITE = 0xFFFF_FFFF

PATIENCE = 30.0
"""Seconds for which an answer that comes is waited for."""

MISSING = 2.0
"""Seconds after which an answer that does not come is missed."""


@pytest.fixture(scope="module")
def broker() -> Iterator[LocalBroker]:
    with LocalBroker() as found:
        yield found


def play(
    recording: Amqp010Recording, broker: LocalBroker, timeout: float = PATIENCE, **options: object
) -> ReplayResult:
    return played(recording.steps(), broker.url, timeout=timeout, **options)  # type: ignore[arg-type]


def message_count(broker: LocalBroker, queue: str) -> int:
    with Amqp010Peer(broker.port) as peer:
        peer.attach(name=b"look")
        peer.send(1, QueueQuery(queue, sync=True))
        found = peer.expect("execution.result").method.value.message_count
        assert isinstance(found, int)
        return found


def exchange(queue: str, *, first: int = 0) -> Amqp010Recording:
    """A client that declares, publishes three messages, consumes them, accepts one and releases one."""
    recording = Amqp010Recording()
    recording.open(1)
    recording.attach(1, first=first)
    recording.client(1, 1, QueueDeclare(queue, sync=True))
    recording.server(1, 1, completed((0, 0)))
    for body in (b"a", b"b", b"c"):
        recording.client(1, 1, transfer("", body, key=queue))
    recording.client(1, 1, ExecutionSync(sync=True))
    recording.server(1, 1, completed((0, 4)))
    recording.client(1, 1, MessageSubscribe(queue, "tag", 0, 0), MessageFlow("tag", CreditUnit.MESSAGE, 3))
    recording.client(1, 1, MessageFlow("tag", CreditUnit.BYTE, INFINITE))
    for body in (b"a", b"b", b"c"):
        recording.server(1, 1, transfer("tag", body, key=queue))
    recording.client(1, 1, MessageAccept(SequenceSet([(first, first), (first + 2, first + 2)])))
    recording.client(1, 1, completed((first, first + 2)))
    recording.client(1, 1, MessageRelease(SequenceSet([(first + 1, first + 1)])), MessageCancel("tag"))
    recording.client(1, 1, ExecutionSync(sync=True))
    recording.server(1, 1, completed((0, 11)))
    return recording


@pytest.mark.parametrize("first", [0, 40])
def test_the_same(broker: LocalBroker, first: int) -> None:
    """Deliveries are settled by the ids that they have now, whatever these were."""
    recording = exchange(f"same{first}", first=first)
    recording.close(1)
    result = play(recording, broker)
    assert texts(result) == []
    assert (result.is_same, result.connections) == (True, 1)
    assert result.answers > 6
    assert {"publish confirmed", "connection opened"} <= set(result.live.kinds)
    assert message_count(broker, f"same{first}") == 1


def test_copies_have_queues_of_their_own(broker: LocalBroker) -> None:
    recording = exchange("copied")
    recording.client(1, 1, ExchangeBound("amq.direct", "copied", "k", sync=True))
    recording.server(1, 1, ExecutionResult(12, ExchangeBoundResult(queue_not_matched=True, key_not_matched=True)))
    recording.client(1, 1, QueueDelete("copied", sync=True))
    recording.server(1, 1, completed((0, 13)))
    recording.close(1)
    result = play(recording, broker, clients=3)
    assert texts(result) == []
    assert (result.connections, result.is_same) == (3, True)


def test_a_message_with_another_body(broker: LocalBroker) -> None:
    recording = Amqp010Recording()
    recording.open(1)
    recording.attach(1)
    recording.client(1, 1, QueueDeclare("other"), transfer("", b"one", key="other"))
    recording.client(1, 1, MessageSubscribe("other", "t", 1, 0), MessageFlow("t", CreditUnit.MESSAGE, 1))
    recording.client(1, 1, MessageFlow("t", CreditUnit.BYTE, INFINITE))
    recording.server(1, 1, transfer("t", b"two", key="other", accept_mode=1))
    recording.close(1)
    result = play(recording, broker, MISSING)
    (difference,) = result.differences
    assert (difference.kind, difference.method, difference.type) == ("changed", "message.transfer", "deliver")
    assert [each.field for each in difference.changes] == ["body"]
    assert difference.a is not None
    assert difference.a.channel == 1


def test_a_message_that_does_not_come_and_one_that_comes_besides(broker: LocalBroker) -> None:
    recording = Amqp010Recording()
    recording.open(1)
    recording.attach(1)
    recording.client(1, 1, QueueDeclare("few"), transfer("", b"only", key="few"))
    recording.client(1, 1, MessageSubscribe("few", "t", 1, 0), MessageFlow("t", CreditUnit.MESSAGE, 5))
    recording.client(1, 1, MessageFlow("t", CreditUnit.BYTE, INFINITE))
    for body in (b"only", b"another"):
        recording.server(1, 1, transfer("t", body, key="few", accept_mode=1))
    recording.client(1, 1, MessageAccept(SequenceSet([(7, 7)])))
    recording.close(1)
    result = play(recording, broker, MISSING)
    assert [(each.kind, each.method) for each in result.differences] == [("missing", "message.transfer")]
    assert [(each.method, each.count) for each in result.not_played] == [("message.accept", 1)]
    fewer = Amqp010Recording()
    fewer.open(1)
    fewer.attach(1)
    fewer.client(1, 1, transfer("", b"x", key="few"), transfer("", b"y", key="few"))
    fewer.client(1, 1, MessageSubscribe("few", "t", 1, 0), MessageFlow("t", CreditUnit.MESSAGE, 5))
    fewer.client(1, 1, MessageFlow("t", CreditUnit.BYTE, INFINITE))
    fewer.server(1, 1, transfer("t", b"x", key="few", accept_mode=1))
    fewer.client(1, 1, ExecutionSync(sync=True))
    fewer.server(1, 1, completed((0, 5)))
    fewer.close(1)
    assert [(each.kind, each.method) for each in play(fewer, broker).differences] == [("extra", "message.transfer")]


def test_an_exception_that_was_recorded_and_one_that_was_not(broker: LocalBroker) -> None:
    recording = Amqp010Recording()
    recording.open(1)
    recording.attach(1)
    recording.client(1, 1, QueueDelete("there is none", sync=True))
    recording.server(1, 1, ExecutionException(404, 0, 8, 2, 0, "not found"), controls.SessionDetach(b"s1"))
    recording.client(1, 1, controls.SessionDetached(b"s1", 0))
    recording.close(1)
    assert texts(play(recording, broker)) == []
    other = Amqp010Recording()
    other.open(1)
    other.attach(1)
    other.client(1, 1, QueueDelete("there is none", sync=True))
    other.server(1, 1, completed((0, 0)))
    other.client(1, 1, QueueDeclare("q"))
    other.close(1)
    result = play(other, broker)
    assert [each.kind for each in result.differences] == ["missing", "extra"]
    (left,) = result.not_played
    assert (left.method, left.reason.startswith("the session was closed: 404")) == ("queue.declare", True)


def test_what_is_not_played_is_said(broker: LocalBroker) -> None:
    recording = Amqp010Recording()
    recording.open(1)
    recording.attach(1)
    recording.client(1, 1, FileQos(1, 1))
    recording.close(1)
    (left,) = play(recording, broker).not_played
    assert (left.method, left.reason) == ("file.qos", "the classes file and stream are not played")


def test_a_connection_that_was_joined_gets_a_login_and_a_session(broker: LocalBroker) -> None:
    recording = Amqp010Recording()
    recording.client(1, 3, QueueDeclare("joined"), transfer("", b"late", key="joined"))
    recording.client(1, 3, MessageAccept(SequenceSet([(70, 70)])))
    recording.client(1, 3, ExecutionSync(sync=True))
    recording.end(1)
    result = play(recording, broker)
    assert (result.difference_count, [each.method for each in result.not_played]) == (0, ["message.accept"])
    assert message_count(broker, "joined") == 1


def test_a_connection_that_was_joined_within_a_frame_is_played_from_the_next(broker: LocalBroker) -> None:
    recording = Amqp010Recording()
    recording.decoded.append(SkippedBytes(0, 1, "client:1-broker", "client", "0-10", "the rest of a frame", None, 9))
    recording.client(1, 3, QueueDeclare("joined-within"), transfer("", b"late", key="joined-within"))
    recording.client(1, 3, ExecutionSync(sync=True))
    recording.end(1)
    result = play(recording, broker)
    assert [each.reason for each in result.not_played] == ["9 bytes: the rest of a frame"]
    assert message_count(broker, "joined-within") == 1


def test_commands_that_are_sent_otherwise_are_reported_with_the_names_of_both(broker: LocalBroker) -> None:
    sent: list[SentOtherwise] = []
    result = play(exchange("copied"), broker, clients=2, on_sent=sent.append)
    assert result.is_same
    first = [(each.method, [(change.field, change.after) for change in each.changes]) for each in sent]
    for suffix in (".1", ".2"):
        for method, field in (
            ("queue.declare", "queue"),
            ("message.transfer", "routing_key"),
            ("message.subscribe", "queue"),
        ):
            assert (method, [(field, f"copied{suffix}")]) in first


@contextmanager
def odd_broker(*answers: bytes) -> Iterator[str]:
    """A server that sends these to a client, and closes; its URL."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(8)
                for answer in answers:
                    connection.sendall(answer)
                connection.shutdown(socket.SHUT_WR)
                while connection.recv(4096):
                    pass

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"amqp://127.0.0.1:{listener.getsockname()[1]}"


START = Assembly(0, controls.ConnectionStart()).encode()


@pytest.mark.parametrize(
    ("answers", "what"),
    [
        ([b"AMQP\0\0\x09\x01"], "does not speak AMQP 0-10"),
        ([HEADER, START[:9]], "closed the connection"),
        ([HEADER, b"\x0f\x77" + START[2:]], "no frame"),
        ([HEADER, START[:12] + b"\xff\xff\x00\x00"], "cannot be read"),
        ([HEADER, START, Assembly(0, controls.ConnectionClose(320, "no")).encode()], "320 no"),
    ],
)
def test_a_broker_that_is_none(answers: list[bytes], what: str) -> None:
    recording = exchange("never")
    with odd_broker(*answers) as url:
        result = played(recording.steps(), url, timeout=2.0)
    shown = " ".join(each.what for each in result.differences) + " ".join(each.reason for each in result.not_played)
    assert what in shown
    assert not result.is_same

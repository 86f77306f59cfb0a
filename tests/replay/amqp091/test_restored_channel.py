"""Recordings that begin in the middle of a connection are played from the state that they hold."""

from __future__ import annotations

import pytest

from amqproxy.amqp091.frame import encode_method
from amqproxy.amqp091.methods import (
    BasicAck,
    BasicConsume,
    BasicDeliver,
    BasicPublish,
    ConfirmSelect,
    ConnectionOpen,
    QueueDeclare,
    QueueDeclareOk,
    TxCommit,
    TxCommitOk,
    TxSelect,
)
from amqproxy.replay.amqp091.restored_channel import restored_channel, restoring_methods
from amqproxy.replay.steps import ConnectionRestored
from amqproxy.taps.trace.snapshot import (
    UNKNOWN_CONSUMER,
    ChannelSnapshot,
    ConnectionSnapshot,
    ConsumerSnapshot,
    HandshakeSnapshot,
)
from tests.replay.playing import broker, played, texts
from tests.replay.recordings import Recording, message

CONSUMER = ConsumerSnapshot(tag="c", queue="work")


def joined(*channels: ChannelSnapshot) -> Recording:
    """A connection that declares a queue, and another that is recorded from its middle on."""
    recording = Recording()
    recording.open(0)
    recording.open_channel(0, 1)
    recording.ask(0, 1, QueueDeclare(queue="work"), QueueDeclareOk("work", 0, 0))
    recording.join(ConnectionSnapshot(ts_ns=1, protocol="0-9-1", channels=channels))
    return recording


def test_confirms_and_deliveries_of_a_joined_connection() -> None:
    recording = joined(
        ChannelSnapshot(number=1, mode="confirm", published=70, delivered=30, consumers=(CONSUMER,)),
        ChannelSnapshot(number=2, mode="tx"),
    )
    for number in range(1, 4):
        recording.client(1, 1, message(BasicPublish(routing_key="work"), b"%d" % number))
        recording.server(1, 1, BasicAck(70 + number))
        recording.server(1, 1, message(BasicDeliver("c", 30 + number, routing_key="work"), b"%d" % number))
        recording.client(1, 1, BasicAck(30 + number))
    recording.client(1, 2, message(BasicPublish(routing_key="work"), b"last", channel=2))
    recording.ask(1, 2, TxCommit(), TxCommitOk())
    recording.server(1, 1, message(BasicDeliver("c", 34, routing_key="work"), b"last"))
    recording.client(1, 1, BasicAck(34))
    recording.close(1)
    recording.close(0)
    with broker() as url:
        result = played(recording.steps(), url)
    assert texts(result) == []
    assert result.sent > 10


def test_consumers_of_queues_that_do_not_exist_are_left_out() -> None:
    gone = ConsumerSnapshot(tag="g", queue="gone")
    recording = joined(
        ChannelSnapshot(number=1, mode="confirm", published=5, consumers=(gone, CONSUMER), last_queue="work")
    )
    recording.client(1, 1, message(BasicPublish(routing_key="work"), b"x"))
    recording.server(1, 1, BasicAck(6))
    recording.server(1, 1, message(BasicDeliver("c", 1, routing_key="work"), b"x"))
    recording.client(1, 1, BasicAck(1))
    recording.close(1)
    recording.close(0)
    with broker() as url:
        result = played(recording.steps(), url)
    assert texts(result) == []
    assert result.not_played == []
    [note] = result.notes
    assert note.startswith("channel 1 was restored without consumers of queue 'gone': NOT_FOUND")


def test_a_delivery_of_before_is_not_settled() -> None:
    recording = joined(ChannelSnapshot(number=1, delivered=30))
    recording.client(1, 1, BasicAck(30))
    recording.close(1)
    recording.close(0)
    with broker() as url:
        (unplayed,) = played(recording.steps(), url).not_played
    assert "is not in the capture" in unplayed.reason


def test_a_state_in_the_middle_of_what_is_read_changes_nothing() -> None:
    recording = Recording()
    recording.open(0)
    recording.join(ConnectionSnapshot(ts_ns=1, protocol="0-9-1"))
    recording.open_channel(0, 1)
    assert not any(isinstance(step, ConnectionRestored) for step in recording.steps())


def test_a_state_of_another_protocol_is_ignored() -> None:
    recording = Recording()
    recording.join(ConnectionSnapshot(ts_ns=1, protocol="0-10"))
    recording.open_channel(0, 1)
    assert not any(isinstance(step, ConnectionRestored) for step in recording.steps())


def test_the_virtual_host_is_the_recorded_one() -> None:
    recording = Recording()
    recording.join(ConnectionSnapshot(ts_ns=1, protocol="0-9-1", handshake=HandshakeSnapshot(virtual_host="other")))
    recording.client(0, 1, message(BasicPublish(routing_key="work"), b"x"))
    recording.close(0)
    sent: list[bytes] = []
    with broker() as url:
        played(
            recording.steps(),
            url.rpartition("/")[0],
            timeout=1.0,
            watch=lambda stream, sender, data, now: sent.append(data),
        )
    assert encode_method(0, ConnectionOpen("other")) in b"".join(sent)


@pytest.mark.parametrize(
    "state",
    [
        ChannelSnapshot(number=1, closing=("client",)),
        ChannelSnapshot(number=0),
        ChannelSnapshot(number=-1),
        ChannelSnapshot(number=65_536),
    ],
)
def test_channels_that_are_not_restored(state: ChannelSnapshot) -> None:
    assert restored_channel(state) is None


def test_what_brings_a_channel_into_its_state() -> None:
    consumers = (
        CONSUMER,
        ConsumerSnapshot(tag="unknown"),
        ConsumerSnapshot(tag=UNKNOWN_CONSUMER, queue="work"),
        ConsumerSnapshot(tag="d", queue="amq.gen-1"),
        ConsumerSnapshot(tag="d", queue="q" * 256),
        ConsumerSnapshot(tag="d" * 256, queue="work"),
        ConsumerSnapshot(tag="e", queue="work", no_ack=True, exclusive=True),
    )
    assert list(restoring_methods(ChannelSnapshot(number=1, mode="confirm", consumers=consumers))) == [
        ConfirmSelect(no_wait=True),
        BasicConsume(queue="work", consumer_tag="c", no_wait=True),
        BasicConsume(queue="work", consumer_tag="e", no_ack=True, exclusive=True, no_wait=True),
    ]
    assert list(restoring_methods(ChannelSnapshot(number=1, mode="tx"))) == [TxSelect()]
    assert list(restoring_methods(ChannelSnapshot(number=1))) == []

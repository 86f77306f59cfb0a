"""0-10 recordings that begin in the middle of a connection are played from the state that they hold."""

from __future__ import annotations

import pytest

from amqproxy.amqp010.commands import (
    DtxSelect,
    ExecutionSync,
    MessageAccept,
    MessageFlow,
    MessageSubscribe,
    QueueDeclare,
    TxCommit,
    TxSelect,
)
from amqproxy.amqp010.domains import AcceptMode
from amqproxy.amqp010.sequence import SequenceSet
from amqproxy.replay.amqp010.restored_session import restoring_commands
from amqproxy.replay.steps import ConnectionRestored
from amqproxy.taps.trace.snapshot import (
    UNKNOWN_CONSUMER,
    ChannelSnapshot,
    ConnectionSnapshot,
    ConsumerSnapshot,
    HandshakeSnapshot,
)
from tests.replay.amqp010.recordings import Amqp010Recording, completed, transfer
from tests.replay.playing import broker, played, texts

CONSUMER = ConsumerSnapshot(tag="c", queue="work")


def joined(*channels: ChannelSnapshot) -> Amqp010Recording:
    """A connection that declares a queue, and another that is recorded from its middle on."""
    recording = Amqp010Recording()
    recording.open(0)
    recording.attach(0)
    recording.client(0, 1, QueueDeclare("work", sync=True))
    recording.server(0, 1, completed((0, 0)))
    state = ConnectionSnapshot(
        ts_ns=1, protocol="0-10", handshake=HandshakeSnapshot(virtual_host="/"), channels=channels
    )
    recording.join(1, state)
    return recording


def test_completions_and_deliveries_of_a_joined_session() -> None:
    recording = joined(
        ChannelSnapshot(number=1, mode="normal", published=70, delivered=30, consumers=(CONSUMER,), name=b"first")
    )
    recording.client(1, 1, transfer("", b"1", key="work", accept_mode=1))
    recording.server(1, 1, completed((0, 71)))
    recording.server(1, 1, transfer("c", b"1", key="work"))
    recording.client(1, 1, MessageAccept(SequenceSet([(31, 31)])), ExecutionSync(sync=True))
    recording.server(1, 1, completed((0, 73)))
    recording.close(1)
    recording.close(0)
    with broker() as url:
        result = played(recording.steps(), url)
    assert texts(result) == []
    assert (result.not_played, result.notes) == ([], [])
    assert result.answers == 5  # session.attached and a completion of the first; two completions and the delivery


def test_transactions_go_on() -> None:
    recording = joined(ChannelSnapshot(number=1, mode="tx", published=4, delivered=-1, name=b"tx"))
    recording.client(1, 1, transfer("", b"x", key="work", accept_mode=1), TxCommit(sync=True))
    recording.server(1, 1, completed((0, 6)))
    recording.close(1)
    recording.close(0)
    with broker() as url:
        result = played(recording.steps(), url)
    assert texts(result) == []
    assert result.not_played == []


def test_subscriptions_to_queues_that_do_not_exist_are_left_out() -> None:
    gone = ConsumerSnapshot(tag="g", queue="gone")
    recording = joined(ChannelSnapshot(number=1, published=5, delivered=0, consumers=(gone, CONSUMER), name=b"s"))
    recording.client(1, 1, transfer("", b"x", key="work", accept_mode=1))
    recording.server(1, 1, transfer("c", b"x", key="work"))
    recording.client(1, 1, MessageAccept(SequenceSet([(1, 1)])))
    recording.close(1)
    recording.close(0)
    with broker() as url:
        result = played(recording.steps(), url)
    assert texts(result) == []
    assert result.not_played == []
    assert result.notes == ["session 1 was restored without subscriptions to queue 'gone': it does not exist"]


@pytest.mark.parametrize(("mode", "first"), [("tx", [TxSelect()]), ("dtx", [DtxSelect()]), ("normal", []), (None, [])])
def test_what_restores_a_session(mode: str | None, first: list[object]) -> None:
    unknown = ConsumerSnapshot(tag=UNKNOWN_CONSUMER, queue="work")
    quiet = ConsumerSnapshot(tag="q", queue="work", no_ack=True, exclusive=True)
    nowhere = ConsumerSnapshot(tag="n")
    state = ChannelSnapshot(number=1, mode=mode, consumers=(CONSUMER, unknown, quiet, nowhere))
    commands = list(restoring_commands(state))
    assert commands[: len(first)] == first
    subscribes = [each for each in commands if isinstance(each, MessageSubscribe)]
    assert [(each.destination, each.accept_mode, each.exclusive) for each in subscribes] == [
        ("c", AcceptMode.EXPLICIT, False),
        ("q", AcceptMode.NONE, True),
    ]
    assert sum(isinstance(each, MessageFlow) for each in commands) == 4
    assert not [each for each in restoring_commands(state, {"work"}) if isinstance(each, MessageSubscribe)]


def test_the_state_is_a_step_of_its_protocol() -> None:
    recording = joined(ChannelSnapshot(number=1, published=5, name=b"s"))
    recording.client(1, 1, ExecutionSync(sync=True))
    [step] = [each for each in recording.steps() if isinstance(each, ConnectionRestored)]
    assert step.protocol == "0-10"

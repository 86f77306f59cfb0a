"""The steps of recorded connections of AMQP 0-10."""

from __future__ import annotations

from amqproxy.amqp010.commands import ExecutionSync, QueueDeclare
from amqproxy.amqp010.controls import ConnectionHeartbeat
from amqproxy.capture.decode import read_decoded
from amqproxy.capture.decoded import DecodedFrames, SkippedBytes
from amqproxy.peer import CLIENT
from amqproxy.replay.amqp010.assembly_sent import AssemblySent
from amqproxy.replay.dialogue import steps_of
from amqproxy.replay.steps import BytesLost, ConnectionEnded, ProtocolHeaderSent
from tests.amqp010.recorded import FOLDER
from tests.replay.amqp010.recordings import Amqp010Recording, transfer


def test_each_command_is_a_step_with_its_id() -> None:
    recording = Amqp010Recording()
    recording.open(1)
    recording.attach(1)
    recording.client(1, 1, QueueDeclare("q"), transfer("", b"x" * 200_000, key="q"), ConnectionHeartbeat())
    recording.client(1, 1, ExecutionSync())
    recording.close(1)
    steps = list(recording.steps())
    assert [step.index for step in steps] == list(range(len(steps)))
    assert isinstance(steps[0], ProtocolHeaderSent)
    assert isinstance(steps[-1], ConnectionEnded)
    sent = [step for step in steps if isinstance(step, AssemblySent) and step.command_id is not None]
    assert [(step.sender, step.channel, step.command_id, step.command.method.name) for step in sent] == [
        (CLIENT, 1, 0, "queue.declare"),
        (CLIENT, 1, 1, "message.transfer"),
        (CLIENT, 1, 2, "execution.sync"),
    ]
    assert sent[1].command.body_size == 200_000


def test_what_is_missing_is_lost_and_begins_anew() -> None:
    recording = Amqp010Recording()
    recording.client(1, 1, transfer("", b"body", key="q"))
    whole = recording.decoded.pop()
    assert isinstance(whole, DecodedFrames)
    cut = whole.at((0, 1))
    recording.decoded += [cut, SkippedBytes(1, 1, "a-b", "client", "0-10", "a hole", None, 9)]
    recording.client(1, 1, ExecutionSync())
    lost, sync = recording.steps()
    assert isinstance(lost, BytesLost)
    assert isinstance(sync, AssemblySent)


def test_all_that_was_recorded_of_real_peers_is_in_the_steps() -> None:
    events = []
    path = FOLDER / "brokerj9.2__jms-010-tx.pcapng.gz"
    steps = list(steps_of(read_decoded(path), events.extend))
    assert not any(isinstance(step, BytesLost) for step in steps)
    assert {"tx.commit", "message.transfer"} <= {
        step.command.method.name for step in steps if isinstance(step, AssemblySent)
    }
    assert events

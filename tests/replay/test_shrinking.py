"""Shrinking finds the few commands that matter among many."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import pytest

from amqproxy.amqp010 import commands, controls
from amqproxy.amqp010.methods import Command
from amqproxy.amqp091.methods import (
    BasicPublish,
    ChannelClose,
    ChannelCloseOk,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueueDeleteOk,
)
from amqproxy.capture.decode import read_decoded
from amqproxy.cli.failure import Failure
from amqproxy.cli.shrink import shrink
from amqproxy.replay.amqp010.assembly_sent import AssemblySent
from amqproxy.replay.dialogue import steps_of
from amqproxy.replay.outcome import OutcomeFilter
from amqproxy.replay.shrinking import opened_vhosts
from amqproxy.replay.steps import CommandSent, Step
from amqproxy.replay.traffic_capture import pcapng_of
from amqproxy.replay.traffic_log import TrafficLog
from tests.replay.amqp010.recordings import Amqp010Recording, completed, transfer
from tests.replay.recordings import Recording, message


def busy(connections: int, guilty: int) -> Recording:
    """Connections with two channels each, of which one, on one channel, declares its queue otherwise than before."""
    recording = Recording()
    for stream in range(connections):
        recording.open(stream)
        for channel in (1, 2):
            recording.open_channel(stream, channel)
            queue = f"q{stream}-{channel}"
            recording.ask(stream, channel, QueueDeclare(queue=queue), QueueDeclareOk(queue, 0, 0))
            for number in range(5):
                recording.client(stream, channel, message(BasicPublish(routing_key=queue), b"%d" % number, channel))
            recording.ask(stream, channel, QueueDelete(queue=queue), QueueDeleteOk(5))
    recording.ask(guilty, 2, QueueDeclare(queue="shared"), QueueDeclareOk("shared", 0, 0))
    text = "PRECONDITION_FAILED - inequivalent arg 'durable'"
    recording.ask(guilty, 2, QueueDeclare(queue="shared", durable=True), ChannelClose(406, text, 50, 10))
    recording.client(guilty, 2, ChannelCloseOk())
    for stream in range(connections):
        recording.close(stream)
    return recording


def busy_amqp010(first: int, connections: int, guilty: int) -> Amqp010Recording:
    """The same of 0-10, with two sessions each; the streams are numbered from `first` on."""
    recording = Amqp010Recording()
    streams = range(first, first + connections)
    for stream in streams:
        recording.open(stream, vhost="of 0-10")
        for channel in (0, 1):
            recording.attach(stream, channel, name=b"%d %d" % (stream, channel))
            queue = f"q{stream}-{channel}"
            recording.client(stream, channel, commands.QueueDeclare(queue, sync=True))
            recording.server(stream, channel, completed((0, 0)))
            for number in range(5):
                recording.client(stream, channel, transfer("", b"%d" % number, key=queue))
            recording.client(stream, channel, commands.QueueDelete(queue, sync=True))
            recording.server(stream, channel, completed((0, 6)))
    recording.client(first + guilty, 0, commands.QueueDeclare("shared", exclusive=True, sync=True))
    recording.server(first + guilty, 0, completed((0, 7)))
    recording.client(first + guilty, 1, commands.QueueDeclare("shared", sync=True))
    recording.server(first + guilty, 1, commands.ExecutionException(405, 7), controls.SessionDetach(b"s"))
    for stream in streams:
        recording.close(stream)
    return recording


def written(steps: Iterable[Step], path: Path) -> Path:
    """What was recorded, as a capture."""
    traffic = TrafficLog(0)
    for step in steps:
        if hasattr(step, "data"):
            traffic.note(step.stream, step.sender, step.data, step.ts_ns / 1e9)
        elif isinstance(step, CommandSent | AssemblySent):
            sent = step.command
            data = b"".join([frame.raw for frame in sent.frames])
            traffic.note(step.stream, step.sender, data, step.ts_ns / 1e9)
    path.write_bytes(b"".join(pcapng_of(traffic, program="a test")))
    return path


def test_of_fifty_connections_the_two_commands_that_matter_are_left(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capture, small = written(busy(50, guilty=33).steps(), tmp_path / "busy.pcapng"), tmp_path / "small.pcapng"
    shrink(capture, until='method == "channel.close" && fields.reply_code == 406', output=small, json=True)
    found = json.loads(capsys.readouterr().out)
    assert (found["connections"], found["commands"], found["is_least"]) == (1, 2, True)
    assert found["commands_before"] == 50 * 2 * 7 + 2
    assert found["replays"] < 60
    left = [each for each in steps_of(read_decoded(small)) if isinstance(each, CommandSent) and each.channel]
    assert [each.command.method.name for each in left] == [
        "channel.open",
        "channel.open-ok",
        "queue.declare",
        "queue.declare-ok",
        "queue.declare",
        "channel.close",
        "channel.close-ok",
    ]


def test_the_same_of_0_10_beside_connections_of_0_9_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The broker that it is played against has the virtual host of the recording."""
    both = [*busy(2, guilty=0).decoded, *busy_amqp010(2, 5, guilty=3).decoded]
    capture, small = written(steps_of(both), tmp_path / "busy.pcapng"), tmp_path / "small.pcapng"
    shrink(capture, until='method == "execution.exception" && fields.error_code == 405', output=small, json=True)
    found = json.loads(capsys.readouterr().out)
    assert (found["connections_before"], found["connections"], found["commands"]) == (2 + 5, 1, 2)
    assert found["commands_before"] == (2 + 5) * 2 * 7 + 2 + 2
    left = [each for each in steps_of(read_decoded(small)) if isinstance(each, AssemblySent)]
    names = [(each.channel, each.command.method.name) for each in left if isinstance(each.command.method, Command)]
    assert names == [(0, "queue.declare"), (1, "queue.declare"), (1, "execution.exception")]
    assert b"\0guest\0guest" not in small.read_bytes()


def test_findings_and_differences_can_be_asked_for(tmp_path: Path) -> None:
    capture, small = written(busy(3, guilty=1).steps(), tmp_path / "busy.pcapng"), tmp_path / "small.pcapng"
    shrink(capture, until='finding.kind == "inequivalent-declare"', output=small)
    left = [each for each in steps_of(read_decoded(small)) if isinstance(each, CommandSent) and each.channel]
    assert sum(each.command.method.name == "queue.declare" for each in left) == 2
    assert OutcomeFilter('difference.kind == "missing"')
    for wrong in ("finding.kind ==", "finding.a == difference.b", "no_such_name == 1", "finding.a == " + "(" * 50_000):
        with pytest.raises(ValueError, match=r".+"):
            OutcomeFilter(wrong)


def test_what_is_not_true_of_the_whole_is_not_shrunk(tmp_path: Path) -> None:
    capture, small = written(busy(2, guilty=1).steps(), tmp_path / "busy.pcapng"), tmp_path / "small.pcapng"
    with pytest.raises(Failure, match="does not make this true"):
        shrink(capture, until='method == "basic.nack"', output=small)
    assert not small.exists()


def test_without_time_the_smallest_part_so_far_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capture, small = written(busy(5, guilty=1).steps(), tmp_path / "busy.pcapng"), tmp_path / "small.pcapng"
    shrink(capture, until='method == "channel.close" && fields.reply_code == 406', output=small, seconds=1e-9)
    assert "5 → 5 connections, in 1 replays; there was no time" in capsys.readouterr().out
    assert small.stat().st_size > 0


def test_secrets_do_not_get_into_what_is_written(tmp_path: Path) -> None:
    capture, small = written(busy(1, guilty=0).steps(), tmp_path / "busy.pcapng"), tmp_path / "small.pcapng"
    shrink(capture, until='method == "channel.close" && fields.reply_code == 406', output=small)
    assert b"\0guest\0*****" in small.read_bytes()
    assert b"\0guest\0guest" not in small.read_bytes()


# --- virtual hosts


def test_those_of_both_protocols_that_the_broker_has_let_its_clients_into() -> None:
    one, other = Recording(), Amqp010Recording()
    one.open(0)
    other.open(1, vhost="test")
    other.open(2, vhost="refused")
    refused = [each for each in other.decoded if each.stream == 2][:-1]  # without connection.open-ok
    steps = steps_of([*one.decoded, *(each for each in other.decoded if each.stream == 1), *refused])
    assert opened_vhosts(steps) == {"/", "test"}


def test_what_is_refused_or_not_there_is_none() -> None:
    recording = Amqp010Recording()
    recording.client(0, 0, controls.ConnectionOpen("test"))
    recording.server(0, 0, controls.ConnectionClose(402, "no such virtual host"))
    assert opened_vhosts(recording.steps()) == set()
    assert opened_vhosts(Recording().steps()) == set()

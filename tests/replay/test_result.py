"""What a replay found stays within bounds, and says what it says in JSON and in text."""

from __future__ import annotations

import json

from amqproxy.amqp091.commands import Command
from amqproxy.amqp091.frame import every_frame
from amqproxy.amqp091.methods import BasicAck, QueueDeclareOk
from amqproxy.amqp091.transitions import CLIENT, SERVER, Peer
from amqproxy.comparison.difference import Change
from amqproxy.replay.result import MAX_DIFFERENCES, MAX_NOTES, MAX_REASONS, ReplayResult
from amqproxy.replay.result_text import result_lines
from amqproxy.replay.steps import CommandSent


def step(command: Command, sender: Peer = CLIENT) -> CommandSent:
    received = Command.received(every_frame(command.encode(0), 0))
    return CommandSent(index=0, ts_ns=1, stream=3, connection="a-b", sender=sender, command=received)


def test_it_does_not_grow_with_what_it_counts() -> None:
    result = ReplayResult()
    ack = step(Command(1, BasicAck(1)))
    for number in range(MAX_REASONS + 50):
        result.unplayed(ack, f"reason {number}")
    for number in range(MAX_NOTES + 50):
        result.note(f"note {number}")
    for _ in range(MAX_DIFFERENCES + 5):
        result.missing(ack, "it did not come")
    assert len(result.not_played) == MAX_REASONS + 1
    assert sum(each.count for each in result.not_played) == MAX_REASONS + 50
    assert len(result.notes) == MAX_NOTES
    assert len(result.differences) == MAX_DIFFERENCES
    summary = json.loads(result.summary_json())
    assert summary["differences"] == summary["missing"] == MAX_DIFFERENCES + 5


def test_fields_that_are_ignored_do_not_count_nor_what_is_in_them() -> None:
    result = ReplayResult(ignored=["message_count", "properties.headers"])
    recorded = step(Command(1, QueueDeclareOk("q", 1, 0)), SERVER)
    live = Command(1, QueueDeclareOk("q", 2, 0))
    changes = [
        Change(field="message_count", before=1, after=2),
        Change(field="properties.headers.x", before=1, after=2),
    ]
    result.matched(recorded, live, changes, 2)
    assert result.is_same
    result.matched(recorded, live, [Change(field="properties.headers_too", before=1, after=2)], 2)
    assert result.difference_count == 1


def test_a_reader_is_told_what_was_not_played() -> None:
    result = ReplayResult()
    for _ in range(2):
        result.unplayed(step(Command(1, BasicAck(1))), "the channel was closed")
    lines = list(result_lines(result, hidden=3))
    assert lines[0] == "… and 3 more differences (--limit 0 prints all)"
    assert lines[1] == "! #3/1 not played: 2 times basic.ack: the channel was closed"


def test_how_far_it_has_come() -> None:
    result = ReplayResult()
    result.sent, result.answers, result.connections = 7, 3, 1
    assert json.loads(result.progress_json(loop=2)) == {
        "report": "progress",
        "connections": 1,
        "commands_sent": 7,
        "answers_compared": 3,
        "differences": 0,
        "loop": 2,
    }

"""What both sides of a connection said, turn by turn."""

from __future__ import annotations

from itertools import pairwise

from amqproxy.capture.selection.selection import Selection
from amqproxy.capture.selection.time_window import TimeWindow, moment
from amqproxy.rules.matching.filters import compiled
from amqproxy.taps.text import RESET
from amqproxy.views.dialogue import Dialogue
from amqproxy.views.passed_command import PassedKind
from amqproxy.views.passed_commands import commands_of
from tests.views.followed import decoded


def test_each_command_is_said_once_in_turns() -> None:
    passed = decoded("publish-get-ack")
    commands = [each for each in commands_of(passed) if each.kind is not PassedKind.END]
    lines = list(Dialogue(Selection()).lines(passed))
    said = [line for line in lines if line.startswith("     ") and "│" not in line]
    assert len(said) == len(commands)
    turns = [line for line in lines if line.startswith("#0 ")]
    assert len(turns) == 1 + sum(one.sender != two.sender for one, two in pairwise(commands))
    assert lines[0].startswith("connection #0: 127.0.0.1:")
    assert lines[-1] == "connection #0 is over"


def test_bodies_are_shown_as_far_as_is_asked() -> None:
    lines = "\n".join(Dialogue(Selection(), compiled("method == 'basic.publish'"), body=4).lines(decoded("confirms")))
    assert "│ take\n" in lines
    assert "│ … 1 bytes more" in lines
    assert "basic.ack" not in lines


def test_only_what_is_in_the_window_is_said_and_turns_have_colours() -> None:
    window = TimeWindow(moment("04:08:07.6493"), moment("04:08:07.6495"))
    lines = list(Dialogue(Selection(None, window), is_coloured=True).lines(decoded("confirms")))
    said = [line.strip() for line in lines if line.startswith("     ")]
    assert [line[:18] for line in said] == ["ch 1    basic.publ", "│ refused", "ch 1    basic.nack"]
    assert lines[1].endswith(RESET)
    assert lines[4].endswith(RESET)
    assert lines[1][:5] != lines[4][:5]


def test_a_reset_ends_a_connection_and_is_named() -> None:
    lines = list(Dialogue(Selection()).lines(decoded("server-reset")))
    assert lines[-1] == "connection #0 is over: server reset the connection"

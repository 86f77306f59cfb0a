"""Texts of peers on a terminal: what they hold does not affect it."""

from __future__ import annotations

import pytest

from amqproxy.cli.failure import Failure
from amqproxy.cli.queue_runs import RunDisplay, check
from amqproxy.cli.queue_text import message_lines, result_lines
from amqproxy.workbench.message_line import MessageLine
from amqproxy.workbench.queue_pass import Selection
from amqproxy.workbench.run_report import LeftMessage, RunReport
from amqproxy.workbench.runs import RunPlan

HOSTILE = "a\x1b]52;c;aGk=\x07\x9b2J\x7f\r\nb\u2028c"
SHOWN = r"a\x1b]52;c;aGk=\x07\x9b2J\x7f\r\nb\u2028c"


def test_names_and_values_of_messages_are_escaped() -> None:
    line = MessageLine(
        position=0,
        exchange=HOSTILE,
        routing_key=HOSTILE,
        properties={"type": HOSTILE, "headers": {HOSTILE: HOSTILE, "list": [HOSTILE]}},
        size=1,
    )
    lines = list(message_lines(line, ("text", "tab\there \\ and\x1b[2J\nnext")))
    assert all(each.replace("\t", "").isprintable() for each in lines)
    assert [f"  type: {SHOWN}", f"  headers.{SHOWN}: {SHOWN}"] == lines[1:3]
    assert lines[-2:] == ["    tab\there \\ and\\x1b[2J", "    next"]


def test_reasons_and_failures_are_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    report = RunReport(command="move", to=repr("q"), left_count=1, left=[LeftMessage(0, HOSTILE, HOSTILE)])
    report.places = {f"exchange {HOSTILE!r}": 1}
    assert all(each.isprintable() for each in result_lines(report))
    report.failure = HOSTILE
    with pytest.raises(Failure) as failed:
        check(RunPlan(command="move", selection=Selection()), report)
    assert str(failed.value) == f"queue move: {SHOWN}"
    RunDisplay().warn(HOSTILE)
    assert capsys.readouterr().err == f"amqproxy: {SHOWN}\n"

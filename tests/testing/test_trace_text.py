"""What passed last, for a person."""

from typing import Any

from amqproxy.taps.findings.finding import Finding, Severity
from amqproxy.taps.message_record import MessageRecord
from amqproxy.taps.record import Record
from amqproxy.testing.trace_text import (
    LONGEST_LINE,
    MOST_CONNECTIONS,
    MOST_LINES,
    finding_lines,
    last_lines,
    message_lines,
)


def message(stream: int = 1, **fields: Any) -> MessageRecord:
    return MessageRecord(ts_ns=0, stream=stream, connection="a:1-b:2", type="publish", outcome="sent", **fields)


def frame(stream: int = 1) -> Record:
    return Record(ts_ns=0, stream=stream, connection="a:1-b:2", sender="client", channel=1, type="heartbeat")


def test_the_last_messages_and_frames_of_each_connection() -> None:
    text = last_lines([message(1), message(2)] * MOST_LINES + [message(2)], [frame(2)])
    assert [line.strip() for line in text.splitlines() if "00:00:00" not in line] == [
        "connection #1, a:1 → b:2",
        "last messages:",
        "connection #2, a:1 → b:2",
        f"last messages ({MOST_LINES} of {MOST_LINES + 1}):",
        "last frames:",
    ]
    assert text.count("publish") == 2 * MOST_LINES


def test_some_connections() -> None:
    found = [message(number) for number in range(20)]
    assert [line for line in last_lines(found, [], {3, 99}).splitlines() if "connection" in line] == [
        "connection #3, a:1 → b:2"
    ]
    assert last_lines(found, []).count("connection #") == MOST_CONNECTIONS
    assert "connection #19" in last_lines(found, [])


def test_nothing() -> None:
    assert last_lines([], []) == ""


def test_the_first_of_many_messages() -> None:
    lines = message_lines([message() for _ in range(MOST_LINES + 3)]).splitlines()
    assert (len(lines), lines[-1]) == (MOST_LINES + 1, "  and 3 more")


def test_a_long_line_is_cut() -> None:
    (line,) = message_lines([message(routing_key="x" * 1000)]).splitlines()
    assert len(line) == LONGEST_LINE + 3


def test_a_finding_is_explained() -> None:
    finding = Finding(
        ts_ns=0, stream=1, connection="a:1-b:2", kind="k", severity=Severity.ERROR, text="t", why="w", remedy="r"
    )
    assert [line.strip() for line in finding_lines([finding]).splitlines()][1:] == ["why: w", "do:  r"]

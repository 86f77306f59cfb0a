"""Comparisons as lines for a person."""

from amqproxy.comparison.comparison import (
    ComparedConnection,
    ComparisonSummary,
    ConnectionsCompared,
    LatenciesCompared,
    LatencySummary,
)
from amqproxy.comparison.comparison_text import comparison_lines
from amqproxy.comparison.difference import Change, Difference, DifferenceKind, Place
from amqproxy.comparison.traced_command import TracedCommand

PAIR = ConnectionsCompared(
    a=ComparedConnection(stream=0, connection="1.2.3.4:5-6.7.8.9:5672", commands=3),
    b=ComparedConnection(stream=2, connection="1.2.3.4:6-6.7.8.9:5672", commands=3),
    why="user guest, 50% alike",
)
HOSTILE = "\x1b[2J\x07\u202eorders\n"


def changed(number: int) -> Difference:
    command = TracedCommand(type="publish", ts_ns=number, method="basic.publish", fields={"exchange": HOSTILE})
    return Difference(
        kind=DifferenceKind.CHANGED,
        type="publish",
        what=command.what,
        method="basic.publish",
        a=Place(ts_ns=number * 1000, stream=0, connection=PAIR.why, channel=1),
        b=Place(ts_ns=0, stream=2, connection=PAIR.why, channel=1),
        changes=(
            Change(field=f"properties.headers.{HOSTILE}", before=HOSTILE),
            Change(field="body", before="c", after="x" * 1000, at=2),
            Change(field="body", at=-1),
        ),
    )


def test_all_lines() -> None:
    reports = [
        PAIR,
        Difference(kind=DifferenceKind.MISSING, type="channel", what="channel 2, 1 command", a=changed(7).b),
        PAIR,
        changed(1),
        changed(2),
        changed(3),
        LatenciesCompared(kind="basic.publish", a=LatencySummary(count=9, p50=0.0001, p99=2.5)),
        ComparisonSummary(
            is_same=False,
            differences={DifferenceKind.MISSING: 1, DifferenceKind.CHANGED: 3},
            connections={"a": 2, "b": 2},
            commands={"a": 6, "b": 1},
            omitted_connections=1,
        ),
    ]
    lines = list(comparison_lines(reports, limit=1))
    assert all(each.isprintable() for each in lines)
    head = "A #0 1.2.3.4:5-6.7.8.9:5672 ↔ B #2 1.2.3.4:6-6.7.8.9:5672  (user guest, 50% alike)"
    hostile = r'"\u001b[2J\u0007\u202eorders\n"'
    assert lines == [
        head,
        "  - 00:00:00.000000 ch 1    channel 2, 1 command  (missing)",
        head,
        f"  ~ 00:00:00.000001 ch 1    publish exchange={hostile}  (changed)",
        f"      properties.headers.{hostile[1:-1]}: {hostile} → (none)",
        f"      body from byte 2: c → {'x' * 200}…",
        "      body: differs, behind what is kept of it",
        "  … and 2 more of these connections: --limit 0 shows all",
        "latency of                 A: count       p50       p99     B: count       p50       p99",
        "basic.publish                     9    100 µs     2.5 s            -         -         -",
        "A: 2 connections, 6 commands",
        "B: 2 connections, 1 command",
        "not compared: 1 connection, which are too many",
        "4 differences: 1 missing, 3 changed",
    ]


def test_no_difference() -> None:
    summary = ComparisonSummary(is_same=True, differences={}, connections={}, commands={})
    assert list(comparison_lines([PAIR, summary])) == ["no difference"]

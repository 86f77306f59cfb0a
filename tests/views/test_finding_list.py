"""The findings that are listed: some of each kind, and how many there were."""

from __future__ import annotations

from amqproxy.taps.findings.finding import Finding, Severity
from amqproxy.views.finding_list import FindingList


def finding(kind: str, severity: Severity, count: int = 1) -> Finding:
    return Finding(
        ts_ns=1,
        stream=0,
        connection="10.0.0.1:5-10.0.0.2:6",
        kind=kind,
        severity=severity,
        text="",
        count=count,
        why="",
        remedy="",
    )


def test_the_worst_come_first_and_the_first_the_tenth_and_the_hundredth_of_each_are_listed() -> None:
    listed = FindingList(2)
    for count in range(1, 101):
        listed.add(finding("frequent", Severity.WARNING, count))
    listed.add(finding("rare", Severity.WARNING))
    listed.add(finding("bad", Severity.ERROR))
    found = [(kind, each.count, [some.count for some in each.findings], each.more) for kind, each in listed.in_order()]
    assert found == [("bad", 1, [1], 0), ("frequent", 100, [1, 10], 1), ("rare", 1, [1], 0)]

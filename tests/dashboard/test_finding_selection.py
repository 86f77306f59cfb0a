"""Findings that are chosen by words."""

from __future__ import annotations

import pytest

from amqproxy.dashboard.finding_selection import FindingSelection
from amqproxy.dashboard.message_ring import MessageRing
from amqproxy.dashboard.selection import Place
from amqproxy.taps.findings.finding import Finding, Severity

pytestmark = pytest.mark.once

FOUND = Finding(
    ts_ns=1,
    stream=3,
    connection="a-b",
    channel=1,
    kind="auto-ack",
    severity=Severity.WARNING,
    text="Consumes orders without acknowledgements",
    why="Messages are lost",
    remedy="Acknowledge",
)


@pytest.mark.parametrize(
    ("words", "is_shown"),
    [
        (None, True),
        ("ORDERS", True),
        ("auto-ack warning", True),
        ("orders error", False),
        ("-auto-ack", False),
        ("orders -polling -", True),
        ("kind:auto-ack orders", True),
        ("kind:auto", False),
        ("-kind:auto-ack", False),
        ("-kind:auto", True),
    ],
)
def test_words(words: str | None, is_shown: bool) -> None:
    row = MessageRing(1 << 20).append(FOUND, 0)
    assert FindingSelection(words).shows(row) is is_shown
    assert not FindingSelection(words, Place(connection="4")).shows(row)
    assert FindingSelection(words).take_warning() is None

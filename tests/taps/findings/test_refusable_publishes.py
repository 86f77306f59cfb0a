"""Publishes that may still be refused, and how many are remembered."""

from __future__ import annotations

import pytest

from amqproxy.taps.findings import refusable_publishes
from amqproxy.taps.findings.refusable_publishes import REFUSAL_NS, RefusablePublish, RefusablePublishes
from amqproxy.taps.trace.open_tags import Span

CHANNEL = (1, 1)
OTHER = (1, 2)


def publish(ts_ns: int, *queues: str, awaits: bool = True) -> RefusablePublish:
    return RefusablePublish(ts_ns, [("/", queue) for queue in queues], awaits)


def test_settled_and_refused() -> None:
    known = RefusablePublishes()
    for number in range(1, 5):
        known.add(CHANNEL, number, publish(number, f"q{number}", "all"))
    known.add(OTHER, 1, publish(9, "other"))
    assert known.settle(CHANNEL, (Span(2, 3, 0), Span(7, 9, 0))) == [
        ("/", "q2"),
        ("/", "all"),
        ("/", "q3"),
        ("/", "all"),
    ]
    assert known.settle(CHANNEL, (Span(2, 3, 0),)) == known.settle((7, 7), (Span(1, 1, 0),)) == []
    assert known.refuse(CHANNEL, 10) == [("/", "q1"), ("/", "all"), ("/", "q4"), ("/", "all")]
    assert known.channels_of(1) == [OTHER]
    known.forget(OTHER)
    known.forget(OTHER)
    assert len(known) == len(known.channels_of(1)) == 0


def test_what_is_not_confirmed_is_taken_after_some_seconds() -> None:
    known = RefusablePublishes()
    known.add(CHANNEL, 1, publish(0, "old", awaits=False))
    known.add(CHANNEL, 2, publish(5, "late", awaits=False))
    assert known.refuse(CHANNEL, REFUSAL_NS + 1) == [("/", "late")]
    known.add(CHANNEL, 1, publish(0, "old", awaits=False))
    known.add(CHANNEL, 2, publish(REFUSAL_NS + 1, "new", awaits=False))
    assert len(known) == 1


def test_they_are_bounded_by_channel_and_in_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(refusable_publishes, "MAX_PUBLISHES", 8)
    monkeypatch.setattr(refusable_publishes, "MAX_OF_CHANNEL", 5)
    known = RefusablePublishes()
    for number in range(1, 11):
        known.add(CHANNEL, number, publish(0, f"q{number}"))
        known.add(OTHER, number, publish(0, f"q{number}"))
    assert len(known) == 8
    for channel in (CHANNEL, OTHER):
        assert known.refuse(channel, 0)[-1] == ("/", "q10")
    assert len(known) == 0


def test_a_connection_that_ends_costs_what_it_had(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not what all others have; and a publish that is not remembered leaves nothing of its channel."""
    monkeypatch.setattr(refusable_publishes, "MAX_PUBLISHES", 20)
    known = RefusablePublishes()
    compared = 0

    class Stream(int):
        """A number of a connection that counts how often it is compared with another."""

        def __eq__(self, other: object) -> bool:
            nonlocal compared
            compared += 1
            return super().__eq__(other)

        __hash__ = int.__hash__

    for number in range(20):
        known.add((Stream(number), 1), 1, publish(0, "q"))
    compared = 0
    assert known.channels_of(7) == [(7, 1)]
    assert compared <= 2
    known.add((99, 1), 1, publish(0, "q"))
    assert len(known) == 20
    assert known.channels_of(99) == []

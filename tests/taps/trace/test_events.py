"""Events as values."""

from __future__ import annotations

from amqproxy.taps.trace.events import PublishesSettled, Settlement
from amqproxy.taps.trace.open_tags import Span


def test_events_are_values() -> None:
    event = PublishesSettled(ts_ns=5, channel=1, outcome=Settlement.CONFIRMED, spans=(Span(1, 3, 2),))
    assert event == PublishesSettled(ts_ns=5, channel=1, outcome=Settlement.CONFIRMED, spans=(Span(1, 3, 2),))
    assert hash(event)
    assert event.spans[0].count == 3
    assert event.is_unknown_tag is False


def test_outcomes_are_words() -> None:
    assert {str(each) for each in Settlement} == {
        "confirmed",
        "nacked",
        "committed",
        "rolled back",
        "acked",
        "rejected",
        "recovered",
        "open",
        "unknown",
    }

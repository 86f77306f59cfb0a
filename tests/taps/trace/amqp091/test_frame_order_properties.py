"""Where the two directions of a connection come in another order than they passed, the trace says the same."""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from amqproxy.amqp091.transitions import CLIENT, SERVER, Peer
from amqproxy.taps.trace.amqp091.connection_trace import Trace
from amqproxy.taps.trace.events import (
    ChannelClosed,
    ConnectionClosed,
    DeliveriesSettled,
    HistoryLost,
    MessageDelivered,
    MessagePublished,
    MessageReturned,
    PublishesSettled,
    RequestAnswered,
    RequestSent,
    RequestUnanswered,
    TraceEvent,
)
from tests.example_count import example_count
from tests.taps.trace.amqp091.frame_orders import delayed, fed, is_settled_in_turn, races
from tests.taps.trace.programs import is_clear, programs, simulated
from tests.taps.trace.simulation import Step

delays = st.lists(st.integers(0, 12), min_size=1, max_size=40)


def outcomes(events: list[TraceEvent]) -> Counter[Any]:
    """All that the events claim, but for times and order."""
    found: Counter[Any] = Counter()
    published: dict[tuple[int, int, int], list[bytes]] = {}  # on each channel, that of the life that ends first
    delivered: dict[tuple[int, int, int], list[bytes]] = {}
    for event in events:
        assert (getattr(event, "latency_ns", 0) or 0) >= 0
        match event:
            case MessagePublished():
                if event.awaits:
                    published.setdefault((event.channel, event.number, event.ts_ns), []).append(event.body)
                found["published", event.body, event.number, event.confirm_tag, event.awaits] += 1
            case MessageDelivered():
                if event.awaits is not False:
                    delivered.setdefault((event.channel, event.method.delivery_tag, event.ts_ns), []).append(event.body)
                found["delivered", event.body, event.queue, event.awaits] += 1
            case PublishesSettled() | DeliveriesSettled():
                messages = published if isinstance(event, PublishesSettled) else delivered
                details = getattr(event, "requeue", None), getattr(event, "is_certain", None)
                for span in event.spans:
                    assert span.ts_ns <= event.ts_ns
                    for number in range(span.first, span.last + 1):
                        found[event.outcome, messages[event.channel, number, span.ts_ns].pop(0), *details] += 1
                if event.is_unknown_tag is not False:
                    found["unknown tag", type(event), event.channel, event.outcome, event.is_unknown_tag] += 1
            case MessageReturned():
                found["returned", event.body] += 1
            case RequestAnswered():
                found["answered", event.channel, event.sender, repr(event.request), repr(event.reply)] += 1
            case RequestSent() | RequestUnanswered():
                found[type(event), event.channel, event.sender, repr(event.request)] += 1
            case ChannelClosed() | ConnectionClosed():
                found["closed", event.channel, event.by, event.code, event.text, repr(event.cause)] += 1
            case HistoryLost():
                found["lost", event.reason] += 1
            case _:
                found[type(event), event.channel] += 1
    return found


@settings(max_examples=example_count(300), deadline=None, suppress_health_check=list(HealthCheck))
@given(programs, delays, st.sampled_from((None, CLIENT, SERVER)))
def test_the_order_of_the_directions_does_not_matter(
    program: list[Step], delays: list[int], sender: Peer | None
) -> None:
    simulation = simulated(program)
    passed = simulation.passed
    seen = delayed(passed, delays, sender)
    assume(is_clear(simulation) and is_settled_in_turn(passed) and not races(passed, seen))
    assert outcomes(fed(Trace(body=64, is_ordered=False), seen)) == outcomes(fed(Trace(body=64), passed))


@settings(max_examples=example_count(300), deadline=None, suppress_health_check=list(HealthCheck))
@given(programs, delays, st.integers(0, 20_000))
def test_no_message_is_made_up_or_settled_twice_whatever_the_order(
    program: list[Step], delays: list[int], max_memory: int
) -> None:
    simulation = simulated(program)
    events = fed(Trace(body=64, is_ordered=False, max_memory=max_memory), delayed(simulation.passed, delays))
    published = [each for each in events if isinstance(each, MessagePublished)]
    delivered = [each for each in events if isinstance(each, MessageDelivered)]
    true_published = Counter(each.body for life in simulation.lives for each in life.publishes)
    true_delivered = Counter(each.body for life in simulation.lives for each in life.deliveries)
    assert Counter(each.body for each in published) <= true_published
    assert Counter(each.body for each in delivered) <= true_delivered
    if not any(isinstance(each, HistoryLost) for each in events):
        assert len(published) == true_published.total()
        assert len(delivered) == true_delivered.total()
    assert settled(events, PublishesSettled) <= sum(bool(each.awaits) for each in published)
    assert settled(events, DeliveriesSettled) <= sum(each.awaits is not False for each in delivered)


def settled(events: list[TraceEvent], kind: type[PublishesSettled | DeliveriesSettled]) -> int:
    return sum(span.count for each in events if isinstance(each, kind) for span in each.spans)


@settings(max_examples=example_count(300), deadline=None, suppress_health_check=list(HealthCheck))
@given(programs)
def test_in_the_true_order_nothing_changes(program: list[Step]) -> None:
    passed = simulated(program).passed
    assert outcomes(fed(Trace(body=64, is_ordered=False), passed)) == outcomes(fed(Trace(body=64), passed))

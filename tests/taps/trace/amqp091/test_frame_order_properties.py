"""Where the two directions of a connection come in another order than they passed, the trace says the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import cycle
from typing import Any

from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from amqproxy.amqp091.frame import BODY, HEADER, METHOD
from amqproxy.amqp091.methods import (
    BasicAck,
    BasicDeliver,
    BasicGetOk,
    BasicNack,
    BasicRecover,
    BasicRecoverOk,
    BasicReject,
    ChannelClose,
    ChannelCloseOk,
    ChannelOpen,
    ConnectionClose,
    ConnectionCloseOk,
    TxRollback,
)
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
from tests.taps.trace.programs import is_clear, programs, simulated
from tests.taps.trace.simulation import Passed, Step

delays = st.lists(st.integers(0, 12), min_size=1, max_size=40)


def delayed(passed: list[Passed], delays: list[int], sender: Peer | None = None) -> list[Passed]:
    """The same frames, of which some come later: each direction stays in order."""
    latest = {CLIENT: 0, SERVER: 0}
    places = []
    for place, (each, delay) in enumerate(zip(passed, cycle(delays), strict=False)):
        if each.sender is (sender or each.sender):
            latest[each.sender] = max(latest[each.sender], place + delay)
        else:
            latest[each.sender] = place
        places.append((latest[each.sender], place))
    return [passed[place] for _, place in sorted(places)]


def fed(trace: Trace, passed: Iterable[Passed]) -> list[TraceEvent]:
    """What happens with each frame in a read of its own, so that no two have the same time."""
    trace.feed_protocol_header(0)
    events: list[TraceEvent] = []
    for ts_ns, each in enumerate(passed, 1):
        events += trace.feed(each.sender, [each.frame], ts_ns)
    return events + trace.end(1_000_000, "over")


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


def is_settled_in_turn(passed: list[Passed]) -> bool:
    """Does the client settle only what was delivered, and each tag by its number?

    What it settles with tag 0, or before it is delivered, or while the broker recovers, depends on the order; and so
    does what the broker recovers while a rollback opens deliveries again.
    """
    last: Counter[int] = Counter()
    recovered: Counter[int] = Counter()
    recovering: Counter[int] = Counter()
    rollbacks: Counter[int] = Counter()
    tag: Counter[int] = Counter()
    remaining: Counter[int] = Counter()
    for each in passed:
        frame, channel = each.frame, each.frame.channel
        method = frame.method if frame.kind == METHOD else None
        if each.sender is SERVER and frame.kind in (HEADER, BODY):
            remaining[channel] += frame.header.body_size if frame.kind == HEADER else -frame.size
            if not remaining[channel]:
                last[channel] = tag[channel]
        match method:
            case ChannelOpen():
                last[channel] = tag[channel] = recovered[channel] = recovering[channel] = 0
            case BasicDeliver() | BasicGetOk():
                tag[channel] = method.delivery_tag
            case BasicRecover() if rollbacks[channel]:
                return False
            case TxRollback() if any(recovering):
                return False
            case TxRollback():
                rollbacks[channel] += 1
            case BasicRecover():
                recovering[channel] += 1
            case BasicRecoverOk():
                recovering[channel] -= 1
                recovered[channel] = last[channel]
            case BasicAck() | BasicNack() | BasicReject() if each.sender is SERVER:
                if method.delivery_tag == 0:
                    return False
            case BasicAck() | BasicNack() | BasicReject():
                if recovering[channel] or not recovered[channel] < method.delivery_tag <= last[channel]:
                    return False
            case _:
                pass
    return True


def races(passed: list[Passed], seen: list[Passed]) -> bool:
    """Did the client send something on a channel that the broker had closed? Then no order is the true one."""
    return any(_are_late(each) for each in (passed, seen))


def _are_late(passed: list[Passed]) -> bool:
    closed: Counter[int] = Counter()
    for each in passed:
        frame = each.frame
        method = frame.method if frame.kind == METHOD else None
        if each.sender is SERVER:
            if isinstance(method, (ChannelClose, ConnectionClose)):
                closed[frame.channel] += 1
        elif isinstance(method, (ChannelCloseOk, ConnectionCloseOk)):
            closed[frame.channel] -= 1
        elif closed[0] > 0 or closed[frame.channel] > 0:
            return True
    return False


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

"""The trace beside the state machine of `amqproxy.amqp010`, which knows nothing of times, events or bounds.

Both are shown what two peers do at random, wrong references included. What is open for the trace has to be what the
machine takes for incomplete or held, and each message has to end exactly once.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amqproxy.amqp010.commands import (
    MessageAccept,
)
from amqproxy.amqp010.controls import SessionCompleted
from amqproxy.amqp010.frame import Frame
from amqproxy.peer import CLIENT, SERVER, Peer
from amqproxy.taps.trace.amqp010.connection_trace import Amqp010Trace
from amqproxy.taps.trace.events import (
    DeliveriesSettled,
    MessageDelivered,
    MessagePublished,
    PublishesSettled,
    TraceEvent,
)
from tests.example_count import example_count
from tests.taps.trace.amqp010.traced import ids
from tests.taps.trace.amqp010.watched import NAMES, Watched

RANGES = st.lists(st.tuples(st.integers(0, 12), st.integers(0, 3)), min_size=1, max_size=2)
ACTIONS = st.lists(st.tuples(st.sampled_from(NAMES), RANGES, st.integers(1, 3)), max_size=40)


def open_publishes(watched: Watched) -> set[int]:
    """The numbers of publishes that have not ended, by the trace's events."""
    found = {each.number for each in watched.events if isinstance(each, MessagePublished) and each.awaits}
    for each in watched.events:
        if isinstance(each, PublishesSettled):
            for span in each.spans:
                found -= set(range(span.first, span.last + 1))
    return found


@settings(deadline=None)
@given(ACTIONS, st.booleans())
def test_what_is_open_is_what_the_machine_has(actions: list[tuple[str, Any, int]], is_transactional: bool) -> None:
    watched = Watched(is_transactional=is_transactional)
    for action in actions:
        watched.act(*action)
        session, traced = watched.session, watched.trace.channels[1]
        held = {position for ids_ in session.transfers[SERVER].acquired for position in ids_}
        assert {position for position in range(60) if traced.is_unacked(position)} == held
        assert traced.unacked == len(held)
        if not is_transactional:
            incomplete = {position for ids_ in session.streams[CLIENT].incomplete for position in ids_}
            tags = {each.confirm_tag: each.number for each in watched.events if isinstance(each, MessagePublished)}
            still = {number for tag, number in tags.items() if tag in incomplete}
            assert open_publishes(watched) <= still, "nothing is open that is complete"
            refused = {
                number
                for each in watched.events
                if isinstance(each, PublishesSettled)
                for span in each.spans
                for number in range(span.first, span.last + 1)
            }
            assert still - open_publishes(watched) <= refused
        assert traced.unconfirmed == len(open_publishes(watched))


@settings(deadline=None)
@given(ACTIONS, st.booleans(), st.sampled_from([1 << 16, 8, 2]))
def test_each_message_ends_once_and_nothing_is_left(
    actions: list[tuple[str, Any, int]], is_transactional: bool, max_spans: int
) -> None:
    watched = Watched(is_transactional=is_transactional, max_spans=max_spans)
    for action in actions:
        watched.act(*action)
        assert watched.trace._budgets.spans.used <= max_spans + 1
    watched.events += watched.trace.end(watched.now + 1, "over")
    ended: Counter[tuple[str, int]] = Counter()
    for each in watched.events:
        if isinstance(each, PublishesSettled | DeliveriesSettled):
            kind = "publish" if isinstance(each, PublishesSettled) else "deliver"
            for span in each.spans:
                ended.update((kind, number) for number in range(span.first, span.last + 1))
    begun = [("publish", each.number) for each in watched.events if isinstance(each, MessagePublished)]
    begun += [
        ("deliver", each.method.delivery_tag or 0) for each in watched.events if isinstance(each, MessageDelivered)
    ]
    assert ended == Counter(begun)
    assert watched.trace.memory_used == 0


@settings(deadline=None, max_examples=example_count(30))
@given(ACTIONS, st.booleans(), st.data())
def test_where_the_directions_have_no_order_the_outcomes_are_the_same(
    actions: list[tuple[str, Any, int]], is_transactional: bool, data: st.DataObject
) -> None:
    watched = Watched(is_transactional=is_transactional)
    for action in actions:
        if action[0] in ("publish", "deliver", "commit"):
            watched.act(*action)
    sent = watched.session.streams
    for peer, settle in ((SERVER, MessageAccept), (CLIENT, None)):
        seen = sent[peer].seen
        if seen is None:
            continue
        if settle is not None:
            watched.send(CLIENT, settle(transfers=ids((0, seen - 1))))
        else:
            watched.send(SERVER, SessionCompleted(commands=ids((0, seen - 1))))
    in_order = watched.events + watched.trace.end(10_000, "over")
    shuffled: list[tuple[Peer, list[Frame], int]] = []
    queues = {peer: [each for each in watched.passed if each[0] is peer] for peer in Peer}
    while any(queues.values()):
        peer = data.draw(st.sampled_from([each for each in Peer if queues[each]]))
        shuffled.append(queues[peer].pop(0))
    trace = Amqp010Trace(is_ordered=False)
    trace.feed_protocol_header(0)
    events = [event for sender, frames, ts_ns in shuffled for event in trace.feed(sender, frames, ts_ns)]
    events += trace.end(10_000, "over")
    assert _outcomes(events) == _outcomes(in_order)
    assert trace.memory_used == 0


def _outcomes(events: list[TraceEvent]) -> Counter[tuple[str, str, int]]:
    found: Counter[tuple[str, str, int]] = Counter()
    for each in events:
        if isinstance(each, PublishesSettled | DeliveriesSettled):
            for span in each.spans:
                names = (type(each).__name__, str(each.outcome))
                found.update((*names, number) for number in range(span.first, span.last + 1))
    return found


@pytest.mark.parametrize("size", [1, 7, 64])
def test_it_makes_no_difference_which_frames_are_fed_together(size: int) -> None:
    watched = Watched(is_transactional=False)
    for name, last, body in (("publish", 0, 3), ("deliver", 0, 2), ("accept", 0, 1), ("complete", 1, 1)):
        watched.act(name, [(0, last)], body)
    trace = Amqp010Trace()
    trace.feed_protocol_header(0)
    events: list[TraceEvent] = []
    for sender, frames, ts_ns in watched.passed:
        for start in range(0, len(frames), size):
            events += trace.feed(sender, frames[start : start + size], ts_ns)
    assert events == watched.events

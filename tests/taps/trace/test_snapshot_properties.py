"""A trace that joins a random program with the snapshot of a whole trace goes on as that one does."""

from __future__ import annotations

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from amqproxy.amqp010 import commands
from amqproxy.amqp010.commands import MessageSubscribe, MessageTransfer
from amqproxy.amqp091.methods import BasicConsume, BasicDeliver, BasicPublish, TxCommit
from amqproxy.amqp091.properties import ContentHeader, Properties
from amqproxy.amqp091.transitions import SERVER
from amqproxy.taps.session_trace import SessionTrace
from amqproxy.taps.trace.amqp091.connection_trace import Trace
from amqproxy.taps.trace.budget import SPAN_COST
from amqproxy.taps.trace.events import (
    ChannelClosed,
    ConnectionClosed,
    DeliveriesSettled,
    MessageDelivered,
    MessagePublished,
    MessageReturned,
    PublishesSettled,
    StateRestored,
    TraceEvent,
)
from amqproxy.taps.trace.open_tags import Span
from amqproxy.taps.trace.snapshot import (
    ChannelSnapshot,
    ConnectionSnapshot,
    ConsumerSnapshot,
    ContentSnapshot,
    RequestSnapshot,
)
from tests.example_count import example_count
from tests.taps.trace.checker import Checker
from tests.taps.trace.programs import is_clear, programs, simulated
from tests.taps.trace.simulation import Step

WITH_BODY = (MessagePublished, MessageDelivered, MessageReturned)


def known(event: TraceEvent) -> TraceEvent:
    """An event without what a snapshot does not have: the epochs of channels that were closed, the causes of closes."""
    event = msgspec.structs.replace(event, epoch=0)
    if isinstance(event, (ChannelClosed, ConnectionClosed)):
        event = msgspec.structs.replace(event, cause=None)
    return event


def is_restored(found: TraceEvent, whole: TraceEvent) -> bool:
    """Whether an event equals that of the whole trace, but for fields that may be unknown after a snapshot."""
    found, whole = known(found), known(whole)
    if isinstance(found, WITH_BODY) and type(found) is type(whole):
        if not found.body:  # it was under way
            whole = msgspec.structs.replace(whole, body=b"")
        if isinstance(found, MessageReturned) and found.number is None:
            whole = msgspec.structs.replace(whole, number=None)
        if isinstance(found, MessageDelivered) and found.queue is None:
            whole = msgspec.structs.replace(whole, queue=None)
    if isinstance(found, DeliveriesSettled | PublishesSettled) and found.is_unknown_tag is None:
        whole = msgspec.structs.replace(whole, is_unknown_tag=None)
    return found == whole


def in_transactions(snapshot: ConnectionSnapshot) -> set[int]:
    """Numbers of the channels whose state a snapshot does not have, since a transaction was under way."""
    return {each.number for each in snapshot.channels if each.mode is None}


@settings(max_examples=example_count(300), deadline=None, suppress_health_check=list(HealthCheck))
@given(programs, st.floats(0, 1), st.booleans())
def test_a_trace_restored_from_a_snapshot_goes_on_as_the_whole_one(
    program: list[Step], place: float, has_gap: bool
) -> None:
    simulation = simulated(program)
    passed = simulation.passed
    cut = int(place * len(passed))
    whole, joined = Trace(body=64), Trace(body=64)
    whole.feed_protocol_header(0)
    if has_gap:
        joined.feed_protocol_header(0)
    before: list[TraceEvent] = []
    for at, each in enumerate(passed[:cut]):
        before += whole.feed(each.sender, [each.frame], each.ts_ns)
        if has_gap and at < cut // 2:
            joined.feed(each.sender, [each.frame], each.ts_ns)
    if has_gap:
        joined.gap(SERVER, passed[max(0, cut - 1)].ts_ns, "missing")
    snapshot = ConnectionSnapshot.from_bytes(whole.snapshot(1).to_bytes())
    events = joined.restore(snapshot)
    assert events == [StateRestored(1, snapshot=snapshot)]
    lost = in_transactions(snapshot)
    whole_events: list[TraceEvent] = []
    joined_events: list[TraceEvent] = []
    for each in passed[cut:]:
        whole_events += whole.feed(each.sender, [each.frame], each.ts_ns)
        joined_events += joined.feed(each.sender, [each.frame], each.ts_ns)
    whole_events += whole.end(simulation.ts_ns, "over")
    joined_events += joined.end(simulation.ts_ns, "over")
    if is_clear(simulation):
        compare(whole_events, joined_events, lost)
    bodies = {(each.ts_ns, each.channel, each.method): each for each in whole_events if isinstance(each, WITH_BODY)}
    Checker(simulation).check(
        [
            *before,
            *(
                bodies[each.ts_ns, each.channel, each.method] if isinstance(each, WITH_BODY) and not each.body else each
                for each in joined_events
            ),
        ]
    )


def compare(whole: list[TraceEvent], joined: list[TraceEvent], lost: set[int]) -> None:
    """Compare the events of both traces, except those of channels whose state a snapshot does not have."""
    expected, found = [
        [each for each in events if not (each.channel in lost and each.channel)] for events in (whole, joined)
    ]
    for one, other in zip(found, expected, strict=False):
        assert is_restored(one, other), (one, other)
    assert len(found) == len(expected)


small = st.integers(0, 9)
numbers = st.one_of(small, small, small, small, st.sampled_from([-1, 1 << 62, (1 << 63) - 1]))
names = st.sampled_from(["", "one", "two"])
modes = st.sampled_from([None, "normal", "confirm", "tx", "dtx"])
senders = st.sampled_from(["client", "server"])
spans = st.lists(st.integers(1, 20), max_size=4, unique=True).map(
    lambda found: tuple(Span(each, each, 1) for each in sorted(found))
) | st.lists(st.builds(Span, numbers, numbers, numbers, st.none() | names), max_size=2).map(tuple)
payloads = st.one_of(
    st.binary(max_size=8),
    st.sampled_from([each.encode() for each in (BasicPublish(), BasicDeliver(), TxCommit(), BasicConsume())]),
    st.sampled_from([each.encode() for each in (MessageTransfer(), commands.TxCommit(), MessageSubscribe())]),
    st.builds(lambda size: ContentHeader(size, Properties()).encode(), st.integers(0, 9)),
)
peers = st.lists(st.sampled_from(["client", "server"]), max_size=2).map(tuple)
requests = st.lists(st.builds(RequestSnapshot, ts_ns=numbers, sender=senders, method=payloads), max_size=2).map(tuple)
contents = st.builds(
    ContentSnapshot,
    sender=senders,
    method=st.none() | payloads,
    remaining=st.none() | numbers,
    header=st.none() | payloads,
)
channels = st.builds(
    ChannelSnapshot,
    number=st.integers(1, 3) | numbers,
    epoch=numbers,
    mode=modes,
    published=numbers,
    published_before=numbers,
    delivered=st.none() | numbers,
    unconfirmed=spans,
    unacked=spans,
    has_forgotten=st.booleans(),
    consumers=st.lists(st.builds(ConsumerSnapshot, tag=names, queue=st.none() | names), max_size=2).map(tuple),
    requests=requests,
    contents=st.lists(contents, max_size=2).map(tuple),
    closing=peers,
)
hostile = st.builds(
    ConnectionSnapshot,
    ts_ns=numbers,
    protocol=st.sampled_from(["0-9-1", "0-9-1", "0-10", "0-10", "1.0"]),
    closing=peers,
    channels=st.lists(channels, max_size=3).map(tuple),
    requests=requests,
)


@settings(max_examples=example_count(300), deadline=None, suppress_health_check=list(HealthCheck))
@given(hostile, programs, st.integers(0, 3), st.integers(0, 4_000))
def test_a_hostile_snapshot_is_refused_or_taken_within_bounds(
    snapshot: ConnectionSnapshot, program: list[Step], max_spans: int, max_memory: int
) -> None:
    simulation = simulated(program)
    trace = SessionTrace(max_spans=max_spans, max_memory=max_memory)
    trace.restore(snapshot)
    assert trace.memory_used <= max_spans * SPAN_COST + max_memory
    for each in simulation.passed if snapshot.protocol == "0-9-1" else ():
        trace.feed_noted(each.sender, [each.frame], each.ts_ns)
    trace.end(simulation.ts_ns, "over")
    assert trace.memory_used == 0

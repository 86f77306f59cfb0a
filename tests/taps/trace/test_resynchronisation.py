"""After missed frames, a trace claims nothing false, and goes on as soon as the frames that follow prove its state.

What is left unknown, by necessity:

- After missed frames of the broker, the messages and requests that were open: their answers may be among those frames.
  Later ones are known: the client's own frames tell the mode, the number of each publish, and the consumers, and each
  delivery carries its tag. A reply proves that the requests before its own were answered, whatever their kind.
- After missed frames of the client, or a join, the tags of its later publishes. With s publishes seen, a confirm of the
  tag t proves that at least t - s were missed; nothing bounds their number from above, since confirms of more of them
  may still be under way, and a client with a constant number of open publishes looks the same whatever that number is.
  For the same reason a reply tells the kind of a request, and never which of several.
- A channel that is opened afterwards is known.
"""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest

from amqproxy.amqp091.frame import METHOD
from amqproxy.amqp091.methods import (
    BasicAck,
    BasicConsume,
    BasicConsumeOk,
    BasicDeliver,
    BasicGet,
    BasicGetOk,
    BasicPublish,
    BasicRecover,
    ChannelClose,
    ChannelOpen,
    ChannelOpenOk,
    ConfirmSelect,
    ConfirmSelectOk,
    QueueDeclare,
    QueueDeclareOk,
    TxSelect,
)
from amqproxy.amqp091.transitions import CLIENT, SERVER, Peer
from amqproxy.taps.trace.amqp091.connection_trace import Trace
from amqproxy.taps.trace.connection_trace import MAX_SKEW_NS
from amqproxy.taps.trace.events import (
    DeliveriesSettled,
    MessageDelivered,
    MessagePublished,
    PublishesSettled,
    RequestAnswered,
    Settlement,
    TraceEvent,
)
from tests.example_count import example_count
from tests.taps.trace.amqp091.frame_orders import delayed, fed, is_settled_in_turn, races
from tests.taps.trace.checker import Checker
from tests.taps.trace.programs import WEIGHTS, is_clear, simulated
from tests.taps.trace.simulation import CHANNELS, Passed, Step
from tests.taps.trace.traced import Traced, frames_of

STEPS = [name for name, weight in WEIGHTS.items() for _ in range(weight)]
PROGRAMS = 1_000
MESSAGES = 300
PUBLISHED, DELIVERED = "published", "delivered"


def random_program(random: Random) -> list[Step]:
    return [
        Step(
            random.choice(STEPS),
            random.choice((1, 1, *CHANNELS)),
            random.randrange(256),
            random.randrange(256),
            random.random() < 0.6,
        )
        for _ in range(random.randrange(20, 250))
    ]


def missed_frames(random: Random, passed: list[Passed], start: int, senders: tuple[Peer, ...]) -> set[int]:
    """Up to three runs of up to ten consecutive frames of one peer."""
    missed: set[int] = set()
    for _ in range(random.choice((1, 1, 2, 3))):
        sender = random.choice(senders)
        of_sender = [at for at in range(start, len(passed)) if passed[at].sender is sender]
        first = random.randrange(len(of_sender) + 1)
        missed.update(of_sender[first : first + random.randrange(1, 10)])
    return missed


def fed_without(trace: Trace, passed: list[Passed], start: int, missed: set[int]) -> list[TraceEvent]:
    events: list[TraceEvent] = []
    for at, each in enumerate(passed[start:], start):
        if at not in missed:
            events += trace.feed(each.sender, [each.frame], each.ts_ns)
        elif at + 1 not in missed or passed[at + 1].sender is not each.sender:
            events += trace.gap(each.sender, each.ts_ns, "missing", is_other_whole=True)
    return events


def is_ambiguous(passed: list[Passed], start: int) -> bool:
    """Whether the client has closed a channel by `start` whose opening the broker has not answered.

    If it then opens the channel again, channel.open-ok seems to answer that. No reader who joins there could tell; a
    client may use the number again only after channel.close-ok. Section 1.5.2.6.
    """
    unanswered: Counter[int] = Counter()
    closed: set[int] = set()
    for each in passed[:start]:
        number = each.frame.channel
        match each.frame.method if each.frame.kind == METHOD else None:
            case ChannelOpen():
                unanswered[number] += 1
                closed.discard(number)
            case ChannelOpenOk():
                unanswered[number] -= 1
            case ChannelClose() if each.sender is CLIENT:
                closed.add(number)
            case _:
                pass
    return any(unanswered[number] for number in closed)


@pytest.mark.parametrize("senders", [(SERVER,), (CLIENT,), (SERVER, CLIENT)])
def test_no_claim_is_false_after_a_join_and_gaps(senders: tuple[Peer, ...]) -> None:
    for seed in range(example_count(PROGRAMS)):
        random = Random(seed)
        simulation = simulated(random_program(random))
        passed = simulation.passed
        start = random.randrange(len(passed)) if random.random() < 0.2 else 0
        if is_ambiguous(passed, start):
            continue
        trace = Trace(body=64)
        if not start:
            trace.feed_protocol_header(0)
        events = fed_without(trace, passed, start, missed_frames(random, passed, start, senders))
        events += trace.end(simulation.ts_ns, "over")
        try:
            Checker(simulation).check(events)
        except AssertionError as error:
            error.add_note(f"seed {seed}")
            raise


def delayed_some(random: Random, passed: list[Passed]) -> list[Passed]:
    """Return the frames, some of one peer captured late; each direction stays in order."""
    return delayed(passed, [random.choice((0, 0, 0, 4, 12)) for _ in range(17)], random.choice((CLIENT, SERVER)))


def told(events: list[TraceEvent]) -> dict[tuple[str, bytes], set[Any]]:
    """All facts that events state of each message, by its kind and body; its outcome only where it is certain."""
    found: dict[tuple[str, bytes], set[Any]] = {}
    open_ones: dict[tuple[type[TraceEvent], int, int, int], list[bytes]] = {}
    for event in events:
        match event:
            case MessagePublished():
                found[PUBLISHED, event.body] = {("tag", event.confirm_tag), ("awaits", event.awaits)}
                open_ones.setdefault((PublishesSettled, event.channel, event.number, event.ts_ns), []).append(
                    event.body
                )
            case MessageDelivered():
                found[DELIVERED, event.body] = {("queue", event.queue), ("awaits", event.awaits)}
                key = DeliveriesSettled, event.channel, event.method.delivery_tag or 0, event.ts_ns
                open_ones.setdefault(key, []).append(event.body)
            case PublishesSettled() | DeliveriesSettled():
                kind = PUBLISHED if isinstance(event, PublishesSettled) else DELIVERED
                if event.outcome is Settlement.UNKNOWN or not getattr(event, "is_certain", True):
                    continue
                for span in event.spans:
                    for number in range(span.first, span.last + 1):
                        body = open_ones[type(event), event.channel, number, span.ts_ns].pop(0)
                        found[kind, body].add(("outcome", event.outcome, getattr(event, "requeue", None)))
            case _:
                pass
    return {key: {fact for fact in facts if fact[1] is not None} for key, facts in found.items()}


@pytest.mark.parametrize("senders", [(SERVER,), (CLIENT,), (SERVER, CLIENT)])
def test_no_claim_is_false_after_gaps_in_a_capture(senders: tuple[Peer, ...]) -> None:
    """As above, in a capture, where the frames of one peer come late: each claim is one that the whole trace makes."""
    for seed in range(example_count(PROGRAMS)):
        random = Random(seed)
        simulation = simulated(random_program(random))
        passed = simulation.passed
        seen = delayed_some(random, passed)
        if not is_clear(simulation) or not is_settled_in_turn(passed) or races(passed, seen):
            continue
        missed = missed_frames(random, seen, 0, senders)
        timed = [Passed(each.sender, ts_ns, each.frame) for ts_ns, each in enumerate(seen, 1)]
        trace = Trace(body=64, is_ordered=False)
        trace.feed_protocol_header(0)
        found = told([*fed_without(trace, timed, 0, missed), *trace.end(1_000_000, "over")])
        whole = told(fed(Trace(body=64), passed))
        for message, facts in found.items():
            assert facts <= whole[message], (seed, message, facts - whole[message])


def conversation() -> list[Passed]:
    """A client that publishes with confirms, consumes with acks, and declares queues, one after the other."""
    passed: list[Passed] = []

    def send(sender: Peer, method: Any) -> None:
        passed.extend(Passed(sender, len(passed), frame) for frame in frames_of(1, method, body=b"x" * 100))

    send(CLIENT, ConfirmSelect())
    send(SERVER, ConfirmSelectOk())
    send(CLIENT, BasicConsume(queue="q", consumer_tag="c"))
    send(SERVER, BasicConsumeOk("c"))
    for tag in range(1, MESSAGES + 1):
        send(CLIENT, BasicPublish(exchange="e", routing_key="k"))
        send(SERVER, BasicAck(tag))
        send(SERVER, BasicDeliver("c", tag, False, "e", "k"))
        send(CLIENT, BasicAck(tag))
        if tag % 10 == 0:
            send(CLIENT, QueueDeclare(queue="q"))
            send(SERVER, QueueDeclareOk("q", 0, 0))
    return passed


def unknown_shares(missed: range, sender: Peer, *, is_ordered: bool = True) -> Counter[str]:
    """Number of publishes, deliveries and replies of which the trace does not know outcome, queue or request."""
    passed = conversation()
    traced = Traced(1, is_ordered=is_ordered)
    events = fed_without(traced.trace, passed, 0, {at for at in missed if passed[at].sender is sender})
    confirmed = sum(
        span.count
        for event in events
        if isinstance(event, PublishesSettled) and event.outcome is Settlement.CONFIRMED
        for span in event.spans
    )
    acked = sum(
        span.count
        for event in events
        if isinstance(event, DeliveriesSettled) and event.outcome is Settlement.ACKED and event.is_certain
        for span in event.spans
    )
    found = Counter[str]()
    found["publishes"] = sum(isinstance(event, MessagePublished) for event in events) - confirmed
    found["deliveries"] = sum(isinstance(event, MessageDelivered) for event in events) - acked
    found["queues"] = sum(isinstance(event, MessageDelivered) and event.queue is None for event in events)
    found["requests"] = sum(isinstance(event, RequestAnswered) and event.request is None for event in events)
    return +found


@pytest.mark.parametrize("is_ordered", [True, False])
@pytest.mark.parametrize("start", [500, 501, 502, 503, 504, 505, 506, 507, 508])
def test_missed_frames_of_the_broker_hide_no_more_than_their_own_answers(start: int, is_ordered: bool) -> None:
    unknown = unknown_shares(range(start, start + 30), SERVER, is_ordered=is_ordered)
    assert unknown["queues"] == unknown["requests"] == 0
    assert unknown["publishes"] <= 5
    assert unknown["deliveries"] <= 1


def after_missed_frames(*channels: int, confirms: bool = False) -> Traced:
    """Return the trace of a capture in which frames of the broker are missing."""
    traced = Traced(*channels, is_ordered=False)
    if confirms:
        traced.client(ConfirmSelect())
        traced.server(ConfirmSelectOk())
    traced.client(BasicConsume(queue="q", consumer_tag="c"))
    traced.server(BasicConsumeOk("c"))
    traced.gap(SERVER, is_other_whole=True)
    return traced


def test_a_request_captured_late_may_have_been_answered_by_missed_frames() -> None:
    traced = after_missed_frames(1)
    traced.client(BasicGet(queue="q", no_ack=False))
    traced.client(BasicGet(queue="q", no_ack=True))
    traced.server(BasicGetOk(1, False, "e", "k", 0))
    traced.server(BasicGetOk(2, False, "e", "k", 0))
    assert [each.request for each in traced.of(RequestAnswered)][-2:] == [None, None]
    assert [each.awaits for each in traced.of(MessageDelivered)] == [None, None]


def test_a_publish_captured_late_may_have_been_confirmed_by_missed_frames() -> None:
    traced = after_missed_frames(1, confirms=True)
    traced.client(BasicPublish(), BasicPublish())
    traced.server(BasicAck(2))
    traced.end()
    found = [(each.outcome, [span.first for span in each.spans]) for each in traced.of(PublishesSettled)]
    assert found == [(Settlement.CONFIRMED, [2]), (Settlement.UNKNOWN, [1])]


@pytest.mark.parametrize("method", [BasicRecover(), TxSelect(), BasicAck(0, multiple=True)])
def test_a_method_about_all_before_it_is_about_what_is_not_known(method: Any) -> None:
    traced = after_missed_frames(1)
    traced.server(BasicDeliver("c", 5, False, "e", "k"))
    traced.client(method)
    assert [each.outcome for each in traced.of(DeliveriesSettled) if each.spans] == [Settlement.UNKNOWN]


@pytest.mark.parametrize("is_acked", [True, False])
def test_what_the_client_sends_once_it_has_seen_later_frames_is_known(is_acked: bool) -> None:
    traced = after_missed_frames(1, confirms=True)
    if is_acked:
        traced.server(BasicDeliver("c", 5, False, "e", "k"))
        traced.client(BasicAck(5))
    else:
        traced.ts_ns += MAX_SKEW_NS
    traced.client(BasicPublish(), QueueDeclare(queue="q"))
    traced.server(QueueDeclareOk("q", 0, 0))
    traced.end()
    assert [each.request for each in traced.of(RequestAnswered)][-1] == QueueDeclare(queue="q")
    assert traced.of(PublishesSettled)[-1].outcome is Settlement.OPEN


@pytest.mark.parametrize("is_answered", [True, False])
def test_of_a_channel_opened_by_a_late_frame_all_is_known_if_its_opening_is_answered(is_answered: bool) -> None:
    traced = after_missed_frames(1)
    traced.client(ChannelOpen(), ConfirmSelect(), QueueDeclare(queue="q"), BasicPublish(), channel=2)
    if is_answered:
        traced.server(ChannelOpenOk(), ConfirmSelectOk(), channel=2)
    traced.server(QueueDeclareOk("q", 0, 0), channel=2)
    traced.end()
    assert traced.of(RequestAnswered)[-1].request == (QueueDeclare(queue="q") if is_answered else None)
    assert traced.of(PublishesSettled)[-1].outcome is (Settlement.OPEN if is_answered else Settlement.UNKNOWN)


def test_missed_frames_of_the_client_hide_how_many_publishes_there_were() -> None:
    """The bound: confirms say that publishes were sent, and never how many before them were."""
    unknown = unknown_shares(range(500, 530), CLIENT)
    assert unknown["publishes"] <= MESSAGES - 500 // 8


def test_after_a_join_the_same_frames_may_confirm_different_publishes() -> None:
    """Five publishes before the join, all confirmed, or six, of which the last awaits its confirm: none is claimed."""
    joined = Traced(joined=True)
    confirmed: list[float] = []
    for before in (5, 6):
        whole = Traced(1)
        whole.client(ConfirmSelect())
        whole.server(ConfirmSelectOk())
        whole.client(*[BasicPublish()] * before)
        whole.server(BasicAck(5, multiple=True))
        for tag in (6, 7):
            whole.client(BasicPublish())
            whole.server(BasicAck(tag))
        confirmed.append(whole.ts_ns - whole.of(PublishesSettled)[-1].spans[0].ts_ns)
    assert confirmed[0] != confirmed[1]
    for tag in (6, 7):
        joined.client(BasicPublish())
        joined.server(BasicAck(tag))
    assert not any(each.spans for each in joined.of(PublishesSettled))

"""After missed frames of one peer, a 0-10 trace claims nothing false, and loses no more than those could change.

What is left unknown, by necessity. The commands of a peer have ids that both count: no transfer carries its own. After
missed frames of the server, the client's ids are known, so that later publishes and requests are answered for certain;
the ids of later deliveries are not, since accepts and completions name only some of them, which bounds their number
from below only. After missed frames of the client, the same holds of its publishes; those before keep their ids.
"""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest

from amqproxy.amqp010.commands import (
    ExecutionResult,
    MessageAccept,
    MessageReject,
    MessageSubscribe,
    MessageTransfer,
    QueueQuery,
    TxCommit,
    TxRollback,
    TxSelect,
)
from amqproxy.amqp010.controls import (
    SessionAttach,
    SessionAttached,
    SessionCommandPoint,
    SessionCompleted,
    SessionDetached,
)
from amqproxy.amqp010.frame import Frame
from amqproxy.amqp010.methods import Method
from amqproxy.amqp010.results import QueueQueryResult
from amqproxy.peer import CLIENT, SERVER, Peer
from amqproxy.taps.trace.amqp010.connection_trace import Amqp010Trace
from amqproxy.taps.trace.connection_trace import MAX_SKEW_NS
from amqproxy.taps.trace.events import (
    DeliveriesSettled,
    MessageDelivered,
    MessagePublished,
    PublishesSettled,
    RequestAnswered,
    RequestUnanswered,
    Settlement,
    TraceEvent,
)
from tests.example_count import example_count
from tests.taps.trace.amqp010.traced import START, TracedAmqp010, frames_of, ids, published
from tests.taps.trace.amqp010.watched import NAMES, Watched
from tests.taps.trace.amqp091.frame_orders import delayed
from tests.taps.trace.simulation import Passed as Captured

PROGRAMS = 600
MESSAGES = 300

Passed = list[tuple[Peer, list[Frame], int]]


class Talk(Watched):
    """A session with random actions, each of whose messages has a body of its own."""

    def send(self, sender: Peer, method: Method, *, channel: int = 1, **content: Any) -> None:
        if "body" in content:
            content["body"] = b"%8d" % self.now + content["body"]
        super().send(sender, method, channel=channel, **content)

    def act(self, name: str, ranges: list[tuple[int, int]], size: int) -> None:
        """Act as in `Watched`, but complete only what was sent, or else a capture's order has no meaning."""
        if name in ("complete", "client-completes"):
            sent = self.session.streams[CLIENT if name == "complete" else SERVER].seen or 0
            ranges = [(first, min(first + more, sent - 1) - first) for first, more in ranges if first < sent]
        if ranges:
            super().act(name, ranges, size)


def random_talk(random: Random) -> Passed:
    talk = Talk(is_transactional=random.random() < 0.2)
    for _ in range(random.randrange(5, 60)):
        ranges = [(random.randrange(20), random.randrange(4)) for _ in range(random.choice((1, 1, 2)))]
        talk.act(random.choice(NAMES), ranges, random.choice((0, 0, 1)))
    return talk.passed


def fed_without(trace: Amqp010Trace, passed: Passed, missed: set[int], start: int = 0) -> list[TraceEvent]:
    events: list[TraceEvent] = []
    if not start:
        trace.feed_protocol_header(0)
    for at, (sender, frames, ts_ns) in enumerate(passed[start:], start):
        if at not in missed:
            events += trace.feed(sender, frames, ts_ns)
        elif at + 1 not in missed or passed[at + 1][0] is not sender:
            events += trace.gap(sender, ts_ns, "missing", is_other_whole=True)
    return events + trace.end(100_000, "over")


def claims(events: list[TraceEvent]) -> set[Any]:
    """All that events claim of messages, by body, and of requests, by the time of their answer."""
    found: set[Any] = set()
    open_ones: dict[tuple[Any, ...], list[bytes]] = {}
    for event in events:
        match event:
            case MessagePublished() | MessageDelivered():
                is_publish = isinstance(event, MessagePublished)
                kind = PublishesSettled if is_publish else DeliveriesSettled
                number = event.number if isinstance(event, MessagePublished) else event.method.delivery_tag
                tag = event.confirm_tag if isinstance(event, MessagePublished) else event.method.delivery_tag
                queue = None if isinstance(event, MessagePublished) else event.queue
                body = event.body[:8]
                found |= {(kind, body, each) for each in (("tag", tag), ("awaits", event.awaits), ("queue", queue))}
                open_ones.setdefault((kind, number, event.ts_ns), []).append(body)
            case PublishesSettled() | DeliveriesSettled():
                if event.outcome is not Settlement.UNKNOWN and getattr(event, "is_certain", True):
                    for span in event.spans:
                        for number in range(span.first, span.last + 1):
                            body = open_ones[type(event), number, span.ts_ns].pop(0)
                            found.add((type(event), body, ("outcome", event.outcome)))
            case RequestAnswered():
                found.add((RequestAnswered, event.ts_ns, (repr(event.request), event.latency_ns and repr(event.reply))))
            case RequestUnanswered():
                found.add((RequestUnanswered, event.ts_ns, ("request", repr(event.request))))
            case _:
                pass
    return {each for each in found if each[2][1] is not None}


@pytest.mark.parametrize("is_ordered", [True, False])
@pytest.mark.parametrize("senders", [(SERVER,), (CLIENT,), (SERVER, CLIENT)])
def test_each_claim_after_missed_frames_is_one_of_the_whole_trace(senders: tuple[Peer, ...], is_ordered: bool) -> None:
    for seed in range(example_count(PROGRAMS)):
        random = Random(seed)
        passed = random_talk(random)
        start = random.randrange(8, len(passed)) if random.random() < 0.2 else 0
        missed: set[int] = set()
        for _ in range(random.choice((1, 1, 2))):
            sender = random.choice(senders)
            of_sender = [at for at in range(max(start, 6), len(passed)) if passed[at][0] is sender]
            first = random.randrange(len(of_sender) + 1)
            missed.update(of_sender[first : first + random.randrange(1, 6)])
        whole = claims(fed_without(Amqp010Trace(body=8), passed, set()))
        found = claims(fed_without(Amqp010Trace(body=8, is_ordered=is_ordered), passed, missed, start))
        assert found <= whole, (seed, found - whole)


def captured_late(random: Random, passed: Passed) -> Passed:
    """Return the frames one by one, some of one peer captured late; each direction stays in order."""
    frames = [Captured(sender, ts_ns, frame) for sender, several, ts_ns in passed for frame in several]
    late = delayed(frames, [random.choice((0, 0, 0, 4, 12)) for _ in range(17)], random.choice((CLIENT, SERVER)))
    return [(each.sender, [each.frame], ts_ns) for ts_ns, each in enumerate(late, 1)]


def is_settled_once(passed: Passed) -> bool:
    """Whether the server settles each command of the client at most once."""
    named: set[int] = set()
    for sender, frames, _ in passed:
        method = frames[0].method
        if sender is SERVER and isinstance(method, (MessageAccept, MessageReject)):
            for first, last in method.transfers.ranges if method.transfers else ():
                ids_ = set(range(first, last + 1))
                if named & ids_:
                    return False
                named |= ids_
    return True


def of_messages(claimed: set[Any]) -> set[Any]:
    """The claims about messages: those about requests have times, which differ if frames are captured late."""
    return {each for each in claimed if each[0] in (PublishesSettled, DeliveriesSettled)}


@pytest.mark.parametrize("senders", [(SERVER,), (CLIENT,), (SERVER, CLIENT)])
def test_each_claim_in_a_capture_of_late_frames_that_begins_anywhere_is_one_of_the_whole_trace(
    senders: tuple[Peer, ...],
) -> None:
    for seed in range(example_count(PROGRAMS)):
        random = Random(seed)
        passed = random_talk(random)
        late = captured_late(random, passed)
        if not is_settled_once(passed):
            continue
        start = random.randrange(len(late)) if random.random() < 0.6 else 0
        missed: set[int] = set()
        for _ in range(random.randrange(3)):
            sender = random.choice(senders)
            of_sender = [at for at in range(max(start, 6), len(late)) if late[at][0] is sender]
            first = random.randrange(len(of_sender) + 1)
            missed.update(of_sender[first : first + random.randrange(1, 6)])
        whole = of_messages(claims(fed_without(Amqp010Trace(body=8), passed, set())))
        found = of_messages(claims(fed_without(Amqp010Trace(body=8, is_ordered=False), late, missed, start)))
        assert found <= whole, (seed, found - whole)


def conversation() -> Passed:
    """A client that waits for the completion of each publish, asks about a queue now and then, and gets messages."""
    passed: Passed = []

    def send(sender: Peer, method: Method, *, channel: int = 1, **content: Any) -> None:
        ts_ns = len(passed) + 1
        if "body" in content:
            content["body"] = b"%8d" % ts_ns
        passed.append((sender, frames_of(channel, method, **content), ts_ns))

    for sender, control in START:
        send(sender, control, channel=0)
    send(CLIENT, SessionAttach(name_=b"s"))
    send(SERVER, SessionAttached(name_=b"s"))
    for peer in Peer:
        send(peer, SessionCommandPoint(command_id=0, command_offset=0))
    send(CLIENT, MessageSubscribe(queue="q", destination="d", accept_mode=0, acquire_mode=0))
    number = transferred = 0
    for count in range(MESSAGES):
        number += 1
        transfer, header = published()
        send(CLIENT, transfer, header=header, body=b"")
        send(SERVER, SessionCompleted(commands=ids((0, number))))
        send(SERVER, MessageTransfer(destination="d", accept_mode=0, acquire_mode=0), body=b"")
        send(CLIENT, MessageAccept(transfers=ids(transferred)))
        transferred += 1
        number += 1
        if count % 10 == 0:
            number += 1
            send(CLIENT, QueueQuery(queue="q"))
            send(SERVER, ExecutionResult(command_id=number, value=QueueQueryResult(queue="q")))
            transferred += 1
    return passed


def unknown_after(sender: Peer) -> Counter[str]:
    """Number of publishes and deliveries without an outcome, and of replies without a request, if frames are missed."""
    passed = conversation()
    events = fed_without(Amqp010Trace(body=8), passed, {at for at in range(500, 530) if passed[at][0] is sender})
    found = Counter[str]()
    for event in events:
        match event:
            case MessagePublished():
                found["publishes"] += 1
            case MessageDelivered():
                found["deliveries"] += 1
            case PublishesSettled() if event.outcome is Settlement.CONFIRMED:
                found["publishes"] -= sum(span.count for span in event.spans)
            case DeliveriesSettled() if event.outcome is Settlement.ACKED and event.is_certain:
                found["deliveries"] -= sum(span.count for span in event.spans)
            case RequestAnswered(request=None):
                found["requests"] += 1
            case _:
                pass
    return +found


def test_missed_frames_of_the_server_hide_their_own_answers_and_the_ids_of_deliveries() -> None:
    unknown = unknown_after(SERVER)
    assert unknown["publishes"] <= 8
    assert unknown["requests"] == 0
    assert unknown["deliveries"] <= MESSAGES - 500 // 5


def test_missed_frames_of_the_client_hide_the_ids_of_later_commands() -> None:
    unknown = unknown_after(CLIENT)
    assert unknown["publishes"] <= MESSAGES - 500 // 5
    assert unknown["requests"] <= 20


def outcomes(traced: TracedAmqp010, kind: type[PublishesSettled | DeliveriesSettled]) -> list[Settlement]:
    return [each.outcome for each in traced.of(kind) if each.spans]


def test_a_delivery_captured_after_its_accept_is_not_open_once_frames_were_missed() -> None:
    traced = TracedAmqp010(1, is_ordered=False)
    traced.gap(SERVER)
    traced.server(SessionCommandPoint(command_id=0, command_offset=0))
    traced.accept(1)
    traced.ts_ns += MAX_SKEW_NS
    for _ in range(3):
        traced.deliver()
    traced.end()
    assert outcomes(traced, DeliveriesSettled) == [Settlement.UNKNOWN, Settlement.OPEN]
    assert [span.first for each in traced.of(DeliveriesSettled) for span in each.spans] == [1, 0, 2]


@pytest.mark.parametrize(("later_ns", "outcome"), [(0, Settlement.UNKNOWN), (MAX_SKEW_NS, Settlement.OPEN)])
def test_a_delivery_captured_late_may_have_been_settled_by_missed_frames(later_ns: int, outcome: Settlement) -> None:
    traced = TracedAmqp010(1, is_ordered=False)
    traced.gap(CLIENT, is_other_whole=True)
    traced.ts_ns += later_ns
    traced.deliver()
    traced.end()
    assert outcomes(traced, DeliveriesSettled) == [outcome]


def test_a_publish_captured_late_may_have_been_rejected_before_its_completion() -> None:
    traced = TracedAmqp010(1, is_ordered=False)
    traced.gap(SERVER, is_other_whole=True)
    traced.publish()
    traced.complete(0)
    assert outcomes(traced, PublishesSettled) == [Settlement.UNKNOWN]


def test_the_first_publish_of_a_capture_may_have_been_answered_by_a_frame_captured_before() -> None:
    traced = TracedAmqp010(joined=True, is_ordered=False)
    traced.client(SessionAttach(name_=b"s"))
    traced.client(SessionCommandPoint(command_id=0, command_offset=0))
    traced.publish()
    traced.end()
    assert outcomes(traced, PublishesSettled) == [Settlement.UNKNOWN]


def test_a_session_that_was_attached_unseen_answers_none_of_the_publishes_before() -> None:
    traced = TracedAmqp010(1)
    traced.publish()
    traced.gap(CLIENT, is_other_whole=True)
    traced.server(SessionAttached(name_=b"other"))
    assert [each.outcome for each in traced.of(PublishesSettled)] == [Settlement.UNKNOWN]
    assert not traced.complete(0)


def test_what_a_session_has_open_at_its_end_is_unknown_if_an_exception_may_have_been_missed() -> None:
    traced = TracedAmqp010(1)
    traced.gap(SERVER, is_other_whole=True)
    traced.publish()
    traced.client(QueueQuery(queue="q"))
    traced.client(SessionDetached(name_=b"s", code=0))
    assert [each.outcome for each in traced.of(PublishesSettled)] == [Settlement.UNKNOWN]
    assert traced.of(RequestUnanswered) == []


def test_publishes_before_missed_frames_of_the_client_are_confirmed() -> None:
    traced = TracedAmqp010(1)
    traced.publish()
    traced.gap(CLIENT, is_other_whole=True)
    (published_,) = traced.publish()
    assert isinstance(published_, MessagePublished)
    assert published_.confirm_tag is None
    (settled,) = traced.complete((0, 1))
    assert isinstance(settled, PublishesSettled)
    assert [(each.first, each.last) for each in settled.spans] == [(1, 1)]


def test_a_transaction_whose_commit_has_no_number_settles_nothing_for_certain() -> None:
    """After missed frames of the client, the completion of its tx.commit cannot be told from that of others."""
    traced = TracedAmqp010(1)
    traced.gap(CLIENT, is_other_whole=True)
    traced.client(TxSelect())
    traced.deliver()
    traced.accept(0)
    traced.client(TxRollback())
    assert traced.reject(0)[0] == traced.of(DeliveriesSettled)[-1]
    assert [span.first for span in traced.of(DeliveriesSettled)[-1].spans] == [0]
    traced.deliver()
    traced.accept(1)
    traced.client(TxCommit())
    traced.complete((0, 4))
    traced.end()
    settled = traced.of(DeliveriesSettled)[-1]
    assert (settled.outcome, [span.first for span in settled.spans]) == (Settlement.UNKNOWN, [1])

"""The meter counts what the trace says has happened: two ways to one definition."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from amqproxy.amqp091.frame import BODY, encode_frame
from amqproxy.amqp091.methods import (
    BasicAck,
    BasicConsume,
    BasicConsumeOk,
    BasicDeliver,
    BasicGet,
    BasicGetOk,
    BasicNack,
    BasicPublish,
    BasicRecover,
    BasicRecoverOk,
    BasicReject,
    BasicReturn,
    ChannelOpen,
    ConfirmSelect,
    ConfirmSelectOk,
    Method,
    QueueDeclare,
    QueueDeclareOk,
    TxCommit,
    TxCommitOk,
    TxRollback,
    TxRollbackOk,
    TxSelect,
    TxSelectOk,
)
from amqproxy.amqp091.transitions import CLIENT, SERVER, Peer
from amqproxy.taps.metering.amqp091.channel_meter import MAX_SETTLEMENTS
from amqproxy.taps.metering.amqp091.message_meter import MessageMeter
from amqproxy.taps.metering.message_counts import Count, MessageCounts
from amqproxy.taps.trace.amqp091.connection_trace import Trace
from amqproxy.taps.trace.events import (
    DeliveriesSettled,
    MessageDelivered,
    MessagePublished,
    MessageReturned,
    PublishesSettled,
    RequestAnswered,
    Settlement,
    TraceEvent,
)
from tests.taps.trace.programs import is_clear, random_program, reads, simulated
from tests.taps.trace.simulation import Simulation
from tests.taps.trace.traced import frames_of

_PUBLISHES = {Settlement.CONFIRMED: Count.CONFIRMED, Settlement.NACKED: Count.NACKED}


def counted(events: list[TraceEvent]) -> tuple[Counter[Count], list[int], list[int], Counter[str]]:
    """What a trace says, counted: messages, nanoseconds to confirms, and to acknowledgements, and replies."""
    counts: Counter[Count] = Counter()
    confirms: list[int] = []
    acks: list[int] = []
    replies: Counter[str] = Counter()
    for event in events:
        match event:
            case MessagePublished():
                counts[Count.PUBLISHED] += 1
            case MessageReturned():
                counts[Count.RETURNED] += 1
            case MessageDelivered():
                counts[Count.DELIVERED] += 1
                counts[Count.REDELIVERED] += event.method.redelivered
                counts[Count.AUTO_ACKED] += event.awaits is False
            case PublishesSettled() if event.outcome in _PUBLISHES:
                counts[_PUBLISHES[event.outcome]] += sum(span.count for span in event.spans)
                confirms += [event.ts_ns - span.ts_ns for span in event.spans for _ in range(span.count)]
            case DeliveriesSettled(outcome=Settlement.RECOVERED):
                counts[Count.REQUEUED] += sum(span.count for span in event.spans)
            case DeliveriesSettled() if event.outcome not in (Settlement.OPEN, Settlement.UNKNOWN):
                is_ack = event.outcome is Settlement.ACKED
                count = Count.ACKED if is_ack else Count.REQUEUED if event.requeue else Count.REJECTED
                counts[count] += sum(span.count for span in event.spans)
                acks += [event.ts_ns - span.ts_ns for span in event.spans for _ in range(span.count)]
            case RequestAnswered() if event.request is not None and event.sender is CLIENT:
                replies[event.request.name] += 1
            case _:
                pass
    return +counts, confirms, acks, replies


class Metered:
    """A meter with a clock that each read moves on by a millisecond."""

    def __init__(self) -> None:
        self.counts = MessageCounts()
        self.meter = MessageMeter(self.counts)
        self.now = 0.0
        self.feed(CLIENT, ChannelOpen())

    def feed(self, sender: Peer, *methods: Method, **content: Any) -> None:
        self.now += 0.001
        frames = [frame for method in methods for frame in frames_of(1, method, **content)]
        self.meter.feed(sender is SERVER, b"".join(frame.raw for frame in frames), self.now)

    def client(self, *methods: Method, **content: Any) -> None:
        self.feed(CLIENT, *methods, **content)

    def server(self, *methods: Method, **content: Any) -> None:
        self.feed(SERVER, *methods, **content)

    @property
    def found(self) -> dict[str, int]:
        """What is not 0, by its name."""
        return {count.name.lower(): value for count in Count if (value := self.counts.values[count])}


@pytest.mark.parametrize("first", range(0, 400, 20))
def test_counts_are_those_of_the_trace(first: int) -> None:
    for seed in range(first, first + 20):
        simulation = simulated(random_program(seed))
        if is_clear(simulation) and not recovers_in_transaction(simulation):
            compare(simulation)


def recovers_in_transaction(simulation: Simulation) -> bool:
    """Does a client recover what it has acknowledged in a transaction? Then the meter counts that as requeued."""
    transactional = {each.frame.channel for each in simulation.passed if each.frame.index == TxSelect.index}
    return any(
        each.frame.index == BasicRecover.index and each.frame.channel in transactional for each in simulation.passed
    )


def compare(simulation: Simulation) -> None:
    trace, counts = Trace(), MessageCounts()
    trace.feed_protocol_header(0)
    meter = MessageMeter(counts)
    events: list[TraceEvent] = []
    for sender, ts_ns, frames in reads(simulation.passed):
        events += trace.feed(sender, frames, ts_ns)
        meter.feed(sender is SERVER, b"".join(frame.raw for frame in frames), ts_ns / 1e9)
    assert not meter.is_lost
    expected, confirms, acks, replies = counted(events)
    found = {count: counts.values[count] for count in Count if counts.values[count]}

    for gauge in (Count.UNCONFIRMED, Count.UNACKED, Count.CONSUMERS):
        found.pop(gauge, None)
    assert found == expected
    assert counts.confirm_seconds.total * 1e9 == pytest.approx(sum(confirms), abs=1000)
    assert counts.ack_seconds.total * 1e9 == pytest.approx(sum(acks), abs=1000)
    assert {name: sum(each.counts) for name, each in counts.requests.items()} == replies
    meter.close()
    assert [counts.values[each] for each in (Count.UNCONFIRMED, Count.UNACKED, Count.CONSUMERS)] == [0, 0, 0]


def test_confirms_of_several_and_a_nack() -> None:
    metered = Metered()
    metered.client(ConfirmSelect())
    metered.server(ConfirmSelectOk())
    for size in (0, 10, 100):
        metered.client(BasicPublish(exchange="e"), body=bytes(size))
    assert metered.found == {"published": 3, "unconfirmed": 3}
    metered.server(BasicAck(2, multiple=True))
    metered.server(BasicNack(3))
    assert metered.found == {"published": 3, "confirmed": 2, "nacked": 1}
    assert metered.counts.confirm_seconds.total == pytest.approx(0.003 + 0.002 + 0.002)
    assert metered.counts.published_bytes.total == 110
    assert sum(metered.counts.requests["confirm.select"].counts) == 1


def test_without_confirms_nothing_is_awaited() -> None:
    metered = Metered()
    metered.client(BasicPublish(), body=b"x")
    metered.server(BasicReturn(reply_code=312), body=b"x")
    assert metered.found == {"published": 1, "returned": 1}
    assert metered.counts.delivered_bytes.total == 0


def test_deliveries_and_what_becomes_of_them() -> None:
    metered = Metered()
    metered.client(BasicConsume(queue="q", consumer_tag="c"))
    metered.server(BasicConsumeOk("c"))
    for tag in range(1, 7):
        metered.server(BasicDeliver("c", tag, redelivered=tag == 2), body=b"x")
    metered.client(BasicAck(2, multiple=True))
    metered.client(BasicReject(3, requeue=True))
    metered.client(BasicNack(4, requeue=False))
    assert metered.found == {
        "delivered": 6, "redelivered": 1, "acked": 2, "requeued": 1, "rejected": 1, "unacked": 2, "consumers": 1
    }  # fmt: skip
    metered.client(BasicRecover(requeue=True))
    metered.server(BasicRecoverOk())
    assert metered.found["requeued"] == 3
    metered.meter.close()
    assert "consumers" not in metered.found


def test_consumers_that_need_not_acknowledge_and_others_on_one_channel() -> None:
    metered = Metered()
    for tag, no_ack in (("a", True), ("b", False)):
        metered.client(BasicConsume(queue="q", consumer_tag=tag, no_ack=no_ack))
        metered.server(BasicConsumeOk(tag))
    for number, tag in enumerate("abab", 1):
        metered.server(BasicDeliver(tag, number), body=b"x")
    metered.client(BasicGet(queue="q", no_ack=True))
    metered.server(BasicGetOk(5), body=b"x")
    assert metered.found == {"delivered": 5, "auto_acked": 3, "unacked": 2, "consumers": 2}


def test_acknowledgements_of_a_transaction_count_when_it_is_committed() -> None:
    metered = Metered()
    metered.client(TxSelect())
    metered.server(TxSelectOk())
    metered.client(BasicConsume(queue="q", consumer_tag="c"))
    metered.server(BasicConsumeOk("c"))
    for tag in (1, 2):
        metered.server(BasicDeliver("c", tag), body=b"x")
    metered.client(BasicAck(1), TxRollback(), BasicAck(1), TxCommit(), BasicAck(2))
    assert "acked" not in metered.found
    metered.server(TxRollbackOk())
    assert "acked" not in metered.found
    metered.server(TxCommitOk())
    assert metered.found == {"delivered": 2, "acked": 1, "unacked": 1, "consumers": 1}


@pytest.mark.parametrize("size", [1, 2, 3, 5, 7])
def test_contents_that_interleave(size: int) -> None:
    """Frames of two channels alternate: each content still counts once, when it is complete."""
    metered = Metered()
    one, other = (frames_of(number, BasicPublish(), body=bytes(1000 * size)) for number in (1, 2))
    for frame in (each for pair in zip(one, other, strict=True) for each in pair):
        assert metered.counts.values[Count.PUBLISHED] == (frame is other[-1])
        metered.meter.feed(False, frame.raw, 1.0)
    assert metered.found == {"published": 2}
    assert metered.counts.published_bytes.total == 2000 * size


def test_a_body_that_is_longer_than_announced_is_no_message() -> None:
    metered = Metered()
    *head, whole = frames_of(1, BasicPublish(), body=b"abc")
    long = encode_frame(BODY, 1, b"abcde")
    metered.meter.feed(False, b"".join(each.raw for each in head) + long, 1.0)
    metered.meter.feed(False, long + whole.raw, 2.0)
    assert metered.found == {}


@pytest.mark.parametrize(
    "data",
    [b"\x01", b"\x01\0\x01\0\0\0\x04\0<\0(", b"\x01\0\x01\0\0\0\x02\0<\xce", b"\x01\0\x01\0\0\0\x04\0\x63\0\x63\xce"],
)
def test_what_cannot_be_read_ends_the_counting(data: bytes) -> None:
    metered = Metered()
    metered.client(BasicConsume(queue="q", consumer_tag="c"))
    metered.server(BasicConsumeOk("c"))
    metered.meter.feed(True, data, 5.0)
    assert metered.meter.is_lost
    metered.server(BasicDeliver("c", 1), body=b"x")
    assert metered.found == {}


def test_a_declare_is_timed() -> None:
    metered = Metered()
    metered.client(QueueDeclare(queue="q"), QueueDeclare(queue="q", no_wait=True))
    metered.server(QueueDeclareOk("q"))
    declares = metered.counts.requests["queue.declare"]
    assert (sum(declares.counts), declares.total) == (1, pytest.approx(0.001))


def test_a_consumer_whose_tag_is_no_utf8_is_known_by_it() -> None:
    metered = Metered()
    tag = b"\xff\xfe".decode("utf-8", "surrogateescape")
    metered.client(BasicConsume(queue="q", consumer_tag=tag, no_ack=True))
    metered.server(BasicConsumeOk(tag))
    metered.server(BasicDeliver(tag, 1), body=b"x")
    assert metered.found == {"delivered": 1, "auto_acked": 1, "consumers": 1}


def test_a_body_without_a_header_completes_no_message() -> None:
    metered = Metered()
    publish, header, body = frames_of(1, BasicPublish(), body=b"x")
    metered.meter.feed(False, publish.raw + body.raw, 1.0)
    assert metered.found == {}
    metered.meter.feed(False, header.raw + body.raw, 1.0)
    assert metered.found == {"published": 1}


def test_delivery_tags_up_to_the_largest_number() -> None:
    metered = Metered()
    for tag in (2**64 - 2, 2**64 - 1, 0, 1):
        metered.server(BasicDeliver("c", tag), body=b"x")
    metered.client(BasicAck(0, multiple=True))
    metered.meter.close()
    assert metered.found == {"delivered": 4, "acked": 1}


def test_what_waits_for_the_ends_of_transactions_is_bounded_for_all_channels_together() -> None:
    metered = Metered()
    each = MAX_SETTLEMENTS // 2
    for number in (1, 2, 3):
        frames = [*frames_of(number, TxSelect()), *frames_of(number, BasicAck(0, multiple=True)) * each]
        metered.meter.feed(False, frames_of(number, ChannelOpen())[0].raw, 1.0)
        metered.meter.feed(True, b"".join(f.raw for f in frames_of(number, BasicDeliver("c", 1), body=b"x")), 1.0)
        metered.meter.feed(False, b"".join(frame.raw for frame in frames), 1.0)
    assert metered.found == {"delivered": 3, "acked": 1, "unacked": 2}  # those of the third could not wait
    for number in (1, 2):
        metered.meter.feed(False, frames_of(number, TxCommit())[0].raw, 2.0)
        metered.meter.feed(True, frames_of(number, TxCommitOk())[0].raw, 2.0)
    assert metered.found == {"delivered": 3, "acked": 3}

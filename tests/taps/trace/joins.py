"""A reader that joins a connection in its middle and misses frames, with a snapshot after each loss, beside one that
has seen all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from random import Random
from typing import Any, NamedTuple

import msgspec

from amqproxy.amqp010.commands import MessageCancel
from amqproxy.amqp010.frame import COMMAND, decode_method
from amqproxy.peer import CLIENT, SERVER, Peer
from amqproxy.taps.amqp010.transfers import TransferDelivery
from amqproxy.taps.findings.finding import Finding
from amqproxy.taps.observer import Observer, ObserverSettings
from amqproxy.taps.trace.events import (
    DeliveriesSettled,
    HistoryLost,
    MessageDelivered,
    MessagePublished,
    PublishesSettled,
    RequestSent,
    Settlement,
    StateRestored,
    TraceEvent,
)
from amqproxy.taps.trace.open_tags import Span
from amqproxy.taps.trace.snapshot import UNKNOWN_CONSUMER, ChannelSnapshot, ConnectionSnapshot, ConsumerSnapshot
from tests.taps.trace.simulation import Passed

MESSAGES = (MessagePublished, MessageDelivered)
SETTLED = (PublishesSettled, DeliveriesSettled)

SETTINGS = ObserverSettings(messages=True, findings=True, counts_findings=True, body=64)

Fact = tuple[Any, ...]


class Loss(NamedTuple):
    """The frames from place `first` to before `end` that were missed, of `senders` only."""

    first: int
    end: int
    senders: tuple[Peer, ...]

    @property
    def is_join(self) -> bool:
        """Whether the reader was not there: a reader who was is told of each loss."""
        return not self.first and len(self.senders) == len(Peer)


class Reader:
    """Events and findings of one reader of a connection; a gap ends with a snapshot."""

    def __init__(self) -> None:
        self.events: list[TraceEvent] = []
        self.findings: list[Finding] = []
        self.observer = Observer(1, "1.2.3.4:5-6.7.8.9:10", SETTINGS, on_events=lambda events, _: self._note(events))

    def _note(self, events: Sequence[TraceEvent]) -> None:
        self.events += events

    def take(self, reports: Iterable[Any]) -> None:
        self.findings += [each for each in reports if isinstance(each, Finding)]

    def feed(self, each: Passed) -> None:
        self.take(self.observer.feed(each.sender, [each.frame], each.ts_ns))

    def snapshot(self, ts_ns: int) -> ConnectionSnapshot:
        return self.observer._trace.snapshot(ts_ns)


class Joined(NamedTuple):
    """A reader of all frames, and one that joined; `known` are the snapshots from which that knew the state."""

    whole: Reader
    joined: Reader
    known: list[tuple[int, int, ConnectionSnapshot]]
    """Places of the first frame after a snapshot, and of the next loss, or the end, with the snapshot."""
    is_of_proxy: bool
    """Whether the snapshots have no more than a proxy knows."""


def losses(random: Random, count: int) -> list[Loss]:
    """The frames before a join, unless it is at the beginning, and of up to three gaps."""
    found: list[Loss] = []
    at = 0
    if random.random() < 0.7:
        at = random.randrange(count)
        found.append(Loss(0, at, (CLIENT, SERVER)))
    for _ in range(random.randrange(4)):
        first = random.randrange(at, count + 1)
        at = min(count, first + random.choice((1, 3, 10, 40)))
        found.append(Loss(first, at, random.choice(((CLIENT,), (SERVER,), (CLIENT, SERVER)))))
    return [each for each in found if each.first < each.end]


def as_made_by_proxy(snapshot: ConnectionSnapshot) -> ConnectionSnapshot:
    """Return a snapshot with no more than what a proxy knows."""
    return msgspec.structs.replace(snapshot, channels=tuple(map(_as_made_by_proxy, snapshot.channels)))


def _as_made_by_proxy(channel: ChannelSnapshot) -> ChannelSnapshot:
    is_transactional = channel.mode in ("tx", "dtx")
    consumers = channel.consumers if channel.name is None else _last_subscriptions(channel)
    return msgspec.structs.replace(
        channel,
        epoch=0,
        unconfirmed=() if is_transactional else channel.unconfirmed,
        unacked=tuple(Span(each.first, each.last, each.ts_ns, UNKNOWN_CONSUMER) for each in channel.unacked),
        has_forgotten=channel.has_forgotten or is_transactional,
        contents=tuple(msgspec.structs.replace(each, header=None) for each in channel.contents),
        consumers=consumers,
    )


def _last_subscriptions(session: ChannelSnapshot) -> tuple[ConsumerSnapshot, ...]:
    """Return the last subscription to each destination, without a number, unless the client has cancelled it."""
    last = {each.tag: each for each in session.consumers}
    for position, cancel in _cancels(session):
        found = last.get(cancel.destination or "")
        if found is not None and found.number <= position:
            del last[found.tag]
    return tuple(msgspec.structs.replace(each, number=0) for each in last.values())


def _cancels(session: ChannelSnapshot) -> Iterable[tuple[int, MessageCancel]]:
    """Yield the message.cancel commands that await their completion, with the position of each."""
    for request in session.requests if session.name is not None else ():
        method = decode_method(COMMAND, request.method)
        if isinstance(method, MessageCancel):
            yield request.number or 0, method


def read(random: Random, passed: list[Passed], *, is_of_proxy: bool) -> Joined:
    """Feed both readers; both are asked for overdue messages and findings now and then."""
    missing = [
        loss
        for loss in losses(random, len(passed))
        if any(each.sender in loss.senders for each in passed[loss.first : loss.end])
    ]
    whole, joined = Reader(), Reader()
    known: list[tuple[int, int, ConnectionSnapshot]] = []
    whole.observer.feed_protocol_header(passed[0].ts_ns)
    if not (missing and missing[0].is_join):
        joined.observer.feed_protocol_header(passed[0].ts_ns)
    ends = {each.end: each for each in missing}
    for at in range(len(passed) + 1):
        if at in ends:
            ts_ns = passed[at - 1].ts_ns
            snapshot = whole.snapshot(ts_ns)
            if is_of_proxy:
                snapshot = as_made_by_proxy(snapshot)
            snapshot = ConnectionSnapshot.from_bytes(snapshot.to_bytes())
            joined.take(joined.observer.restore(snapshot))
            assert joined.observer._trace._trace.knows_state
            following = min([each.first for each in missing if each.first >= at], default=len(passed))
            known.append((at, following, snapshot))
        if at == len(passed):
            break
        each = passed[at]
        whole.feed(each)
        lost = [loss for loss in missing if loss.first <= at < loss.end]
        if any(each.sender in loss.senders for loss in lost):
            if not lost[0].is_join:
                joined.take(joined.observer.gap(each.sender, each.ts_ns, "missing"))
        else:
            joined.feed(each)
        if random.random() < 0.03:
            whole.take(whole.observer.overdue(each.ts_ns))
            if not lost:
                joined.take(joined.observer.overdue(each.ts_ns))
    end = passed[-1].ts_ns + 1
    for reader in (whole, joined):
        reader.take(reader.observer.end(end, "over"))
    return Joined(whole, joined, known, is_of_proxy)


_IGNORED = {"ts_ns", "channel", "epoch", "spans", "number", "digest"}
"""Fields without a claim, or claimed otherwise; publishes of 0-10 are numbered by what was seen of them."""


_CONTENT = {"method", "properties", "size", "body"}
"""Fields of a message that say only that it was sent, as it was even on a session that has ended unseen."""


def facts(events: Iterable[TraceEvent]) -> Counter[Fact]:
    """Count all claims of events, each with the time and channel of its event; `None` and unknown are not claims."""
    found: Counter[Fact] = Counter()
    for event in events:
        if isinstance(event, (HistoryLost, StateRestored, RequestSent)):
            continue
        place = type(event).__name__, event.channel, event.ts_ns
        if isinstance(event, SETTLED):
            found.update(_settled(event))
            continue
        key = ""
        is_unlinked = isinstance(event, MESSAGES) and event.awaits is None
        if isinstance(event, MESSAGES):
            method = event.method
            if isinstance(method, TransferDelivery):
                if method.delivery_tag is not None:
                    found[*place, "delivery_tag", method.delivery_tag] += 1
                method = msgspec.structs.replace(method, delivery_tag=None)
            event = msgspec.structs.replace(event, method=method)
            key = repr(method)
        for name in event.__struct_fields__:
            value = getattr(event, name)
            is_ignored = name in _IGNORED or (is_unlinked and name in _CONTENT)
            if not is_ignored and value not in (None, b""):
                found[*place, key, name, repr(value)] += 1
    return found


def _settled(event: PublishesSettled | DeliveriesSettled) -> Counter[Fact]:
    found: Counter[Fact] = Counter()
    place = type(event).__name__, event.channel, event.ts_ns
    is_publish = isinstance(event, PublishesSettled)
    if event.is_unknown_tag:
        found[*place, "unknown tag", None if is_publish else event.tag] += 1
    if event.outcome is Settlement.UNKNOWN or not getattr(event, "is_certain", True):
        return found
    for span in event.spans:
        for tag in range(span.first, span.last + 1):
            requeue = getattr(event, "requeue", False)
            found[*place, span.ts_ns, None if is_publish else tag, str(event.outcome), requeue] += 1
    return found


class Shares(NamedTuple):
    """Numbers of messages: all; those with an unknown outcome that were open at a loss; other unknown ones."""

    all: int
    at_losses: int
    missing: list[Fact]


def shares(run: Joined, passed: list[Passed]) -> Shares:
    """Compare what both readers know of the messages that began after a snapshot, on channels that it has.

    Each frame has a time of its own. A message that is settled before the next loss must be known as well as by the
    reader that has seen all. One that is open at a loss cannot: its outcome may be among the missed frames.
    """
    known = facts(run.joined.events)
    total = at_losses = 0
    missing: list[Fact] = []
    for at, end, snapshot in run.known:
        if at == len(passed):
            continue
        first_ns = passed[at].ts_ns
        last_ns = passed[end - 1].ts_ns if end < len(passed) else passed[-1].ts_ns + 1
        unknown = {each.number for each in snapshot.channels if each.mode in (None, "dtx") or each.closing}
        under_way = {(each.number, content.sender) for each in snapshot.channels for content in each.contents}
        # A proxy forgets a subscription with its message.cancel, though deliveries may be under way.
        cancelled = {
            (each.number, cancel.destination or "")
            for each in snapshot.channels
            for _, cancel in (_cancels(each) if run.is_of_proxy else ())
        }
        begun: set[tuple[str, int, int]] = set()
        settled: set[tuple[str, int, int]] = set()
        for event in run.whole.events:
            if not first_ns <= event.ts_ns <= last_ns or event.channel in unknown:
                continue
            if isinstance(event, MESSAGES):
                sender = str(CLIENT if isinstance(event, MessagePublished) else SERVER)
                if (event.channel, sender) in under_way:
                    under_way.remove((event.channel, sender))
                    continue
                begun.add((type(event).__name__[7:9], event.channel, event.ts_ns))
                total += 1
                if (
                    isinstance(event, MessageDelivered)
                    and (
                        event.channel,
                        getattr(event.method, "consumer_tag", None),
                    )
                    in cancelled
                ):
                    event = msgspec.structs.replace(event, queue=None)
                missing += facts([event]) - known
            elif isinstance(event, SETTLED):
                place = "Pu" if isinstance(event, PublishesSettled) else "De"
                spans = tuple(span for span in event.spans if (place, event.channel, span.ts_ns) in begun)
                settled |= {(place, event.channel, span.ts_ns) for span in spans}
                event = msgspec.structs.replace(event, spans=spans, is_unknown_tag=None)
                missing += facts([event]) - known
        at_losses += len(begun - settled) if end < len(passed) else 0
    return Shares(total, at_losses, missing)

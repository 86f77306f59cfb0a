"""Deliveries of one channel: the consumer of each, and its settlement by the client."""

from __future__ import annotations

from typing import NamedTuple

from amqproxy.amqp091.channel import ChannelMode
from amqproxy.amqp091.methods import BasicAck, BasicDeliver, BasicGet, BasicGetOk, BasicNack, BasicReject
from amqproxy.taps.trace.amqp091.frame_order import Missing
from amqproxy.taps.trace.amqp091.transactions import TransactionTrace
from amqproxy.taps.trace.channel_context import ChannelContext
from amqproxy.taps.trace.consumers import Consumers, queue_name
from amqproxy.taps.trace.content import PartialContent
from amqproxy.taps.trace.events import DeliveriesSettled, MessageDelivered, Settlement
from amqproxy.taps.trace.open_tags import OpenTags, Span
from amqproxy.taps.trace.requests import TimedRequest
from amqproxy.taps.trace.snapshot import ChannelSnapshot

MAX_UNSURE = 1024
"""Limit on the consumers of one channel that are remembered as perhaps needing no acknowledgement."""


class _Got(NamedTuple):
    """Facts about the basic.get whose message is being received; `None` for each that is unknown."""

    queue: str | None
    awaits: bool | None
    latency_ns: int | None


_UNKNOWN_GET = _Got(None, None, None)


_DELIVERIES = frozenset(("basic.deliver", "basic.get-ok"))


class DeliveryTrace:
    """Deliveries of one channel, linked to their consumers, and to the client's settlements."""

    __slots__ = (
        "_ahead",
        "_all_unsure",
        "_consumers",
        "_context",
        "_got",
        "_last_tag",
        "_recovering",
        "_transactions",
        "_unacked",
        "_unsure",
        "knows_last",
    )

    def __init__(
        self, context: ChannelContext[ChannelMode], consumers: Consumers, transactions: TransactionTrace
    ) -> None:
        self._context = context
        self._consumers = consumers
        self._transactions = transactions
        self._unacked = OpenTags(context.budgets.spans)
        self._unsure: dict[str | None, None] = {}  # smaller than a set
        self._all_unsure = False
        self._got = _UNKNOWN_GET
        self._last_tag = 0
        self._ahead = 0
        """Highest tag that the client settled before its delivery was seen, since a gap."""
        self._recovering = 0
        self.knows_last = True
        """Whether the last delivery was seen: those with higher tags are still to come."""

    @property
    def unacked(self) -> int:
        """Number of open deliveries."""
        return self._unacked.count

    @property
    def oldest_unacked(self) -> Span | None:
        """The range of the oldest open delivery."""
        return self._unacked.oldest

    @property
    def is_recovering(self) -> bool:
        """Whether a basic.recover is unanswered."""
        return self._recovering > 0

    def is_unacked(self, tag: int) -> bool:
        """Whether the delivery with this tag is open."""
        return tag in self._unacked

    def restore(self, snapshot: ChannelSnapshot, recovering: int) -> None:
        """Take the deliveries of a snapshot, and the number of unanswered basic.recover."""
        last = snapshot.delivered or 0
        # Direct replies have the tag of the next delivery: one with the last tag may follow.
        if not self._unacked.restore(snapshot.unacked, max(0, last - 1)):
            self._context.has_forgotten = True
        self._last_tag = max(last, self._unacked.last)
        self._recovering = recovering

    def in_snapshot(self) -> tuple[int, tuple[Span, ...]]:
        """Return the last delivery tag, and the deliveries that are open for certain."""
        return self._last_tag, tuple(span for span in self._unacked.spans if not self._is_unsure(span))

    @property
    def is_sure(self) -> bool:
        """Whether it is certain of every open delivery that the client has to settle it."""
        return not (self._unsure or self._all_unsure)

    @property
    def got(self) -> _Got:
        """Facts about the basic.get whose message is being received."""
        return self._got

    def restore_get(self, queue: str | None, awaits: bool | None, latency_ns: int | None) -> None:
        """Take the facts about the basic.get whose message is being received."""
        self._got = _Got(queue, awaits, latency_ns)

    def complete_unknown(self, method: BasicDeliver | BasicGetOk, ts_ns: int) -> bool:
        """Open a delivery whose size is unknown, without a report, if it has to be settled; return whether it has."""
        consumer_tag: str | None = None
        if isinstance(method, BasicDeliver):
            consumer_tag, _, awaits = self._consumer(method.consumer_tag)
        else:
            awaits = self._got.awaits
        tag = method.delivery_tag
        self._last_tag = max(self._last_tag, tag)
        if not awaits or tag <= self._unacked.last:
            self._context.has_forgotten = self._context.has_forgotten or awaits is not False
            return False
        self._unacked.add(tag, ts_ns, consumer_tag)
        return True

    # --- what the broker sends

    def begin_get(self, found: TimedRequest | None, ts_ns: int) -> None:
        """Note the basic.get that the broker has answered with basic.get-ok; the message follows."""
        self._got = _UNKNOWN_GET
        if found is not None and isinstance(found.request, BasicGet):
            get = found.request
            self._got = _Got(queue_name(get.queue, found.last), not get.no_ack, ts_ns - found.ts_ns)

    def deliver(self, method: BasicDeliver | BasicGetOk, content: PartialContent, ts_ns: int) -> bool:
        """Report a message of the broker; return whether it may be open."""
        context = self._context
        tag = method.delivery_tag
        latency: int | None = None
        consumer_tag: str | None = None
        if isinstance(method, BasicDeliver):
            consumer_tag, queue, awaits = self._consumer(method.consumer_tag)
        else:
            queue, awaits, latency = self._got
        context.events.append(
            MessageDelivered(
                ts_ns,
                context.number,
                context.epoch,
                method=method,
                properties=content.properties,
                size=content.size,
                body=content.body,
                digest=content.digest,
                queue=queue,
                awaits=awaits,
                latency_ns=latency,
            )
        )
        self.knows_last = True
        if tag > self._last_tag:
            self._last_tag = tag
        if awaits is False:
            return False
        if tag <= self._unacked.last:  # direct replies repeat their tag: it cannot be known which of the two this is
            context.has_forgotten = True
            spans = self._unacked.settle(tag)
            if spans:
                self._report(Settlement.UNKNOWN, spans, ts_ns)
        elif tag <= self._ahead:  # the settlement that was seen before may be this delivery's
            self._report(Settlement.UNKNOWN, (Span(tag, tag, ts_ns, consumer_tag),), ts_ns)
            return False
        else:
            if awaits is None:
                self._add_unsure(consumer_tag)
            self._unacked.add(tag, ts_ns, consumer_tag)
        return True

    def _consumer(self, tag: str) -> tuple[str, str | None, bool | None]:
        """Return the tag of a consumer, its queue, and whether the client acknowledges its deliveries."""
        consumers = self._consumers.find(tag)
        if not consumers:
            return tag, None, None
        first = consumers[0]
        if len(consumers) == 1:
            return first.tag or tag, first.queue, not first.consume.no_ack
        queues = {each.queue for each in consumers}
        modes = {each.consume.no_ack for each in consumers}
        return (
            first.tag or tag,
            first.queue if len(queues) == 1 else None,
            not first.consume.no_ack if len(modes) == 1 else None,
        )

    def _add_unsure(self, consumer_tag: str | None) -> None:
        if len(self._unsure) < MAX_UNSURE:
            self._unsure[consumer_tag] = None
        else:
            self._all_unsure = True

    # --- what the client settles

    def missing_for_settlement(self, tag: int) -> Missing | None:
        """Return the deliveries, numbered from 1, that a settlement of this tag waits for; `None` if seen."""
        if tag <= self._unacked.last:  # only these are settled; direct replies have the tag of the next delivery
            return None
        return Missing(_DELIVERIES, max(1, tag - self._last_tag))

    def settle(self, outcome: Settlement, method: BasicAck | BasicNack | BasicReject, ts_ns: int) -> bool | None:
        """Settle deliveries for the client; return whether the tag is unknown to the broker, `None` if uncertain."""
        context = self._context
        tag, multiple = method.delivery_tag, getattr(method, "multiple", False)
        unknown: bool | None = False
        is_known = True
        if self._recovering:
            spans = None  # the broker requeues the deliveries before it reads this
        else:
            spans = self._unacked.settle(tag, multiple=multiple)
        if spans is None and (tag or not multiple):
            is_certain = context.knows_start and not context.has_forgotten and not self._recovering
            # Tag 0 stands for all with multiple only: no delivery has it (tests/behaviours/test_errors.py).
            unknown = True if is_certain or not (tag or context.may_be_unread) else None
            if not context.knows_start:
                self._ahead = max(self._ahead, tag)
                is_known = False
                if multiple:  # the delivery with this tag may have been missed: those before it are settled, too
                    spans = self._unacked.settle_up_to(tag)
        event = DeliveriesSettled(
            ts_ns,
            context.number,
            context.epoch,
            outcome=outcome,
            spans=spans or (),
            tag=tag,
            multiple=multiple,
            requeue=getattr(method, "requeue", False),
            is_unknown_tag=unknown,
            is_certain=is_known and self._is_certain(spans or ()),
        )
        if context.mode is ChannelMode.TX and context.knows_client and spans:
            self._transactions.add(event)
        else:
            context.events.append(event)
        return unknown

    def reopen(self, settled: list[DeliveriesSettled]) -> None:
        """Reopen deliveries that the client settled in a transaction which it has rolled back.

        The broker works in order: after the rollback, the client may settle the same deliveries again.
        """
        for each in settled:
            self._unacked.reopen(each.spans)

    def begin_recovery(self) -> None:
        """Note the client's basic.recover: no settlement counts until basic.recover-ok."""
        self._recovering += 1

    def end_recovery(self) -> None:
        """Note the broker's basic.recover-ok."""
        self._recovering = max(0, self._recovering - 1)

    def recover(self, ts_ns: int, *, requeue: bool | None) -> None:
        """Report all open deliveries as recovered: the client has given them back."""
        spans = self._unacked.clear()
        if spans:
            context = self._context
            context.events.append(
                DeliveriesSettled(
                    ts_ns,
                    context.number,
                    context.epoch,
                    outcome=Settlement.RECOVERED,
                    spans=spans,
                    requeue=requeue,
                    is_certain=self._is_certain(spans),
                )
            )

    # --- the end, and forgetting

    def end(self, outcome: Settlement, ts_ns: int) -> None:
        """Report all open deliveries with this outcome, since nothing more is seen of them."""
        spans = self._unacked.clear()
        if outcome is not Settlement.UNKNOWN:
            unsure = tuple(each for each in spans if self._is_unsure(each))
            if unsure:
                self._report(Settlement.UNKNOWN, unsure, ts_ns)
                spans = tuple(each for each in spans if each not in unsure)
        if spans:
            self._report(outcome, spans, ts_ns)
        self._unsure.clear()
        self._all_unsure = False

    def give_up(self, settled: list[DeliveriesSettled], outcome: Settlement, ts_ns: int) -> None:
        """Report deliveries that were settled in a transaction which has not ended."""
        for each in settled:
            actual = outcome if each.is_certain else Settlement.UNKNOWN
            self._report(actual, each.spans, ts_ns, tag=each.tag, multiple=each.multiple)

    def forget_older_half(self, ts_ns: int) -> bool:
        """Forget the older half of the ranges, if there are several, and report their outcome as unknown."""
        spans = self._unacked.forget_older_half()
        if spans:
            self._report(Settlement.UNKNOWN, spans, ts_ns)
        return bool(spans)

    def lose_broker(self) -> None:
        """Note that deliveries were missed."""
        self.knows_last = False

    def lose_client(self, ts_ns: int) -> None:
        """Report the open deliveries as unknown: their settlements may have been missed. Forget the consumers."""
        self.end(Settlement.UNKNOWN, ts_ns)
        self._recovering = 0
        self._consumers.lose()

    def forget(self) -> None:
        """Forget the basic.get and the consumers that later deliveries would be linked to."""
        self._got = _UNKNOWN_GET
        self._recovering = 0
        self._consumers.lose()

    def _is_unsure(self, span: Span) -> bool:
        """Whether these deliveries may need no acknowledgement."""
        return self._all_unsure or span.consumer_tag in self._unsure

    def _is_certain(self, spans: tuple[Span, ...]) -> bool:
        if not self._context.is_read:
            return False
        return not (self._unsure or self._all_unsure) or not any(map(self._is_unsure, spans))

    def _report(
        self,
        outcome: Settlement,
        spans: tuple[Span, ...],
        ts_ns: int,
        *,
        tag: int | None = None,
        multiple: bool = False,
    ) -> None:
        context = self._context
        context.events.append(
            DeliveriesSettled(
                ts_ns, context.number, context.epoch, outcome=outcome, spans=spans, tag=tag, multiple=multiple
            )
        )

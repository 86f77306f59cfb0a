"""What happens on one channel: requests and replies, publishes and confirms, deliveries and acknowledgements."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from amqproxy.amqp091.channel import ChannelMode
from amqproxy.amqp091.frame import BODY, HEADER, Frame
from amqproxy.amqp091.methods import (
    BasicAck,
    BasicCancel,
    BasicCancelOk,
    BasicConsume,
    BasicConsumeOk,
    BasicDeliver,
    BasicGet,
    BasicGetOk,
    BasicNack,
    BasicPublish,
    BasicRecoverAsync,
    BasicRecoverOk,
    BasicReject,
    BasicReturn,
    ChannelClose,
    ChannelCloseOk,
    ChannelFlow,
    ChannelOpen,
    ChannelOpenOk,
    ConfirmSelect,
    ConnectionClose,
    Method,
    QueueDeclareOk,
    TxCommit,
    TxCommitOk,
    TxRollback,
    TxRollbackOk,
    TxSelect,
)
from amqproxy.amqp091.transitions import ANSWERS, CLIENT, REPLIES, SERVER, Peer
from amqproxy.taps.trace.causes import RecentMethods, named_method
from amqproxy.taps.trace.content import PartialContent
from amqproxy.taps.trace.events import (
    ChannelClosed,
    ChannelOpened,
    DeliveriesSettled,
    FlowChanged,
    MessageDelivered,
    MessagePublished,
    MessageReturned,
    PublishesSettled,
    RequestAnswered,
    RequestSent,
    RequestUnanswered,
    Settlement,
    TraceEvent,
)
from amqproxy.taps.trace.open_tags import OpenTags, Span, SpanBudget
from amqproxy.taps.trace.requests import PendingRequests
from amqproxy.taps.trace.returns import MandatoryPublishes

MAX_CONSUMERS = 65_536
"""Consumers of one channel whose queues are remembered."""

MAX_TRANSACTIONS = 1024
"""Commits and rollbacks of one channel that may be under way."""


class ObservedConsumer(NamedTuple):
    """A consumer of the channel: its queue, and whether its deliveries need no acknowledgement."""

    queue: str | None
    no_ack: bool


class _Transaction(NamedTuple):
    """A transaction whose end was sent: its last publish, and what the client settled in it."""

    last_publish: int
    settled: list[DeliveriesSettled]


class ChannelTrace:
    """One channel, from its channel.open on, or from the first frame that was seen of it.

    `knows_start` is whether all frames since channel.open were seen. What happens is appended to `events`.
    """

    __slots__ = (
        "_awaited",
        "_body",
        "_closed_by",
        "_confirms_from",
        "_consumers",
        "_contents",
        "_got",
        "_has_forgotten",
        "_last_queue",
        "_mandatory",
        "_mode",
        "_opened_ts_ns",
        "_recent",
        "_settled",
        "_transactions",
        "_unacked",
        "_unconfirmed",
        "_unsure",
        "events",
        "knows_start",
        "number",
        "published",
    )

    def __init__(
        self, number: int, events: list[TraceEvent], budget: SpanBudget, *, knows_start: bool, body: int = 0
    ) -> None:
        self.number = number
        self.events = events
        self.knows_start = knows_start
        self.published = 0
        self._body = body
        self._mode: ChannelMode | None = ChannelMode.NORMAL if knows_start else None
        self._confirms_from: int | None = None
        self._closed_by: Peer | None = None
        self._opened_ts_ns: int | None = None
        self._consumers: dict[str, ObservedConsumer] = {}
        self._unsure: set[str | None] = set()
        self._last_queue: str | None = None
        self._contents: dict[Peer, PartialContent] = {}
        self._got: deque[tuple[str | None, bool | None, int | None]] = deque()
        self._awaited = {CLIENT: PendingRequests(), SERVER: PendingRequests()}
        self._unacked = OpenTags(budget)
        self._unconfirmed = OpenTags(budget)
        self._has_forgotten = False
        self._mandatory = MandatoryPublishes()
        self._recent = RecentMethods()
        self._transactions: deque[_Transaction] = deque()
        self._settled: list[DeliveriesSettled] = []
        if not knows_start:
            for pending in self._awaited.values():
                pending.lose()

    @property
    def unconfirmed(self) -> int:
        """How many publishes are open: not confirmed, or not committed."""
        return self._unconfirmed.count

    @property
    def unacked(self) -> int:
        """How many deliveries are open."""
        return self._unacked.count

    def cause(self, close: ChannelClose | ConnectionClose) -> Method | None:
        """The client's method that a close is about, if it is certain which one that is."""
        return self._recent.cause(close, self._awaited[CLIENT])

    def is_unacked(self, tag: int) -> bool:
        """Is the delivery with that tag open?"""
        return tag in self._unacked

    def feed(self, sender: Peer, frame: Frame, ts_ns: int) -> bool:
        """Take a frame; True when the channel is closed with it, and has been ended. `ProtocolError` if malformed."""
        if frame.kind == HEADER:
            content = self._contents.get(sender)
            if content is not None and not content.has_header:
                header = frame.header
                content.add_header(header.body_size, header.properties)
                if content.is_complete:
                    self._complete(sender, ts_ns)
        elif frame.kind == BODY:
            content = self._contents.get(sender)
            if content is not None and content.has_header:
                content.add_body(frame.size, frame.payload if content.wants_body else None)
                if content.is_complete:
                    self._complete(sender, ts_ns)
        else:
            return self._feed_method(sender, frame.method, ts_ns)
        return False

    def lose(self, ts_ns: int) -> None:
        """Frames of the channel are missing: nothing of what was open is known any more."""
        self._end(ts_ns, Settlement.UNKNOWN)
        self.knows_start = False
        self._mode = None
        self._confirms_from = None
        self._consumers.clear()
        self._last_queue = None
        self._contents.clear()
        self._got.clear()
        self._transactions.clear()
        self._settled.clear()
        self._mandatory = MandatoryPublishes()
        for pending in self._awaited.values():
            pending.lose()

    def end(self, ts_ns: int) -> None:
        """The channel is over: report what was still open."""
        for sender, pending in self._awaited.items():
            for asked_ts_ns, request in pending.clear():
                self._add(
                    RequestUnanswered(
                        ts_ns=ts_ns,
                        channel=self.number,
                        sender=sender,
                        request=request,
                        latency_ns=ts_ns - asked_ts_ns,
                    )
                )
        self._end(ts_ns, Settlement.OPEN)

    def _end(self, ts_ns: int, outcome: Settlement) -> None:
        for pending in (*(each for transaction in self._transactions for each in transaction.settled), *self._settled):
            self._settle_deliveries(ts_ns, outcome, pending.spans, tag=pending.tag, multiple=pending.multiple)
        spans = self._unconfirmed.clear()
        if spans:
            self._add(PublishesSettled(ts_ns=ts_ns, channel=self.number, outcome=outcome, spans=spans))
        spans = self._unacked.clear()
        unsure = tuple(each for each in spans if each.consumer_tag in self._unsure)
        if unsure and outcome is not Settlement.UNKNOWN:
            self._settle_deliveries(ts_ns, Settlement.UNKNOWN, unsure)
            spans = tuple(each for each in spans if each.consumer_tag not in self._unsure)
        if spans:
            self._settle_deliveries(ts_ns, outcome, spans)

    def _add(self, event: TraceEvent) -> None:
        self.events.append(event)

    # --- methods

    def _feed_method(self, sender: Peer, method: Method, ts_ns: int) -> bool:
        if sender is CLIENT:
            self._recent.add(method)
            if self._closed_by is SERVER and not isinstance(method, (BasicPublish, ChannelClose, ChannelCloseOk)):
                return False  # the broker does not read it any more
        if method.carries_content:
            self._contents[sender] = PartialContent(method, self._body)
            if isinstance(method, BasicGetOk):
                self._answer(sender, method, ts_ns)
            return False
        if isinstance(method, ChannelCloseOk):
            return True
        request = self._answer(sender, method, ts_ns) if method.name in ANSWERS else None
        handler = _HANDLERS.get(type(method))
        if handler is not None:
            handler(self, sender, method, request, ts_ns)
        if method.name in REPLIES:
            if getattr(method, "no_wait", False):
                self._add(RequestSent(ts_ns=ts_ns, channel=self.number, sender=sender, request=method))
            else:
                self._awaited[sender].add(ts_ns, method)
        return False

    def _answer(self, sender: Peer, reply: Method, ts_ns: int) -> Method | None:
        """Report a reply with its request, and return the request."""
        found = self._awaited[sender.other].match(reply)
        request, latency = None, None
        if found is not None:
            asked_ts_ns, request = found
            latency = ts_ns - asked_ts_ns
        if isinstance(reply, BasicGetOk):
            if isinstance(request, BasicGet):
                self._got.append((request.queue or self._last_queue, not request.no_ack, latency))
            else:
                self._got.append((None, None, None))
        self._add(
            RequestAnswered(
                ts_ns=ts_ns, channel=self.number, sender=sender.other, request=request, reply=reply, latency_ns=latency
            )
        )
        return request

    def _on_open(self, sender: Peer, method: Any, request: Method | None, ts_ns: int) -> None:
        self._opened_ts_ns = ts_ns

    def _on_open_ok(self, sender: Peer, method: Any, request: Method | None, ts_ns: int) -> None:
        latency = None if self._opened_ts_ns is None else ts_ns - self._opened_ts_ns
        self._add(ChannelOpened(ts_ns=ts_ns, channel=self.number, latency_ns=latency))

    def _on_close(self, sender: Peer, method: ChannelClose, request: Method | None, ts_ns: int) -> None:
        if self._closed_by is None:
            self._closed_by = sender
        cause = self.cause(method) if sender is SERVER else None
        self._add(
            ChannelClosed(
                ts_ns=ts_ns,
                channel=self.number,
                by=sender,
                code=method.reply_code,
                text=method.reply_text,
                method=named_method(method),
                cause=cause,
            )
        )

    def _on_flow(self, sender: Peer, method: ChannelFlow, request: Method | None, ts_ns: int) -> None:
        self._add(FlowChanged(ts_ns=ts_ns, channel=self.number, sender=sender, is_active=method.active))

    # --- consumers and queues

    def _on_declared(self, sender: Peer, method: QueueDeclareOk, request: Method | None, ts_ns: int) -> None:
        self._last_queue = method.queue

    def _on_consume(self, sender: Peer, method: BasicConsume, request: Method | None, ts_ns: int) -> None:
        if method.no_wait:
            self._add_consumer(method.consumer_tag, method)

    def _on_consume_ok(self, sender: Peer, method: BasicConsumeOk, request: Method | None, ts_ns: int) -> None:
        if isinstance(request, BasicConsume):
            self._add_consumer(method.consumer_tag, request)

    def _add_consumer(self, tag: str, consume: BasicConsume) -> None:
        if len(self._consumers) < MAX_CONSUMERS:
            self._consumers[tag] = ObservedConsumer(consume.queue or self._last_queue, consume.no_ack)

    def _on_cancel(self, sender: Peer, method: BasicCancel, request: Method | None, ts_ns: int) -> None:
        if method.no_wait or sender is SERVER:
            self._consumers.pop(method.consumer_tag, None)

    def _on_cancel_ok(self, sender: Peer, method: BasicCancelOk, request: Method | None, ts_ns: int) -> None:
        self._consumers.pop(method.consumer_tag, None)

    # --- publishes

    def _on_confirm_select(self, sender: Peer, method: ConfirmSelect, request: Method | None, ts_ns: int) -> None:
        if self._mode is not ChannelMode.CONFIRM:
            if self.knows_start:
                self._confirms_from = self.published
            self._mode = ChannelMode.CONFIRM

    def _on_tx_select(self, sender: Peer, method: TxSelect, request: Method | None, ts_ns: int) -> None:
        self._mode = ChannelMode.TX

    def _complete(self, sender: Peer, ts_ns: int) -> None:
        content = self._contents.pop(sender)
        match content.method:
            case BasicPublish() as publish:
                self._publish(publish, content, ts_ns)
            case BasicReturn() as returned:
                number = self._mandatory.match(
                    returned.exchange, returned.routing_key, content.size, content.properties
                )
                self._add(
                    MessageReturned(
                        ts_ns=ts_ns,
                        channel=self.number,
                        number=number,
                        method=returned,
                        properties=content.properties,
                        size=content.size,
                        body=content.body,
                    )
                )
            case BasicDeliver() | BasicGetOk() as delivered:
                self._deliver(delivered, content, ts_ns)
            case _:
                pass

    def _publish(self, publish: BasicPublish, content: PartialContent, ts_ns: int) -> None:
        self.published = number = self.published + 1
        tag = None
        awaits: bool | None = None if self._mode is None else self._mode is not ChannelMode.NORMAL
        if self._mode is ChannelMode.CONFIRM:
            if self._confirms_from is None:
                awaits = None
            else:
                tag = number - self._confirms_from
        if self._closed_by is SERVER:
            awaits, tag = True, None
        if publish.mandatory:
            self._mandatory.add(number, publish.exchange, publish.routing_key, content.size, content.properties)
        self._add(
            MessagePublished(
                ts_ns=ts_ns,
                channel=self.number,
                number=number,
                method=publish,
                properties=content.properties,
                size=content.size,
                body=content.body,
                confirm_tag=tag,
                awaits=awaits,
            )
        )
        if awaits:
            forgotten = self._unconfirmed.add(number, ts_ns)
            if forgotten:
                self._settle_publishes(ts_ns, Settlement.UNKNOWN, forgotten)
                self._has_forgotten = True

    def _settle_publishes(
        self, ts_ns: int, outcome: Settlement, spans: tuple[Span, ...], *, is_unknown_tag: bool | None = False
    ) -> None:
        for span in spans:
            self._mandatory.settle(span.first, span.last)
        self._add(
            PublishesSettled(
                ts_ns=ts_ns, channel=self.number, outcome=outcome, spans=spans, is_unknown_tag=is_unknown_tag
            )
        )

    def _confirm(self, outcome: Settlement, tag: int, multiple: bool, ts_ns: int) -> None:
        """The broker settles publishes."""
        base = self._confirms_from
        spans = None
        if base is not None:
            spans = self._unconfirmed.settle(base + tag if tag else 0, multiple=multiple)
        elif self._mode is None:
            self._mode = ChannelMode.CONFIRM
        if spans is not None:
            self._settle_publishes(ts_ns, outcome, spans)
        else:
            is_certain = base is not None and not self._has_forgotten
            self._settle_publishes(ts_ns, outcome, (), is_unknown_tag=True if is_certain else None)

    # --- deliveries

    def _deliver(self, method: BasicDeliver | BasicGetOk, content: PartialContent, ts_ns: int) -> None:
        tag, awaits, latency, consumer_tag = method.delivery_tag, None, None, None
        queue: str | None = None
        if isinstance(method, BasicDeliver):
            consumer_tag = method.consumer_tag
            consumer = self._consumers.get(consumer_tag) or self._consumers.get("")
            if consumer is not None:
                queue, awaits = consumer.queue, not consumer.no_ack
        elif self._got:
            queue, awaits, latency = self._got.popleft()
        self._add(
            MessageDelivered(
                ts_ns=ts_ns,
                channel=self.number,
                method=method,
                properties=content.properties,
                size=content.size,
                body=content.body,
                queue=queue,
                awaits=awaits,
                latency_ns=latency,
            )
        )
        if awaits is False or tag <= self._unacked.last:  # direct replies repeat their tag
            return
        if awaits is None:
            self._unsure.add(consumer_tag)
        forgotten = self._unacked.add(tag, ts_ns, consumer_tag)
        if forgotten:
            self._settle_deliveries(ts_ns, Settlement.UNKNOWN, forgotten)
            self._has_forgotten = True

    def _settle(
        self, ts_ns: int, outcome: Settlement, tag: int, *, multiple: bool = False, requeue: bool = False
    ) -> None:
        """The client settles deliveries."""
        spans = self._unacked.settle(tag, multiple=multiple)
        unknown: bool | None = False
        if spans is None:
            unknown = True if self.knows_start and not self._has_forgotten else None
        event = DeliveriesSettled(
            ts_ns=ts_ns,
            channel=self.number,
            outcome=outcome,
            spans=spans or (),
            tag=tag,
            multiple=multiple,
            requeue=requeue,
            is_unknown_tag=unknown,
        )
        if self._mode is ChannelMode.TX and spans:
            self._settled.append(event)
        else:
            self._add(event)

    def _settle_deliveries(
        self,
        ts_ns: int,
        outcome: Settlement,
        spans: tuple[Span, ...],
        *,
        tag: int | None = None,
        multiple: bool = False,
        requeue: bool = False,
    ) -> None:
        self._add(
            DeliveriesSettled(
                ts_ns=ts_ns,
                channel=self.number,
                outcome=outcome,
                spans=spans,
                tag=tag,
                multiple=multiple,
                requeue=requeue,
            )
        )

    def _on_ack(self, sender: Peer, method: BasicAck, request: Method | None, ts_ns: int) -> None:
        if sender is SERVER:
            self._confirm(Settlement.CONFIRMED, method.delivery_tag, method.multiple, ts_ns)
        else:
            self._settle(ts_ns, Settlement.ACKED, method.delivery_tag, multiple=method.multiple)

    def _on_nack(self, sender: Peer, method: BasicNack, request: Method | None, ts_ns: int) -> None:
        if sender is SERVER:
            self._confirm(Settlement.NACKED, method.delivery_tag, method.multiple, ts_ns)
        else:
            tag, multiple = method.delivery_tag, method.multiple
            self._settle(ts_ns, Settlement.NACKED, tag, multiple=multiple, requeue=method.requeue)

    def _on_reject(self, sender: Peer, method: BasicReject, request: Method | None, ts_ns: int) -> None:
        self._settle(ts_ns, Settlement.REJECTED, method.delivery_tag, requeue=method.requeue)

    def _on_recovered(
        self, sender: Peer, method: BasicRecoverOk | BasicRecoverAsync, request: Method | None, ts_ns: int
    ) -> None:
        spans = self._unacked.clear()
        if spans:
            self._settle_deliveries(ts_ns, Settlement.RECOVERED, spans, requeue=True)

    # --- transactions: section 1.9

    def _on_tx_end(self, sender: Peer, method: TxCommit | TxRollback, request: Method | None, ts_ns: int) -> None:
        if self._mode is None:
            self._mode = ChannelMode.TX
        self._transactions.append(_Transaction(self.published, self._settled))
        self._settled = []
        if len(self._transactions) > MAX_TRANSACTIONS:
            self.lose(ts_ns)

    def _on_tx_ended(self, sender: Peer, method: TxCommitOk | TxRollbackOk, request: Method | None, ts_ns: int) -> None:
        if not self._transactions or request is None:
            return
        transaction = self._transactions.popleft()
        is_committed = isinstance(method, TxCommitOk)
        spans = self._up_to(transaction.last_publish)
        if spans:
            outcome = Settlement.COMMITTED if is_committed else Settlement.ROLLED_BACK
            self._settle_publishes(ts_ns, outcome, spans)
        for event in transaction.settled:
            if is_committed:
                self._add(msgspec.structs.replace(event, ts_ns=ts_ns))
            else:
                self._unacked.reopen(event.spans)

    def _up_to(self, last: int) -> tuple[Span, ...]:
        """The open publishes up to a number, settled."""
        if not self._unconfirmed.count:
            return ()
        return self._unconfirmed.settle(min(last, self._unconfirmed.last), multiple=True) or ()


_HANDLERS: dict[type[Method], Callable[[ChannelTrace, Peer, Any, Method | None, int], None]] = {
    BasicAck: ChannelTrace._on_ack,
    BasicCancel: ChannelTrace._on_cancel,
    BasicCancelOk: ChannelTrace._on_cancel_ok,
    BasicConsume: ChannelTrace._on_consume,
    BasicConsumeOk: ChannelTrace._on_consume_ok,
    BasicNack: ChannelTrace._on_nack,
    BasicRecoverAsync: ChannelTrace._on_recovered,
    BasicRecoverOk: ChannelTrace._on_recovered,
    BasicReject: ChannelTrace._on_reject,
    ChannelClose: ChannelTrace._on_close,
    ChannelFlow: ChannelTrace._on_flow,
    ChannelOpen: ChannelTrace._on_open,
    ChannelOpenOk: ChannelTrace._on_open_ok,
    ConfirmSelect: ChannelTrace._on_confirm_select,
    QueueDeclareOk: ChannelTrace._on_declared,
    TxCommit: ChannelTrace._on_tx_end,
    TxCommitOk: ChannelTrace._on_tx_ended,
    TxRollback: ChannelTrace._on_tx_end,
    TxRollbackOk: ChannelTrace._on_tx_ended,
    TxSelect: ChannelTrace._on_tx_select,
}

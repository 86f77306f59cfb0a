"""What happens on one channel: requests and replies, publishes and confirms, deliveries and acknowledgements."""

from __future__ import annotations

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
    BasicRecover,
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
    ConfirmSelectOk,
    ConnectionClose,
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
from amqproxy.amqp091.transitions import ANSWERS, CLIENT, REPLIES, SENDERS, SERVER, Peer
from amqproxy.taps.trace.budget import Budget
from amqproxy.taps.trace.causes import RecentMethods, named_method, only_cause
from amqproxy.taps.trace.consumers import Consumers, DeclaredQueue, LastQueue, queue_name
from amqproxy.taps.trace.content import PartialContent
from amqproxy.taps.trace.events import (
    ChannelClosed,
    ChannelOpened,
    DeliveriesSettled,
    FlowChanged,
    HistoryLost,
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
from amqproxy.taps.trace.open_tags import OpenTags, Span
from amqproxy.taps.trace.requests import PendingRequest, PendingRequests
from amqproxy.taps.trace.returns import MandatoryPublishes

MAX_TRANSACTIONS = 1024
"""Commits and rollbacks of one channel that may be under way."""

MAX_UNSURE = 1024
"""Consumers of one channel of which it is remembered that they may need no acknowledgements."""


class Budgets(NamedTuple):
    """What the channels of one connection may hold, all together: ranges of open tags, and bytes of all else."""

    spans: Budget
    memory: Budget


class _Transaction(NamedTuple):
    """A transaction whose end was sent: its last publish, and what the client settled in it."""

    last_publish: int
    settled: list[DeliveriesSettled]


class _Got(NamedTuple):
    """What is known of the basic.get of the message that is coming."""

    queue: str | None
    awaits: bool | None
    latency_ns: int | None


_UNKNOWN_GET = _Got(None, None, None)


class ChannelTrace:
    """One channel, from its channel.open on, or from the first frame that was seen of it.

    `knows_start` is whether all frames since channel.open were seen; `is_unread` whether the broker does not read what
    the client sends any more, since the channel or the connection is closing; `is_opened` whether the broker has
    answered channel.open. What happens is appended to `events`.
    """

    __slots__ = (
        "_all_unsure",
        "_awaited",
        "_body",
        "_budgets",
        "_closes",
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
        "_recovering",
        "_settled",
        "_transactions",
        "_unacked",
        "_unconfirmed",
        "_unsure",
        "events",
        "is_opened",
        "is_unread",
        "knows_start",
        "number",
        "published",
    )

    def __init__(
        self, number: int, events: list[TraceEvent], budgets: Budgets, *, knows_start: bool, body: int = 0
    ) -> None:
        self.number = number
        self.events = events
        self.knows_start = knows_start
        self.is_opened = not knows_start
        self.is_unread = False
        self.published = 0
        self._body = body
        self._budgets = budgets
        self._mode: ChannelMode | None = ChannelMode.NORMAL if knows_start else None
        self._confirms_from: int | None = None
        self._closes: set[Peer] = set()
        self._opened_ts_ns: int | None = None
        self._consumers = Consumers(budgets.memory)
        self._unsure: dict[str | None, None] = {}  # smaller than a set
        self._all_unsure = False
        self._last_queue: LastQueue = None
        self._contents: dict[Peer, PartialContent] = {}
        self._got = _UNKNOWN_GET
        self._awaited = {CLIENT: PendingRequests(budgets.memory), SERVER: PendingRequests(budgets.memory)}
        self._unacked = OpenTags(budgets.spans)
        self._unconfirmed = OpenTags(budgets.spans)
        self._has_forgotten = False
        self._mandatory = MandatoryPublishes(budgets.memory)
        self._recent = RecentMethods(budgets.memory)
        self._transactions: list[_Transaction] = []  # an empty deque takes ten times as much memory
        self._settled: list[DeliveriesSettled] = []
        self._recovering = 0
        if not knows_start:
            self._forget()

    @property
    def unconfirmed(self) -> int:
        """How many publishes are open: not confirmed, or not committed."""
        return self._unconfirmed.count

    @property
    def unacked(self) -> int:
        """How many deliveries are open."""
        return self._unacked.count

    @property
    def is_closing(self) -> bool:
        """Has either peer closed the channel?"""
        return bool(self._closes)

    def causes(self, close: ChannelClose | ConnectionClose) -> list[Method] | None:
        """The client's methods that a close may be about; None if there may be more than are remembered."""
        return self._recent.causes(close, self._awaited[CLIENT])

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
            return self._feed_method(sender, frame.method, frame.size, ts_ns)
        return False

    def lose(self, ts_ns: int) -> None:
        """Frames of the channel are missing: nothing of what was open is known any more."""
        self._settle_open(ts_ns, Settlement.UNKNOWN)
        self.knows_start = False
        self.is_opened = True
        self.is_unread = False
        self._closes.clear()
        self._mode = None
        self._confirms_from = None
        self._forget()

    def _lose_track(self, sender: Peer, reason: str, ts_ns: int) -> None:
        self._add(HistoryLost(ts_ns=ts_ns, channel=self.number, sender=sender, reason=reason))
        self.lose(ts_ns)

    def end(self, ts_ns: int) -> None:
        """The channel is over: report what was still open."""
        for sender, pending in self._awaited.items():
            for each in pending.clear():
                self._add(
                    RequestUnanswered(
                        ts_ns=ts_ns,
                        channel=self.number,
                        sender=sender,
                        request=each.request,
                        latency_ns=ts_ns - each.ts_ns,
                    )
                )
        self._settle_open(ts_ns, Settlement.OPEN)
        self._forget()

    def _forget(self) -> None:
        """Forget all that led to what is not known from now on."""
        self._last_queue = None
        self._contents.clear()
        self._got = _UNKNOWN_GET
        self._recovering = 0
        self._consumers.lose()
        self._mandatory.lose()
        self._recent.lose()
        for pending in self._awaited.values():
            pending.lose()

    def _settle_open(self, ts_ns: int, outcome: Settlement) -> None:
        for transaction in self._transactions:
            self._give_up(transaction.settled, ts_ns, outcome)
        self._transactions.clear()
        self._give_up(self._settled, ts_ns, outcome)
        spans = self._unconfirmed.clear()
        if spans:
            self._add(PublishesSettled(ts_ns=ts_ns, channel=self.number, outcome=outcome, spans=spans))
        spans = self._unacked.clear()
        if outcome is not Settlement.UNKNOWN:
            unsure = tuple(each for each in spans if self._is_unsure(each))
            if unsure:
                self._settle_deliveries(ts_ns, Settlement.UNKNOWN, unsure)
                spans = tuple(each for each in spans if each not in unsure)
        if spans:
            self._settle_deliveries(ts_ns, outcome, spans)
        self._unsure.clear()
        self._all_unsure = False

    def _give_up(self, settled: list[DeliveriesSettled], ts_ns: int, outcome: Settlement) -> None:
        """Report what was settled in a transaction that has not ended."""
        for each in settled:
            actual = outcome if each.is_certain else Settlement.UNKNOWN
            self._settle_deliveries(ts_ns, actual, each.spans, tag=each.tag, multiple=each.multiple)
            self._budgets.spans.left += len(each.spans)
        settled.clear()

    def _keep_budget(self, ts_ns: int) -> None:
        """Forget the older half of the ranges when there are too many: what became of those is unknown."""
        while self._budgets.spans.left < 0:
            published = self._unconfirmed.forget_older_half()
            delivered = self._unacked.forget_older_half()
            if published:
                self._add(
                    PublishesSettled(ts_ns=ts_ns, channel=self.number, outcome=Settlement.UNKNOWN, spans=published)
                )
                self._mandatory.lose()
            if delivered:
                self._settle_deliveries(ts_ns, Settlement.UNKNOWN, delivered)
            if not (published or delivered):
                for transaction in self._transactions:
                    self._give_up(transaction.settled, ts_ns, Settlement.UNKNOWN)
                self._give_up(self._settled, ts_ns, Settlement.UNKNOWN)
                break
            self._has_forgotten = True

    def _add(self, event: TraceEvent) -> None:
        self.events.append(event)

    # --- methods

    def _feed_method(self, sender: Peer, method: Method, size: int, ts_ns: int) -> bool:
        name = method.name
        if sender not in SENDERS[name]:
            return False
        if self._contents:
            self._contents.pop(sender, None)  # what has come of it is all that comes
        if sender is CLIENT:
            if self.is_unread:
                self._feed_unread(method, size, ts_ns)
                return isinstance(method, ChannelCloseOk) and self._is_closed(sender, ts_ns)
            self._recent.add(method, size)
        if method.carries_content:
            self._contents[sender] = PartialContent(method, self._body)
            if isinstance(method, BasicGetOk):
                self._on_got(method, self._answer(sender, method, ts_ns), ts_ns)
            return False
        if isinstance(method, ChannelCloseOk):
            return self._is_closed(sender, ts_ns)
        found = self._answer(sender, method, ts_ns) if name in ANSWERS else None
        handler = _HANDLERS[sender].get(type(method))
        if handler is not None:
            handler(self, method, found, ts_ns)
        if name in REPLIES:
            self._request(sender, method, size, ts_ns)
        return False

    def _feed_unread(self, method: Method, size: int, ts_ns: int) -> None:
        """The client sends what the broker does not read any more. Section 1.5.2.5."""
        if isinstance(method, BasicPublish):
            self._contents[CLIENT] = PartialContent(method, self._body)
        elif isinstance(method, ChannelClose):
            self._on_close_by_client(method, None, ts_ns)
        elif method.name in REPLIES:
            self._request(CLIENT, method, size, ts_ns)

    def _is_closed(self, sender: Peer, ts_ns: int) -> bool:
        """`sender` has sent channel.close-ok: is every channel.close answered with it?"""
        if sender.other in self._closes:
            self._closes.remove(sender.other)
            return not self._closes
        if self.knows_start:
            self._lose_track(sender, "channel.close-ok without channel.close", ts_ns)
            return False
        return True

    def _request(self, sender: Peer, request: Method, size: int, ts_ns: int) -> None:
        number = 0
        if sender is CLIENT:
            if isinstance(request, QueueDeclare):
                self._last_queue = request.queue or DeclaredQueue()
            elif isinstance(request, (BasicConsume, BasicCancel)):
                number = self._consumers.number()
        if getattr(request, "no_wait", False):
            self._add(RequestSent(ts_ns=ts_ns, channel=self.number, sender=sender, request=request))
            if isinstance(request, BasicConsume):
                self._consumers.may_begin(request.consumer_tag, number, request, self._last_queue)
            elif isinstance(request, BasicCancel):
                self._consumers.may_end(request.consumer_tag, number)
            return
        self._awaited[sender].add(ts_ns, request, size=size, last=self._last_queue, number=number)

    def _answer(self, sender: Peer, reply: Method, ts_ns: int) -> PendingRequest | None:
        """Report a reply with its request, and return the request."""
        found = self._awaited[sender.other].match(reply)
        if found is not None and sender is SERVER:
            self._recent.carried_out(found.request)
        self._add(
            RequestAnswered(
                ts_ns=ts_ns,
                channel=self.number,
                sender=sender.other,
                request=None if found is None else found.request,
                reply=reply,
                latency_ns=None if found is None else ts_ns - found.ts_ns,
            )
        )
        return found

    def _on_open(self, method: ChannelOpen, found: PendingRequest | None, ts_ns: int) -> None:
        self._opened_ts_ns = ts_ns

    def _on_open_ok(self, method: ChannelOpenOk, found: PendingRequest | None, ts_ns: int) -> None:
        self.is_opened = True
        latency = None if self._opened_ts_ns is None else ts_ns - self._opened_ts_ns
        self._add(ChannelOpened(ts_ns=ts_ns, channel=self.number, latency_ns=latency))

    def _on_close_by_client(self, method: ChannelClose, found: PendingRequest | None, ts_ns: int) -> None:
        self._close(CLIENT, method, None, ts_ns)

    def _on_close_by_broker(self, method: ChannelClose, found: PendingRequest | None, ts_ns: int) -> None:
        self._close(SERVER, method, only_cause([self.causes(method)]), ts_ns)

    def _close(self, sender: Peer, method: ChannelClose, cause: Method | None, ts_ns: int) -> None:
        self._closes.add(sender)
        self.is_unread = True
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

    def _on_flow_by_client(self, method: ChannelFlow, found: PendingRequest | None, ts_ns: int) -> None:
        self._add(FlowChanged(ts_ns=ts_ns, channel=self.number, sender=CLIENT, is_active=method.active))

    def _on_flow_by_broker(self, method: ChannelFlow, found: PendingRequest | None, ts_ns: int) -> None:
        self._add(FlowChanged(ts_ns=ts_ns, channel=self.number, sender=SERVER, is_active=method.active))

    # --- consumers and queues

    def _on_declared(self, method: QueueDeclareOk, found: PendingRequest | None, ts_ns: int) -> None:
        if found is not None and isinstance(found.last, DeclaredQueue):
            found.last.name = method.queue

    def _on_consume_ok(self, method: BasicConsumeOk, found: PendingRequest | None, ts_ns: int) -> None:
        if found is not None and isinstance(found.request, BasicConsume):
            self._consumers.begin(method.consumer_tag, found.number, found.request, found.last)
        else:
            self._consumers.begin_unknown(method.consumer_tag)

    def _on_cancel_ok(self, method: BasicCancelOk, found: PendingRequest | None, ts_ns: int) -> None:
        if found is not None:
            self._consumers.end(method.consumer_tag, found.number)

    def _on_cancel_by_broker(self, method: BasicCancel, found: PendingRequest | None, ts_ns: int) -> None:
        self._consumers.end_by_broker(method.consumer_tag)

    def _on_got(self, method: BasicGetOk, found: PendingRequest | None, ts_ns: int) -> None:
        self._got = _UNKNOWN_GET
        if found is not None and isinstance(found.request, BasicGet):
            get = found.request
            self._got = _Got(queue_name(get.queue, found.last), not get.no_ack, ts_ns - found.ts_ns)

    # --- publishes

    def _on_confirm_select(self, method: ConfirmSelect, found: PendingRequest | None, ts_ns: int) -> None:
        if self._mode is ChannelMode.NORMAL:  # RabbitMQ refuses it on a channel that has transactions
            self._confirms_from = self.published
            self._mode = ChannelMode.CONFIRM

    def _on_confirm_selected(self, method: ConfirmSelectOk, found: PendingRequest | None, ts_ns: int) -> None:
        if self._mode is None:
            self._mode = ChannelMode.CONFIRM

    def _on_tx_select(self, method: TxSelect, found: PendingRequest | None, ts_ns: int) -> None:
        if self._mode is ChannelMode.NORMAL:
            self._mode = ChannelMode.TX

    def _on_tx_selected(self, method: TxSelectOk, found: PendingRequest | None, ts_ns: int) -> None:
        if self._mode is None:
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
        awaits: bool | None = None
        if self.is_unread:
            awaits = True
        elif self.knows_start:
            awaits = self._mode is not ChannelMode.NORMAL
            if self._confirms_from is not None:
                tag = number - self._confirms_from
        if (publish.mandatory or publish.immediate) and not self.is_unread:
            self._mandatory.add(
                number,
                publish.exchange,
                publish.routing_key,
                content.size,
                content.properties,
                is_settled=bool(awaits),
            )
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
            self._unconfirmed.add(number, ts_ns)
            if self._budgets.spans.left < 0:
                self._keep_budget(ts_ns)

    def _settle_publishes(
        self, ts_ns: int, outcome: Settlement, spans: tuple[Span, ...], *, is_unknown_tag: bool | None = False
    ) -> None:
        oldest_open = self._unconfirmed.first or self.published + 1
        for span in spans:
            self._mandatory.settle(span.first, span.last, oldest_open)
        self._add(
            PublishesSettled(
                ts_ns=ts_ns, channel=self.number, outcome=outcome, spans=spans, is_unknown_tag=is_unknown_tag
            )
        )

    def _on_confirmed(self, method: BasicAck, found: PendingRequest | None, ts_ns: int) -> None:
        self._confirm(Settlement.CONFIRMED, method.delivery_tag, method.multiple, ts_ns)

    def _on_refused(self, method: BasicNack, found: PendingRequest | None, ts_ns: int) -> None:
        self._confirm(Settlement.NACKED, method.delivery_tag, method.multiple, ts_ns)

    def _confirm(self, outcome: Settlement, tag: int, multiple: bool, ts_ns: int) -> None:
        """The broker settles publishes."""
        base = self._confirms_from
        if self._mode is None:
            self._mode = ChannelMode.CONFIRM
        spans: tuple[Span, ...] | None = None
        unknown: bool | None = False
        if base is not None:
            spans = self._unconfirmed.settle(base + tag if tag else 0, multiple=multiple)
        if spans is None:
            unknown = True if self.knows_start and not self._has_forgotten else None
            if base is not None and multiple and base + tag <= self._unconfirmed.last:
                spans = self._unconfirmed.settle_up_to(base + tag)
        self._settle_publishes(ts_ns, outcome, spans or (), is_unknown_tag=unknown)
        if self._budgets.spans.left < 0:
            self._keep_budget(ts_ns)

    # --- deliveries

    def _deliver(self, method: BasicDeliver | BasicGetOk, content: PartialContent, ts_ns: int) -> None:
        tag = method.delivery_tag
        latency: int | None = None
        consumer_tag: str | None = None
        if isinstance(method, BasicDeliver):
            consumer_tag, queue, awaits = self._consumer(method.consumer_tag)
        else:
            queue, awaits, latency = self._got
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
        if awaits is False:
            return
        if tag <= self._unacked.last:  # direct replies repeat their tag: which of the two this is cannot be known
            self._has_forgotten = True
            spans = self._unacked.settle(tag)
            if spans:
                self._settle_deliveries(ts_ns, Settlement.UNKNOWN, spans)
        else:
            if awaits is None:
                self._add_unsure(consumer_tag)
            self._unacked.add(tag, ts_ns, consumer_tag)
        if self._budgets.spans.left < 0:
            self._keep_budget(ts_ns)

    def _consumer(self, tag: str) -> tuple[str, str | None, bool | None]:
        """The tag of a consumer, its queue, and whether the client acknowledges its deliveries."""
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

    def _settle(
        self, ts_ns: int, outcome: Settlement, method: BasicAck | BasicNack | BasicReject, *, requeue: bool = False
    ) -> None:
        """The client settles deliveries."""
        tag, multiple = method.delivery_tag, getattr(method, "multiple", False)
        unknown: bool | None = False
        if self._recovering:
            spans = None  # the broker takes them back before it reads this
        else:
            spans = self._unacked.settle(tag, multiple=multiple)
        if spans is None and (tag or not multiple):
            unknown = True if self.knows_start and not self._has_forgotten and not self._recovering else None
            if unknown:
                self._recent.refuse(method)
        event = DeliveriesSettled(
            ts_ns=ts_ns,
            channel=self.number,
            outcome=outcome,
            spans=spans or (),
            tag=tag,
            multiple=multiple,
            requeue=requeue,
            is_unknown_tag=unknown,
            is_certain=self._is_certain(spans or ()),
        )
        if self._mode is ChannelMode.TX and self.knows_start and spans:
            self._settled.append(event)
            self._budgets.spans.left -= len(spans)
        else:
            self._add(event)
        if self._budgets.spans.left < 0:
            self._keep_budget(ts_ns)

    def _is_unsure(self, span: Span) -> bool:
        """May these deliveries need no acknowledgement?"""
        return self._all_unsure or span.consumer_tag in self._unsure

    def _is_certain(self, spans: tuple[Span, ...]) -> bool:
        if not self.knows_start:
            return False
        return not (self._unsure or self._all_unsure) or not any(map(self._is_unsure, spans))

    def _settle_deliveries(
        self,
        ts_ns: int,
        outcome: Settlement,
        spans: tuple[Span, ...],
        *,
        tag: int | None = None,
        multiple: bool = False,
    ) -> None:
        self._add(
            DeliveriesSettled(
                ts_ns=ts_ns, channel=self.number, outcome=outcome, spans=spans, tag=tag, multiple=multiple
            )
        )

    def _on_ack(self, method: BasicAck, found: PendingRequest | None, ts_ns: int) -> None:
        self._settle(ts_ns, Settlement.ACKED, method)

    def _on_nack(self, method: BasicNack, found: PendingRequest | None, ts_ns: int) -> None:
        self._settle(ts_ns, Settlement.NACKED, method, requeue=method.requeue)

    def _on_reject(self, method: BasicReject, found: PendingRequest | None, ts_ns: int) -> None:
        self._settle(ts_ns, Settlement.REJECTED, method, requeue=method.requeue)

    def _on_recover(self, method: BasicRecover, found: PendingRequest | None, ts_ns: int) -> None:
        self._recovering += 1

    def _on_recover_ok(self, method: BasicRecoverOk, found: PendingRequest | None, ts_ns: int) -> None:
        self._recovering = max(0, self._recovering - 1)
        request = None if found is None else found.request
        self._recovered(ts_ns, requeue=request.requeue if isinstance(request, BasicRecover) else None)

    def _on_recover_async(self, method: BasicRecoverAsync, found: PendingRequest | None, ts_ns: int) -> None:
        self._recovered(ts_ns, requeue=method.requeue)

    def _recovered(self, ts_ns: int, *, requeue: bool | None) -> None:
        spans = self._unacked.clear()
        if spans:
            self._add(
                DeliveriesSettled(
                    ts_ns=ts_ns,
                    channel=self.number,
                    outcome=Settlement.RECOVERED,
                    spans=spans,
                    requeue=requeue,
                    is_certain=self._is_certain(spans),
                )
            )

    # --- transactions: section 1.9

    def _on_commit(self, method: TxCommit, found: PendingRequest | None, ts_ns: int) -> None:
        self._end_transaction(ts_ns, self._settled)

    def _on_rollback(self, method: TxRollback, found: PendingRequest | None, ts_ns: int) -> None:
        """The broker works in order: what the client settles after it may be what it had settled before."""
        for each in self._settled:
            self._budgets.spans.left += len(each.spans)
            self._unacked.reopen(each.spans)
        self._end_transaction(ts_ns, [])

    def _end_transaction(self, ts_ns: int, settled: list[DeliveriesSettled]) -> None:
        self._settled = []
        if self.knows_start:
            self._transactions.append(_Transaction(self.published, settled))
        if len(self._transactions) > MAX_TRANSACTIONS:
            self._lose_track(CLIENT, "too many transactions are under way", ts_ns)

    def _on_tx_ended(self, method: TxCommitOk | TxRollbackOk, found: PendingRequest | None, ts_ns: int) -> None:
        if self._mode is None:
            self._mode = ChannelMode.TX
        if not self._transactions:
            return
        transaction = self._transactions.pop(0)
        is_committed = isinstance(method, TxCommitOk)
        spans = self._unconfirmed.settle_up_to(transaction.last_publish)
        if spans:
            self._settle_publishes(ts_ns, Settlement.COMMITTED if is_committed else Settlement.ROLLED_BACK, spans)
        for event in transaction.settled:
            self._budgets.spans.left += len(event.spans)
            self._add(msgspec.structs.replace(event, ts_ns=ts_ns))


_Handler = Callable[[ChannelTrace, Any, PendingRequest | None, int], None]

_HANDLERS: dict[Peer, dict[type[Method], _Handler]] = {
    CLIENT: {
        BasicAck: ChannelTrace._on_ack,
        BasicNack: ChannelTrace._on_nack,
        BasicRecover: ChannelTrace._on_recover,
        BasicRecoverAsync: ChannelTrace._on_recover_async,
        BasicReject: ChannelTrace._on_reject,
        ChannelClose: ChannelTrace._on_close_by_client,
        ChannelFlow: ChannelTrace._on_flow_by_client,
        ChannelOpen: ChannelTrace._on_open,
        ConfirmSelect: ChannelTrace._on_confirm_select,
        TxCommit: ChannelTrace._on_commit,
        TxRollback: ChannelTrace._on_rollback,
        TxSelect: ChannelTrace._on_tx_select,
    },
    SERVER: {
        BasicAck: ChannelTrace._on_confirmed,
        BasicCancel: ChannelTrace._on_cancel_by_broker,
        BasicCancelOk: ChannelTrace._on_cancel_ok,
        BasicConsumeOk: ChannelTrace._on_consume_ok,
        BasicNack: ChannelTrace._on_refused,
        BasicRecoverOk: ChannelTrace._on_recover_ok,
        ChannelClose: ChannelTrace._on_close_by_broker,
        ChannelFlow: ChannelTrace._on_flow_by_broker,
        ChannelOpenOk: ChannelTrace._on_open_ok,
        ConfirmSelectOk: ChannelTrace._on_confirm_selected,
        QueueDeclareOk: ChannelTrace._on_declared,
        TxCommitOk: ChannelTrace._on_tx_ended,
        TxRollbackOk: ChannelTrace._on_tx_ended,
        TxSelectOk: ChannelTrace._on_tx_selected,
    },
}
"""What each method does, by its sender."""

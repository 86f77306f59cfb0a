"""Trace of one channel: its life, and the parts that trace its requests, publishes and deliveries."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from amqproxy.amqp091.channel import ChannelMode
from amqproxy.amqp091.errors import ProtocolError
from amqproxy.amqp091.frame import BODY, HEADER, Frame, encode_frame
from amqproxy.amqp091.methods import (
    BasicAck,
    BasicCancel,
    BasicCancelOk,
    BasicConsumeOk,
    BasicDeliver,
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
    QueueDeclareOk,
    TxCommit,
    TxCommitOk,
    TxRollback,
    TxRollbackOk,
    TxSelect,
    TxSelectOk,
)
from amqproxy.amqp091.properties import NO_PROPERTIES, ContentHeader
from amqproxy.amqp091.transitions import ANSWERS, CLIENT, REPLIES, SENDERS, SERVER, Peer
from amqproxy.taps.trace.amqp091.causes import named_method, only_cause
from amqproxy.taps.trace.amqp091.channel_life import ChannelLife
from amqproxy.taps.trace.amqp091.channel_requests import RequestTrace, decoded
from amqproxy.taps.trace.amqp091.deliveries import DeliveryTrace
from amqproxy.taps.trace.amqp091.frame_order import Missing
from amqproxy.taps.trace.amqp091.publishes import PublishTrace
from amqproxy.taps.trace.amqp091.transactions import TransactionTrace
from amqproxy.taps.trace.budget import Budgets
from amqproxy.taps.trace.channel_context import ChannelContext
from amqproxy.taps.trace.content import PartialContent
from amqproxy.taps.trace.events import HistoryLost, Settlement, TraceEvent
from amqproxy.taps.trace.requests import TimedRequest
from amqproxy.taps.trace.snapshot import ChannelSnapshot, ContentSnapshot
from amqproxy.taps.trace.traced_channel import TracedChannel

BODY_TOO_LONG = "a body that was announced with"
FROM_CLIENT = "from the client, which only a server sends"
"""Part of the reasons why the broker stops reading what a client sends on a channel."""

HEADER_SIZE = 14
"""Size in bytes of the fixed part of a content header. Section 4.2.6.1."""

_SETTLEMENTS = (BasicAck, BasicNack, BasicReject)

MISSING_OPEN = Missing(frozenset(("channel.open",)))
"""The channel.open that the broker's frames wait for on a channel that the client has not opened."""


class ChannelTrace(TracedChannel):
    """Trace of one channel, from its channel.open, or from the first frame that was seen of it.

    Each part owns its state; this hands each frame to the parts that it concerns. Events are appended to `events`.
    """

    __slots__ = (
        "_body",
        "_contents",
        "_digests",
        "_life",
        "_requests",
        "_spans",
        "_transactions",
        "_unreported",
    )

    _context: ChannelContext[ChannelMode]
    _deliveries: DeliveryTrace
    _publishes: PublishTrace

    def __init__(
        self,
        number: int,
        events: list[TraceEvent],
        budgets: Budgets,
        *,
        knows_start: bool,
        epoch: int = 0,
        body: int = 0,
        digests: bool = False,
    ) -> None:
        self._context = context = ChannelContext(
            number, events, budgets, ChannelMode.NORMAL, knows_start=knows_start, epoch=epoch
        )
        self._life = ChannelLife(context)
        self._requests = RequestTrace(context)
        self._publishes = PublishTrace(context)
        self._transactions = TransactionTrace(context)
        self._deliveries = DeliveryTrace(context, self._requests.consumers, self._transactions)
        self._spans = budgets.spans
        self._body = body
        self._digests = digests
        self._contents: dict[Peer, PartialContent] = {}
        self._unreported: dict[Peer, Method | None] = {}
        """Contents under way of which too little is known for a report."""
        if not knows_start:
            self._forget()

    @property
    def is_opened(self) -> bool:
        """Whether the broker has answered channel.open."""
        return self._life.is_opened

    @property
    def is_closing(self) -> bool:
        return self._life.is_closing

    @property
    def lacks_close_ok(self) -> bool:
        """Whether the client has not answered the broker's channel.close."""
        return self._life.lacks_close_ok

    def causes(self, close: ChannelClose | ConnectionClose) -> list[Method] | None:
        """Return the client's methods that a close may be about; `None` if there may be others that were forgotten."""
        return self._requests.causes(close)

    def has_cause(self, close: ConnectionClose) -> bool:
        """Whether a method of the client was seen that a close may be about."""
        return self._requests.has_cause(close)

    def queue_of(self, consumer_tag: str) -> str | None:
        found = self._requests.consumers.find(consumer_tag)
        return found[0].queue if len(found) == 1 else None

    # --- snapshots

    def snapshot(self, *, is_unread: bool) -> ChannelSnapshot:
        """Return the state of the channel, on a connection that the broker no longer reads if it `is_unread`.

        Its mode is `None` if anything else is unknown that outcomes depend on.
        """
        context, life = self._context, self._life
        requests = self._requests.in_snapshot()
        delivered, unacked = self._deliveries.in_snapshot()
        published, before, unconfirmed = self._publishes.in_snapshot()
        is_known = context.knows_start and self._transactions.is_idle and requests is not None
        if context.is_unread and not (is_unread or life.closing):
            is_known = False
        consumers = self._requests.consumers
        return ChannelSnapshot(
            number=context.number,
            epoch=context.epoch,
            mode=str(context.mode) if is_known else None,
            published=published,
            published_before=before,
            delivered=delivered,
            unconfirmed=unconfirmed if is_known else (),
            unacked=unacked if is_known else (),
            has_forgotten=context.has_forgotten or not (is_known and self._deliveries.is_sure),
            consumers=consumers.snapshots(),
            knows_consumers=consumers.is_complete,
            requests=requests or () if is_known else (),
            contents=tuple(self._content_in_snapshot(sender, each) for sender, each in self._contents.items()),
            last_queue=self._requests.last_queue,
            opening_ts_ns=life.opening_ts_ns,
            closing=life.closing,
        )

    def _content_in_snapshot(self, sender: Peer, content: PartialContent) -> ContentSnapshot:
        header = ContentHeader(content.size, content.properties).encode() if content.has_header else None
        got = self._deliveries.got if isinstance(content.method, BasicGetOk) else None
        return ContentSnapshot(
            sender=str(sender),
            method=content.method.encode(),
            remaining=content.remaining if content.has_header else None,
            header=header,
            queue=None if got is None else got.queue,
            awaits=None if got is None else got.awaits,
            latency_ns=None if got is None else got.latency_ns,
        )

    def restore(self, snapshot: ChannelSnapshot) -> None:
        """Take the state of a channel of which nothing was seen. Raises `ValueError` if it is impossible."""
        if snapshot.published < 0 or (snapshot.delivered or 0) < 0:
            raise ValueError(f"channel {snapshot.number} has {snapshot.published} publishes, expected at least 0")
        context = self._context
        context.is_restored = True
        context.may_be_unread = False
        context.has_forgotten = snapshot.has_forgotten
        context.mode = None if snapshot.mode is None else ChannelMode(snapshot.mode)
        context.knows_start = context.knows_client = is_known = context.mode is not None
        requests = self._requests.restore(snapshot, knows_requests=is_known)
        self._life.restore(snapshot.closing, snapshot.opening_ts_ns)
        ends = sum(isinstance(each.request, (TxCommit, TxRollback)) for each in requests)
        self._transactions.restore(ends)
        for each in snapshot.contents:
            self._restore_content(each)
        if is_known:
            if ends:  # they end with a transaction, it is unknown with which
                snapshot = msgspec.structs.replace(snapshot, unconfirmed=())
            self._publishes.restore(snapshot, is_complete=not self._unreported)
            self._deliveries.restore(snapshot, sum(isinstance(each.request, BasicRecover) for each in requests))

    def _restore_content(self, snapshot: ContentSnapshot) -> None:
        number, sender = self._context.number, Peer(snapshot.sender)
        method = None if snapshot.method is None else decoded(number, snapshot.method)
        if method is not None and not (method.carries_content and sender in SENDERS[method.name]):
            raise ValueError(f"{method.name} in a snapshot is not a message of the {sender}")
        content = PartialContent(method or BasicPublish(), self._body, is_digested=self._digests)
        if snapshot.remaining is not None:
            header = None if snapshot.header is None else decoded_header(number, snapshot.header)
            if header is not None and snapshot.remaining > header.body_size:
                raise ValueError(f"{snapshot.remaining} bytes of a body remain, which has {header.body_size}")
            size = snapshot.remaining if header is None else header.body_size
            content.restore(size, NO_PROPERTIES if header is None else header.properties, snapshot.remaining)
        if method is None or (snapshot.remaining is not None and snapshot.header is None):
            self._unreported[sender] = method
        self._contents[sender] = content
        if isinstance(method, BasicGetOk):
            self._deliveries.restore_get(snapshot.queue, snapshot.awaits, snapshot.latency_ns)

    def _complete_unreported(self, sender: Peer, method: Method | None, ts_ns: int) -> bool:
        """Take a message whose beginning was not seen; return whether it is open."""
        if sender is CLIENT:
            return self._publishes.complete_unknown(ts_ns)
        if isinstance(method, (BasicDeliver, BasicGetOk)):
            return self._deliveries.complete_unknown(method, ts_ns)
        return False

    # --- frames

    def feed(self, sender: Peer, frame: Frame, ts_ns: int) -> bool:
        """Take a frame; return `True` if the channel is closed with it. Raises `ProtocolError` if it is malformed."""
        if frame.kind == HEADER:
            content = self._contents.get(sender)
            if content is not None and not content.has_header:
                header = frame.header
                if content.add_header(header.body_size, header.properties):
                    self._complete(sender, ts_ns)
        elif frame.kind == BODY:
            content = self._contents.get(sender)
            if content is None or not content.has_header:
                return False
            if sender is CLIENT and frame.size > content.remaining:
                self._stop_reading_content(f"{BODY_TOO_LONG} {content.size} bytes is longer", ts_ns)
            elif content.add_body(frame.size, frame.known_payload if content.wants_body else None):
                self._complete(sender, ts_ns)
        else:
            return self._feed_method(sender, frame.method, frame.size, ts_ns)
        return False

    def end_content(self, sender: Peer, ts_ns: int) -> None:
        if sender in self._contents:
            self._complete(sender, ts_ns)

    def rewrite_publish(self, number: int) -> None:
        """Note that a rule has changed the publish with this number, the last one."""
        self._publishes.rewrite(number)

    def missing(self, sender: Peer, method: Method) -> Missing | None:
        """Return the methods that `method` answers, or is about, if not seen; `None` if seen, or if that is unknown."""
        context = self._context
        if not context.knows_client:
            return None
        if (
            sender is CLIENT and not context.knows_start
        ):  # what it answers may have been missed, except later deliveries
            is_settlement = isinstance(method, _SETTLEMENTS) and self._deliveries.knows_last
            return self._missing_for_client(method) if is_settlement else None
        if isinstance(method, ChannelCloseOk):
            return self._life.missing_for_close_ok(sender)
        if sender is CLIENT:
            return self._missing_for_client(method)
        match method:
            case BasicAck() | BasicNack():
                return self._publishes.missing_for_confirm(method.delivery_tag)
            case BasicDeliver():
                return self._requests.missing_for_delivery(method.consumer_tag)
            case BasicReturn():
                return self._publishes.missing_for_return()
            case ChannelOpenOk():
                return MISSING_OPEN if self.is_opened else None
            case ChannelClose():
                name = named_method(method)
                return None if name is None or self._requests.has_cause(method) else Missing(frozenset((name,)))
        return self._requests.missing_for_reply(SERVER, method) if method.name in ANSWERS else None

    def missing_for_open(self) -> Missing | None:
        """Return the channel.close-ok that has to precede another channel.open of the client; `None` if none is due."""
        return self._life.missing_for_open() if self._context.knows_start else None

    def _missing_for_client(self, method: Method) -> Missing | None:
        if self._context.is_unread:
            return None
        if isinstance(method, _SETTLEMENTS):
            return self._deliveries.missing_for_settlement(method.delivery_tag)
        return self._requests.missing_for_reply(CLIENT, method) if method.name in ANSWERS else None

    def lose(self, ts_ns: int, sender: Peer | None = None) -> None:
        if sender is SERVER and self._knows_all_but_replies:
            self._contents.pop(SERVER, None)
            self._publishes.lose_broker(ts_ns)
            self._deliveries.lose_broker()
            self._requests.lose_broker()
            self._context.lose_broker()
        elif sender is CLIENT and self._knows_all_but_requests:
            self._contents.pop(CLIENT, None)
            self._deliveries.lose_client(ts_ns)
            self._publishes.forget_mandatory()
            self._requests.lose_client()
            self._context.lose_client()
            self._life.lose()
        else:
            self._lose_all(ts_ns)

    def forget_opening(self) -> None:
        """Forget the time of channel.open, since the next channel.open-ok may answer another."""
        self._life.forget_opening()

    @property
    def _knows_all_but_replies(self) -> bool:
        """Whether the channel's state follows from the client's frames: no reply is due that would change it."""
        return (
            self._context.knows_client
            and self._context.mode is not ChannelMode.TX
            and self._life.is_opened
            and not self._context.is_unread
            and not self._deliveries.is_recovering
        )

    @property
    def _knows_all_but_requests(self) -> bool:
        """Whether missed frames of the client cannot have ended the channel, or a transaction, before they show."""
        context = self._context
        return context.mode is not ChannelMode.TX and not (context.is_unread or context.may_be_unread)

    def _lose_all(self, ts_ns: int) -> None:
        self._settle_open(Settlement.UNKNOWN, ts_ns)
        self._context.lose()
        self._publishes.lose()
        self._life.lose()
        self._forget()

    def end(self, ts_ns: int) -> None:
        # Missed frames may hide a close that crossed with the other peer's: the channel then ends later than it seems.
        is_end_seen = self._context.is_read and not (self._context.is_lagging and not self._life.is_opened)
        self._requests.end(ts_ns, is_end_seen=is_end_seen)
        self._settle_open(Settlement.OPEN if is_end_seen else Settlement.UNKNOWN, ts_ns)
        self._forget()

    def _forget(self) -> None:
        """Forget the contents, consumers, mandatory publishes and requests that later frames would be linked to."""
        self._contents.clear()
        self._unreported.clear()
        self._deliveries.forget()
        self._publishes.forget_mandatory()
        self._requests.forget()

    def _settle_open(self, outcome: Settlement, ts_ns: int) -> None:
        self._deliveries.give_up(self._transactions.clear(), outcome, ts_ns)
        self._publishes.end(outcome, ts_ns)
        self._deliveries.end(outcome, ts_ns)

    def _keep_budget(self, ts_ns: int) -> None:
        """Forget the older half of the ranges, while there are too many: their outcome is unknown."""
        while self._spans.left < 0:
            has_published = self._publishes.forget_older_half(ts_ns)
            has_delivered = self._deliveries.forget_older_half(ts_ns)
            if not (has_published or has_delivered):
                self._deliveries.give_up(self._transactions.give_up(), Settlement.UNKNOWN, ts_ns)
                break
            self._context.has_forgotten = True

    def _add(self, event: TraceEvent) -> None:
        self._context.events.append(event)

    # --- frames

    def _complete(self, sender: Peer, ts_ns: int) -> None:
        """Report a method whose content is complete."""
        content = self._contents.pop(sender)
        if sender in self._unreported:
            if self._complete_unreported(sender, self._unreported.pop(sender), ts_ns):
                self._keep_budget(ts_ns)
            return
        match content.method:
            case BasicPublish() as publish:
                is_open = self._publishes.publish(publish, content, ts_ns)
            case BasicDeliver() | BasicGetOk() as delivered:
                is_open = self._deliveries.deliver(delivered, content, ts_ns)
            case BasicReturn() as returned:
                self._publishes.give_back(returned, content, ts_ns)
                return
            case _:
                return
        if is_open and self._spans.left < 0:
            self._keep_budget(ts_ns)

    def _feed_method(self, sender: Peer, method: Method, size: int, ts_ns: int) -> bool:
        name = method.name
        if sender not in SENDERS[name]:
            if sender is CLIENT and method.carries_content and not self._context.is_unread:
                self._requests.note(method, size)
                self._stop_reading_content(f"{name} {FROM_CLIENT}", ts_ns)
            return False
        if self._contents:
            self._contents.pop(sender, None)  # an incomplete content gets no more frames
            self._unreported.pop(sender, None)
        if sender is CLIENT:
            if self._context.is_unread:
                self._feed_unread(method, size, ts_ns)
                return isinstance(method, ChannelCloseOk) and self._is_closed(sender, ts_ns)
            self._requests.note(method, size)
            if self._context.is_lagging and self._life.is_opened and _is_about_all(method):
                self._lose_all(ts_ns)
        elif self._context.is_lagging and not self._life.is_opened and not isinstance(method, ChannelOpenOk):
            self._lose_all(ts_ns)  # channel.open-ok was missed
        elif self._context.may_be_unread and not isinstance(method, (ChannelClose, ChannelCloseOk)):
            self._context.may_be_unread = False
        if method.carries_content:
            self._contents[sender] = PartialContent(method, self._body, is_digested=self._digests)
            if isinstance(method, BasicGetOk):
                self._deliveries.begin_get(self._requests.answer(sender, method, ts_ns), ts_ns)
            return False
        if isinstance(method, ChannelCloseOk):
            return self._is_closed(sender, ts_ns)
        found = self._requests.answer(sender, method, ts_ns) if name in ANSWERS else None
        handler = _HANDLERS[sender].get(type(method))
        if handler is not None:
            handler(self, method, found, ts_ns)
        if name in REPLIES:
            self._requests.request(sender, method, size, ts_ns)
            if sender is CLIENT and self._context.is_lagging and self._life.is_opened:
                self._requests.doubt(method)
        return False

    def _stop_reading_content(self, reason: str, ts_ns: int) -> None:
        """Stop following a channel: the client sends content that RabbitMQ reads without end, or before it closes."""
        self._contents.pop(CLIENT, None)
        self._unreported.pop(CLIENT, None)
        context = self._context
        context.is_unread = True
        self._add(HistoryLost(ts_ns, *context.place, sender=CLIENT, reason=reason))

    def _feed_unread(self, method: Method, size: int, ts_ns: int) -> None:
        """Take a method of the client that the broker no longer reads. Section 1.5.2.5."""
        if isinstance(method, BasicPublish):
            self._contents[CLIENT] = PartialContent(method, self._body, is_digested=self._digests)
        elif isinstance(method, ChannelClose):
            self._life.close(CLIENT, method, None, ts_ns)
        elif method.name in REPLIES:
            self._requests.request(CLIENT, method, size, ts_ns)

    # --- the life of the channel

    def _is_closed(self, sender: Peer, ts_ns: int) -> bool:
        """Take channel.close-ok of `sender`; return whether every channel.close is answered."""
        is_closed = self._life.close_answered(sender)
        context = self._context
        if is_closed is None and (context.knows_client if sender is SERVER else context.knows_start):
            self._lose_track(sender, "channel.close-ok without channel.close", ts_ns)
            return False
        return is_closed is not False

    def _on_opened(self, method: ChannelOpenOk, found: TimedRequest | None, ts_ns: int) -> None:
        if self.is_opened and not self._context.knows_start:
            self._lose_all(ts_ns)  # the client has closed and reopened the channel unseen
        if not self.is_opened:  # the broker has sent nothing on this channel before
            self._context.is_lagging = False
            self._publishes.end_lag()
        self._life.opened(ts_ns)

    # --- publishes and deliveries

    def _confirm(self, outcome: Settlement, method: BasicAck | BasicNack, ts_ns: int) -> None:
        self._publishes.confirm(outcome, method.delivery_tag, method.multiple, ts_ns)
        if self._spans.left < 0:
            self._keep_budget(ts_ns)

    def _settle(self, outcome: Settlement, method: BasicAck | BasicNack | BasicReject, ts_ns: int) -> None:
        if self._deliveries.settle(outcome, method, ts_ns):
            self._requests.refuse(method)
        if self._spans.left < 0:
            self._keep_budget(ts_ns)

    def _on_recover_ok(self, method: BasicRecoverOk, found: TimedRequest | None, ts_ns: int) -> None:
        self._deliveries.end_recovery()
        request = None if found is None else found.request
        self._deliveries.recover(ts_ns, requeue=request.requeue if isinstance(request, BasicRecover) else None)

    # --- transactions

    def _on_commit(self, method: TxCommit, found: TimedRequest | None, ts_ns: int) -> None:
        self._transactions.commit(self._publishes.count)
        self._keep_track_of_transactions(ts_ns)

    def _on_rollback(self, method: TxRollback, found: TimedRequest | None, ts_ns: int) -> None:
        self._deliveries.reopen(self._transactions.roll_back(self._publishes.count))
        self._keep_track_of_transactions(ts_ns)

    def _keep_track_of_transactions(self, ts_ns: int) -> None:
        if self._transactions.are_too_many:
            self._lose_track(CLIENT, "too many transactions are under way", ts_ns)

    def _on_tx_ended(self, method: TxCommitOk | TxRollbackOk, found: TimedRequest | None, ts_ns: int) -> None:
        self._context.learn_mode(ChannelMode.TX)
        transaction = self._transactions.answered()
        if transaction is None:
            return
        outcome = Settlement.COMMITTED if isinstance(method, TxCommitOk) else Settlement.ROLLED_BACK
        self._publishes.settle_transaction(transaction.last_publish, outcome, ts_ns)
        for event in transaction.settled:
            self._add(msgspec.structs.replace(event, ts_ns=ts_ns))


def _is_about_all(method: Method) -> bool:
    """Whether a method of the client is about all deliveries so far, or its reply about the transaction so far."""
    return method.name in _ABOUT_ALL or getattr(method, "delivery_tag", None) == 0


_ABOUT_ALL = frozenset(("basic.recover", "basic.recover-async", "tx.select", "tx.commit", "tx.rollback"))

_Handler = Callable[[ChannelTrace, Any, TimedRequest | None, int], object]

_HANDLERS: dict[Peer, dict[type[Method], _Handler]] = {
    CLIENT: {
        BasicAck: lambda channel, method, found, ts_ns: channel._settle(Settlement.ACKED, method, ts_ns),
        BasicNack: lambda channel, method, found, ts_ns: channel._settle(Settlement.NACKED, method, ts_ns),
        BasicRecover: lambda channel, method, found, ts_ns: channel._deliveries.begin_recovery(),
        BasicRecoverAsync: lambda channel, method, found, ts_ns: channel._deliveries.recover(
            ts_ns, requeue=method.requeue
        ),
        BasicReject: lambda channel, method, found, ts_ns: channel._settle(Settlement.REJECTED, method, ts_ns),
        ChannelClose: lambda channel, method, found, ts_ns: channel._life.close(CLIENT, method, None, ts_ns),
        ChannelFlow: lambda channel, method, found, ts_ns: channel._life.flow(CLIENT, method, ts_ns),
        ChannelOpen: lambda channel, method, found, ts_ns: channel._life.open(ts_ns),
        ConfirmSelect: lambda channel, method, found, ts_ns: channel._publishes.begin_confirms(),
        TxCommit: ChannelTrace._on_commit,
        TxRollback: ChannelTrace._on_rollback,
        TxSelect: lambda channel, method, found, ts_ns: channel._context.select_mode(ChannelMode.TX),
    },
    SERVER: {
        BasicAck: lambda channel, method, found, ts_ns: channel._confirm(Settlement.CONFIRMED, method, ts_ns),
        BasicCancel: lambda channel, method, found, ts_ns: channel._requests.consumers.end_by_broker(
            method.consumer_tag
        ),
        BasicCancelOk: lambda channel, method, found, ts_ns: channel._requests.cancelled(method, found),
        BasicConsumeOk: lambda channel, method, found, ts_ns: channel._requests.consuming(method, found),
        BasicNack: lambda channel, method, found, ts_ns: channel._confirm(Settlement.NACKED, method, ts_ns),
        BasicRecoverOk: ChannelTrace._on_recover_ok,
        ChannelClose: lambda channel, method, found, ts_ns: channel._life.close(
            SERVER, method, only_cause([channel.causes(method)]), ts_ns
        ),
        ChannelFlow: lambda channel, method, found, ts_ns: channel._life.flow(SERVER, method, ts_ns),
        ChannelOpenOk: ChannelTrace._on_opened,
        ConfirmSelectOk: lambda channel, method, found, ts_ns: channel._context.learn_mode(ChannelMode.CONFIRM),
        QueueDeclareOk: lambda channel, method, found, ts_ns: channel._requests.declared(method, found),
        TxCommitOk: ChannelTrace._on_tx_ended,
        TxRollbackOk: ChannelTrace._on_tx_ended,
        TxSelectOk: lambda channel, method, found, ts_ns: channel._context.learn_mode(ChannelMode.TX),
    },
}
"""Handler of each method, by its sender."""


def decoded_header(channel: int, payload: bytes) -> ContentHeader:
    """Return the header with this payload. Raises `ValueError` if it is malformed."""
    if len(payload) < HEADER_SIZE:
        raise ValueError(f"a header in a snapshot has {len(payload)} bytes, expected at least {HEADER_SIZE}")
    try:
        header: ContentHeader = Frame(encode_frame(HEADER, channel, payload)).header
    except ProtocolError as error:
        raise ValueError(f"a header in a snapshot is malformed: {error.reply_text}") from error
    return header

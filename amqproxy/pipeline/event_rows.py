"""Trace events as rows of the table `events`; needs no Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from amqproxy.amqp091.methods import BasicConsume, BasicGetOk
from amqproxy.capture.decoded import SkippedBytes
from amqproxy.peer import CLIENT
from amqproxy.pipeline.body_fields import Field, Sampling, fields_of
from amqproxy.pipeline.chain_reading import LostPart
from amqproxy.pipeline.pending_rows import NO_CONNECTION, ROWS, ConnectionColumns, PendingRows
from amqproxy.pipeline.property_values import PropertyValues
from amqproxy.pipeline.span import HOUR
from amqproxy.taps.dialects import answered_name, method_arguments
from amqproxy.taps.findings.finding import Finding
from amqproxy.taps.note import NOTHING, Note
from amqproxy.taps.record import encoded
from amqproxy.taps.trace.amqp091.declarations import declarations
from amqproxy.taps.trace.events import (
    BlockingEnded,
    BlockingStarted,
    ChannelClosed,
    ChannelOpened,
    ConnectionClosed,
    ConnectionOpened,
    DeliveriesSettled,
    FlowChanged,
    HistoryLost,
    MessageDelivered,
    MessagePublished,
    MessageReturned,
    Method,
    PublishesSettled,
    RequestAnswered,
    RequestSent,
    RequestUnanswered,
    Settlement,
    StateRestored,
    TraceEvent,
    closer,
)
from amqproxy.taps.trace.snapshot import ConnectionSnapshot, HandshakeSnapshot

NO_HANDSHAKE = HandshakeSnapshot()

RECORDED = "its state was recorded"
"""Text of a connection whose state is known from a snapshot."""

MAX_FIELDS = 10_000
"""Distinct fields of bodies in one batch, besides those of whole bodies."""

KEPT = "kept"
"""Outcome of requests that a snapshot shows: they were carried out before."""


class ConnectionRows:
    """Makes rows of the events of one connection, numbered by `seq`."""

    __slots__ = ("sampling", "seq", "sink", "skipped", "who")

    def __init__(self, sink: EventRows, who: ConnectionColumns) -> None:
        self.sink = sink
        self.who = who
        self.seq = 0
        self.sampling = Sampling()
        self.skipped: SkippedBytes | None = None
        """Unreadable bytes that the next events are about."""

    def __call__(self, events: Sequence[TraceEvent], note: Note = NOTHING) -> None:
        sink = self.sink
        sink.begin(self.who, note)
        shows = sink.shows
        for event in events:
            if shows is not None and not shows(event.ts_ns, event.channel):
                continue
            seq = self.seq
            self.seq = seq + 1
            _MAKERS[type(event)](sink, event, self, seq)

    def add_finding(self, finding: Finding) -> None:
        """Add a finding."""
        if self.sink.shows is not None and not self.sink.shows(finding.ts_ns, finding.channel):
            return
        self.sink.begin(self.who, NOTHING)
        self.sink.add_finding(finding, self.seq)
        self.seq += 1


class EventRows(PendingRows):
    """Makes rows of the events of a `chain`, with the first `body` bytes of bodies; with `fields`, of fields."""

    def __init__(self, chain: str, *, body: int | None = None, fields: bool = False, rows: int = ROWS) -> None:
        self._body = body
        self._has_fields = fields
        self.shows: Callable[[int, int | None], bool] | None = None
        """Test whether events of a time, on a channel, are selected; `None` selects all."""
        self._properties = PropertyValues()
        super().__init__(chain, rows=rows)

    def _clear(self) -> None:
        super()._clear()
        self._publishes = self._kinds["publish"].rows
        self._deliveries = self._kinds["deliver"].rows
        self._publishes_settled = self._kinds["publishes-settled"].rows
        self._deliveries_settled = self._kinds["deliveries-settled"].rows
        self._fields: dict[tuple[ConnectionColumns, int, str, str | None, Field], list[int]] = {}

    def take(self) -> pa.RecordBatch:
        for (who, _, exchange, queue, field), (ts_ns, count) in self._fields.items():
            self.begin(who, NOTHING)
            self._add(
                "field",
                *(ts_ns, None, None, None, "field", "client" if queue is None else "server", field.holds),
                *(exchange, queue, field.path, field.kind, count),
            )
        return super().take()

    # --- contents

    def _content(self, event: MessagePublished | MessageDelivered | MessageReturned) -> tuple[Any, ...]:
        method = event.method
        digest, body = event.digest, event.body[: self._body]
        properties = self._properties
        if event.properties is not properties.properties:
            properties.read(event.properties)
        self._bytes += len(body) + properties.size
        return (
            method.exchange,
            method.routing_key,
            event.size,
            digest.hex() if digest and event.size is not None else None,
            body or None,
            *properties.columns,
        )

    def add_publish(self, event: MessagePublished, rows: ConnectionRows, seq: int) -> None:
        """Add a basic.publish."""
        head = self._head()
        self._publishes.append(
            (
                *head,
                event.ts_ns,
                seq,
                event.channel,
                event.epoch,
                "publish",
                "client",
                None,
                event.number,
                event.confirm_tag,
                event.awaits,
                event.method.mandatory,
                *self._content(event),
            )
        )
        if self._has_fields:
            self._inspect(event, rows, None)

    def add_return(self, event: MessageReturned, rows: ConnectionRows, seq: int) -> None:
        """Add a basic.return."""
        method = event.method
        self._add(
            "return",
            *(event.ts_ns, seq, event.channel, event.epoch, "return", "server", "returned"),
            *(event.number, method.reply_code, method.reply_text),
            *self._content(event),
        )

    def add_delivery(self, event: MessageDelivered, rows: ConnectionRows, seq: int) -> None:
        """Add a basic.deliver or basic.get-ok."""
        method = event.method
        is_get = type(method) is BasicGetOk
        tag = method.delivery_tag
        head = self._head()
        self._deliveries.append(
            (
                *head,
                event.ts_ns,
                seq,
                event.channel,
                event.epoch,
                "get" if is_get else "deliver",
                "server",
                "browsed" if event.is_browsed and event.awaits is False else None,
                tag,
                tag,
                None if is_get else method.consumer_tag,  # type: ignore[union-attr]
                event.queue,
                method.redelivered,
                event.awaits,
                event.latency_ns,
                *self._content(event),
            )
        )
        if self._has_fields and event.queue is not None:
            self._inspect(event, rows, event.queue)

    def _inspect(self, event: MessagePublished | MessageDelivered, rows: ConnectionRows, queue: str | None) -> None:
        """Count the fields of a body, if it is in the sample."""
        exchange = event.method.exchange
        if not rows.sampling.takes(event.ts_ns, exchange, queue):
            return
        for field in fields_of(event.body, event.size):
            key = (rows.who, event.ts_ns // HOUR, exchange, queue, field)
            known = self._fields.get(key)
            if known is not None:
                known[1] += 1
            elif len(self._fields) < MAX_FIELDS or field.path == "$":
                self._fields[key] = [event.ts_ns, 1]

    # --- what becomes of it

    def add_publishes_settled(self, event: PublishesSettled, rows: ConnectionRows, seq: int) -> None:
        """Add publishes settled by the broker, or by the end of the channel."""
        self._publishes_settled.append(
            (
                *self._head(),
                event.ts_ns,
                seq,
                event.channel,
                event.epoch,
                "publishes-settled",
                "server",
                event.outcome._value_,
                event.spans,
                event.is_unknown_tag,
            )
        )

    def add_deliveries_settled(self, event: DeliveriesSettled, rows: ConnectionRows, seq: int) -> None:
        """Add deliveries settled by the client, or by the end of the channel."""
        self._deliveries_settled.append(
            (
                *self._head(),
                event.ts_ns,
                seq,
                event.channel,
                event.epoch,
                "deliveries-settled",
                "client",
                event.outcome._value_,
                event.spans,
                event.tag,
                event.multiple,
                event.requeue if event.outcome in _REFUSED else None,
                event.is_unknown_tag,
                event.is_certain,
            )
        )

    # --- requests

    def add_answered(self, event: RequestAnswered, rows: ConnectionRows, seq: int) -> None:
        """Add a request with its reply; a basic.get with a message is a separate event."""
        if isinstance(event.reply, BasicGetOk):
            rows.seq = seq
            return
        request = event.request
        self._add_request(event, seq, "answered", request, event.reply, event.latency_ns)

    def add_unanswered(self, event: RequestUnanswered, rows: ConnectionRows, seq: int) -> None:
        """Add a request whose channel has ended."""
        self._add_request(event, seq, "unanswered", event.request, None, event.latency_ns)

    def add_sent(self, event: RequestSent, rows: ConnectionRows, seq: int) -> None:
        """Add a request without a reply."""
        self._add_request(event, seq, "sent", event.request, None, None)

    def _add_request(
        self,
        event: RequestAnswered | RequestUnanswered | RequestSent,
        seq: int,
        outcome: str,
        request: Method | None,
        reply: Method | None,
        latency_ns: int | None,
    ) -> None:
        sent, replied = _arguments(request), _arguments(reply)
        self._bytes += len(sent or b"") + len(replied or b"")
        self._add(
            "request",
            *(event.ts_ns, seq, event.channel, event.epoch, "request", event.sender._value_, outcome),
            request.name if request is not None else None if reply is None else answered_name(reply),
            sent,
            None if reply is None else reply.name,
            replied,
            latency_ns,
            getattr(request, "queue", None) or getattr(reply, "queue", None),
            getattr(request, "exchange", None),
            getattr(request, "routing_key", None),
            getattr(request, "consumer_tag", None) or getattr(reply, "consumer_tag", None),
        )

    # --- connections and channels

    def add_opened(self, event: ConnectionOpened, rows: ConnectionRows, seq: int) -> None:
        """Add a connection.open-ok."""
        head = (event.ts_ns, seq, 0, 0, "connection", "server", "opened", None, event.latency_ns, None)
        self._add_handshake(head, event)

    def _add_handshake(self, head: tuple[Any, ...], known: ConnectionOpened | HandshakeSnapshot) -> None:
        self._add("opened", *head, *self._handshake(known))

    def _handshake(self, known: ConnectionOpened | HandshakeSnapshot) -> tuple[Any, ...]:
        peers = _json(known.client_properties), _json(known.server_properties)
        self._bytes += sum(len(each or b"") for each in peers)
        return (
            *(known.user, known.virtual_host, known.mechanism),
            *peers,
            *(known.channel_max, known.frame_max, known.heartbeat),
        )

    def add_closed(self, event: ConnectionClosed | ChannelClosed, rows: ConnectionRows, seq: int) -> None:
        """Add a connection.close, the end without it, or a channel.close."""
        if isinstance(event, ChannelClosed):
            type, is_open, known = "channel", None, NO_HANDSHAKE
        else:
            type, is_open, known = "connection", event.is_open, event.handshake or NO_HANDSHAKE
        sender = None if event.by is None else str(event.by)
        self._add(
            "closed",
            *(event.ts_ns, seq, event.channel, event.epoch, type, sender, "closed"),
            *(closer(event), event.code, event.text, event.method, _arguments(event.cause), is_open),
            *self._handshake(known),
        )

    def add_channel_opened(self, event: ChannelOpened, rows: ConnectionRows, seq: int) -> None:
        """Add a channel.open-ok or session.attached."""
        head = (event.ts_ns, seq, event.channel, event.epoch, "channel", "server", "opened")
        self._add("channel-opened", *head, event.session_name, event.latency_ns)

    def add_blocked(self, event: BlockingStarted, rows: ConnectionRows, seq: int) -> None:
        """Add a connection.blocked."""
        self._change(event, seq, "connection", "server", "blocked", event.reason, None)

    def add_unblocked(self, event: BlockingEnded, rows: ConnectionRows, seq: int) -> None:
        """Add a connection.unblocked."""
        self._change(event, seq, "connection", "server", "unblocked", None, event.latency_ns)

    def add_flow(self, event: FlowChanged, rows: ConnectionRows, seq: int) -> None:
        """Add a channel.flow."""
        self._change(event, seq, "channel", str(event.sender), "resumed" if event.is_active else "stopped", None, None)

    def _change(
        self,
        event: TraceEvent,
        seq: int,
        type: str,
        sender: str | None,
        outcome: str,
        text: str | None,
        latency_ns: int | None,
    ) -> None:
        self._add("changed", event.ts_ns, seq, event.channel, event.epoch, type, sender, outcome, text, latency_ns)

    # --- lost parts and findings

    def add_history_lost(self, event: HistoryLost, rows: ConnectionRows, seq: int) -> None:
        """Add a connection joined in its middle, or unreadable bytes."""
        if event.sender is None:
            self._change(event, seq, "connection", None, "joined", event.reason, None)
            return
        skipped = rows.skipped
        details: tuple[Any, ...] = ("history", None, None, None)
        if skipped is not None and skipped.reason == event.reason:
            details = ("bytes", skipped.code, skipped.offset, skipped.lost)
        head = (event.ts_ns, seq, event.channel, event.epoch, "lost", str(event.sender), "unknown")
        self._add("lost", *head, event.reason, *details, None)

    def add_restored(self, event: StateRestored, rows: ConnectionRows, seq: int) -> None:
        """Add a connection whose state is known from a snapshot, with the consumers and declarations that it had."""
        snapshot = event.snapshot
        if snapshot is None:
            self._change(event, seq, "connection", None, "joined", RECORDED, None)
            return
        knows_consumers = all(
            each.knows_consumers and all(consumer.queue for consumer in each.consumers) for each in snapshot.channels
        )
        head = (event.ts_ns, seq, 0, 0, "connection", None, "joined", RECORDED, None, knows_consumers)
        self._add_handshake(head, snapshot.handshake)
        for channel, epoch, method in _kept_requests(snapshot):
            request = RequestSent(event.ts_ns, channel, epoch, sender=CLIENT, request=method)
            self._add_request(request, rows.seq, KEPT, method, None, None)
            rows.seq += 1

    def add_lost(self, part: LostPart) -> None:
        """Add an unreadable part of a file."""
        self.file = part.file
        self.begin(NO_CONNECTION, NOTHING)
        head = (part.ts_ns, None, None, None, "lost", None, "unknown")
        self._add("lost", *head, part.text, part.kind, None, part.offset, None, part.length_ns)

    def add_finding(self, finding: Finding, seq: int | None) -> None:
        """Add a finding."""
        head = (finding.ts_ns, seq, finding.channel, None, "finding", None, None)
        self._add(
            "finding",
            *(*head, finding.kind, str(finding.severity), finding.text, finding.count, finding.why, finding.remedy),
            encoded(finding.evidence) if finding.evidence else None,
        )

    def add_state(self, who: ConnectionColumns, state: bytes) -> None:
        """Add the state for the next run."""
        self._bytes += len(state)
        self.begin(who, NOTHING)
        self._add("state", None, None, None, None, "state", None, None, state)


_REFUSED = frozenset((Settlement.NACKED, Settlement.REJECTED, Settlement.RECOVERED))

_MAKERS: dict[type[Any], Callable[[EventRows, Any, ConnectionRows, int], None]] = {
    BlockingEnded: EventRows.add_unblocked,
    BlockingStarted: EventRows.add_blocked,
    ChannelClosed: EventRows.add_closed,
    ChannelOpened: EventRows.add_channel_opened,
    ConnectionClosed: EventRows.add_closed,
    ConnectionOpened: EventRows.add_opened,
    DeliveriesSettled: EventRows.add_deliveries_settled,
    FlowChanged: EventRows.add_flow,
    HistoryLost: EventRows.add_history_lost,
    MessageDelivered: EventRows.add_delivery,
    MessagePublished: EventRows.add_publish,
    MessageReturned: EventRows.add_return,
    PublishesSettled: EventRows.add_publishes_settled,
    RequestAnswered: EventRows.add_answered,
    RequestSent: EventRows.add_sent,
    RequestUnanswered: EventRows.add_unanswered,
    StateRestored: EventRows.add_restored,
}


def _kept_requests(snapshot: ConnectionSnapshot) -> Iterator[tuple[int, int, Method]]:
    """Yield the requests whose effect a snapshot shows, each with its channel and epoch; 0 and 0 if unknown."""
    for _, method in declarations(snapshot):
        yield 0, 0, method
    for channel in snapshot.channels:
        for each in channel.consumers:
            if each.queue is None:
                continue
            consume = BasicConsume(
                queue=each.queue, consumer_tag=each.tag, no_ack=each.no_ack, exclusive=each.exclusive
            )
            yield channel.number, channel.epoch, consume


def _arguments(method: Method | None) -> bytes | None:
    return None if method is None else encoded(method_arguments(method))


def _json(value: dict[str, Any] | None) -> bytes | None:
    return None if value is None else encoded(value)

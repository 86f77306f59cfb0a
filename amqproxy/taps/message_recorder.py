"""Records made from the events of a trace, one per message, reported once its outcome is known."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Protocol

from amqproxy.amqp091.methods import BasicGetOk
from amqproxy.amqp091.properties import NO_PROPERTIES
from amqproxy.peer import CLIENT, SERVER, Peer
from amqproxy.taps.dialects import answered_name, method_arguments
from amqproxy.taps.message_record import MessageRecord
from amqproxy.taps.note import NOTHING, Note
from amqproxy.taps.pending_messages import PendingBudget, PendingMessages
from amqproxy.taps.record import excerpt, json_mapping, json_value
from amqproxy.taps.trace.events import (
    BlockingEnded,
    BlockingStarted,
    ChannelClosed,
    ChannelOpened,
    CommandMethod,
    ConnectionClosed,
    ConnectionOpened,
    DeliveriesSettled,
    FlowChanged,
    HistoryLost,
    MessageDelivered,
    MessageProperties,
    MessagePublished,
    MessageReturned,
    PublishesSettled,
    RequestAnswered,
    RequestSent,
    RequestUnanswered,
    Settlement,
    StateRestored,
    TraceEvent,
    closer,
)

NORMAL_CODES = (0, 200)
"""Reply codes of a close without an error: 200, and 0 as py-amqp and Kombu send it."""

_OPENING = {True: "resumed", False: "stopped"}


class CommandSelector(Protocol):
    """Choice of the messages and requests of one connection that are reported."""

    def learn(self, sender: Peer, frame: object) -> None:
        """Take a frame of channel 0; those of the handshake show who the client is."""

    def selects(
        self,
        sender: Peer,
        channel: int,
        method: CommandMethod,
        properties: MessageProperties,
        size: int,
        body: bytes,
        *,
        ts_ns: int,
        tags: tuple[str, ...],
    ) -> bool:
        """Return whether this command should be reported; `body` is the beginning of its body of `size` bytes."""


SelectorOf = Callable[[int, str], CommandSelector]
"""Makes the selector of a connection's messages from the connection's number and name."""


class MessageRecorder:
    """Maker of the records of one connection, numbered `stream` and named `connection`.

    They contain the first `body` bytes of each body, if the events have as many. With a `selector`, only the commands
    that it selects are reported, and errors.
    """

    def __init__(
        self,
        stream: int,
        connection: str,
        *,
        body: int = 0,
        selector: CommandSelector | None = None,
        budget: PendingBudget | None = None,
    ) -> None:
        self._stream = stream
        self._connection = connection
        self._body = body
        self._selector = selector
        self._records: list[MessageRecord] = []
        self._note = NOTHING
        self._pending = PendingMessages(budget or PendingBudget())

    def learn(self, sender: Peer, frames: Iterable[Any]) -> None:
        """Show the selector the frames that identify the client, before they are fed to the trace."""
        if self._selector is not None:
            for frame in frames:
                if frame.channel == 0:
                    self._selector.learn(sender, frame)

    def record(self, events: Iterable[TraceEvent], note: Note = NOTHING) -> list[MessageRecord]:
        """Return the records that events complete; `note` is the effect of rules on the commands of these events."""
        self._note = note
        for event in events:
            _HANDLERS[type(event)](self, event)
        return self._taken()

    def overdue(self, now_ns: int) -> list[MessageRecord]:
        """Return the messages that have been open for long as pending, each once; its outcome is reported later."""
        return self._pending.overdue(now_ns)

    def pending(self) -> list[MessageRecord]:
        """Return all open messages as pending; this does not affect later reports."""
        return self._pending.all()

    def _taken(self) -> list[MessageRecord]:
        records, self._records = self._records, []
        return records

    def _new(self, event: TraceEvent, sender: str | None, type: str, outcome: str = "", **fields: Any) -> MessageRecord:
        return MessageRecord(
            ts_ns=event.ts_ns,
            stream=self._stream,
            connection=self._connection,
            sender=None if sender is None else str(sender),
            channel=event.on_channel,
            type=type,
            outcome=outcome,
            **fields,
        )

    def _is_selected(
        self,
        event: TraceEvent,
        sender: Peer,
        method: CommandMethod,
        properties: MessageProperties = NO_PROPERTIES,
        size: int = 0,
        body: bytes = b"",
    ) -> bool:
        return self._selector is None or self._selector.selects(
            sender, event.channel, method, properties, size, body, ts_ns=event.ts_ns, tags=self._note.tags
        )

    def _with_content(
        self, record: MessageRecord, event: MessagePublished | MessageDelivered | MessageReturned
    ) -> MessageRecord:
        method = event.method
        record.exchange, record.routing_key = json_value(method.exchange), json_value(method.routing_key)
        record.size = event.size
        present = event.properties.present()
        if present:
            record.properties = json_mapping(present)
        if self._body and event.size is not None:
            record.body = excerpt(event.body, self._body, event.size)
        note = self._note
        if note is not NOTHING:
            record.rules, record.tags, record.verdict = note.rules or None, note.tags or None, note.verdict or None
        return record

    # --- publishes

    def _on_published(self, event: MessagePublished) -> None:
        method = event.method
        if self._selector is not None and not self._is_selected(
            event, CLIENT, method, event.properties, event.size or 0, event.body
        ):
            return
        record = self._new(event, CLIENT, "publish", number=event.number, confirm_tag=event.confirm_tag)
        record.mandatory = method.mandatory
        self._with_content(record, event)
        if event.awaits:
            self._records += self._pending.add_publish(event.number, record)
        else:
            record.outcome = "unknown" if event.awaits is None else "sent"
            self._records.append(record)

    def _on_returned(self, event: MessageReturned) -> None:
        method = event.method
        waiting = self._pending.find_publish(event.channel, event.number)
        if waiting is not None:
            waiting.code, waiting.reason = method.reply_code, method.reply_text
        elif self._is_selected(event, SERVER, method, event.properties, event.size, event.body):
            record = self._new(event, SERVER, "return", "returned", number=event.number)
            record.code, record.reason = method.reply_code, method.reply_text
            self._records.append(self._with_content(record, event))

    def _on_publishes_settled(self, event: PublishesSettled) -> None:
        if event.is_unknown_tag:
            self._records.append(self._new(event, SERVER, "settle", "unknown tag"))
        self._records += self._pending.settle_publishes(event)

    # --- deliveries

    def _on_delivered(self, event: MessageDelivered) -> None:
        method = event.method
        if self._selector is not None and not self._is_selected(
            event, SERVER, method, event.properties, event.size, event.body
        ):
            return
        is_get = isinstance(method, BasicGetOk)
        record = self._new(event, SERVER, "get" if is_get else "deliver", delivery_tag=method.delivery_tag)
        if not isinstance(method, BasicGetOk):
            record.consumer_tag = method.consumer_tag
        record.queue = json_value(event.queue)
        record.redelivered = method.redelivered
        self._with_content(record, event)
        if event.outcome is not None:
            record.outcome = event.outcome
            self._records.append(record)
        elif method.delivery_tag is None:
            record.outcome = "unknown"
            self._records.append(record)
        else:
            self._records += self._pending.add_delivery(method.delivery_tag, record)

    def _on_deliveries_settled(self, event: DeliveriesSettled) -> None:
        if event.is_unknown_tag:
            record = self._new(event, CLIENT, "settle", "unknown tag", delivery_tag=event.tag, multiple=event.multiple)
            record.method = event.command or _SETTLED_BY[event.outcome]
            self._records.append(record)
        refused = event.outcome in (Settlement.NACKED, Settlement.REJECTED, Settlement.RECOVERED)
        self._records += self._pending.settle_deliveries(event, requeue=event.requeue if refused else None)

    # --- requests

    def _on_answered(self, event: RequestAnswered) -> None:
        if isinstance(event.reply, BasicGetOk):
            return  # the message is recorded separately
        if not self._is_selected(event, event.sender, event.request or event.reply):
            return
        record = self._new(event, event.sender, "request", "answered")
        if event.request is None:
            record.method = answered_name(event.reply)
        else:
            record.method, record.arguments = event.request.name, method_arguments(event.request)
        record.reply, record.reply_arguments = event.reply.name, method_arguments(event.reply)
        if event.latency_ns is not None:
            record.ts_ns -= event.latency_ns
            record.seconds = event.latency_ns / 1e9
        self._records.append(record)

    def _on_request(self, event: RequestSent | RequestUnanswered) -> None:
        if not self._is_selected(event, event.sender, event.request):
            return
        record = self._new(event, event.sender, "request", "sent")
        record.method, record.arguments = event.request.name, method_arguments(event.request)
        if isinstance(event, RequestUnanswered):
            record.outcome = "unanswered"
            record.ts_ns -= event.latency_ns
        self._records.append(record)

    # --- connections and channels

    def _add_event(self, event: TraceEvent, sender: Peer | None, type: str, outcome: str, **fields: Any) -> None:
        if self._selector is None:
            self._records.append(self._new(event, sender, type, outcome, **fields))

    def _on_opened(self, event: ConnectionOpened) -> None:
        seconds = _seconds(event.latency_ns)
        self._add_event(event, SERVER, "connection", "opened", arguments=handshake(event), seconds=seconds)

    def _on_channel_opened(self, event: ChannelOpened) -> None:
        self._add_event(event, SERVER, "channel", "opened", seconds=_seconds(event.latency_ns))

    def _on_closed(self, event: ConnectionClosed | ChannelClosed) -> None:
        if self._selector is not None and event.code in NORMAL_CODES:
            return
        type = "channel" if isinstance(event, ChannelClosed) else "connection"
        record = self._new(event, closer(event), type, "closed")
        record.code, record.reason, record.method = event.code or None, event.text, event.method
        if event.cause is not None:
            record.arguments = method_arguments(event.cause)
        self._records.append(record)

    def _on_blocked(self, event: BlockingStarted) -> None:
        self._add_event(event, SERVER, "connection", "blocked", reason=event.reason)

    def _on_unblocked(self, event: BlockingEnded) -> None:
        self._add_event(event, SERVER, "connection", "unblocked", seconds=_seconds(event.latency_ns))

    def _on_flow(self, event: FlowChanged) -> None:
        self._add_event(event, event.sender, "channel", _OPENING[event.is_active])

    def _on_restored(self, event: StateRestored) -> None:
        """Report nothing: what follows is as if everything before had been seen."""

    def _on_lost(self, event: HistoryLost) -> None:
        if event.sender is None:
            self._add_event(event, None, "connection", "joined", reason=event.reason)
        else:
            self._records.append(self._new(event, event.sender, "error", "unknown", reason=event.reason))


def handshake(event: ConnectionOpened) -> dict[str, Any]:
    """Return the known results of the handshake, in the form used by records."""
    found = {
        "virtual_host": json_value(event.virtual_host),
        "mechanism": event.mechanism,
        "user": json_value(event.user),
        "channel_max": event.channel_max,
        "frame_max": event.frame_max,
        "heartbeat": event.heartbeat,
        "client_properties": event.client_properties,
        "server_properties": event.server_properties,
    }
    return {name: value for name, value in found.items() if value is not None}


def _seconds(latency_ns: int | None) -> float | None:
    return None if latency_ns is None else latency_ns / 1e9


_SETTLED_BY = {
    Settlement.ACKED: "basic.ack",
    Settlement.NACKED: "basic.nack",
    Settlement.REJECTED: "basic.reject",
}

_HANDLERS: dict[type[Any], Callable[[MessageRecorder, Any], None]] = {
    BlockingEnded: MessageRecorder._on_unblocked,
    BlockingStarted: MessageRecorder._on_blocked,
    ChannelClosed: MessageRecorder._on_closed,
    ChannelOpened: MessageRecorder._on_channel_opened,
    ConnectionClosed: MessageRecorder._on_closed,
    ConnectionOpened: MessageRecorder._on_opened,
    DeliveriesSettled: MessageRecorder._on_deliveries_settled,
    FlowChanged: MessageRecorder._on_flow,
    HistoryLost: MessageRecorder._on_lost,
    MessageDelivered: MessageRecorder._on_delivered,
    MessagePublished: MessageRecorder._on_published,
    MessageReturned: MessageRecorder._on_returned,
    PublishesSettled: MessageRecorder._on_publishes_settled,
    RequestAnswered: MessageRecorder._on_answered,
    RequestSent: MessageRecorder._on_request,
    RequestUnanswered: MessageRecorder._on_request,
    StateRestored: MessageRecorder._on_restored,
}

"""Commands of one connection with their outcomes, from a decoded capture by way of the trace."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

from amqproxy.amqp091.methods import (
    BasicConsume,
    BasicConsumeOk,
    BasicGetOk,
    QueueDeclare,
    QueueDeclareOk,
)
from amqproxy.amqp091.properties import NO_PROPERTIES
from amqproxy.amqp091.transitions import CLIENT, SERVER, Peer
from amqproxy.capture.decoded import Decoded, DecodedFrames, DecodedProtocolHeader, SkippedBytes, StreamEnded
from amqproxy.comparison.dialects import DIALECTS
from amqproxy.comparison.made_up_names import BrokerNames, ConsumerNames
from amqproxy.comparison.normalising import normalised, normalised_client, normalised_properties, without_numbers
from amqproxy.comparison.request_places import RequestPlaces
from amqproxy.comparison.traced_command import (
    CONNECTION,
    Identity,
    Latency,
    Outcome,
    PlacedCommand,
    Traced,
    TracedCommand,
    Track,
)
from amqproxy.conversion.client_name import given_name
from amqproxy.taps.message_recorder import NORMAL_CODES, CommandSelector
from amqproxy.taps.record import json_mapping, json_value
from amqproxy.taps.session_trace import SessionTrace
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
from amqproxy.taps.trace.open_tags import Span

KEPT_BODY = 65_536
"""Bytes of each body that are kept to find where two bodies differ; the digest covers all of it."""

PUBLISH, DELIVERY = "basic.publish", "basic.deliver"
"""Kinds of message latencies, in either protocol."""

_FIRST = 0
"""The place of the first entry of a track: frames are numbered from 1."""

_CLIENT, _SERVER, _GOT = "client", "server", "got"

_ANSWERED = frozenset((Settlement.CONFIRMED, Settlement.NACKED, Settlement.COMMITTED, Settlement.ROLLED_BACK))
_REFUSED = frozenset((Settlement.NACKED, Settlement.REJECTED, Settlement.RECOVERED))


class _Channel:
    """The latest of the channels that had one number."""

    __slots__ = ("consumers", "is_ended", "life")

    def __init__(self) -> None:
        self.life = 1
        self.is_ended = False
        self.consumers = ConsumerNames()


class CommandTracer:
    """Tracer of one connection: takes its decoded frames, and returns the commands and outcomes that these complete.

    With a `selector`, only the commands that it selects, given the first `selected_body` bytes of a body. `ignored`
    fields are left out; they are paths as in a `Change`.
    """

    def __init__(
        self,
        selector: CommandSelector | None = None,
        *,
        ignored: Collection[str] = (),
        selected_body: int = 0,
    ) -> None:
        self._ignored = [path.split(".") for path in ignored]
        self._ignores_bodies = "body" in ignored
        self._trace = SessionTrace(
            body=max(KEPT_BODY, selected_body), digests=True, is_ordered=False, on_frame=self._on_frame
        )
        self._trace.listen(self._on_events)
        self._selector = selector
        self._names = BrokerNames()
        self._channels: dict[int, _Channel] = {}
        self._requests = RequestPlaces()
        self._counts = self._requests.counts
        self._traced: list[Traced] = []
        self._tags: tuple[str, ...] = ()

    def feed(self, decoded: Decoded) -> list[Traced]:
        """Take the next decoded part of the connection; return what it completes."""
        match decoded:
            case DecodedFrames():
                self._tags = decoded.note.tags
                self._trace.restore(decoded.snapshot)
                self._trace.feed_noted(Peer(decoded.sender), decoded.frames, decoded.ts_ns, decoded.note)
            case DecodedProtocolHeader():
                if decoded.sender == CLIENT:
                    self._trace.feed_protocol_header(decoded.ts_ns)
            case SkippedBytes():
                self._trace.gap(
                    Peer(decoded.sender), decoded.ts_ns, decoded.reason, is_other_whole=decoded.is_other_whole
                )
            case StreamEnded():
                self._trace.end(decoded.ts_ns, decoded.reason)
        traced, self._traced = self._traced, []
        return traced

    def _on_frame(self, sender: Peer, frame: Any, ts_ns: int) -> None:
        method = self._requests.take(sender, frame)
        if method is None:
            return
        dialect = DIALECTS[type(frame)]
        if self._selector is not None and dialect.shows_client(frame):
            self._selector.learn(sender, frame)
        dialect.learn_names(method, frame.channel, self._names, self._consumers_of)

    def _on_events(self, events: Sequence[TraceEvent], sender: Peer | None, number: int) -> None:
        for event in events:
            _HANDLERS[type(event)](self, event)

    # --- places

    def _channel(self, number: int) -> _Channel:
        channel = self._channels.get(number)
        if channel is None:
            channel = self._channels[number] = _Channel()
        return channel

    def _consumers_of(self, number: int) -> ConsumerNames:
        return self._channel(number).consumers

    def _track(self, event: TraceEvent, name: str) -> Track:
        number = _number(event)
        return Track(number, self._channel(number).life, name)

    def _add(
        self,
        event: TraceEvent,
        name: str,
        place: int,
        type: str,
        fields: dict[str, Any],
        *,
        method: str | None = None,
        number: int | None = None,
        begun_ns: int | None = None,
        content: MessagePublished | MessageDelivered | MessageReturned | None = None,
    ) -> None:
        self._leave_out(fields)
        if self._ignores_bodies:
            content = None
        command = TracedCommand(
            type=type,
            ts_ns=event.ts_ns if begun_ns is None else begun_ns,
            method=method,
            fields=fields,
            size=None if content is None else content.size,
            digest=b"" if content is None else content.digest,
            body=b"" if content is None else content.body[:KEPT_BODY],
        )
        self._traced.append(PlacedCommand(self._track(event, name), place, number, command))

    def _leave_out(self, fields: dict[str, Any]) -> None:
        for path in self._ignored:
            _remove(fields, path)

    def _add_event(self, event: TraceEvent, sender: Peer | None, type: str, outcome: str, **fields: Any) -> None:
        if self._selector is None:
            name = _CLIENT if sender is CLIENT else _SERVER
            self._add(event, name, self._counts[sender or SERVER], type, {"outcome": outcome, **fields})

    def _add_latency(self, kind: str, ns: int | None, count: int = 1) -> None:
        if ns is not None:
            self._traced.append(Latency(kind, ns, count))

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
            sender, event.channel, method, properties, size, body, ts_ns=event.ts_ns, tags=self._tags
        )

    def _normalised(self, event: TraceEvent, method: CommandMethod) -> dict[str, Any]:
        return normalised(method, self._names, self._channel(_number(event)).consumers)

    def _content_fields(self, event: MessagePublished | MessageDelivered | MessageReturned) -> dict[str, Any]:
        fields = self._normalised(event, event.method)
        present = event.properties.present()
        if present:
            fields["properties"] = normalised_properties(json_mapping(present), self._names)
        return fields

    # --- messages

    def _on_published(self, event: MessagePublished) -> None:
        if not self._is_selected(event, CLIENT, event.method, event.properties, event.size or 0, event.body):
            return
        fields = self._content_fields(event)
        if not event.awaits:
            fields["outcome"] = "unknown" if event.awaits is None else "sent"
        place = self._counts[CLIENT]
        name = event.method.name
        self._add(event, _CLIENT, place, "publish", fields, method=name, number=event.number, content=event)

    def _on_publishes_settled(self, event: PublishesSettled) -> None:
        if event.is_unknown_tag:
            self._add_event(event, SERVER, "settle", "unknown tag")
        track = self._track(event, _CLIENT)
        fields = {"outcome": str(event.outcome)}
        self._leave_out(fields)
        for span in event.spans:
            self._traced.append(Outcome(track, span.first, span.last, fields))
            if event.outcome in _ANSWERED:
                self._add_latency(PUBLISH, event.ts_ns - span.ts_ns, span.count)

    def _on_returned(self, event: MessageReturned) -> None:
        method = event.method
        reason = self._reason(method.reply_text)
        if event.number is not None:
            fields: dict[str, Any] = {"code": method.reply_code, "reason": reason}
            self._leave_out(fields)
            self._traced.append(Outcome(self._track(event, _CLIENT), event.number, event.number, fields, True))
        elif self._is_selected(event, SERVER, method, event.properties, event.size, event.body):
            fields = self._content_fields(event)
            del fields["reply_code"], fields["reply_text"]
            fields |= {"code": method.reply_code, "reason": reason}
            self._add(event, _SERVER, self._counts[SERVER], "return", fields, method=method.name, content=event)

    def _reason(self, reply_text: object) -> str:
        return without_numbers(self._names.text(str(json_value(reply_text))))

    def _on_delivered(self, event: MessageDelivered) -> None:
        method = event.method
        if not self._is_selected(event, SERVER, method, event.properties, event.size, event.body):
            return
        fields = self._content_fields(event)
        if event.queue is not None:
            fields["queue"] = self._names.value(json_value(event.queue))
        if event.outcome is not None:
            fields["outcome"] = event.outcome
        is_get = isinstance(method, BasicGetOk)
        tag = getattr(method, "consumer_tag", None)
        name = _GOT if tag is None else self._channel(_number(event)).consumers.find(tag)
        self._add(
            event,
            name,
            self._counts[SERVER],
            "get" if is_get else "deliver",
            fields,
            method=method.name,
            number=method.delivery_tag,
            content=event,
        )

    def _on_deliveries_settled(self, event: DeliveriesSettled) -> None:
        if event.is_unknown_tag:
            self._add_event(event, CLIENT, "settle", "unknown tag", multiple=event.multiple)
        fields: dict[str, Any] = {"outcome": str(event.outcome)}
        if event.outcome in _REFUSED:
            fields["requeue"] = event.requeue
        self._leave_out(fields)
        for span in event.spans:
            self._traced.append(Outcome(self._track_of(event, span), span.first, span.last, fields))
            if event.outcome is Settlement.ACKED:
                self._add_latency(DELIVERY, event.ts_ns - span.ts_ns, span.count)

    def _track_of(self, event: TraceEvent, span: Span) -> Track:
        tag = span.consumer_tag
        return self._track(event, _GOT if tag is None else self._channel(_number(event)).consumers.find(tag))

    # --- requests

    def _on_answered(self, event: RequestAnswered) -> None:
        request, reply = event.request, event.reply
        place = self._counts[event.sender] if request is None else self._requests.place_of(request, event.sender)
        if isinstance(reply, QueueDeclareOk) and isinstance(request, QueueDeclare) and not request.queue:
            self._names.learn_queue(reply.queue, event.channel)
        elif isinstance(reply, BasicConsumeOk):
            self._channel(_number(event)).consumers.begin(reply.consumer_tag)
        if not self._is_selected(event, event.sender, request or reply):
            return
        fields: dict[str, Any] = {"outcome": "answered"}
        if request is not None:
            fields["arguments"] = self._normalised(event, request)
            if isinstance(request, BasicConsume):
                fields["arguments"]["consumer_tag"] = self._channel(_number(event)).consumers.find(
                    reply.consumer_tag if isinstance(reply, BasicConsumeOk) else request.consumer_tag
                )
        fields["reply"] = reply.name
        if not isinstance(reply, BasicGetOk):  # the message is compared by itself
            fields["reply_arguments"] = self._normalised(event, reply)
        begun = event.ts_ns - (event.latency_ns or 0)
        name = None if request is None else request.name
        track = _CLIENT if event.sender is CLIENT else _SERVER
        self._add(event, track, place, "request", fields, method=name, begun_ns=begun)
        if name is not None:
            self._add_latency(name, event.latency_ns)

    def _on_request(self, event: RequestSent | RequestUnanswered) -> None:
        request = event.request
        place = self._requests.place_of(request, event.sender)
        is_unanswered = isinstance(event, RequestUnanswered)
        if isinstance(request, BasicConsume) and not is_unanswered:
            self._channel(_number(event)).consumers.begin(request.consumer_tag)
        if not self._is_selected(event, event.sender, request):
            return
        fields = {
            "outcome": "unanswered" if is_unanswered else "sent",
            "arguments": self._normalised(event, request),
        }
        begun = event.ts_ns - (event.latency_ns if isinstance(event, RequestUnanswered) else 0)
        track = _CLIENT if event.sender is CLIENT else _SERVER
        self._add(event, track, place, "request", fields, method=request.name, begun_ns=begun)

    # --- connections and channels

    def _on_opened(self, event: ConnectionOpened) -> None:
        properties = event.client_properties or {}
        self._note_identity()
        self._add_latency("connection.open", event.latency_ns)
        if self._selector is not None:
            return
        fields: dict[str, Any] = {
            "outcome": "opened",
            "virtual_host": json_value(event.virtual_host),
            "mechanism": event.mechanism,
            "user": json_value(event.user),
            "channel_max": event.channel_max,
            "frame_max": event.frame_max,
            "heartbeat": event.heartbeat,
            "client_properties": normalised_client(properties),
            "server_capabilities": (event.server_properties or {}).get("capabilities"),
        }
        fields = {name: value for name, value in fields.items() if value is not None}
        self._add(event, _CLIENT, _FIRST, "connection", fields)

    def _on_channel_opened(self, event: ChannelOpened) -> None:
        channel = self._channel(_number(event))
        if channel.is_ended:
            channel.life += 1
            channel.is_ended = False
            channel.consumers = ConsumerNames()
        self._add_latency("channel.open", event.latency_ns)
        if self._selector is None:
            self._add(event, _CLIENT, _FIRST, "channel", {"outcome": "opened"})

    def _on_closed(self, event: ConnectionClosed | ChannelClosed) -> None:
        if isinstance(event, ChannelClosed):
            self._channel(_number(event)).is_ended = True
        if self._selector is not None and event.code in NORMAL_CODES:
            return
        fields: dict[str, Any] = {"outcome": "closed", "reason": self._reason(event.text)}
        if event.by is not None:
            fields |= {"by": closer(event), "code": event.code}
        if event.cause is not None:
            fields["arguments"] = self._normalised(event, event.cause)
        name = _CLIENT if event.by is CLIENT else _SERVER
        place = self._counts[event.by or SERVER]
        type = "channel" if isinstance(event, ChannelClosed) else "connection"
        self._add(event, name, place, type, fields, method=event.method)

    def _on_blocked(self, event: BlockingStarted) -> None:
        self._add_event(event, SERVER, "connection", "blocked", reason=event.reason)

    def _on_unblocked(self, event: BlockingEnded) -> None:
        self._add_event(event, SERVER, "connection", "unblocked")

    def _on_flow(self, event: FlowChanged) -> None:
        """Ignore the event: a channel.flow is compared as a request."""

    def _on_restored(self, event: StateRestored) -> None:
        """Take the client's identity: what follows is as if everything before had been seen."""
        self._note_identity()

    def _note_identity(self) -> None:
        """Report who the client is, to the extent that its handshake or a snapshot tells it."""
        facts = self._trace.facts
        name = given_name(facts.client_properties or {})
        self._traced.append(
            Identity(name, str(json_value(facts.user or "")), str(json_value(facts.virtual_host or "")))
        )

    def _on_lost(self, event: HistoryLost) -> None:
        if event.sender is None:
            self._add_event(event, CLIENT, "connection", "joined", reason=event.reason)
        else:
            name = _CLIENT if event.sender is CLIENT else _SERVER
            self._add(event, name, self._counts[event.sender], "error", {"outcome": "unknown", "reason": event.reason})


def _number(event: TraceEvent) -> int:
    """Return the channel of an event; `CONNECTION` for one of the connection itself."""
    channel = event.on_channel
    return CONNECTION if channel is None else channel


def _remove(fields: dict[str, Any], path: list[str]) -> None:
    """Remove the field at a path in place: nothing else uses these tables."""
    *tables, name = path
    found: Any = fields
    for each in tables:
        found = found.get(each)
        if not isinstance(found, dict):
            return
    found.pop(name, None)


_HANDLERS: dict[type[Any], Callable[[CommandTracer, Any], None]] = {
    BlockingEnded: CommandTracer._on_unblocked,
    BlockingStarted: CommandTracer._on_blocked,
    ChannelClosed: CommandTracer._on_closed,
    ChannelOpened: CommandTracer._on_channel_opened,
    ConnectionClosed: CommandTracer._on_closed,
    ConnectionOpened: CommandTracer._on_opened,
    DeliveriesSettled: CommandTracer._on_deliveries_settled,
    FlowChanged: CommandTracer._on_flow,
    HistoryLost: CommandTracer._on_lost,
    MessageDelivered: CommandTracer._on_delivered,
    MessagePublished: CommandTracer._on_published,
    MessageReturned: CommandTracer._on_returned,
    PublishesSettled: CommandTracer._on_publishes_settled,
    RequestAnswered: CommandTracer._on_answered,
    RequestSent: CommandTracer._on_request,
    RequestUnanswered: CommandTracer._on_request,
    StateRestored: CommandTracer._on_restored,
}

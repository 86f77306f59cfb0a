"""Counts and measures the activity on the connections of captures.

It processes the events of their traces; only frames and bytes are counted from the decoded input.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

from amqproxy.amqp091.methods import BasicGetOk
from amqproxy.amqp091.properties import NO_PROPERTIES
from amqproxy.amqp091.protocol_header import DECODED
from amqproxy.amqp091.transitions import CLIENT, SERVER, Peer
from amqproxy.capture.decode import CAPTURE_ENDS
from amqproxy.capture.decoded import Decoded, DecodedFrames, DecodedProtocolHeader, SkippedBytes, StreamEnded
from amqproxy.capture.filtering import sift
from amqproxy.capture.observed import observed
from amqproxy.capture.selection.selection import Selection
from amqproxy.rules.context import Client
from amqproxy.rules.dialects import DIALECTS, ConnectionFilter
from amqproxy.rules.engine.command_filter import CommandFilter
from amqproxy.rules.matching.filters import Filter
from amqproxy.rules.message_filter import MessageFilter
from amqproxy.taps.findings.finding import Finding
from amqproxy.taps.message_recorder import NORMAL_CODES
from amqproxy.taps.note import Note
from amqproxy.taps.observer import ObserverSettings, OnEvents
from amqproxy.taps.trace.events import (
    ChannelClosed,
    CommandMethod,
    ConnectionClosed,
    ConnectionOpened,
    DeliveriesSettled,
    HistoryLost,
    MessageDelivered,
    MessageProperties,
    MessagePublished,
    MessageReturned,
    PublishesSettled,
    RequestAnswered,
    RequestUnanswered,
    Settlement,
    TraceEvent,
    closer,
)
from amqproxy.taps.trace.open_tags import Span
from amqproxy.views.connection_list import ConnectionFigures, ConnectionList
from amqproxy.views.finding_list import FindingList
from amqproxy.views.measurements import Measurements
from amqproxy.views.timeline import Timeline
from amqproxy.views.top_table import TopTable

MAX_ERRORS = 256
"""Distinct errors that are counted individually."""

MAX_SELECTED = 65_536
"""Open messages of one connection selected by a filter; the outcome of the oldest beyond that is not counted."""

MAX_TEXT = 80
"""Characters that are kept of an error's reason."""

PUBLISHED, DELIVERED, CONFIRMED, ACKED, REFUSED, CLIENT_BYTES, SERVER_BYTES = range(7)
"""The series of the timeline; refused are nacked and returned publishes, and deliveries that were given back."""

OTHER = ("other", None, None, "")

ErrorKey = tuple[str, str | None, int | None, str]


class Collector:
    """Sums up the captures it is fed: the selection, reduced to the commands that pass the filter.

    `totals` counts by the names of `MessageTotals`. Findings cover all commands: by default they are omitted with a
    filter. Connections are listed even if nothing of them is selected.
    """

    def __init__(self, selection: Selection, wanted: Filter | None = None, *, has_findings: bool | None = None) -> None:
        self._selection = selection
        self._wanted = wanted
        self._shows_everything = selection.is_everything
        self._open: dict[int, _Connection] = {}
        self.has_findings = wanted is None if has_findings is None else has_findings
        self.connections = self.lost_bytes = 0
        self.start_ns: int | None = None
        self.end_ns: int | None = None
        self.frames = {CLIENT: [0, 0, 0], SERVER: [0, 0, 0]}
        """Frames, heartbeats and bytes of each sender."""
        self.totals: Counter[str] = Counter()
        self.timeline = Timeline(7)
        self.confirm_seconds, self.ack_seconds, self.open_seconds = Measurements(), Measurements(), Measurements()
        self.requests: dict[str, Measurements] = {}
        self.published_bytes, self.delivered_bytes = Measurements(is_bytes=True), Measurements(is_bytes=True)
        self.top_connections: TopTable[str] = TopTable(3)
        self.top_users: TopTable[str | None] = TopTable(3)
        self.top_exchanges: TopTable[str] = TopTable(1)
        self.top_routing_keys: TopTable[str] = TopTable(1)
        self.top_queues: TopTable[str | None] = TopTable(2)
        """The additional counts of a queue are its bytes, and its redelivered messages."""
        self.errors: Counter[ErrorKey] = Counter()
        self.findings: Counter[tuple[str, str]] = Counter()
        self.finding_connections: Counter[str] = Counter()
        self.listed_connections = ConnectionList()
        self.listed_findings = FindingList()

    def feed(self, decoded: Iterable[Decoded]) -> None:
        """Collect the figures of one capture."""
        kept_body = 0 if self._wanted is None else CommandFilter.kept_body(self._wanted)
        settings = ObserverSettings(
            messages=False, findings=self.has_findings, counts_findings=True, kept_body=kept_body
        )
        chosen = self._counted(self._selection.connections(decoded))
        try:
            for report in observed(chosen, settings, listener_of=self._listener):
                if isinstance(report, Finding) and self._selection.shows(report.ts_ns, report.channel):
                    self.findings[report.kind, str(report.severity)] += 1
                    self.finding_connections[report.kind] += report.count == 1
                    self.listed_findings.add(report)
                    connection = self._open.get(report.stream)
                    if connection is not None:
                        connection.figures.findings += report.count == 1
        finally:  # also if the capture cannot be read to its end
            for stream in list(self._open):
                self._end(stream)

    # --- frames

    def _counted(self, decoded: Iterable[Decoded]) -> Iterator[Decoded]:
        """Yield the input unchanged, after counting its frames and bytes."""
        for each in decoded:
            connection = self._open.get(each.stream) or self._connection(each)
            if connection is not None and each.ts_ns > connection.figures.ended_ns:
                connection.figures.ended_ns = each.ts_ns
            if isinstance(each, DecodedFrames):
                assert connection is not None
                self._count_frames(connection, each, self._sifted(connection, each))
            elif isinstance(each, SkippedBytes) and self._selection.shows(each.ts_ns, each.channel):
                self.lost_bytes += each.lost
            yield each
            if isinstance(each, StreamEnded):
                self._end(each.stream, each.reason)

    def _sifted(self, connection: _Connection, decoded: DecodedFrames) -> Iterable[Any]:
        """Return the frames that pass the filter."""
        if self._wanted is None:
            return decoded.frames
        sender = Peer(decoded.sender)
        for frame in decoded.frames:
            if frame.channel == 0:
                connection.filter.learn(sender, frame)
        connection.tags = decoded.note.tags
        if connection.frame_filter is None:
            client = Client.named(decoded.stream, decoded.connection)
            connection.frame_filter = DIALECTS[decoded.protocol].frames(self._wanted, client)
        return sift(connection.frame_filter, decoded)[0]

    def _count_frames(
        self,
        connection: _Connection,
        decoded: DecodedFrames,
        frames: Iterable[Any],
    ) -> None:
        sender = Peer(decoded.sender)
        count = heartbeats = size = 0
        for frame in frames:
            if self._is_shown(decoded.ts_ns, frame.channel):
                count += 1
                heartbeats += decoded.is_heartbeat(frame)
                size += frame.length()
                self.lost_bytes += frame.lost
        if not count:
            return
        sums = self.frames[sender]
        sums[0] += count
        sums[1] += heartbeats
        sums[2] += size
        connection.figures.frames += count
        connection.figures.bytes += size
        self.timeline.add(decoded.ts_ns, CLIENT_BYTES if sender is CLIENT else SERVER_BYTES, size)
        ts_ns = decoded.ts_ns
        self.start_ns = ts_ns if self.start_ns is None else min(self.start_ns, ts_ns)
        self.end_ns = ts_ns if self.end_ns is None else max(self.end_ns, ts_ns)

    def _connection(self, first: Decoded) -> _Connection | None:
        """Open the connection that begins with `first`; None if its protocol is not decoded."""
        if isinstance(first, StreamEnded):
            return None
        if isinstance(first, DecodedProtocolHeader) and first.protocol not in DECODED:
            return None
        figures = ConnectionFigures(first.stream, first.connection, first.ts_ns, first.ts_ns)
        connection = self._open[first.stream] = _Connection(figures)
        if self._wanted is not None:
            client = Client.named(first.stream, first.connection)
            connection.filter = MessageFilter(self._wanted, client)
            connection.selected = SelectedMessages()
        return connection

    def _end(self, stream: int, reason: str = CAPTURE_ENDS) -> None:
        connection = self._open.pop(stream, None)
        if connection is None:
            return
        figures = connection.figures
        figures.ending = figures.ending or reason
        self.listed_connections.add(figures)
        if not (figures.frames or figures.published or figures.delivered):
            return
        self.connections += 1
        others = (figures.frames, figures.published, figures.delivered)
        self.top_connections.add(figures.connection, figures.bytes, *others)
        self.top_users.add(figures.user, figures.bytes, *others)

    def _is_shown(self, ts_ns: int, channel: int) -> bool:
        return self._shows_everything or self._selection.shows(ts_ns, channel)

    # --- events

    def _listener(self, stream: int, name: str) -> OnEvents:
        return partial(self._on_events, self._open[stream])

    def _on_events(self, connection: _Connection, events: Sequence[TraceEvent], note: Note) -> None:
        for event in events:
            handler = _HANDLERS.get(type(event))
            if handler is not None:
                handler(self, connection, event)

    def _is_selected(
        self,
        connection: _Connection,
        event: TraceEvent,
        sender: Peer,
        method: CommandMethod,
        properties: MessageProperties = NO_PROPERTIES,
        size: int = 0,
        body: bytes = b"",
    ) -> bool:
        return self._wanted is None or connection.filter.selects(
            sender, event.channel, method, properties, size, body, ts_ns=event.ts_ns, tags=connection.tags
        )

    def _on_published(self, connection: _Connection, event: MessagePublished) -> None:
        method, size = event.method, event.size or 0
        if not self._is_selected(connection, event, CLIENT, method, event.properties, size, event.body):
            return
        if event.awaits:
            connection.selected.add(("publish", event.channel), event.number)
        if not self._is_shown(event.ts_ns, event.channel):
            return
        connection.figures.published += 1
        self.totals["published"] += 1
        if not event.awaits:
            self.totals["unknown" if event.awaits is None else "sent"] += 1
        self.timeline.add(event.ts_ns, PUBLISHED)
        self.top_exchanges.add(method.exchange, 1, size)
        self.top_routing_keys.add(method.routing_key, 1, size)
        if event.size is not None:
            self.published_bytes.observe(size)

    def _on_publishes_settled(self, connection: _Connection, event: PublishesSettled) -> None:
        is_shown = self._is_shown(event.ts_ns, event.channel)
        if event.is_unknown_tag and is_shown:
            self.totals["unknown_tags"] += 1
            self._count_error("unknown-tag", SERVER, None, "")
        is_timed = event.outcome in (Settlement.CONFIRMED, Settlement.NACKED)
        for span in event.spans:
            count = connection.selected.take(("publish", event.channel), span)
            if not count or not is_shown:
                continue
            self.totals[_PUBLISH_TOTALS[event.outcome]] += count
            self._count_settled(event, count)
            if is_timed:
                self.confirm_seconds.observe((event.ts_ns - span.ts_ns) / 1e9, count)
            if event.outcome is Settlement.NACKED:
                self._count_error("nacked", SERVER, None, "", count)

    def _on_returned(self, connection: _Connection, event: MessageReturned) -> None:
        method = event.method
        if not self._is_shown(event.ts_ns, event.channel):
            return
        is_selected = connection.selected.has(("publish", event.channel), event.number)
        if is_selected or self._is_selected(
            connection, event, SERVER, method, event.properties, event.size, event.body
        ):
            self.totals["returned"] += 1
            self.timeline.add(event.ts_ns, REFUSED)
            self._count_error("returned", SERVER, method.reply_code, method.reply_text)

    def _on_delivered(self, connection: _Connection, event: MessageDelivered) -> None:
        method = event.method
        if not self._is_selected(connection, event, SERVER, method, event.properties, event.size, event.body):
            return
        if event.awaits is not False and method.delivery_tag is not None:
            connection.selected.add(("deliver", event.channel), method.delivery_tag)
        if not self._is_shown(event.ts_ns, event.channel):
            return
        connection.figures.delivered += 1
        self.totals["delivered"] += 1
        self.totals["got"] += isinstance(method, BasicGetOk)
        self.totals["redelivered"] += method.redelivered
        self.totals["auto_acked"] += event.outcome == "auto-acked"
        self.totals["browsed"] += event.outcome == "browsed"
        self.totals["unknown"] += event.awaits is not False and method.delivery_tag is None
        self.timeline.add(event.ts_ns, DELIVERED)
        self.top_queues.add(event.queue, 1, event.size, int(method.redelivered))
        self.delivered_bytes.observe(event.size)

    def _on_deliveries_settled(self, connection: _Connection, event: DeliveriesSettled) -> None:
        is_shown = self._is_shown(event.ts_ns, event.channel)
        if event.is_unknown_tag and is_shown:
            self.totals["unknown_tags"] += 1
            self._count_error("unknown-tag", CLIENT, None, "")
        total = _DELIVERY_TOTALS[event.outcome]
        is_timed = event.outcome in (Settlement.ACKED, Settlement.NACKED, Settlement.REJECTED)
        for span in event.spans:
            count = connection.selected.take(("deliver", event.channel), span)
            if not count or not is_shown:
                continue
            self.totals[total] += count
            self._count_settled(event, count)
            if event.requeue and total in ("rejected", "recovered"):
                self.totals["requeued"] += count
            if is_timed:
                self.ack_seconds.observe((event.ts_ns - span.ts_ns) / 1e9, count)

    def _count_settled(self, event: PublishesSettled | DeliveriesSettled, count: int) -> None:
        series = _SETTLED_SERIES.get(event.outcome)
        if series is not None:
            self.timeline.add(event.ts_ns, series, count)

    def _on_answered(self, connection: _Connection, event: RequestAnswered) -> None:
        request = event.request
        if request is None or event.latency_ns is None or not self._is_shown(event.ts_ns, event.channel):
            return
        if self._is_selected(connection, event, event.sender, request):
            measurements = self.requests.get(request.name)
            if measurements is None:
                measurements = self.requests[request.name] = Measurements()
            measurements.observe(event.latency_ns / 1e9)

    def _on_unanswered(self, connection: _Connection, event: RequestUnanswered) -> None:
        is_shown = self._is_shown(event.ts_ns, event.channel)
        if is_shown and self._is_selected(connection, event, event.sender, event.request):
            self._count_error("unanswered", event.sender, None, event.request.name)

    def _on_opened(self, connection: _Connection, event: ConnectionOpened) -> None:
        connection.figures.open(event)
        if event.latency_ns is not None and self._wanted is None and self._is_shown(event.ts_ns, 0):
            self.open_seconds.observe(event.latency_ns / 1e9)

    def _on_closed(self, connection: _Connection, event: ConnectionClosed | ChannelClosed) -> None:
        if isinstance(event, ConnectionClosed):
            connection.figures.close(event)
        if not self._is_shown(event.ts_ns, event.channel):
            return
        if isinstance(event, ConnectionClosed) and event.by is None:
            if event.text != CAPTURE_ENDS:
                self._count_error("connection-lost", None, None, event.text)
        elif event.code not in NORMAL_CODES:
            kind = "channel-closed" if isinstance(event, ChannelClosed) else "connection-closed"
            self._count_error(kind, closer(event), event.code, event.text.partition(" - ")[0])

    def _on_lost(self, connection: _Connection, event: HistoryLost) -> None:
        if event.sender is not None and self._is_shown(event.ts_ns, event.channel):
            self._count_error("unreadable", event.sender, None, event.reason)

    def _count_error(self, kind: str, by: str | None, code: int | None, text: str, count: int = 1) -> None:
        key = (kind, None if by is None else str(by), code, text[:MAX_TEXT])
        if key not in self.errors and len(self.errors) >= MAX_ERRORS:
            key = OTHER
        self.errors[key] += count


class SelectedMessages:
    """Numbers of the open messages of one connection that a filter selected, by kind and channel."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[str, int], OrderedDict[int, None]] = {}
        self._count = 0

    def add(self, place: tuple[str, int], number: int) -> None:
        """Add a selected message."""
        numbers = self._numbers.get(place)
        if numbers is None:
            numbers = self._numbers[place] = OrderedDict()  # finds its first key faster than a plain dict
        if number not in numbers:
            numbers[number] = None
            self._count += 1
        if self._count > MAX_SELECTED:
            where, oldest = next(iter(self._numbers.items()))
            oldest.popitem(last=False)
            if not oldest:
                del self._numbers[where]
            self._count -= 1

    def has(self, place: tuple[str, int], number: int | None) -> bool:
        """Whether a message is selected."""
        return number in self._numbers.get(place, ())

    def take(self, place: tuple[str, int], span: Span) -> int:
        """Remove the messages of a span, which are settled; return how many of them were selected."""
        numbers = self._numbers.get(place)
        if not numbers:
            return 0
        taken = [number for number in span.among(numbers) if number in numbers]
        for number in taken:
            del numbers[number]
        if not numbers:
            del self._numbers[place]
        self._count -= len(taken)
        return len(taken)


class EveryMessage(SelectedMessages):
    """Selection without a filter: all messages."""

    def add(self, place: tuple[str, int], number: int) -> None:
        pass

    def has(self, place: tuple[str, int], number: int | None) -> bool:
        return True

    def take(self, place: tuple[str, int], span: Span) -> int:
        return span.count


_EVERY_MESSAGE = EveryMessage()


class _Connection:
    """Figures of one connection so far, and the filters of its commands, if there are any."""

    filter: MessageFilter
    frame_filter: ConnectionFilter | None = None

    def __init__(self, figures: ConnectionFigures) -> None:
        self.figures = figures
        self.tags: tuple[str, ...] = ()
        self.selected: SelectedMessages = _EVERY_MESSAGE


_PUBLISH_TOTALS = {
    Settlement.CONFIRMED: "confirmed",
    Settlement.NACKED: "nacked",
    Settlement.COMMITTED: "committed",
    Settlement.ROLLED_BACK: "rolled_back",
    Settlement.OPEN: "open_publishes",
    Settlement.UNKNOWN: "unknown",
}

_DELIVERY_TOTALS = {
    Settlement.ACKED: "acked",
    Settlement.NACKED: "rejected",
    Settlement.REJECTED: "rejected",
    Settlement.RECOVERED: "recovered",
    Settlement.OPEN: "open_deliveries",
    Settlement.UNKNOWN: "unknown",
}

_SETTLED_SERIES = {
    Settlement.CONFIRMED: CONFIRMED,
    Settlement.COMMITTED: CONFIRMED,
    Settlement.NACKED: REFUSED,
    Settlement.ROLLED_BACK: REFUSED,
    Settlement.ACKED: ACKED,
    Settlement.REJECTED: REFUSED,
    Settlement.RECOVERED: REFUSED,
}

_HANDLERS: dict[type[Any], Callable[[Collector, _Connection, Any], None]] = {
    ChannelClosed: Collector._on_closed,
    ConnectionClosed: Collector._on_closed,
    ConnectionOpened: Collector._on_opened,
    DeliveriesSettled: Collector._on_deliveries_settled,
    HistoryLost: Collector._on_lost,
    MessageDelivered: Collector._on_delivered,
    MessagePublished: Collector._on_published,
    MessageReturned: Collector._on_returned,
    PublishesSettled: Collector._on_publishes_settled,
    RequestAnswered: Collector._on_answered,
    RequestUnanswered: Collector._on_unanswered,
}

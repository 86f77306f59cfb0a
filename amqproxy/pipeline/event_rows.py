"""The events of the trace as rows of the table `events`, in Arrow batches; needs no Spark.

A row is made as one tuple among those of its kind; columns are made of a whole batch at once. What the columns mean is
in `schema.EVENTS`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain as chained
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa

from amqproxy.amqp091.methods import BasicGetOk, Method
from amqproxy.amqp091.properties import NO_PROPERTIES, Properties
from amqproxy.amqp091.wire import Table
from amqproxy.capture.decoded import Decoded, SkippedBytes, StreamEnded
from amqproxy.capture.files import CaptureFile, Sources, files_of, name_of
from amqproxy.capture.observed import Observers
from amqproxy.pipeline.chain_reading import ChainReading, LostPart
from amqproxy.pipeline.trace_state import Unreadable, dumped, loaded
from amqproxy.taps.findings.finding import Finding
from amqproxy.taps.note import NOTHING, Note
from amqproxy.taps.observer import ObserverSettings, Report
from amqproxy.taps.record import arguments, encoded, json_mapping
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
    PublishesSettled,
    RequestAnswered,
    RequestSent,
    RequestUnanswered,
    Settlement,
    TraceEvent,
)
from amqproxy.taps.trace.open_tags import Span
from amqproxy.views.selection import Selection

ROWS = 16_384
"""Rows of a batch, unless asked otherwise."""

MAX_BATCH_BYTES = 32 * 1024 * 1024
"""Of bodies and properties in one batch, about; it ends with the packet that goes beyond them."""

MAX_KNOWN_HEADERS = 1024
"""Tables of headers that are remembered in JSON."""
MAX_KNOWN_HEADERS_BYTES = 4096
"""Of one of these."""

MAX_ENDED = 1024
"""Connections that are remembered after their end, for findings that name them."""

_MOST = (1 << 63) - 1

_STRINGS = pa.list_(pa.field("element", pa.utf8(), nullable=False))
_SPAN = pa.struct(
    [
        pa.field("first", pa.int64()),
        pa.field("last", pa.int64()),
        pa.field("ts_ns", pa.int64()),
        pa.field("consumer_tag", pa.utf8()),
    ]
)
_SPANS = pa.list_(pa.field("element", _SPAN, nullable=False))

_PROPERTY_COLUMNS = {"timestamp": "message_timestamp", "type": "message_type"}
_PROPERTIES = tuple(_PROPERTY_COLUMNS.get(name, name) for name in Properties.__struct_fields__)
_HEADERS = _PROPERTIES.index("headers")
_NO_PROPERTIES = (None,) * len(_PROPERTIES)

_LONG, _INT, _BOOL, _TEXT, _BYTES = pa.int64(), pa.int32(), pa.bool_(), pa.utf8(), pa.binary()
_COLUMNS: dict[str, pa.DataType] = {
    "chain": _TEXT,
    "connection_id": _TEXT,
    "stream": _LONG,
    "connection": _TEXT,
    "leg": _TEXT,
    "file": _TEXT,
    "ts_ns": _LONG,
    "time": pa.timestamp("us", "UTC"),
    "seq": _LONG,
    "channel": _INT,
    "epoch": _INT,
    "type": _TEXT,
    "sender": _TEXT,
    "outcome": _TEXT,
    "number": _LONG,
    "confirm_tag": _LONG,
    "delivery_tag": _LONG,
    "consumer_tag": _TEXT,
    "awaits": _BOOL,
    "exchange": _TEXT,
    "routing_key": _TEXT,
    "queue": _TEXT,
    "mandatory": _BOOL,
    "redelivered": _BOOL,
    "size": _LONG,
    "content_type": _TEXT,
    "content_encoding": _TEXT,
    "headers": _TEXT,
    "delivery_mode": _INT,
    "priority": _INT,
    "correlation_id": _TEXT,
    "reply_to": _TEXT,
    "expiration": _TEXT,
    "message_id": _TEXT,
    "message_timestamp": _LONG,
    "message_type": _TEXT,
    "user_id": _TEXT,
    "app_id": _TEXT,
    "cluster_id": _TEXT,
    "properties": _TEXT,
    "digest": _TEXT,
    "body": _BYTES,
    "spans": _SPANS,
    "tag": _LONG,
    "multiple": _BOOL,
    "requeue": _BOOL,
    "is_unknown_tag": _BOOL,
    "is_certain": _BOOL,
    "method": _TEXT,
    "arguments": _TEXT,
    "reply": _TEXT,
    "reply_arguments": _TEXT,
    "latency_ns": _LONG,
    "by": _TEXT,
    "code": _INT,
    "text": _TEXT,
    "is_open": _BOOL,
    "user": _TEXT,
    "virtual_host": _TEXT,
    "mechanism": _TEXT,
    "client_properties": _TEXT,
    "server_properties": _TEXT,
    "channel_max": _INT,
    "frame_max": _LONG,
    "heartbeat": _INT,
    "offset": _LONG,
    "lost": _LONG,
    "kind": _TEXT,
    "severity": _TEXT,
    "count": _LONG,
    "why": _TEXT,
    "remedy": _TEXT,
    "evidence": _TEXT,
    "verdict": _TEXT,
    "rules": _STRINGS,
    "tags": _STRINGS,
    "state": _BYTES,
}

SCHEMA = pa.schema([pa.field(name, kind, nullable=name not in ("chain", "type")) for name, kind in _COLUMNS.items()])
"""The columns of a batch."""

_HEAD = ("ts_ns", "seq", "channel", "epoch", "type", "sender", "outcome")
"""What every row begins with, behind its place in the batch, its connection, its file and its note."""
_BEFORE_HEAD = 4

_CONTENT = ("exchange", "routing_key", "size", "digest", "body", "properties", *_PROPERTIES)


class _Kind(NamedTuple):
    """Rows of a kind: their columns behind those of `_HEAD`, and the rows themselves."""

    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]]


_KINDS = {
    "publish": ("number", "confirm_tag", "awaits", "mandatory", *_CONTENT),
    "return": ("number", "code", "text", *_CONTENT),
    "deliver": (
        *("number", "delivery_tag", "consumer_tag", "queue", "redelivered", "awaits", "latency_ns"),
        *_CONTENT,
    ),
    "publishes-settled": ("spans", "is_unknown_tag"),
    "deliveries-settled": ("spans", "tag", "multiple", "requeue", "is_unknown_tag", "is_certain"),
    "request": (
        *("method", "arguments", "reply", "reply_arguments", "latency_ns", "queue", "exchange", "routing_key"),
        "consumer_tag",
    ),
    "opened": (
        *("latency_ns", "user", "virtual_host", "mechanism", "client_properties", "server_properties"),
        *("channel_max", "frame_max", "heartbeat"),
    ),
    "closed": ("by", "code", "text", "method", "arguments", "is_open"),
    "changed": ("text", "latency_ns"),
    "lost": ("text", "kind", "code", "offset", "lost"),
    "finding": ("kind", "severity", "text", "count", "why", "remedy", "evidence"),
    "state": ("state",),
}


class _Who(NamedTuple):
    """The columns that all rows of a connection share."""

    connection_id: str | None
    stream: int | None
    connection: str | None
    leg: str | None


EVERYTHING = Selection()
_NO_CONNECTION = _Who(None, None, None, None)


class ConnectionRows:
    """Makes rows of the events of one connection, which are numbered by `seq`."""

    __slots__ = ("seq", "sink", "skipped", "who")

    def __init__(self, sink: EventRows, who: _Who) -> None:
        self.sink = sink
        self.who = who
        self.seq = 0
        self.skipped: SkippedBytes | None = None
        """The bytes that could not be read, of which the next events are."""

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
        """Add what an expert would point out."""
        if self.sink.shows is not None and not self.sink.shows(finding.ts_ns, finding.channel):
            return
        self.sink.begin(self.who, NOTHING)
        self.sink.add_finding(finding, self.seq)
        self.seq += 1


class EventRows:
    """Gathers rows of a `chain`, and makes batches of them."""

    def __init__(self, chain: str, *, rows: int = ROWS) -> None:
        self.chain = chain
        self.file: str | None = None
        """The file whose packets bring about what is added."""
        self.count = 0
        """Rows that were added and are in no batch yet."""
        self.shows: Callable[[int, int | None], bool] | None = None
        """Whether events of a time, on a channel, are selected; all are if it is None."""
        self._most = rows
        self._headers: dict[bytes, bytes] = {}
        self._clear()

    def _clear(self) -> None:
        self.count = 0
        self._bytes = 0
        self._who: list[_Who] = []
        self._who_places: dict[_Who, int] = {}
        self._files: list[str | None] = []
        self._notes: list[Note] = []
        self._place = self._file_place = 0
        self._note_place: int | None = None
        self._kinds = {name: _Kind((*_HEAD, *columns), []) for name, columns in _KINDS.items()}
        self._publishes = self._kinds["publish"].rows
        self._deliveries = self._kinds["deliver"].rows
        self._publishes_settled = self._kinds["publishes-settled"].rows
        self._deliveries_settled = self._kinds["deliveries-settled"].rows
        self._properties: Properties = NO_PROPERTIES
        self._properties_size = 0
        self._property_values: tuple[Any, ...] = (None, *_NO_PROPERTIES)

    @property
    def is_full(self) -> bool:
        return self.count >= self._most or self._bytes >= MAX_BATCH_BYTES

    def begin(self, who: _Who, note: Note) -> None:
        """What is added next is of a connection, and of a command that rules have done something to."""
        place = self._who_places.get(who)
        if place is None:
            place = self._who_places[who] = len(self._who)
            self._who.append(who)
        self._place = place
        files = self._files
        if not files or files[-1] != self.file:
            files.append(self.file)
        self._file_place = len(files) - 1
        self._note_place = None
        if note is not NOTHING:
            self._note_place = len(self._notes)
            self._notes.append(note)

    def _head(self) -> tuple[int, int, int, int | None]:
        """The place of the next row, those of its connection and its file, and that of its note."""
        count = self.count
        self.count = count + 1
        return count, self._place, self._file_place, self._note_place

    def _add(self, kind: str, *values: Any) -> None:
        self._kinds[kind].rows.append((*self._head(), *values))

    # --- what has content

    def _content(self, event: MessagePublished | MessageDelivered | MessageReturned) -> tuple[Any, ...]:
        method = event.method
        digest, body = event.digest, event.body
        properties = event.properties
        if properties is not self._properties:
            self._properties = properties
            self._property_values = self._values_of(properties)
        self._bytes += len(body) + self._properties_size
        return (
            method.exchange,
            method.routing_key,
            event.size,
            digest.hex() if digest and event.size is not None else None,
            body or None,
            *self._property_values,
        )

    def _values_of(self, properties: Properties) -> tuple[Any, ...]:
        """All properties as JSON, and each by itself."""
        self._properties_size = 0
        if properties is NO_PROPERTIES:
            return (None, *_NO_PROPERTIES)
        values = list(msgspec.structs.astuple(properties))
        headers = values[_HEADERS]
        if headers is None:
            present = {name: value for name, value in zip(_FIELDS, values, strict=True) if value is not None}
            if not present:
                return (None, *_NO_PROPERTIES)
            text = encoded(json_mapping(present))
        else:
            values[_HEADERS] = text = self._headers_of(headers)
            rest = {name: value for name, value in zip(_FIELDS, values, strict=True) if value is not None}
            rest = json_mapping(rest)
            rest["headers"] = msgspec.Raw(text)
            try:
                text = _json_encoder.encode(rest)
            except UnicodeEncodeError:
                text = encoded(json_mapping(properties.present()))
            self._properties_size = len(text)
        self._properties_size += len(text)
        return (text, *values)

    def _headers_of(self, headers: Table) -> bytes:
        """A table of headers in JSON; many messages have the same."""
        key = headers.octets
        text = self._headers.get(key)
        if text is None:
            text = encoded(json_mapping(headers.values_by_name))
            if len(key) <= MAX_KNOWN_HEADERS_BYTES:
                if len(self._headers) >= MAX_KNOWN_HEADERS:
                    self._headers.clear()
                self._headers[key] = text
        return text

    def add_publish(self, event: MessagePublished, rows: ConnectionRows, seq: int) -> None:
        """basic.publish."""
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

    def add_return(self, event: MessageReturned, rows: ConnectionRows, seq: int) -> None:
        """basic.return."""
        method = event.method
        self._add(
            "return",
            *(event.ts_ns, seq, event.channel, event.epoch, "return", "server", "returned"),
            *(event.number, method.reply_code, method.reply_text),
            *self._content(event),
        )

    def add_delivery(self, event: MessageDelivered, rows: ConnectionRows, seq: int) -> None:
        """basic.deliver and basic.get-ok."""
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
                None,
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

    # --- what becomes of it

    def add_publishes_settled(self, event: PublishesSettled, rows: ConnectionRows, seq: int) -> None:
        """What the broker, or an end, has settled."""
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
        """What the client, or an end, has settled."""
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
        """A request with its reply; a basic.get that got a message is an event of its own."""
        if isinstance(event.reply, BasicGetOk):
            rows.seq = seq
            return
        request = event.request
        self._add_request(event, seq, "answered", request, event.reply, event.latency_ns)

    def add_unanswered(self, event: RequestUnanswered, rows: ConnectionRows, seq: int) -> None:
        """A request whose channel has ended."""
        self._add_request(event, seq, "unanswered", event.request, None, event.latency_ns)

    def add_sent(self, event: RequestSent, rows: ConnectionRows, seq: int) -> None:
        """A request that gets no reply."""
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
            None if request is None else request.name,
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
        """connection.open-ok."""
        peers = _json(event.client_properties), _json(event.server_properties)
        self._bytes += sum(len(each or b"") for each in peers)
        self._add(
            "opened",
            *(event.ts_ns, seq, 0, 0, "connection", "server", "opened", event.latency_ns),
            *(event.user, event.virtual_host, event.mechanism),
            *peers,
            *(event.channel_max, event.frame_max, event.heartbeat),
        )

    def add_closed(self, event: ConnectionClosed | ChannelClosed, rows: ConnectionRows, seq: int) -> None:
        """connection.close, the end without it, and channel.close."""
        is_channel = isinstance(event, ChannelClosed)
        by = None if event.by is None else str(event.by)
        self._add(
            "closed",
            *(event.ts_ns, seq, event.channel, event.epoch, "channel" if is_channel else "connection", by, "closed"),
            *(by, event.code, event.text, event.method, _arguments(event.cause)),
            None if isinstance(event, ChannelClosed) else event.is_open,
        )

    def add_channel_opened(self, event: ChannelOpened, rows: ConnectionRows, seq: int) -> None:
        """channel.open-ok."""
        self._change(event, seq, "channel", "server", "opened", None, event.latency_ns)

    def add_blocked(self, event: BlockingStarted, rows: ConnectionRows, seq: int) -> None:
        """connection.blocked."""
        self._change(event, seq, "connection", "server", "blocked", event.reason, None)

    def add_unblocked(self, event: BlockingEnded, rows: ConnectionRows, seq: int) -> None:
        """connection.unblocked."""
        self._change(event, seq, "connection", "server", "unblocked", None, event.latency_ns)

    def add_flow(self, event: FlowChanged, rows: ConnectionRows, seq: int) -> None:
        """channel.flow."""
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

    # --- what was lost, and what was found

    def add_history_lost(self, event: HistoryLost, rows: ConnectionRows, seq: int) -> None:
        """A connection that was joined in its middle, or bytes that could not be read."""
        if event.sender is None:
            self._change(event, seq, "connection", None, "joined", event.reason, None)
            return
        skipped = rows.skipped
        details: tuple[Any, ...] = ("history", None, None, None)
        if skipped is not None and skipped.reason == event.reason:
            details = ("bytes", skipped.code, skipped.offset, skipped.lost)
        head = (event.ts_ns, seq, event.channel, event.epoch, "lost", str(event.sender), "unknown")
        self._add("lost", *head, event.reason, *details)

    def add_lost(self, part: LostPart) -> None:
        """Part of a file could not be read."""
        self.file = part.file
        self.begin(_NO_CONNECTION, NOTHING)
        head = (part.ts_ns, None, None, None, "lost", None, "unknown")
        self._add("lost", *head, part.text, part.kind, None, part.offset, None)

    def add_finding(self, finding: Finding, seq: int | None) -> None:
        """What an expert would point out."""
        head = (finding.ts_ns, seq, finding.channel, None, "finding", None, None)
        self._add(
            "finding",
            *(*head, finding.kind, str(finding.severity), finding.text, finding.count, finding.why, finding.remedy),
            encoded(finding.evidence) if finding.evidence else None,
        )

    def add_state(self, who: _Who, state: bytes) -> None:
        """What the next run goes on with."""
        self._bytes += len(state)
        self.begin(who, NOTHING)
        self._add("state", None, None, None, None, "state", None, None, state)

    # --- batches

    def take(self) -> pa.RecordBatch:
        """What was added since the last call."""
        count = self.count
        kinds = [each for each in self._kinds.values() if each.rows]
        made: dict[str, dict[int, pa.Array]] = {}
        sizes = [len(each.rows) for each in kinds]
        places: list[int] = []
        before: list[list[Any]] = [[], [], []]
        for number, kind in enumerate(kinds):
            values = list(zip(*kind.rows, strict=True))
            places += values[0]
            for column, added in zip(before, values[1:_BEFORE_HEAD], strict=True):
                column += added
            for name, column_values in zip(kind.columns, values[_BEFORE_HEAD:], strict=True):
                first = column_values[0]
                is_one = column_values[-1] is first and column_values.count(first) == len(column_values)
                if is_one and first is None:
                    continue
                if is_one and type(first) is str:
                    array = pa.repeat(_array((first,), _TEXT)[0], len(column_values))
                else:
                    array = _array(column_values, _COLUMNS[name])
                made.setdefault(name, {})[number] = array
        order = np.empty(count, np.int64)
        order[places] = np.arange(count)
        is_in_order = len(kinds) <= 1
        indices = pa.array(order)
        columns = {}
        for name, arrays in made.items():
            if is_in_order:
                columns[name] = arrays[0]
                continue
            parts = [
                arrays[number] if number in arrays else pa.nulls(size, _COLUMNS[name])
                for number, size in enumerate(sizes)
            ]
            columns[name] = pa.concat_arrays(parts).take(indices)
        of_who, of_files = (pa.array(np.array(each, np.int64)[order]) for each in before[:2])
        for place, name in enumerate(_Who._fields):
            columns[name] = pa.array([each[place] for each in self._who], _COLUMNS[name]).take(of_who)
        columns["chain"] = pa.repeat(pa.scalar(self.chain, _TEXT), count)
        columns["file"] = pa.array(self._files, _TEXT).take(of_files)
        if "ts_ns" in columns:
            columns["time"] = _microseconds(columns["ts_ns"])
        if self._notes:
            self._add_notes(columns, np.array(before[2], object)[order])
        batch = pa.RecordBatch.from_arrays(
            [columns[name] if name in columns else pa.nulls(count, kind) for name, kind in _COLUMNS.items()],
            schema=SCHEMA,
        )
        self._clear()
        return batch

    def _add_notes(self, columns: dict[str, pa.Array], places: Any) -> None:
        wanted = [None if place is None else self._notes[place] for place in places]
        columns["verdict"] = pa.array([each and (each.verdict or None) for each in wanted], _TEXT)
        columns["rules"] = pa.array([each and (each.rules or None) for each in wanted], _STRINGS)
        columns["tags"] = pa.array([each and (each.tags or None) for each in wanted], _STRINGS)


_FIELDS = Properties.__struct_fields__
_json_encoder = msgspec.json.Encoder()
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
}


def _arguments(method: Method | None) -> bytes | None:
    return None if method is None else encoded(arguments(method))


def _json(value: dict[str, Any] | None) -> bytes | None:
    return None if value is None else encoded(value)


def _array(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """A column. Numbers that do not fit become null; texts that are not UTF-8 have the bytes in question escaped."""
    if kind is _SPANS:
        return _spans(values)
    try:
        return pa.array(values, kind)
    except (UnicodeError, OverflowError, pa.ArrowInvalid):
        return pa.array([_fitting(each) for each in values], kind)


def _fitting(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    if isinstance(value, int) and not isinstance(value, bool) and not -_MOST <= value <= _MOST:
        return None
    return value


def _spans(values: Sequence[tuple[Span, ...]]) -> pa.Array:
    ends = np.zeros(len(values) + 1, np.int32)
    np.cumsum(np.fromiter(map(len, values), np.int32, len(values)), out=ends[1:])
    spans = list(chained.from_iterable(values))
    fields = [
        _array([each.first for each in spans], _LONG),
        _array([each.last for each in spans], _LONG),
        _array([each.ts_ns for each in spans], _LONG),
        _array([each.consumer_tag for each in spans], _TEXT),
    ]
    made = pa.StructArray.from_arrays(fields, fields=list(_SPAN))
    return pa.ListArray.from_arrays(pa.array(ends), made, type=_SPANS)


def _microseconds(ts_ns: pa.Array) -> pa.Array:
    """Whole microseconds of nanoseconds."""
    missing = np.asarray(ts_ns.is_null())
    whole = ts_ns.fill_null(0).to_numpy() // 1000
    return pa.array(whole, _LONG, mask=missing if ts_ns.null_count else None).cast(_COLUMNS["time"])


class EventReading:
    """Makes batches of `SCHEMA` of the capture files of a chain, as a `ChainReading` decodes them.

    Events have the first `body` bytes of each body. `findings` are reported as `decode --findings` does, or not at all;
    with `counts_findings`, each.
    """

    def __init__(
        self,
        reading: ChainReading,
        *,
        body: int = 0,
        findings: bool = True,
        counts_findings: bool = False,
        rows: int = ROWS,
    ) -> None:
        self.rows = EventRows(reading.chain, rows=rows)
        self._reading = reading
        settings = ObserverSettings(
            messages=False, findings=findings, counts_findings=counts_findings, body=body, digests=True
        )
        self._observers = Observers(settings, listener_of=self._listener)
        self._connections: dict[int, ConnectionRows] = {}
        self._ended: dict[int, ConnectionRows] = {}

    def batches(
        self, files: Sequence[CaptureFile], selection: Selection = EVERYTHING, *, is_end: bool = True
    ) -> Iterator[pa.RecordBatch]:
        """The events that the files bring about, and that are selected; at the end also what that brings about."""
        rows, reading = self.rows, self._reading
        shows = None if selection.is_everything else selection.shows
        rows.shows = shows
        for each in selection.connections(reading.decoded(files, is_end=is_end)):
            if reading.lost:
                self._add_lost()
            rows.file = reading.file
            self._feed(each)
            if rows.is_full:
                yield rows.take()
                reading.forget_ended()
        self._add_lost()
        yield from self.flush()

    def flush(self) -> Iterator[pa.RecordBatch]:
        """What was added and is in no batch yet."""
        if self.rows.count:
            yield self.rows.take()

    def state_batches(self) -> Iterator[pa.RecordBatch]:
        """What the next run goes on with, as rows of type state: one of the chain, and one of each open connection."""
        rows, reading, observers = self.rows, self._reading, self._observers
        head, outer = reading.written_by, self._outer
        rows.file = reading.file
        shared = dumped((observers.process_inspector, self._ended), head, {"sink": rows})
        rows.add_state(_NO_CONNECTION, dumped((reading.state(), shared), head, {}))
        for stream, connection in self._connections.items():
            observer = observers.by_stream.get(stream)
            rows.add_state(connection.who, dumped((stream, connection, observer), head, outer))
            if rows.is_full:
                yield rows.take()
        yield from self.flush()

    def resume(self, states: Mapping[str | None, Sequence[bytes]]) -> None:
        """Go on with what `state_batches` of an earlier run had, by connection_id; what is not readable is noted.

        A connection whose state cannot be read is joined in its middle.
        """
        head = self._reading.written_by
        of_chain = [each for each in states.get(None, ()) if each.startswith(head)] or states.get(None, ())
        unreadable: dict[str, None] = {}
        try:
            if len(of_chain) != 1:
                raise Unreadable(f"there are {len(of_chain)} of the chain")
            reading, shared = loaded(of_chain[0], head, {})
            inspector, ended = loaded(shared, head, {"sink": self.rows})
            self._reading.resume(reading)
        except Unreadable as error:
            self._reading.note_state(str(error))
            return
        self._observers.process_inspector, self._ended = inspector, ended
        outer = self._outer
        for state in chained.from_iterable(each for name, each in states.items() if name is not None):
            if not state.startswith(head):  # of another share
                continue
            try:
                stream, connection, observer = loaded(state, head, outer)
            except Unreadable as error:
                unreadable[str(error)] = None
                continue
            self._connections[stream] = connection
            if observer is not None:
                self._observers.by_stream[stream] = observer
        for why in unreadable:
            self._reading.note_state(why)

    @property
    def _outer(self) -> dict[str, object]:
        """What the observers of all connections share."""
        observers = self._observers
        return {"sink": self.rows, "inspector": observers.process_inspector, "budget": observers.budget}

    def _add_lost(self) -> None:
        """What could not be read of files until now."""
        lost = self._reading.take_lost()
        for each in lost:
            self.rows.add_lost(each)

    def _feed(self, decoded: Decoded) -> None:
        stream = decoded.stream
        rows = self._connections.get(stream)
        if rows is None:
            if isinstance(decoded, StreamEnded):
                return
            who = _Who(self._reading.connection_id(stream), stream, decoded.connection, decoded.leg or None)
            rows = self._connections[stream] = ConnectionRows(self.rows, who)
        if isinstance(decoded, SkippedBytes):
            rows.skipped = decoded
            reports = self._observers.feed(decoded)
            rows.skipped = None
        else:
            reports = self._observers.feed(decoded)
        if reports:
            self._report(reports, rows)
        if isinstance(decoded, StreamEnded):
            del self._connections[stream]
            self._ended[stream] = rows
            if len(self._ended) > MAX_ENDED:
                del self._ended[next(iter(self._ended))]

    def _listener(self, stream: int, connection: str) -> ConnectionRows:
        return self._connections[stream]

    def _report(self, reports: Iterable[Report], rows: ConnectionRows) -> None:
        for each in reports:
            if isinstance(each, Finding):
                of = self._connections.get(each.stream) or self._ended.get(each.stream)
                (of or rows).add_finding(each)


def event_batches(
    sources: Sources, *, chain: str | None = None, leg: str = "client", body: int = 0, rows: int = ROWS, **options: Any
) -> Iterator[pa.RecordBatch]:
    """The events of a capture of one or more files, read in order as `decode --messages` reads them.

    `options` are as in `EventReading`.
    """
    reading = ChainReading(chain or name_of(sources), leg=leg)
    yield from EventReading(reading, body=body, rows=rows, **options).batches(files_of(sources))

"""Tables of the pipeline: the type, meaning and unit of each column, as its comment.

Columns ending in `_ns` count nanoseconds: since 1970, UTC, for a time; else a duration. A column `time` is the same
time in whole microseconds. Sizes are bytes. Values that do not apply, or are unknown, are null. Columns documented as
JSON are strings; texts that are not UTF-8 are `{"base64": "…"}` in them, and have the invalid bytes escaped elsewhere.

On disk, every table also has the columns of `STORED`: see `stored`.
"""

from __future__ import annotations

from typing import Any

try:
    from pyspark.sql.types import (
        ArrayType,
        BinaryType,
        BooleanType,
        DataType,
        DateType,
        DoubleType,
        IntegerType,
        LongType,
        StringType,
        StructField,
        StructType,
        TimestampType,
    )
except ImportError as missing:
    raise ImportError(
        "The pipeline needs PySpark, which is not installed: pip install 'amqproxy[pipeline]'", name="pyspark"
    ) from missing

BINARY, BOOLEAN, DATE, DOUBLE = BinaryType(), BooleanType(), DateType(), DoubleType()
INT, LONG, STRING, TIME = IntegerType(), LongType(), StringType(), TimestampType()
STRINGS = ArrayType(STRING, containsNull=False)

_Column = tuple[str, DataType, str]


def _table(*columns: _Column, required: tuple[str, ...] = ()) -> StructType:
    return StructType([_field(*each, nullable=each[0] not in required) for each in columns])


def _field(name: str, kind: DataType, comment: str, *, nullable: bool = True) -> StructField:
    metadata: dict[str, Any] = {"comment": comment}
    return StructField(name, kind, nullable, metadata)


SPANS = ArrayType(
    _table(
        ("first", LONG, "first number or delivery tag of the range"),
        ("last", LONG, "last number or delivery tag of the range"),
        ("ts_ns", LONG, "when the messages of the range were published or delivered, ns since 1970"),
        ("consumer_tag", STRING, "of deliveries: the consumer that got them; null of basic.get and of publishes"),
    ),
    containsNull=False,
)
"""Ranges of messages settled together, with the same time and consumer."""

TS_NS: _Column = ("ts_ns", LONG, "time of the packet, ns since 1970")
TIME_OF_IT: _Column = ("time", TIME, "the same in whole µs, UTC")
_CHAIN: _Column = ("chain", STRING, "the capture files that continue each other, by the name they share")
_CONNECTION_ID: _Column = (
    "connection_id",
    STRING,
    "16 hex digits: the connection, the same in all files of a chain and in every run",
)
_CONNECTION: _Column = ("connection", STRING, "both ends, the client's first: address:port-address:port")
_LEG: _Column = ("leg", STRING, "client or upstream, in recordings of the proxy")
_PROTOCOL: _Column = ("protocol", STRING, "0-9-1 or 0-10")
_CHANNEL: _Column = ("channel", INT, "number of the channel; null or 0 for the connection's own")
_EPOCH: _Column = (
    "epoch",
    INT,
    "which opening of the channel's number on the connection, from 1; 0 for what was open before the first file",
)
_WHO: tuple[_Column, ...] = (
    _CHAIN,
    _CONNECTION_ID,
    _CONNECTION,
    ("user", STRING, "the user that logged in"),
    ("client", STRING, "its name: connection_name; of 0-10 clientName or qpid.client_process; else product"),
    ("virtual_host", STRING, "the virtual host"),
)
_RULES: tuple[_Column, ...] = (
    ("verdict", STRING, "what became of a command that rules acted on"),
    ("rules", STRINGS, "the rules that acted on it"),
    ("tags", STRINGS, "the tags they gave it"),
)
_PROPERTIES: tuple[_Column, ...] = (
    ("content_type", STRING, "property content_type: MIME type of the body"),
    ("content_encoding", STRING, "property content_encoding: MIME encoding of the body"),
    ("headers", STRING, "property headers: the table, JSON object"),
    ("delivery_mode", INT, "property delivery_mode: 2 is persistent, 1 transient"),
    ("priority", INT, "property priority: 0 to 255"),
    ("correlation_id", STRING, "property correlation_id"),
    ("reply_to", STRING, "property reply_to"),
    ("expiration", STRING, "property expiration: ms, as text"),
    ("message_id", STRING, "property message_id"),
    ("message_timestamp", LONG, "property timestamp: s since 1970, as the publisher set it"),
    ("message_type", STRING, "property type"),
    ("user_id", STRING, "property user_id"),
    ("app_id", STRING, "property app_id"),
    ("cluster_id", STRING, "property cluster_id"),
)
_ALL_PROPERTIES: _Column = ("properties", STRING, "all properties that are present, JSON object")
_EXCHANGE: _Column = ("exchange", STRING, "exchange; empty for the default exchange")
_ROUTING_KEY: _Column = ("routing_key", STRING, "routing key")
_QUEUE: _Column = ("queue", STRING, "queue, where it is known")
_SIZE: _Column = ("size", LONG, "body, bytes")
_DIGEST: _Column = (
    "digest",
    STRING,
    "BLAKE2b of the body, 32 hex digits, in a chain of blocks of 8192 bytes; null if not all was captured",
)

_MANDATORY = "argument mandatory; of 0-10 accept-mode explicit without discard-unroutable"

STORED = _table(
    ("date", DATE, "partition: UTC date of the row's time"),
    ("hour", INT, "partition: UTC hour of the row's time, 0 to 23"),
    ("batch", LONG, "the run of ingest that wrote the row"),
)
"""Columns that each table has on disk besides its own."""


def stored(table: StructType) -> StructType:
    """Return the columns of a table on disk."""
    return StructType([*table.fields, *STORED.fields])


FRAMES = _table(
    TS_NS,
    TIME_OF_IT,
    ("stream", LONG, "number of the TCP connection in what was read, from 0"),
    _CONNECTION,
    _LEG,
    ("sender", STRING, "client or server"),
    ("protocol", STRING, "0-9-1, or what else the sender speaks"),
    ("channel", INT, "number of the channel; 0 is the connection's own, or of 0-10 may be that of a session, too"),
    ("type", STRING, "method (of 0-10: control or command), header, body, heartbeat, protocol-header or error"),
    ("class", STRING, "class of the method, such as basic"),
    ("method", STRING, "method with its class, such as basic.publish"),
    ("size", LONG, "payload, bytes"),
    _EXCHANGE,
    _ROUTING_KEY,
    ("queue", STRING, "argument queue"),
    ("consumer_tag", STRING, "argument consumer_tag; of 0-10 a subscription's destination"),
    (
        "delivery_tag",
        LONG,
        "argument delivery_tag; null above 2^63 - 1; of 0-10 the id of a server's transfer, or the last that a "
        "settlement names",
    ),
    ("multiple", BOOLEAN, "argument multiple; of 0-10 whether a settlement names several transfers"),
    ("redelivered", BOOLEAN, "argument redelivered; of 0-10 in the header of a server's transfer"),
    ("requeue", BOOLEAN, "argument requeue"),
    ("mandatory", BOOLEAN, "argument mandatory"),
    (
        "reply_code",
        INT,
        "reply code of channel.close, connection.close and basic.return; of 0-10 the code of execution.exception, "
        "session.detached and message.reject",
    ),
    ("reply_text", STRING, "reply text of these"),
    ("body_size", LONG, "of a content header: the whole body, bytes; null above 2^63 - 1; of 0-10 content-length"),
    *_PROPERTIES,
    ("code", INT, "of an error: the reply code it calls for"),
    ("reason", STRING, "of an error: what is wrong"),
    ("offset", LONG, "of an error: where, in bytes of its direction"),
    ("lost", LONG, "missing bytes, of an error or of a body"),
    *_RULES,
    ("command_id", LONG, "of 0-10: the id of the command that the frame is of; null where it is not known"),
    ("flags", STRING, "of 0-10: BEbe, first and last segment of its assembly, first and last frame of that"),
    ("arguments", STRING, "all arguments of a method, JSON object, secrets masked"),
    ("body", BINARY, "the first bytes of a body frame; only with the option body"),
    _CHAIN,
    _CONNECTION_ID,
    ("file", STRING, "the capture file"),
    ("row", LONG, "number of the row in its file, from 0: the order of decode --json; with shares it only orders"),
    required=("type", "chain", "file", "row"),
)
"""One row per line of `decode --json`."""

EVENTS = _table(
    _CHAIN,
    _CONNECTION_ID,
    ("stream", LONG, "number of the TCP connection in its chain, from 0"),
    _CONNECTION,
    _LEG,
    _PROTOCOL,
    ("file", STRING, "the capture file with the packet that brought it about"),
    ("ts_ns", LONG, "when it happened: time of the packet that completed it, ns since 1970"),
    TIME_OF_IT,
    ("seq", LONG, "order of the events of the connection, from 0; goes on in the next run"),
    _CHANNEL,
    _EPOCH,
    (
        "type",
        STRING,
        "publish, return, publishes-settled, deliver, get, deliveries-settled, request, connection, "
        "channel, lost, finding, field or state",
    ),
    ("sender", STRING, "client or server: who sent it"),
    ("outcome", STRING, "what became of it, or what happened: see docs/pipeline.md for each type"),
    ("settled_ns", LONG, "publish or delivery that was settled in the same batch of events: when, ns since 1970"),
    ("number", LONG, "publishes are counted from 1 on their channel and epoch; of deliveries the delivery tag"),
    ("confirm_tag", LONG, "the tag by which the broker confirms a publish"),
    ("delivery_tag", LONG, "delivery tag; null above 2^63 - 1"),
    ("consumer_tag", STRING, "consumer tag of a delivery"),
    (
        "awaits",
        BOOLEAN,
        "whether something will become of it (a confirm, the end of a transaction; an "
        "acknowledgement); null if that cannot be known",
    ),
    _EXCHANGE,
    _ROUTING_KEY,
    _QUEUE,
    ("mandatory", BOOLEAN, f"publish: {_MANDATORY}"),
    ("redelivered", BOOLEAN, "delivery: argument redelivered"),
    _SIZE,
    *_PROPERTIES,
    _ALL_PROPERTIES,
    _DIGEST,
    ("body", BINARY, "the first bytes of the body; only with the option body"),
    ("spans", SPANS, "what was settled: ranges of numbers (publishes) or of delivery tags (deliveries)"),
    ("spans_before", SPANS, "those of the spans whose rows do not have their outcome; null if that is not known"),
    ("tag", LONG, "deliveries-settled: the delivery tag that the client sent"),
    ("multiple", BOOLEAN, "deliveries-settled: argument multiple"),
    ("requeue", BOOLEAN, "delivery that has an outcome, deliveries-settled: whether the queue gets it back"),
    ("is_unknown_tag", BOOLEAN, "settled: whether the tag is not open; null if that cannot be known"),
    (
        "is_certain",
        BOOLEAN,
        "deliveries-settled: whether the channel and its consumers were seen from the beginning; "
        "joined connection: whether all its consumers are known; null without a snapshot",
    ),
    ("method", STRING, "request: the method; closed: the method it was closed for"),
    ("arguments", STRING, "arguments of that method, JSON object, secrets masked"),
    ("reply", STRING, "request: the method that answered it"),
    ("reply_arguments", STRING, "its arguments, JSON object"),
    ("latency_ns", LONG, "since what it answers, ns"),
    (
        "by",
        STRING,
        "closed: client, server or proxy, whichever closed first; null for a connection that ended without a close",
    ),
    ("code", INT, "reply code"),
    ("text", STRING, "reply text, reason, what a finding found, or the path of a field"),
    ("is_open", BOOLEAN, "closed connection: whether it had been opened before"),
    ("session_name", STRING, "opened channel: of 0-10, the name of the session"),
    ("user", STRING, "opened connection: the user"),
    ("virtual_host", STRING, "opened connection: the virtual host"),
    ("mechanism", STRING, "opened connection: SASL mechanism"),
    ("client_properties", STRING, "opened connection: what the client says of itself, JSON object"),
    ("server_properties", STRING, "opened connection: what the broker says of itself, JSON object"),
    ("channel_max", INT, "opened connection: channels, as agreed; 0 is without limit"),
    ("frame_max", LONG, "opened connection: largest frame, bytes, as agreed; 0 is without limit"),
    ("heartbeat", INT, "opened connection: heartbeat timeout, s, as agreed; 0 is off"),
    ("offset", LONG, "lost: where, in bytes of the file or of its direction"),
    ("lost", LONG, "lost: how many bytes, if that is known"),
    ("kind", STRING, "finding: its kind, see docs/findings.md; lost: what was lost; field: the type of its value"),
    ("severity", STRING, "finding: info, warning or error"),
    ("count", LONG, "finding: how often it has been seen on the connection; field: the messages that had it"),
    ("why", STRING, "finding: why it matters"),
    ("remedy", STRING, "finding: what to do"),
    ("evidence", STRING, "finding: the records that show it, JSON array"),
    *_RULES,
    ("state", BINARY, "state: what the next run goes on with"),
    required=("chain", "type"),
)
"""One row per event of the trace."""

MESSAGES = _table(
    *_WHO,
    _CHANNEL,
    _EPOCH,
    ("number", LONG, "counts the publishes of the channel and epoch, from 1"),
    ("ts_ns", LONG, "when it was published, ns since 1970"),
    TIME_OF_IT,
    _EXCHANGE,
    _ROUTING_KEY,
    ("mandatory", BOOLEAN, _MANDATORY),
    _SIZE,
    ("message_id", STRING, "property message_id"),
    ("correlation_id", STRING, "property correlation_id"),
    ("content_type", STRING, "property content_type: MIME type of the body"),
    ("content_encoding", STRING, "property content_encoding: MIME encoding of the body"),
    ("delivery_mode", INT, "property delivery_mode: 2 is persistent, 1 transient"),
    ("priority", INT, "property priority: 0 to 255"),
    ("expiration", STRING, "property expiration: ms, as text"),
    ("reply_to", STRING, "property reply_to"),
    ("message_type", STRING, "property type"),
    ("app_id", STRING, "property app_id"),
    ("headers", STRING, "property headers: the table, JSON object"),
    _ALL_PROPERTIES,
    _DIGEST,
    ("confirm_tag", LONG, "the tag by which the broker confirms it"),
    ("route", STRING, "returned if it could not be routed, else null"),
    ("return_code", INT, "reply code of basic.return"),
    ("return_text", STRING, "reply text of basic.return"),
    ("outcome", STRING, "confirmed, nacked, committed, rolled back, sent, open or unknown"),
    ("settled_ns", LONG, "when that was known, ns since 1970"),
    ("latency_ns", LONG, "from publish to outcome, ns"),
    *_RULES,
    required=("chain",),
)
"""One row per publish with a known outcome."""

DELIVERIES = _table(
    *_WHO,
    _CHANNEL,
    _EPOCH,
    ("delivery_tag", LONG, "delivery tag; null above 2^63 - 1"),
    ("kind", STRING, "deliver or get"),
    ("consumer_tag", STRING, "consumer tag; null of basic.get"),
    _QUEUE,
    ("redelivered", BOOLEAN, "argument redelivered"),
    ("redelivery_count", LONG, "how often it was delivered before: x-delivery-count, x-death, or as seen"),
    ("ts_ns", LONG, "when it was delivered, ns since 1970"),
    TIME_OF_IT,
    _EXCHANGE,
    _ROUTING_KEY,
    _SIZE,
    ("message_id", STRING, "property message_id"),
    ("correlation_id", STRING, "property correlation_id"),
    ("content_type", STRING, "property content_type: MIME type of the body"),
    ("content_encoding", STRING, "property content_encoding: MIME encoding of the body"),
    ("message_type", STRING, "property type"),
    ("app_id", STRING, "property app_id"),
    _DIGEST,
    ("headers", STRING, "property headers: the table, JSON object"),
    _ALL_PROPERTIES,
    ("outcome", STRING, "acked, nacked, rejected, recovered, auto-acked, browsed, open or unknown"),
    ("requeue", BOOLEAN, "of one that was refused: whether the queue gets it back"),
    ("settled_ns", LONG, "when that was known, ns since 1970"),
    ("latency_ns", LONG, "from delivery to outcome, ns"),
    ("published_chain", STRING, "the publish that it came from: its chain"),
    ("published_connection_id", STRING, "the publish that it came from: its connection"),
    ("published_channel", INT, "the publish that it came from: its channel"),
    ("published_epoch", INT, "the publish that it came from: its channel's epoch"),
    ("published_number", LONG, "the publish that it came from: its number"),
    ("published_ns", LONG, "the publish that it came from: when, ns since 1970"),
    ("published_among", LONG, "how many equal messages that is one of, told apart by order; 1 is sure"),
    ("transit_ns", LONG, "from publish to delivery, ns, by clocks that are corrected as the table clocks says"),
    required=("chain",),
)
"""One row per basic.deliver and basic.get-ok with a known outcome."""

CLOCKS = _table(
    ("hour_start", TIME, "the hour, UTC"),
    ("time", TIME, "the same: what the partition is made of"),
    ("chain", STRING, "the capture files of a host"),
    ("offset_ns", LONG, "by how many ns its clock was ahead; 0 where no message contradicts that it was right"),
    ("pairs", LONG, "messages that were published there and delivered in another chain, or the other way round"),
    required=("chain",),
)
"""One row per hour and chain with messages to or from another chain: its clock."""

REQUESTS = _table(
    *_WHO,
    _CHANNEL,
    _EPOCH,
    ("ts_ns", LONG, "when it was sent, ns since 1970"),
    TIME_OF_IT,
    ("sender", STRING, "client or server: who asked"),
    ("method", STRING, "the method, such as queue.declare"),
    ("arguments", STRING, "its arguments, JSON object, secrets masked"),
    ("reply", STRING, "the method that answered it"),
    ("reply_arguments", STRING, "its arguments, JSON object"),
    ("queue", STRING, "the queue that the method names"),
    ("exchange", STRING, "the exchange that the method names"),
    ("routing_key", STRING, "the routing key that the method names"),
    (
        "outcome",
        STRING,
        "answered, unanswered (the channel ended first), sent (it gets no reply) or kept (a snapshot shows its effect)",
    ),
    ("latency_ns", LONG, "from request to reply, ns"),
    required=("chain",),
)
"""One row per synchronous method."""

CONNECTIONS = _table(
    *_WHO,
    _PROTOCOL,
    ("opened_ns", LONG, "connection.open-ok, or when it was first seen, ns since 1970"),
    ("time", TIME, "the same in whole µs, UTC"),
    ("closed_ns", LONG, "when it ended, or its capture did, ns since 1970"),
    ("is_open", BOOLEAN, "whether it had not ended when this row was written, or when its capture ended"),
    ("closed_by", STRING, "client, server or proxy, which closed or cut it; null where that is not known"),
    ("code", INT, "reply code of connection.close"),
    ("text", STRING, "its reply text, or how the connection ended"),
    ("method", STRING, "the method it was closed for"),
    ("mechanism", STRING, "SASL mechanism"),
    ("client_properties", STRING, "what the client says of itself, JSON object"),
    ("product", STRING, "client property product"),
    ("version", STRING, "client property version, or of 0-10 qpid.client_version"),
    ("platform", STRING, "client property platform"),
    ("server_properties", STRING, "what the broker says of itself, JSON object"),
    ("channel_max", INT, "channels, as agreed; 0 is without limit"),
    ("frame_max", LONG, "largest frame, bytes, as agreed; 0 is without limit"),
    ("heartbeat", INT, "heartbeat timeout, s, as agreed; 0 is off"),
    ("latency_ns", LONG, "from the protocol header to connection.open-ok, ns"),
    ("published", LONG, "messages published"),
    ("delivered", LONG, "messages delivered"),
    ("bytes", LONG, "bodies of both, bytes"),
    (
        "knows_consumers",
        BOOLEAN,
        "whether all its consumers are known: from its start, or from a snapshot, with no byte lost since",
    ),
    required=("chain",),
)
"""One row per connection."""

CHANNELS = _table(
    *_WHO,
    _CHANNEL,
    _EPOCH,
    ("session_name", STRING, "of 0-10, the name of the session that was attached"),
    ("opened_ns", LONG, "channel.open-ok, or when it was first seen, ns since 1970"),
    ("time", TIME, "the same in whole µs, UTC"),
    ("closed_ns", LONG, "when it ended, ns since 1970; null while it is open"),
    ("closed_by", STRING, "client, server or proxy; null without channel.close"),
    ("code", INT, "reply code of channel.close"),
    ("text", STRING, "its reply text"),
    ("method", STRING, "the method it was closed for"),
    ("mode", STRING, "confirm, tx, dtx, or null"),
    ("prefetch", INT, "the last prefetch_count of basic.qos, messages; 0 is without limit"),
    ("published", LONG, "messages published"),
    ("delivered", LONG, "messages delivered"),
    required=("chain",),
)
"""One row per opening of a channel."""

ERRORS = _table(
    *_WHO,
    TS_NS,
    TIME_OF_IT,
    _CHANNEL,
    (
        "kind",
        STRING,
        "channel-closed, connection-closed, login-refused, returned, nacked, refused, lost, unknown-tag …",
    ),
    ("code", INT, "reply code"),
    ("text", STRING, "reply text, or what happened"),
    ("method", STRING, "the method it is about"),
    ("file", STRING, "the capture file"),
    ("offset", LONG, "where, in bytes of the file or of its direction"),
    ("lost", LONG, "how many bytes were lost, if that is known"),
    required=("chain",),
)
"""One row per error or unreadable part."""

FIELDS = _table(
    *_WHO,
    ("ts_ns", LONG, "when the first of the messages with it passed, ns since 1970"),
    TIME_OF_IT,
    _EXCHANGE,
    ("queue", STRING, "the queue that the messages were delivered from; null if they were published"),
    (
        "path",
        STRING,
        "place in the body: $ is the whole, $.lines[].id a field of an array's items; * is a name that looks generated "
        "or personal; … stands for places beyond the bounds",
    ),
    (
        "kind",
        STRING,
        "type of the value: object, array, string, integer, number, boolean, null; of a body that is not JSON text, "
        "binary or empty; or not inspected",
    ),
    ("holds", STRING, "personal data or secret that the value looks like; null in the row of the type alone"),
    ("count", LONG, "messages that had it, of those inspected; counts of several rows add up"),
    required=("chain",),
)
"""One row per field of bodies, hour, exchange or queue, and connection; only with the option fields."""


def _percentiles(measure: str, what: str) -> tuple[_Column, ...]:
    return tuple(
        (f"{measure}_{name}_ns", LONG, f"{what}: {of}, ns")
        for name, of in (("p50", "median"), ("p90", "90 %"), ("p99", "99 %"), ("max", "longest"))
    )


ROLLUP_MINUTE = _table(
    ("minute", TIME, "the minute, UTC"),
    ("time", TIME, "the same: what the partition is made of"),
    ("by", STRING, "connection, exchange, queue, user or all"),
    ("name", STRING, "which one; null by all"),
    ("virtual_host", STRING, "the virtual host"),
    ("published", LONG, "messages published"),
    ("published_bytes", LONG, "bodies of these, bytes"),
    ("confirmed", LONG, "publishes confirmed"),
    ("nacked_publishes", LONG, "publishes nacked"),
    ("returned", LONG, "publishes returned"),
    ("delivered", LONG, "messages delivered"),
    ("delivered_bytes", LONG, "bodies of these, bytes"),
    ("acked", LONG, "deliveries acknowledged"),
    ("nacked", LONG, "deliveries nacked"),
    ("rejected", LONG, "deliveries rejected"),
    ("redelivered", LONG, "deliveries that were redelivered"),
    ("open", LONG, "connections that were open"),
    ("errors", LONG, "errors"),
    *_percentiles("confirm", "from publish to confirm"),
    *_percentiles("ack", "from delivery to acknowledgement"),
    *_percentiles("transit", "from publish to delivery"),
    required=("minute", "by"),
)
"""One row per minute and connection, exchange, queue and user, and for all together."""

FINDINGS = _table(
    *_WHO,
    TS_NS,
    TIME_OF_IT,
    _CHANNEL,
    ("kind", STRING, "its kind, see docs/findings.md"),
    ("severity", STRING, "info, warning or error"),
    ("text", STRING, "what was seen"),
    ("count", LONG, "how often it has been seen on the connection"),
    ("why", STRING, "why it matters"),
    ("remedy", STRING, "what to do"),
    ("evidence", STRING, "the records that show it, JSON array"),
    required=("chain", "kind"),
)
"""One row per finding that the live inspector would report."""

ANOMALIES = _table(
    ("hour_start", TIME, "the hour, UTC"),
    ("time", TIME, "the same: what the partition is made of"),
    ("subject", STRING, "exchange, queue, client or route"),
    ("name", STRING, "which one"),
    ("virtual_host", STRING, "the virtual host"),
    ("measure", STRING, "rate, latency, errors, churn or new"),
    ("value", DOUBLE, "what was measured: messages/s, ns, count/h"),
    ("expected", DOUBLE, "median of the same hour on earlier days, same unit"),
    ("deviation", DOUBLE, "median absolute deviation (MAD) of these, same unit"),
    ("score", DOUBLE, "how far off: (value - expected) / deviation, scaled as standard deviations"),
    ("text", STRING, "in words"),
    ("evidence", STRING, "what to ask for to see it, JSON object"),
    required=("hour_start", "subject"),
)
"""One row per measure that is far from its value at that hour of earlier days."""

TABLES: dict[str, StructType] = {
    "frames": FRAMES,
    "events": EVENTS,
    "messages": MESSAGES,
    "deliveries": DELIVERIES,
    "clocks": CLOCKS,
    "requests": REQUESTS,
    "connections": CONNECTIONS,
    "channels": CHANNELS,
    "errors": ERRORS,
    "fields": FIELDS,
    "rollup_minute": ROLLUP_MINUTE,
    "findings": FINDINGS,
    "anomalies": ANOMALIES,
}
"""All tables, by name."""

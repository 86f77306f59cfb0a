"""Arrow columns of `events`, and their conversion from values. `schema.EVENTS` describes their meaning."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain as chained
from typing import Any

import numpy as np
import pyarrow as pa

from amqproxy.taps.trace.open_tags import Span

_MOST = (1 << 63) - 1

STRINGS = pa.list_(pa.field("element", pa.utf8(), nullable=False))
_SPAN = pa.struct(
    [
        pa.field("first", pa.int64()),
        pa.field("last", pa.int64()),
        pa.field("ts_ns", pa.int64()),
        pa.field("consumer_tag", pa.utf8()),
    ]
)
SPANS = pa.list_(pa.field("element", _SPAN, nullable=False))


LONG, INT, BOOL, TEXT, BYTES = pa.int64(), pa.int32(), pa.bool_(), pa.utf8(), pa.binary()
COLUMNS: dict[str, pa.DataType] = {
    "chain": TEXT,
    "connection_id": TEXT,
    "stream": LONG,
    "connection": TEXT,
    "leg": TEXT,
    "protocol": TEXT,
    "file": TEXT,
    "ts_ns": LONG,
    "time": pa.timestamp("us", "UTC"),
    "seq": LONG,
    "channel": INT,
    "epoch": INT,
    "type": TEXT,
    "sender": TEXT,
    "outcome": TEXT,
    "settled_ns": LONG,
    "number": LONG,
    "confirm_tag": LONG,
    "delivery_tag": LONG,
    "consumer_tag": TEXT,
    "awaits": BOOL,
    "exchange": TEXT,
    "routing_key": TEXT,
    "queue": TEXT,
    "mandatory": BOOL,
    "redelivered": BOOL,
    "size": LONG,
    "content_type": TEXT,
    "content_encoding": TEXT,
    "headers": TEXT,
    "delivery_mode": INT,
    "priority": INT,
    "correlation_id": TEXT,
    "reply_to": TEXT,
    "expiration": TEXT,
    "message_id": TEXT,
    "message_timestamp": LONG,
    "message_type": TEXT,
    "user_id": TEXT,
    "app_id": TEXT,
    "cluster_id": TEXT,
    "properties": TEXT,
    "digest": TEXT,
    "body": BYTES,
    "spans": SPANS,
    "spans_before": SPANS,
    "tag": LONG,
    "multiple": BOOL,
    "requeue": BOOL,
    "is_unknown_tag": BOOL,
    "is_certain": BOOL,
    "method": TEXT,
    "arguments": TEXT,
    "reply": TEXT,
    "reply_arguments": TEXT,
    "latency_ns": LONG,
    "by": TEXT,
    "code": INT,
    "text": TEXT,
    "is_open": BOOL,
    "session_name": TEXT,
    "user": TEXT,
    "virtual_host": TEXT,
    "mechanism": TEXT,
    "client_properties": TEXT,
    "server_properties": TEXT,
    "channel_max": INT,
    "frame_max": LONG,
    "heartbeat": INT,
    "offset": LONG,
    "lost": LONG,
    "kind": TEXT,
    "severity": TEXT,
    "count": LONG,
    "why": TEXT,
    "remedy": TEXT,
    "evidence": TEXT,
    "verdict": TEXT,
    "rules": STRINGS,
    "tags": STRINGS,
    "state": BYTES,
}

SCHEMA = pa.schema([pa.field(name, kind, nullable=name not in ("chain", "type")) for name, kind in COLUMNS.items()])
"""Columns of a batch."""


def array_of(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Return a column. Numbers out of range become null; invalid UTF-8 is escaped."""
    if kind is SPANS:
        return _spans(values)
    try:
        return pa.array(values, kind)
    except (UnicodeError, OverflowError, pa.ArrowInvalid):
        return pa.array([fitting(each) for each in values], kind)


def fitting(value: Any) -> Any:
    """Return a value of a column: null for a number out of range, and escaped for invalid UTF-8."""
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
        array_of([each.first for each in spans], LONG),
        array_of([each.last for each in spans], LONG),
        array_of([each.ts_ns for each in spans], LONG),
        array_of([each.consumer_tag for each in spans], TEXT),
    ]
    made = pa.StructArray.from_arrays(fields, fields=list(_SPAN))
    return pa.ListArray.from_arrays(pa.array(ends), made, type=SPANS)


def microseconds(ts_ns: pa.Array) -> pa.Array:
    """Convert nanoseconds to whole microseconds."""
    missing = np.asarray(ts_ns.is_null())
    whole = ts_ns.fill_null(0).to_numpy() // 1000
    return pa.array(whole, LONG, mask=missing if ts_ns.null_count else None).cast(COLUMNS["time"])

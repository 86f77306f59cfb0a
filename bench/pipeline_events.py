"""Events of any number of messages, generated in bulk by numpy, as input for settling.

Tens of connections: half of them publish with confirms, each of which settles `PER_CONFIRM` publishes; the others
consume, and settle `PER_ACK` deliveries at once. Each message has an identifier and passes over two connections.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet as pq

from amqproxy.pipeline.event_columns import SCHEMA
from amqproxy.pipeline.pending_rows import ROWS
from amqproxy.pipeline.stamps import stamped

PAIRS = 20
"""Publishing connections, each with a consuming one."""

PER_CONFIRM = 4
PER_ACK = 2
FRAMES_A_MESSAGE = 3 + 3 + 1 / PER_CONFIRM + 1 / PER_ACK
"""Method, header and body of the publish and of the delivery, and a share of both acknowledgements."""

CHUNK = 200_000
"""Messages that are generated at a time."""

_START_NS = 1_795_000_000_000_000_000
_STEP_NS = 20_000
"""Nanoseconds from one message to the next."""
_CONFIRM_NS, _DELIVER_NS, _ACK_NS = 900_000, 1_300_000, 4_000_000


def write(path: Path, frames: int) -> tuple[int, int]:
    """Write the events of about `frames` frames, and return the numbers of messages and of events."""
    messages = int(frames / FRAMES_A_MESSAGE) // (PAIRS * PER_CONFIRM) * PAIRS * PER_CONFIRM
    events = 0
    with pq.ParquetWriter(path, SCHEMA, compression="zstd", write_page_index=True) as file:
        beginning = _beginning()
        file.write_table(beginning)
        events += beginning.num_rows
        for first in range(0, messages, CHUNK):
            rows = _chunk(first, min(CHUNK, messages - first))
            file.write_table(rows)
            events += rows.num_rows
    return messages, events


def _beginning() -> pa.Table:
    number = np.arange(2 * PAIRS)
    columns = {
        **_who(number),
        "ts_ns": np.full(2 * PAIRS, _START_NS),
        "seq": np.zeros(2 * PAIRS, np.int64),
        "type": ["connection"] * (2 * PAIRS),
        "outcome": ["opened"] * (2 * PAIRS),
        "user": [f"user-{each % 5}" for each in number],
        "virtual_host": ["/"] * (2 * PAIRS),
        "client_properties": ['{"product":"bench","connection_name":"bench"}'] * (2 * PAIRS),
    }
    return _table(columns, 2 * PAIRS)


def _chunk(first: int, count: int) -> pa.Table:
    place = np.arange(first, first + count)
    pair, number = place % PAIRS, place // PAIRS + 1
    published_ns = _START_NS + 1_000_000_000 + place * _STEP_NS
    delivered_ns = published_ns + _DELIVER_NS
    content = {
        "channel": np.ones(count, np.int32),
        "epoch": np.ones(count, np.int32),
        "number": number,
        "exchange": ["orders"] * count,
        "routing_key": _texts("orders.eu.", place % 10),
        "size": np.full(count, 100),
        "content_type": ["application/json"] * count,
        "delivery_mode": np.full(count, 2, np.int32),
        "message_id": _texts("order-", place),
        "properties": pa.compute.binary_join_element_wise(
            '{"content_type":"application/json","delivery_mode":2,"message_id":"', _texts("order-", place), '"}', ""
        ),
        "digest": pa.compute.binary_join_element_wise("0123456789abcdef", _digits(place), ""),
        "awaits": np.ones(count, bool),
    }
    publishes = _table(
        {
            **_who(pair),
            **content,
            "ts_ns": published_ns,
            "seq": place * 4 + 1,
            "type": ["publish"] * count,
            "sender": ["client"] * count,
            "confirm_tag": number,
            "mandatory": np.zeros(count, bool),
        },
        count,
    )
    deliveries = _table(
        {
            **_who(pair + PAIRS),
            **content,
            "ts_ns": delivered_ns,
            "seq": place * 4 + 2,
            "type": ["deliver"] * count,
            "sender": ["server"] * count,
            "delivery_tag": number,
            "consumer_tag": ["ctag1.0"] * count,
            "queue": _texts("orders-", pair),
            "redelivered": np.zeros(count, bool),
        },
        count,
    )
    confirms = _settled(first, count, PER_CONFIRM, 0, published_ns, _CONFIRM_NS, "publishes-settled", "confirmed", None)
    acks = _settled(first, count, PER_ACK, PAIRS, delivered_ns, _ACK_NS, "deliveries-settled", "acked", "ctag1.0")
    together = pa.concat_tables([publishes, deliveries, confirms, acks])
    order = np.argsort(together.column("ts_ns").to_numpy(), kind="stable")
    return _as_ingested(together.take(pa.array(order)))


def _as_ingested(rows: pa.Table) -> pa.Table:
    """Stamp rows batch by batch like `source`, and sort them in the order in which `tables.stage` writes."""
    parts = [rows.slice(first, ROWS).combine_chunks().to_batches()[0] for first in range(0, rows.num_rows, ROWS)]
    return pa.Table.from_batches([stamped(each) for each in parts]).sort_by(
        [("type", "ascending"), ("ts_ns", "ascending")]
    )


def _settled(
    first: int,
    count: int,
    several: int,
    connection: int,
    began: np.ndarray,
    after: int,
    type: str,
    outcome: str,
    tag: str | None,
) -> pa.Table:
    """Return acknowledgements of `several` messages each, with a range per message."""
    groups = count // PAIRS // several
    in_turns = np.arange(first, first + groups * several * PAIRS).reshape(groups, several, PAIRS)
    place: np.ndarray = in_turns.transpose(0, 2, 1).reshape(-1)
    spans = groups * PAIRS
    number = place // PAIRS + 1
    values = pa.StructArray.from_arrays(
        [
            pa.array(number),
            pa.array(number),
            pa.array(began[place - first]),
            pa.nulls(len(place), pa.utf8()) if tag is None else pa.repeat(tag, len(place)),
        ],
        fields=list(SCHEMA.field("spans").type.value_type),
    )
    last = place.reshape(spans, several)[:, -1]
    columns = {
        **_who(last % PAIRS + connection),
        "channel": np.ones(spans, np.int32),
        "epoch": np.ones(spans, np.int32),
        "ts_ns": began[last - first] + after,
        "seq": last * 4 + 3,
        "type": [type] * spans,
        "outcome": [outcome] * spans,
        "spans": pa.ListArray.from_arrays(
            pa.array(np.arange(0, len(place) + 1, several, dtype=np.int32)), values, type=SCHEMA.field("spans").type
        ),
        "is_unknown_tag": np.zeros(spans, bool),
    }
    return _table(columns, spans)


def _who(number: np.ndarray) -> dict[str, object]:
    names = [f"{each:016x}" for each in range(2 * PAIRS)]
    ends = [f"10.0.0.{each}:40000-10.1.0.1:5672" for each in range(2 * PAIRS)]
    places = pa.array(number)
    count = len(number)
    return {
        "chain": ["bench"] * count,
        "connection_id": pa.array(names).take(places),
        "connection": pa.array(ends).take(places),
        "stream": places,
        "file": ["bench.pcapng"] * count,
    }


def _texts(prefix: str, numbers: np.ndarray) -> pa.Array:
    return pa.compute.binary_join_element_wise(prefix, pa.array(numbers).cast(pa.utf8()), "")


def _digits(numbers: np.ndarray) -> pa.Array:
    return pa.compute.utf8_lpad(pa.array(numbers).cast(pa.utf8()), 16, "0")


def _table(columns: dict[str, object], count: int) -> pa.Table:
    if "ts_ns" in columns:
        micros = np.asarray(columns["ts_ns"]) // 1000
        columns["time"] = pa.array(micros).cast(SCHEMA.field("time").type)
    arrays = []
    for field in SCHEMA:
        value = columns.get(field.name)
        arrays.append(pa.nulls(count, field.type) if value is None else _array(value, field.type))
    return pa.Table.from_arrays(arrays, schema=SCHEMA)


def _array(value: object, kind: pa.DataType) -> pa.Array:
    return value.cast(kind) if isinstance(value, pa.Array) else pa.array(value, kind)

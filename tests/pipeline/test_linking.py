"""The pipeline links as `amqproxy.linking` does, and only publishes that took part."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark")

import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet as pq

from amqproxy.capture.decode import read_decoded
from amqproxy.capture.observed import Observers
from amqproxy.linking.message_life import Delivery, MessageLife
from amqproxy.linking.message_linker import MessageLinker
from amqproxy.pipeline.event_columns import SCHEMA
from amqproxy.pipeline.schema import EVENTS
from amqproxy.pipeline.settle import settle
from amqproxy.pipeline.tables import read_state
from amqproxy.taps.observer import ObserverSettings
from tests.amqp010 import recorded as amqp010
from tests.capture import golden
from tests.pipeline.event_frames import events_of
from tests.pipeline.linked_tables import LinkedTables
from tests.pipeline.simulation import write_capture

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.once, pytest.mark.both_engines(usual=False)]

SETTINGS = ObserverSettings(messages=False, digests=True)

Place = tuple[str, str, int, int | None, int]
"""A delivery: its capture, connection, channel, tag and time."""


def _rows(spark: SparkSession, path: Path, events: pa.Table) -> list[Any]:
    pq.write_table(events, path)
    settled = settle(read_state(spark, EVENTS, str(path)), age_ns=0)
    linked = LinkedTables(spark)
    linked.add(settled)
    settled.release()
    return [SimpleNamespace(**row) for row in linked.deliveries.to_pylist()]


def _linked(path: Path) -> dict[Place, tuple[Delivery, MessageLife]]:
    """The deliveries of a capture with their lives."""
    names: dict[int, str] = {}
    linker = MessageLinker(1 << 30)

    def listen(stream: int, connection: str) -> Any:
        names[stream] = connection
        return lambda events, note: linker.take(stream, events, note)

    observers = Observers(SETTINGS, None, listen)
    for each in read_decoded(path):
        observers.feed(each)
    return {
        (str(path), names[each.place.stream], each.place.channel, each.tag, each.ts_ns): (each, life)
        for life in linker.lives.values()
        for each in life.deliveries
    }


def _apart(path: Path) -> pa.Table:
    """The events of a capture, with a virtual host of its own: many captures show the same traffic."""
    events = events_of([path])
    place = events.schema.get_field_index("virtual_host")
    named = pa.compute.if_else(events.column(place).is_null(), None, pa.scalar(str(path)))
    return events.set_column(place, events.schema.field(place), named)


def _compared(spark: SparkSession, captures: Iterable[Path], table: Path) -> tuple[int, int, list[Any]]:
    """How many deliveries are surely linked, how many of these the pipeline links, and those that differ."""
    paths = list(captures)
    linked = {place: found for path in paths for place, found in _linked(path).items()}
    sure = same = 0
    different = []
    for row in _rows(spark, table, pa.concat_tables(map(_apart, paths))):
        delivery, life = linked[row.chain, row.connection, row.channel, row.delivery_tag, row.ts_ns]
        if delivery.is_sure and life.publish is not None:
            sure += 1
            expected = (life.publish.ts_ns, life.publish.place.channel, life.publish.number)
            found = (row.published_ns, row.published_channel, row.published_number)
            same += found == expected
            if found not in (expected, (None, None, None)):
                different.append((row, expected))
    return sure, same, different


def test_what_is_sure_the_pipeline_links_alike_in_the_golden_captures(spark: SparkSession, tmp_path: Path) -> None:
    captures = [*golden.captures(), *amqp010.captures()]
    sure, same, different = _compared(spark, captures, tmp_path / "events.parquet")
    assert not different
    assert sure > 50
    assert same > 0.95 * sure


def test_and_where_connections_share_queues(spark: SparkSession, tmp_path: Path) -> None:
    """Requeued, rolled back and alike messages among several connections."""
    made = tmp_path / "made.pcapng"
    write_capture(made, range(60, 62), steps=600, connections=5)
    sure, same, different = _compared(spark, [made], tmp_path / "events.parquet")
    assert not different
    assert sure > 300
    assert same > 0.95 * sure


# --- issue 32


def _event(ts_ns: int, type: str, number: int, **values: Any) -> dict[str, Any]:
    found = {"chain": "c", "connection_id": type[:3], "ts_ns": ts_ns, "seq": ts_ns, "channel": 1, "epoch": 1}
    content = {"exchange": "x", "routing_key": "k", "digest": "d", "size": 4}
    if type == "deliver":
        content |= {"queue": "q", "redelivered": False, "awaits": True, "delivery_tag": number}
    return dict.fromkeys(SCHEMA.names) | found | {"type": type, "number": number, "awaits": True} | content | values


def _host(connection: str) -> dict[str, Any]:
    opened = {"ts_ns": 0, "seq": 0, "channel": 0, "epoch": 0, "type": "connection", "outcome": "opened"}
    return dict.fromkeys(SCHEMA.names) | opened | {"chain": "c", "connection_id": connection, "virtual_host": "/"}


def _settled_deliveries(spark: SparkSession, path: Path, events: list[dict[str, Any]]) -> list[Any]:
    rows = [*map(_host, sorted({row["connection_id"] for row in events})), *events]
    found = _rows(spark, path, pa.Table.from_pylist(rows, SCHEMA))
    return sorted(found, key=lambda row: row.ts_ns)


VOIDS: dict[str, list[dict[str, Any]]] = {
    "rolled back": [{"outcome": "rolled back", "settled_ns": 2}],
    "nacked": [{"outcome": "nacked", "settled_ns": 2}],
    "refused": [{"verdict": "refused", "awaits": False}],
    "returned": [{}, {"type": "return", "ts_ns": 2, "code": 312}],
    "settled elsewhere": [{}, {"type": "publishes-settled", "ts_ns": 2, "outcome": "rolled back"}],
}


def test_a_publish_that_reached_no_queue_is_not_linked(spark: SparkSession, tmp_path: Path) -> None:
    """An alike one a minute later is: its transit is 3, and not a minute."""
    span = {"first": 1, "last": 1, "ts_ns": 1, "consumer_tag": None}
    events = []
    for name, void in VOIDS.items():
        published = {"connection_id": f"pub {name}", "digest": name}
        events.append(_event(1, "publish", 1) | published | void[0])
        for other in void[1:]:
            spans = {"spans": [span], "spans_before": [span]}
            events.append(_event(2, "publish", 1) | published | spans | other | {"seq": 2})
        events += [
            _event(60_000, "publish", 2, outcome="confirmed", settled_ns=60_001) | published,
            _event(60_003, "deliver", 1, outcome="acked", settled_ns=60_004)
            | {"connection_id": f"del {name}", "digest": name},
        ]
    rows = _settled_deliveries(spark, tmp_path / "events.parquet", events)
    assert {row.digest: (row.published_number, row.transit_ns) for row in rows} == dict.fromkeys(VOIDS, (2, 3))


def test_messages_of_other_virtual_hosts_are_others(spark: SparkSession, tmp_path: Path) -> None:
    """A shovel moved one with its message_id; one connection was joined in its middle: its host is not known."""
    hosts = {"pub a": "a", "pub b": "b", "del a": "a", "del b": "b", "pub c": "c"}
    rows = [_host(name) | {"virtual_host": host} for name, host in hosts.items()]
    moved = {"message_id": "moved", "outcome": "acked", "settled_ns": 99}
    for ts_ns, host in ((10, "a"), (20, "b")):
        rows.append(_event(ts_ns, "publish", 1, connection_id=f"pub {host}", message_id="moved", awaits=False))
        rows.append(_event(ts_ns + 5, "deliver", 1, connection_id=f"del {host}", **moved))
    rows.append(_event(30, "publish", 1, connection_id="pub c", message_id="joined", awaits=False))
    rows.append(_event(31, "deliver", 1, connection_id="joined", message_id="joined", outcome="acked", settled_ns=99))
    rows.append(_event(41, "deliver", 2, connection_id="del a", message_id="joined", outcome="acked", settled_ns=99))
    found = _rows(spark, tmp_path / "events.parquet", pa.Table.from_pylist(rows, SCHEMA))
    assert {row.ts_ns: row.published_ns for row in found} == {15: 10, 25: 20, 31: 30, 41: None}


def test_redeliveries_of_alike_contents_are_not_counted_as_deliveries(spark: SparkSession, tmp_path: Path) -> None:
    """Of 60 pings the last was requeued twice: it was delivered three times, and not 62."""
    events = []
    for number in range(1, 61):
        events.append(_event(10 * number, "publish", number, outcome="confirmed", settled_ns=10 * number + 1))
        events.append(_event(10 * number + 2, "deliver", number, outcome="acked", settled_ns=10 * number + 3))
    for tag in (61, 62):
        events.append(_event(10 * tag, "deliver", tag, redelivered=True, outcome="acked", settled_ns=10 * tag + 1))
    rows = _settled_deliveries(spark, tmp_path / "events.parquet", events)
    assert [row.redelivery_count for row in rows] == [0] * 60 + [1, 2]

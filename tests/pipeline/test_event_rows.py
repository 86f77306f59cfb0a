"""Rows of events: all that a trace gives, in its order, with what others need to settle it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from amqproxy.amqp091.frame import encode_method
from amqproxy.amqp091.methods import BasicGetOk, QueueDeclare
from amqproxy.capture.decode import read_decoded
from amqproxy.capture.observed import observed
from amqproxy.pipeline.event_columns import SCHEMA
from amqproxy.pipeline.event_reading import event_batches
from amqproxy.pipeline.event_rows import ConnectionRows, EventRows
from amqproxy.pipeline.pending_rows import ConnectionColumns
from amqproxy.taps.dialects import answered_name
from amqproxy.taps.findings.finding import Finding
from amqproxy.taps.note import Note
from amqproxy.taps.observer import ObserverSettings
from amqproxy.taps.record import encoded, json_mapping
from amqproxy.taps.trace import events as trace_events
from amqproxy.taps.trace.snapshot import (
    ChannelSnapshot,
    ConnectionSnapshot,
    ConsumerSnapshot,
    DeclarationSnapshot,
    HandshakeSnapshot,
)
from tests.amqp010 import recorded as amqp010
from tests.capture import golden, shared_captures

pytestmark = pytest.mark.once

TYPES = {
    "MessagePublished": "publish",
    "MessageReturned": "return",
    "PublishesSettled": "publishes-settled",
    "DeliveriesSettled": "deliveries-settled",
    "RequestSent": "request",
    "RequestAnswered": "request",
    "RequestUnanswered": "request",
    "ConnectionOpened": "connection",
    "ConnectionClosed": "connection",
    "BlockingStarted": "connection",
    "BlockingEnded": "connection",
    "ChannelOpened": "channel",
    "ChannelClosed": "channel",
    "FlowChanged": "channel",
}


def rows_of(source: Any, **options: Any) -> list[dict[str, Any]]:
    return pa.Table.from_batches(event_batches(source, **options), SCHEMA).to_pylist()


def traced(path: Path) -> tuple[dict[int, list[tuple[Any, Note]]], list[Finding]]:
    """The events of each stream with their notes, and the findings."""
    found: dict[int, list[tuple[Any, Note]]] = {}

    def listener_of(stream: int, connection: str) -> Any:
        return lambda events, note: found.setdefault(stream, []).extend((event, note) for event in events)

    settings = ObserverSettings(messages=False, findings=True, digests=True, body=8)
    reports = list(observed(read_decoded(path, leg="both"), settings, listener_of=listener_of))
    return found, [each for each in reports if isinstance(each, Finding)]


def expected(event: Any, note: Note) -> dict[str, Any]:
    """What a row must have at least, of one event."""
    kind = type(event).__name__
    row = {"ts_ns": event.ts_ns, "channel": event.channel, "epoch": event.epoch}
    if isinstance(event, trace_events.HistoryLost):
        row |= {"type": "connection" if event.sender is None else "lost", "text": event.reason}
        return row
    row["type"] = "get" if isinstance(getattr(event, "method", None), BasicGetOk) else TYPES.get(kind, "deliver")
    fields = {name: getattr(event, name) for name in event.__struct_fields__}
    plain_names = ("number", "size", "awaits", "confirm_tag", "queue", "latency_ns", "tag", "is_unknown_tag")
    for name in (*plain_names, "session_name"):
        if name in fields:
            row[name] = fields[name]
    if "properties" in fields:
        method, properties = fields["method"], fields["properties"]
        row |= {"exchange": method.exchange, "routing_key": method.routing_key, "message_id": properties.message_id}
        row |= {"body": event.body or None, "delivery_mode": properties.delivery_mode}
        row["digest"] = event.digest.hex() or None
        present = properties.present()
        plain = json.loads(encoded(json_mapping(present)))
        row |= {"properties": plain or None, "headers": plain.get("headers", plain.get("application_headers"))}
    if "spans" in fields:
        names = ("first", "last", "ts_ns", "consumer_tag")
        row["spans"] = [{name: getattr(span, name) for name in names} for span in event.spans]
        row["outcome"] = str(event.outcome)
    if "request" in fields:
        reply = getattr(event, "reply", None)
        row["method"] = event.request.name if event.request else reply and answered_name(reply)
    if "by" in fields:
        row |= {"by": event.by and str(event.by), "code": event.code, "text": event.text, "method": event.method}
    if note.rules or note.verdict:
        row |= {"verdict": note.verdict or None, "rules": list(note.rules) or None, "tags": list(note.tags) or None}
    return row


def seen(row: dict[str, Any], names: Sequence[str]) -> dict[str, Any]:
    return {
        name: json.loads(row[name]) if name in ("properties", "headers") and row[name] else row[name] for name in names
    }


def check(path: Path) -> Iterator[str]:
    found, findings = traced(path)
    rows = rows_of(path, leg="both", body=8, rows=7)
    yield from (row["type"] for row in rows)
    for stream, noted in found.items():
        of_stream = [row for row in rows if row["stream"] == stream]
        assert [row["seq"] for row in of_stream] == list(range(len(of_stream)))
        assert len({row["connection_id"] for row in of_stream}) == 1
        protocols = {row["protocol"] for row in of_stream} - {None}
        assert protocols in ({"0-9-1"}, {"0-10"}) or not any(row["channel"] for row in of_stream)
        wanted = [
            expected(event, note)
            for event, note in noted
            if not isinstance(getattr(event, "reply", None), BasicGetOk)  # the message is an event of its own
        ]
        got = [row for row in of_stream if row["type"] != "finding"]
        assert len(got) == len(wanted)
        for row, want in zip(got, wanted, strict=True):
            assert seen(row, list(want)) == want
    told = [(each.kind, each.ts_ns, each.count, each.stream) for each in findings]
    assert [
        (row["kind"], row["ts_ns"], row["count"], row["stream"]) for row in rows if row["type"] == "finding"
    ] == told
    ids = {row["connection_id"] for row in rows if row["stream"] is not None}
    assert len(ids) == len(found)


def test_events_of_all_captures_are_rows_in_their_order() -> None:
    types = {
        each for path in (*golden.captures(), *amqp010.captures(), *shared_captures.files()) for each in check(path)
    }
    assert types >= {*TYPES.values(), "deliver", "get", "lost", "finding"}


@pytest.mark.parametrize("queue", ["q", None])
def test_a_snapshot_is_a_row_of_the_connection_and_rows_of_the_requests_it_shows(queue: str | None) -> None:
    consumer = ConsumerSnapshot(tag="c", queue=queue, no_ack=True)
    snapshot = ConnectionSnapshot(
        ts_ns=5,
        protocol="0-9-1",
        handshake=HandshakeSnapshot(user="shop", virtual_host="/", client_properties={"product": "pika"}),
        channels=(ChannelSnapshot(number=3, epoch=2, consumers=(consumer,)),),
        declarations=(DeclarationSnapshot(method=encode_method(0, QueueDeclare(queue="q"))[7:-1], ts_ns=1),),
    )
    made = EventRows("chain")
    rows = ConnectionRows(made, ConnectionColumns("a", 1, "c-b", "client"))
    rows([trace_events.StateRestored(5, virtual_host="/", snapshot=snapshot), trace_events.StateRestored(6)])
    found = pa.Table.from_batches([made.take()], SCHEMA).to_pylist()
    joined, declared, *consumed, without = found
    assert [each["seq"] for each in found] == list(range(len(found)))
    assert (joined["type"], joined["outcome"], joined["user"], joined["virtual_host"]) == (
        *("connection", "joined", "shop", "/"),
    )
    assert (joined["is_certain"], without["is_certain"], without["outcome"]) == (queue is not None, None, "joined")
    assert (declared["method"], declared["outcome"], declared["queue"], declared["ts_ns"]) == (
        *("queue.declare", "kept", "q", 5),
    )
    assert [(each["method"], each["queue"], each["channel"], each["epoch"]) for each in consumed] == (
        [("basic.consume", "q", 3, 2)] if queue else []
    )

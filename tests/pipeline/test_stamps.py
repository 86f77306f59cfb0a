"""What is settled within a batch of events is stamped, and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from amqproxy.pipeline.event_columns import SCHEMA
from amqproxy.pipeline.event_reading import event_batches
from amqproxy.pipeline.stamps import stamped
from tests.pipeline.simulation import write_capture

pytestmark = pytest.mark.once

Row = dict[str, Any]


def batch_of(*rows: Row) -> pa.RecordBatch:
    common = {"chain": "c", "connection_id": "1", "channel": 1, "epoch": 1}
    return pa.RecordBatch.from_pylist([common | row for row in rows], SCHEMA)


def publish(number: int, ts_ns: int, **more: Any) -> Row:
    return {"type": "publish", "number": number, "ts_ns": ts_ns, **more}


def settled(*spans: tuple[int, int, int], **more: Any) -> Row:
    named = [dict(zip(("first", "last", "ts_ns"), each, strict=True)) for each in spans]
    return {"type": "publishes-settled", "ts_ns": 99, "outcome": "confirmed", "spans": named} | more


def stamps(*rows: Row) -> list[tuple[Any, ...]]:
    """What each row got: outcome and time, or how many spans are left."""
    found = []
    for row in stamped(batch_of(*rows)).to_pylist():
        left = row["spans_before"]
        found.append((row["outcome"], row["settled_ns"]) if row["spans"] is None else len(left))
    return found


NOT = (None, None)
STAMPED = ("confirmed", 99)


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([publish(1, 5), settled((1, 1, 5))], [STAMPED, 0]),
        ([publish(1, 5), publish(2, 5), settled((1, 2, 5))], [STAMPED, STAMPED, 0]),
        ([publish(2, 5), settled((1, 2, 5))], [STAMPED, 1]),
        ([publish(2, 5), settled((1, 1, 4), (2, 2, 5))], [STAMPED, 1]),
        ([publish(1, 5), settled((1, 1, 4))], [NOT, 1]),
        ([publish(1, 4), publish(1, 5), settled((1, 1, 5))], [NOT, STAMPED, 0]),
        ([publish(1, 5), publish(1, 5), settled((1, 1, 5))], [NOT, NOT, 1]),
        ([publish(1, 5), settled((1, 1, 5)), settled((1, 1, 5), outcome="nacked")], [NOT, 1, 1]),
        ([publish(1, 5, channel=2), settled((1, 1, 5))], [NOT, 1]),
        ([publish(1, 5, epoch=2), settled((1, 1, 5))], [NOT, 1]),
        ([publish(1, 5, connection_id="2"), settled((1, 1, 5))], [NOT, 1]),
        ([publish(1, 5, type="deliver"), settled((1, 1, 5))], [NOT, 1]),
        ([publish(1, 5), settled((1, 1 << 40, 5))], [NOT, 1]),
        ([publish(1, 5), settled()], [NOT, 0]),
    ],
)
def test_what_is_settled_in_the_batch_is_stamped(rows: list[Row], expected: list[Any]) -> None:
    assert stamps(*rows) == expected


def test_a_delivery_says_whether_the_queue_gets_it_back() -> None:
    rows = [
        publish(1, 5, type="get"),
        settled((1, 1, 5), type="deliveries-settled", outcome="nacked", requeue=True),
    ]
    (got, _) = stamped(batch_of(*rows)).to_pylist()
    assert (got["outcome"], got["settled_ns"], got["requeue"]) == ("nacked", 99, True)


def test_without_settlements_a_batch_is_as_it_was() -> None:
    batch = batch_of(publish(1, 5))
    assert stamped(batch) is batch


@pytest.mark.parametrize("rows", [16_384, 50])
def test_stamps_and_what_is_left_are_all_that_was_settled(tmp_path: Path, rows: int) -> None:
    """Of each content either its own row says what became of it, or a span that is left does."""
    write_capture(tmp_path / "made.pcapng", range(40, 42), steps=600, connections=6)
    events = pa.Table.from_batches(list(event_batches(tmp_path / "made.pcapng", rows=rows))).to_pylist()
    became = {name: _by_number(events, name) for name in ("spans", "spans_before")}
    count = 0
    for row in events:
        if row["type"] not in ("publish", "deliver", "get"):
            continue
        key = _key(row, row["number"], row["ts_ns"])
        if row["settled_ns"] is None:
            assert (key in became["spans"]) == (key in became["spans_before"])
        else:
            assert (row["outcome"], row["settled_ns"], row["requeue"]) == became["spans"][key]
            count += 1
    assert count > 100
    assert bool(became["spans_before"]) == (rows == 50)


def _by_number(events: list[Row], name: str) -> dict[tuple[Any, ...], tuple[Any, ...]]:
    return {
        _key(row, number, span["ts_ns"]): (row["outcome"], row["ts_ns"], row["requeue"])
        for row in events
        for span in row[name] or ()
        for number in range(span["first"], span["last"] + 1)
    }


def _key(row: Row, number: int, ts_ns: int) -> tuple[Any, ...]:
    names = (row[name] for name in ("connection_id", "channel", "epoch"))
    return row["type"].startswith("publish"), *names, number, ts_ns

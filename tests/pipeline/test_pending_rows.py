"""Rows of many kinds become one batch, in the order in which they were added."""

from __future__ import annotations

import pytest

from amqproxy.pipeline.event_columns import SCHEMA
from amqproxy.pipeline.event_rows import EventRows
from amqproxy.pipeline.pending_rows import MAX_BATCH_BYTES, NO_CONNECTION, ConnectionColumns
from amqproxy.taps.note import NOTHING, Note

pytestmark = pytest.mark.once


def test_rows_are_in_the_order_in_which_they_were_added() -> None:
    rows = EventRows("chain", rows=3)
    one, other = ConnectionColumns("1", 1, "a", None), ConnectionColumns("2", 2, "b", "client")
    rows.file = "first"
    rows.begin(one, NOTHING)
    rows._add("changed", 1, 0, 1, 1, "channel", None, "opened", None, None)
    rows.begin(other, Note(verdict="dropped", rules=("r",)))
    rows._add("lost", 2_500, 0, None, None, "lost", None, "unknown", "text", "bytes", None, 7, None, None)
    assert not rows.is_full
    rows.file = "second"
    rows.begin(one, NOTHING)
    rows._add("changed", 3, 1, 1, 1, "channel", None, "closed", None, None)
    assert rows.is_full
    batch = rows.take()
    assert batch.schema == SCHEMA
    found = [(row["connection_id"], row["file"], row["type"], row["outcome"], row["verdict"])
             for row in batch.to_pylist()]  # fmt: skip
    assert found == [
        ("1", "first", "channel", "opened", None),
        ("2", "first", "lost", "unknown", "dropped"),
        ("1", "second", "channel", "closed", None),
    ]
    assert batch.column("time").to_pylist()[1].microsecond == 2
    assert (rows.count, rows.is_full) == (0, False)


def test_a_batch_ends_with_many_bytes() -> None:
    rows = EventRows("chain")
    rows.add_state(NO_CONNECTION, bytes(MAX_BATCH_BYTES))
    assert rows.is_full
    assert rows.take().num_rows == 1

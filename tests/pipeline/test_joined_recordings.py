"""Rows of a recording that begins in the middle of a connection are those of the whole one from there on."""

from __future__ import annotations

import io
from typing import Any

import pyarrow as pa
import pytest

from amqproxy.pipeline.event_columns import SCHEMA
from amqproxy.pipeline.event_reading import event_batches
from tests.recording.joined import SAID, recorded

pytestmark = pytest.mark.once

TIMES = {"ts_ns", "time", "settled_ns", "seq", "spans", "spans_before"}
MESSAGES = ("publish", "deliver", "publishes-settled", "deliveries-settled")


def rows(since: int) -> list[dict[str, Any]]:
    """The rows of messages, without the times, which depend on where the recording begins."""
    table = pa.Table.from_batches(event_batches(io.BytesIO(recorded(since))), SCHEMA)
    found = [each for each in table.to_pylist() if each["type"] in MESSAGES]
    return [
        {name: value for name, value in each.items() if name not in TIMES}
        | {"tags": [(span["first"], span["last"]) for span in each["spans"] or ()]}
        for each in found
    ]


@pytest.mark.parametrize("since", range(12, len(SAID) - 1))
def test_messages_after_the_join_have_the_same_rows(since: int) -> None:
    whole, part = rows(0), rows(since)
    assert part
    assert part == whole[len(whole) - len(part) :]

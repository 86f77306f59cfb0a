"""The table `events` of captures, each by itself."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa

from amqproxy.pipeline.event_columns import SCHEMA
from amqproxy.pipeline.event_reading import event_batches


def events_of(paths: Iterable[Path]) -> pa.Table:
    """What happened in captures that do not continue each other."""
    return pa.Table.from_batches((batch for path in paths for batch in event_batches(path, chain=str(path))), SCHEMA)


def unstamped(row: dict[str, Any]) -> dict[str, Any]:
    """A row without what it has of others only if both are in one batch."""
    without = {"settled_ns": None, "spans_before": None} if "spans_before" in row else {}
    is_content = row.get("type") in ("publish", "deliver", "get")
    return row | without | ({"outcome": None, "requeue": None} if without and is_content else {})

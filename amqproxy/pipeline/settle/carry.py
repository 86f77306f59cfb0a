"""Rows that a batch carries to the next: open messages, and facts about connections and channels."""

from __future__ import annotations

from pyspark.sql.types import DataType, StructField, StructType

from amqproxy.pipeline.schema import BOOLEAN, EVENTS, INT, LONG, STRING

SECOND_NS = 1_000_000_000

RETURN_NS = 10 * SECOND_NS
"""Maximum delay of the basic.return of a publish without confirms."""

LINGER_NS = 600 * SECOND_NS
"""Time for which ended objects are remembered, since late events may follow."""

CONNECTION, CHANNEL = "connection-so-far", "channel-so-far"
"""Types of carried rows, besides those of `events`."""


def _column(name: str, kind: DataType, comment: str) -> StructField:
    return StructField(name, kind, True, {"comment": comment})


_EXTRA = (
    _column("first_ns", LONG, "of what has a life: when it was first seen, ns since 1970"),
    _column("opened_ns", LONG, "when it was opened, ns since 1970"),
    _column("closed_ns", LONG, "when it was closed, ns since 1970"),
    _column("last_ns", LONG, "when it was last seen, ns since 1970"),
    _column("is_written", BOOLEAN, "whether its last row has been written"),
    _column("knows_consumers", BOOLEAN, "connection: whether all its consumers are known"),
    _column("mode", STRING, "channel: confirm, tx, dtx, or null"),
    _column("prefetch", INT, "channel: the last prefetch_count"),
    _column("prefetch_seq", LONG, "channel: the event that set it"),
    _column("published", LONG, "messages published so far"),
    _column("delivered", LONG, "messages delivered so far"),
    _column("bytes", LONG, "bodies of both so far, bytes"),
)

OPEN = StructType([*(field for field in EVENTS.fields if field.name != "state"), *_EXTRA])
"""One row per carried object: unchanged events, and facts about connections and channels."""

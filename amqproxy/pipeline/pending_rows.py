"""Rows of `events` before they become a batch.

A row is one tuple among those of its kind; columns are made of a whole batch at once.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from amqproxy.pipeline.event_columns import COLUMNS, SCHEMA, STRINGS, TEXT, array_of, microseconds
from amqproxy.pipeline.property_values import PROPERTY_COLUMNS
from amqproxy.pipeline.stamps import stamped
from amqproxy.taps.note import NOTHING, Note

ROWS = 16_384
"""Default number of rows in a batch."""

MAX_BATCH_BYTES = 32 * 1024 * 1024
"""Approximate limit of bodies and properties in one batch; the batch ends with the packet that exceeds it."""

_HEAD = ("ts_ns", "seq", "channel", "epoch", "type", "sender", "outcome")
"""First columns of every row, after its place in the batch, its connection, its file and its note."""
_BEFORE_HEAD = 4

_HANDSHAKE = (
    *("user", "virtual_host", "mechanism", "client_properties", "server_properties"),
    *("channel_max", "frame_max", "heartbeat"),
)
_CONTENT = ("exchange", "routing_key", "size", "digest", "body", *PROPERTY_COLUMNS)


class _Kind(NamedTuple):
    """Rows of a kind: their columns after those of `_HEAD`, and the rows themselves."""

    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]]


_KINDS = {
    "publish": ("number", "confirm_tag", "awaits", "mandatory", *_CONTENT),
    "return": ("number", "code", "text", *_CONTENT),
    "deliver": (
        *("number", "delivery_tag", "consumer_tag", "queue", "redelivered", "awaits", "latency_ns"),
        *_CONTENT,
    ),
    "publishes-settled": ("spans", "is_unknown_tag"),
    "deliveries-settled": ("spans", "tag", "multiple", "requeue", "is_unknown_tag", "is_certain"),
    "request": (
        *("method", "arguments", "reply", "reply_arguments", "latency_ns", "queue", "exchange", "routing_key"),
        "consumer_tag",
    ),
    "opened": ("text", "latency_ns", "is_certain", *_HANDSHAKE),
    "closed": ("by", "code", "text", "method", "arguments", "is_open", *_HANDSHAKE),
    "channel-opened": ("session_name", "latency_ns"),
    "changed": ("text", "latency_ns"),
    "lost": ("text", "kind", "code", "offset", "lost", "latency_ns"),
    "finding": ("kind", "severity", "text", "count", "why", "remedy", "evidence"),
    "field": ("exchange", "queue", "text", "kind", "count"),
    "state": ("state",),
}


class ConnectionColumns(NamedTuple):
    """Columns that all rows of a connection share."""

    connection_id: str | None
    stream: int | None
    connection: str | None
    leg: str | None
    protocol: str | None = None
    """Protocol, if known."""


NO_CONNECTION = ConnectionColumns(None, None, None, None)


class PendingRows:
    """Rows of a `chain` that are not in a batch yet; `take` makes a batch of them."""

    def __init__(self, chain: str, *, rows: int = ROWS) -> None:
        self.chain = chain
        self.file: str | None = None
        """File whose packets cause the next rows."""
        self.count = 0
        """Number of rows that are not in a batch yet."""
        self._most = rows
        self._clear()

    def _clear(self) -> None:
        self.count = 0
        self._bytes = 0
        self._who: list[ConnectionColumns] = []
        self._who_places: dict[ConnectionColumns, int] = {}
        self._files: list[str | None] = []
        self._notes: list[Note] = []
        self._place = self._file_place = 0
        self._note_place: int | None = None
        self._kinds = {name: _Kind((*_HEAD, *columns), []) for name, columns in _KINDS.items()}

    @property
    def is_full(self) -> bool:
        return self.count >= self._most or self._bytes >= MAX_BATCH_BYTES

    def begin(self, who: ConnectionColumns, note: Note) -> None:
        """Set the connection of the next rows, and the note about rules that acted on their command."""
        place = self._who_places.get(who)
        if place is None:
            place = self._who_places[who] = len(self._who)
            self._who.append(who)
        self._place = place
        files = self._files
        if not files or files[-1] != self.file:
            files.append(self.file)
        self._file_place = len(files) - 1
        self._note_place = None
        if note is not NOTHING:
            self._note_place = len(self._notes)
            self._notes.append(note)

    def _head(self) -> tuple[int, int, int, int | None]:
        """Return the place of the next row, and those of its connection, file and note."""
        count = self.count
        self.count = count + 1
        return count, self._place, self._file_place, self._note_place

    def _add(self, kind: str, *values: Any) -> None:
        self._kinds[kind].rows.append((*self._head(), *values))

    def take(self) -> pa.RecordBatch:
        """Return the rows added since the last call as a batch."""
        count = self.count
        kinds = [each for each in self._kinds.values() if each.rows]
        made: dict[str, dict[int, pa.Array]] = {}
        sizes = [len(each.rows) for each in kinds]
        places: list[int] = []
        before: list[list[Any]] = [[], [], []]
        for number, kind in enumerate(kinds):
            values = list(zip(*kind.rows, strict=True))
            places += values[0]
            for column, added in zip(before, values[1:_BEFORE_HEAD], strict=True):
                column += added
            for name, column_values in zip(kind.columns, values[_BEFORE_HEAD:], strict=True):
                first = column_values[0]
                is_one = column_values[-1] is first and column_values.count(first) == len(column_values)
                if is_one and first is None:
                    continue
                if is_one and type(first) is str:
                    array = pa.repeat(array_of((first,), TEXT)[0], len(column_values))
                else:
                    array = array_of(column_values, COLUMNS[name])
                made.setdefault(name, {})[number] = array
        order = np.empty(count, np.int64)
        order[places] = np.arange(count)
        is_in_order = len(kinds) <= 1
        indices = pa.array(order)
        columns = {}
        for name, arrays in made.items():
            if is_in_order:
                columns[name] = arrays[0]
                continue
            parts = [
                arrays[number] if number in arrays else pa.nulls(size, COLUMNS[name])
                for number, size in enumerate(sizes)
            ]
            columns[name] = pa.concat_arrays(parts).take(indices)
        of_who, of_files = (pa.array(np.array(each, np.int64)[order]) for each in before[:2])
        for place, name in enumerate(ConnectionColumns._fields):
            columns[name] = pa.array([each[place] for each in self._who], COLUMNS[name]).take(of_who)
        columns["chain"] = pa.repeat(pa.scalar(self.chain, TEXT), count)
        columns["file"] = pa.array(self._files, TEXT).take(of_files)
        if "ts_ns" in columns:
            columns["time"] = microseconds(columns["ts_ns"])
        if self._notes:
            self._add_notes(columns, np.array(before[2], object)[order])
        batch = pa.RecordBatch.from_arrays(
            [columns[name] if name in columns else pa.nulls(count, kind) for name, kind in COLUMNS.items()],
            schema=SCHEMA,
        )
        self._clear()
        return stamped(batch)

    def _add_notes(self, columns: dict[str, pa.Array], places: Any) -> None:
        wanted = [None if place is None else self._notes[place] for place in places]
        columns["verdict"] = pa.array([each and (each.verdict or None) for each in wanted], TEXT)
        columns["rules"] = pa.array([each and (each.rules or None) for each in wanted], STRINGS)
        columns["tags"] = pa.array([each and (each.tags or None) for each in wanted], STRINGS)

"""Outcomes stamped on publishes and deliveries that are settled in the same batch of events.

Most are settled within milliseconds, hence in their own batch, and then need no join afterwards.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from amqproxy.pipeline.event_columns import SPANS

_CONTENTS, _SETTLED = ("publish", "deliver", "get"), ("publishes-settled", "deliveries-settled")
_OF_PUBLISHES = ("publish", "publishes-settled")

_MOST_CONNECTIONS = 1 << 14
"""Maximum number of connections in a batch, since connection, channel, epoch and side are packed into one number."""


def stamped(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the batch, of `event_columns.SCHEMA`, with `outcome`, `requeue` and `settled_ns` of contents that it
    settles.

    For each settling row, `spans_before` has the spans of contents that are not, or not all, in the batch.
    """
    is_settling = _is_one_of(batch, _SETTLED)
    names = batch.column("connection_id").dictionary_encode()
    if not is_settling.any() or len(names.dictionary) >= _MOST_CONNECTIONS:
        return batch
    numbers = batch.column("number")
    contents = np.flatnonzero(_is_one_of(batch, _CONTENTS) & np.asarray(numbers.is_valid()))
    side = _is_one_of(batch, _OF_PUBLISHES).astype(np.int64)
    group = side << 62 | _whole(names.indices) << 48 | _whole(batch.column("channel")) << 32
    group |= _whole(batch.column("epoch"))
    times, numbers = _whole(batch.column("ts_ns")), _whole(numbers)

    spans = _Spans(batch.column("spans"))
    is_near = (spans.count <= batch.num_rows) & (spans.ts_ns >= (times[contents].min() if contents.size else 0))
    near = np.flatnonzero(is_near & (spans.count > 0))
    span = np.repeat(near, spans.count[near])
    within = np.arange(len(span)) - np.repeat(np.cumsum(spans.count[near]) - spans.count[near], spans.count[near])
    keys = (
        np.concatenate([group[contents], group[spans.row[span]]]),
        np.concatenate([numbers[contents], spans.first[span] + within]),
        np.concatenate([times[contents], spans.ts_ns[span]]),
    )
    content, settled = _pairs(keys, len(contents))
    span = span[settled]

    source = np.arange(batch.num_rows)
    source[contents[content]] = spans.row[span]
    is_stamped = np.zeros(batch.num_rows, bool)
    is_stamped[contents[content]] = True
    is_before = np.bincount(span, minlength=len(spans.row)) < spans.count
    rows = pa.array(source)
    changed = {
        "outcome": batch.column("outcome").take(rows),
        "requeue": batch.column("requeue").take(rows),
        "settled_ns": batch.column("ts_ns").take(pa.array(source, mask=~is_stamped)),
        "spans_before": spans.chosen(is_before, is_settling),
    }
    columns = [changed.get(name, column) for name, column in zip(batch.schema.names, batch.columns, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)


class _Spans:
    """Spans of all rows of a batch as arrays, with the row of each."""

    def __init__(self, column: pa.ListArray) -> None:
        lengths = _whole(pc.list_value_length(column))
        self._values = column.flatten()
        first, last, ts_ns, _ = self._values.flatten()
        self.row = np.repeat(np.arange(len(column)), lengths)
        self.first, self.ts_ns = _whole(first), _whole(ts_ns)
        is_known = np.asarray(pc.and_(first.is_valid(), last.is_valid()))
        self.count = np.where(is_known, _whole(last) - self.first + 1, 0)

    def chosen(self, is_chosen: np.ndarray, has_spans: np.ndarray) -> pa.ListArray:
        """Return a column of some of the spans; null in rows without any."""
        values = self._values.take(pa.array(np.flatnonzero(is_chosen)))
        ends = np.zeros(len(has_spans) + 1, np.int32)
        np.cumsum(np.bincount(self.row[is_chosen], minlength=len(has_spans)), out=ends[1:])
        return pa.ListArray.from_arrays(pa.array(ends), values, type=SPANS, mask=pa.array(~has_spans))


def _pairs(keys: tuple[np.ndarray, ...], contents: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the places of equal keys of a content, one of the first, and of a settled one, one of the others.

    Duplicate keys are in no pair.
    """
    count = len(keys[0])
    order = np.lexsort((np.arange(count), *reversed(keys)))
    is_same = np.zeros(count + 1, bool)  # equal to the one before; the last is followed by none
    is_same[1:count] = np.all([each[order[1:]] == each[order[:-1]] for each in keys], axis=0)
    is_settled = order >= contents
    first = np.flatnonzero(is_same[1:count] & ~is_same[: count - 1] & ~is_same[2 : count + 1])
    first = first[~is_settled[first] & is_settled[first + 1]]
    return order[first], order[first + 1] - contents


def _is_one_of(batch: pa.RecordBatch, types: tuple[str, ...]) -> np.ndarray:
    return np.asarray(pc.is_in(batch.column("type"), pa.array(types)))


def _whole(column: pa.Array) -> np.ndarray:
    """Convert integers, with 0 for null."""
    return np.asarray(column.fill_null(0)).astype(np.int64)

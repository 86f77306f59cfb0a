"""Unreadable parts of captures, from the tables `events` and `frames`; needs no Spark."""

from __future__ import annotations

from collections.abc import Sequence

from pyarrow import compute as pc
from pyarrow import dataset as ds

from amqproxy.pipeline import storage
from amqproxy.pipeline.chain_reading import LostPart

_COLUMNS = {
    "events": {"file": "file", "kind": "kind", "text": "text", "offset": "offset", "ts_ns": "ts_ns"},
    "frames": {"file": "file", "kind": "type", "text": "reason", "offset": "offset", "ts_ns": "ts_ns"},
}
_TYPES = {"events": "lost", "frames": "error"}


def lost_parts(path: str, files: Sequence[str], table: str = "events", *, batch: int | None = None) -> list[LostPart]:
    """Return the lost parts of captures, from these files of a table in the directory `path`, in order.

    `batch`: only those of its rows.

    Missing bytes of one connection are not included: they are errors of that connection. In `frames`, their kind is
    "error".
    """
    if not files:
        return []
    where = storage.place(path)
    dataset = ds.dataset([f"{where.path}/{file}" for file in files], format="parquet", filesystem=where.files)
    is_lost = (pc.field("type") == _TYPES[table]) & pc.field("stream").is_null()
    if batch is not None:
        is_lost &= pc.field("batch") == batch
    columns = {name: pc.field(of) for name, of in _COLUMNS[table].items()}
    rows = dataset.to_table(columns=columns, filter=is_lost).to_pylist()
    return [LostPart(**row) for row in sorted(rows, key=lambda row: (row["file"] or "", row["offset"] or 0))]

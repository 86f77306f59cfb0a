"""What could not be read of captures, as the tables `events` and `frames` have it; without Spark."""

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


def lost_parts(path: str, files: Sequence[str], table: str = "events") -> list[LostPart]:
    """The parts of captures that were lost, from these files of a table in the directory `path`, in their order.

    Bytes that are missing of one connection are none of these: they are errors of that connection. `frames` does not
    have their kind, which is "error" there.
    """
    if not files:
        return []
    where = storage.place(path)
    dataset = ds.dataset([f"{where.path}/{file}" for file in files], format="parquet", filesystem=where.files)
    is_lost = (pc.field("type") == _TYPES[table]) & pc.field("stream").is_null()
    columns = {name: pc.field(of) for name, of in _COLUMNS[table].items()}
    rows = dataset.to_table(columns=columns, filter=is_lost).to_pylist()
    return [LostPart(**row) for row in sorted(rows, key=lambda row: (row["file"] or "", row["offset"] or 0))]

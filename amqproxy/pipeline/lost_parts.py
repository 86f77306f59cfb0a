"""What could not be read of captures, as the table `events` has it; without Spark."""

from __future__ import annotations

from collections.abc import Sequence

from pyarrow import compute as pc
from pyarrow import dataset as ds

from amqproxy.pipeline import storage
from amqproxy.pipeline.chain_reading import LostPart


def lost_parts(path: str, files: Sequence[str]) -> list[LostPart]:
    """The parts of captures that were lost, from these files of `events` in the tables of `path`, in their order.

    Bytes that are missing of one connection are none of these: they are errors of that connection.
    """
    if not files:
        return []
    where = storage.place(path)
    dataset = ds.dataset([f"{where.path}/{file}" for file in files], format="parquet", filesystem=where.files)
    is_lost = (pc.field("type") == "lost") & pc.field("stream").is_null()
    rows = dataset.to_table(columns=["file", "kind", "text", "offset", "ts_ns"], filter=is_lost).to_pylist()
    return [LostPart(**row) for row in sorted(rows, key=lambda row: (row["file"] or "", row["offset"] or 0))]

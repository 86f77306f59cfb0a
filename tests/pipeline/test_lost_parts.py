"""What could not be read of captures is found in the table, and named in a few lines."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from amqproxy.cli.pipeline.driver import MAX_WARNINGS, warnings
from amqproxy.pipeline.chain_reading import LostPart
from amqproxy.pipeline.event_columns import SCHEMA
from amqproxy.pipeline.event_reading import event_batches
from amqproxy.pipeline.jobs import Done
from amqproxy.pipeline.lost_parts import lost_parts
from tests.capture import golden

pytestmark = pytest.mark.once


def test_what_could_not_be_read_is_named(tmp_path: Path) -> None:
    data = (golden.FOLDER / "confirms.pcapng").read_bytes()
    for name, content in {"a cut": data[: len(data) // 2], "b no capture": b"root:x:0:0", "c whole": data}.items():
        (tmp_path / name).write_bytes(content)
        batches = event_batches([tmp_path / name])
        pq.write_table(pa.Table.from_batches(batches, SCHEMA), tmp_path / f"{name}.parquet")
    found = lost_parts(str(tmp_path), ["c whole.parquet", "b no capture.parquet", "a cut.parquet"])
    assert [(Path(each.file or "").name, each.kind) for each in found] == [
        ("a cut", "cut-short"),
        ("b no capture", "file"),
    ]
    assert lost_parts(str(tmp_path), []) == []
    assert warnings(Done(job="ingest", lost=found))[1].startswith(f"amqproxy: {tmp_path}/b no capture: ")


def test_warnings_are_few() -> None:
    many = [LostPart(f"{number}.pcapng", "file", "is none", None, None) for number in range(10_000)]
    lines = warnings(Done(job="ingest", lost=many))
    assert len(lines) == MAX_WARNINGS + 1
    assert lines[-1] == "amqproxy: 9,990 more could not be read in whole: see `amqproxy pipeline ask errors`"

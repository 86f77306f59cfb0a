"""What could not be read of captures is found in the table, and named in a few lines."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from amqproxy.capture.files import files_of
from amqproxy.cli.pipeline.driver import MAX_WARNINGS, warnings
from amqproxy.pipeline.chain_reading import ChainReading, LostPart
from amqproxy.pipeline.event_columns import SCHEMA
from amqproxy.pipeline.event_reading import event_batches
from amqproxy.pipeline.frame_rows import SCHEMA as FRAMES
from amqproxy.pipeline.frame_rows import frame_batches
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
    for name in ("a cut", "b no capture", "c whole"):
        batches = frame_batches(ChainReading(name), files_of(tmp_path / name))
        pq.write_table(pa.Table.from_batches(batches, FRAMES), tmp_path / f"{name}.frames.parquet")
    files = [f"{name}.frames.parquet" for name in ("c whole", "b no capture", "a cut")]
    of_frames = lost_parts(str(tmp_path), files, "frames")
    assert of_frames == [msgspec.structs.replace(each, kind="error") for each in found]
    assert warnings(Done(job="ingest", lost=found))[1].startswith(f"amqproxy: {tmp_path}/b no capture: ")


def test_warnings_are_few() -> None:
    many = [LostPart(f"{number}.pcapng", "file", "is none", None, None) for number in range(10_000)]
    lines = warnings(Done(job="ingest", lost=many))
    assert len(lines) == MAX_WARNINGS + 1
    assert lines[-1] == "amqproxy: 9,990 more could not be read in whole: see `amqproxy pipeline ask errors`"

"""The files of a chain, of which some cannot be read."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from amqproxy.pipeline.event_columns import SCHEMA
from amqproxy.pipeline.event_reading import event_batches
from tests.capture import golden

pytestmark = pytest.mark.once


def test_a_file_that_is_bad_yields_its_good_part_and_what_was_lost(tmp_path: Path) -> None:
    good = golden.FOLDER / "confirms.pcapng"
    data = good.read_bytes()
    cut, bad, empty = tmp_path / "cut.pcapng", tmp_path / "bad.pcapng", tmp_path / "empty.pcapng"
    cut.write_bytes(data[: len(data) * 2 // 3])
    bad.write_bytes(data[: len(data) * 2 // 3] + b"\xff" * 4096)
    empty.write_bytes(b"")
    for path, kind in ((cut, "cut-short"), (bad, "file"), (empty, "file"), (tmp_path / "gone.pcapng", "file")):
        rows = pa.Table.from_batches(event_batches([path, good]), SCHEMA).to_pylist()
        (lost,) = [row for row in rows if row["type"] == "lost" and row["stream"] is None]
        assert (lost["file"], lost["kind"]) == (str(path), kind), lost
        assert sum(row["file"] == str(good) for row in rows) > 10
        if path in (cut, bad):
            assert sum(row["file"] == str(path) for row in rows) > 5
            assert None not in (lost["ts_ns"], lost["time"], lost["offset"])

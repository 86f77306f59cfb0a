"""The files of the table frames: all rows, each in the hour of its time, whatever there is in them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from amqproxy.capture.files import files_of
from amqproxy.pipeline import frame_files
from amqproxy.pipeline.chain_reading import ChainReading
from amqproxy.pipeline.frame_files import FrameFiles
from amqproxy.pipeline.frame_rows import ENCODED, SCHEMA, frame_batches
from tests.capture import golden

pytestmark = pytest.mark.once

HOUR_US = 3_600_000_000
HOUR_7 = 1_795_417_200_000_000
"""2026-11-23T07:00:00Z."""


def written(root: Path, batches: list[pa.RecordBatch]) -> list[str]:
    with FrameFiles(str(root), "x", 3) as files:
        for batch in batches:
            files.add(batch)
        return files.close()


def rows_of(root: Path, files: list[str]) -> list[dict[str, Any]]:
    """The rows of files, with where they are."""
    found = []
    for file in files:
        for row in pq.ParquetFile(root / file).read().to_pylist():
            found.append({**row, "at": file.rpartition("/")[0]})
    return found


def batch_at(*times: int | None) -> pa.RecordBatch:
    columns = [{"type": "body", "chain": "c", "file": "f", "row": row, "time": time} for row, time in enumerate(times)]
    return pa.RecordBatch.from_pylist(columns, ENCODED)


@pytest.mark.parametrize("path", golden.captures(), ids=lambda path: path.name)
def test_rows_are_those_of_the_batches(tmp_path: Path, path: Path) -> None:
    def batches(**options: Any) -> list[pa.RecordBatch]:
        return list(frame_batches(ChainReading("c", leg="both"), files_of(path), body=16, **options))

    expected = pa.Table.from_batches(batches(), SCHEMA).to_pylist()
    encoded = batches(dictionaries=True, rows=7)
    assert pa.Table.from_batches(encoded, ENCODED).to_pylist() == expected
    found = rows_of(tmp_path, written(tmp_path, encoded))
    for row in found:
        assert row.pop("batch") == 3
        assert row.pop("at") == f"date={row['time']:%Y-%m-%d}/hour={row['time'].hour}"
    found.sort(key=lambda row: row["row"])
    assert found == expected


def test_a_row_goes_to_the_hour_of_its_time(tmp_path: Path) -> None:
    before = HOUR_7 - 1
    files = written(tmp_path, [batch_at(before, HOUR_7, None, HOUR_7 + 1), batch_at(-1), batch_at(HOUR_7)])
    assert sorted((row["at"], row["row"]) for row in rows_of(tmp_path, files)) == [
        ("date=1969-12-31/hour=23", 0),
        ("date=1970-01-01/hour=0", 2),
        ("date=2026-11-23/hour=6", 0),
        ("date=2026-11-23/hour=7", 0),
        ("date=2026-11-23/hour=7", 1),
        ("date=2026-11-23/hour=7", 3),
    ]


def test_few_files_are_open_at_once_and_groups_have_a_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frame_files, "MAX_OPEN", 2)
    monkeypatch.setattr(frame_files, "GROUP_ROWS", 4)
    hours = [0, 1, 0, 2, 0, 1, 1, 1, 1, 3, 3, 3, 3, 3, 3]
    batches = [batch_at(HOUR_7 + hour * HOUR_US, HOUR_7 + hour * HOUR_US + 1) for hour in hours]
    files = written(tmp_path, batches)
    assert len(files) == len(set(files)) > 4, "one was closed, and the hour came again"
    assert sorted(row["time"].hour - 7 for row in rows_of(tmp_path, files)) == sorted(hours * 2)
    for file in files:
        about = pq.ParquetFile(tmp_path / file).metadata
        assert all(about.row_group(number).num_rows <= 4 for number in range(about.num_row_groups))


def test_no_rows_are_no_files(tmp_path: Path) -> None:
    assert written(tmp_path, []) == []
    assert written(tmp_path, [batch_at()]) == []


def test_numbers_are_differences_and_names_are_of_a_dictionary(tmp_path: Path) -> None:
    (file,) = written(tmp_path, [batch_at(*range(HOUR_7, HOUR_7 + 1000))])
    about = pq.ParquetFile(tmp_path / file).metadata
    columns = {
        about.row_group(0).column(n).path_in_schema: about.row_group(0).column(n) for n in range(about.num_columns)
    }
    assert "DELTA_BINARY_PACKED" in columns["time"].encodings
    assert "RLE_DICTIONARY" in columns["chain"].encodings
    assert {each.compression for each in columns.values()} == {"ZSTD"}
    assert columns["time"].statistics.has_min_max
    assert b"ARROW:schema" not in (about.metadata or {})


def test_what_cannot_be_written_is_raised(tmp_path: Path) -> None:
    file = tmp_path / "date=2026-11-23"
    file.touch()
    with pytest.raises(OSError, match="date=2026-11-23"):
        written(tmp_path, [batch_at(HOUR_7)])

"""Recordings that the recorder has rotated between any two frames: nothing that goes on in the next file is lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from amqproxy.capture.decode import read_decoded
from amqproxy.capture.decoded import SkippedBytes
from amqproxy.capture.files import CaptureFile, files_of
from amqproxy.pipeline import frame_rows
from amqproxy.pipeline.chain_reading import ChainReading
from amqproxy.pipeline.event_columns import SCHEMA
from amqproxy.pipeline.event_reading import EventReading, event_batches
from tests.capture import golden
from tests.pipeline.event_frames import unstamped
from tests.pipeline.rotated import entries_of, recorded

pytestmark = pytest.mark.once


def plain(rows: list[dict[str, Any]], *but: str) -> list[dict[str, Any]]:
    return [{name: value for name, value in row.items() if name not in ("file", *but)} for row in map(unstamped, rows)]


def in_runs(files: list[str]) -> list[dict[str, Any]]:
    """The events of a run for each file."""
    rows: list[dict[str, Any]] = []
    states: dict[str | None, list[bytes]] | None = None
    for number, file in enumerate(files, 1):
        reading = EventReading(ChainReading("chain", leg="both"))
        if states is not None:
            reading.resume(states)
        rows += pa.Table.from_batches(
            reading.batches([CaptureFile(file)], is_end=number == len(files)), SCHEMA
        ).to_pylist()
        states = {}
        for row in pa.Table.from_batches(reading.state_batches(), SCHEMA).to_pylist():
            states.setdefault(row["connection_id"], []).append(row["state"])
    return rows


def frames(files: list[str]) -> list[dict[str, Any]]:
    batches = frame_rows.frame_batches(ChainReading("chain", leg="both"), files_of(files), body=16)
    return pa.Table.from_batches(batches, frame_rows.SCHEMA).to_pylist()


@pytest.mark.parametrize("name", ["confirms", "consume-large", "transactions"])
def test_files_of_a_rotated_recording_are_one(tmp_path: Path, name: str) -> None:
    path = golden.FOLDER / f"{name}.pcapng"
    assert not any(isinstance(each, SkippedBytes) for each in read_decoded(path))
    entries = list(entries_of(path))
    (whole,) = recorded(tmp_path / "whole", entries, is_rotated=False)
    rotated = recorded(tmp_path / "rotated", entries, is_rotated=True)
    assert len(rotated) > 20
    expected = pa.Table.from_batches(event_batches([whole], chain="chain", leg="both"), SCHEMA).to_pylist()
    assert {"publish", "connection"} <= {row["type"] for row in expected}
    at_once = pa.Table.from_batches(event_batches(rotated, chain="chain", leg="both"), SCHEMA).to_pylist()
    assert plain(at_once) == plain(expected)
    assert plain(in_runs(rotated)) == plain(expected)
    by_file = [row for file in rotated for row in frames([file])]
    assert plain(by_file, "row", "stream") == plain(frames([whole]), "row", "stream")
    assert plain(frames(rotated), "row") == plain(frames([whole]), "row")


def test_a_chain_whose_middle_file_is_missing_says_what_is_lost(tmp_path: Path) -> None:
    path = golden.FOLDER / "confirms.pcapng"
    rotated = recorded(tmp_path / "rotated", list(entries_of(path)), is_rotated=True)
    whole = pa.Table.from_batches(event_batches(rotated, chain="c", leg="client"), SCHEMA).to_pylist()
    middle = len(rotated) // 2
    rows = pa.Table.from_batches(
        event_batches([*rotated[:middle], *rotated[middle + 3 :]], chain="c", leg="client"), SCHEMA
    ).to_pylist()
    assert {row["text"] for row in rows if row["type"] == "lost"} == {"bytes are missing from the capture"}
    assert {row["connection_id"] for row in rows} == {row["connection_id"] for row in whole}
    assert len(rows) > len(whole) // 2

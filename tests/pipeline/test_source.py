"""The data source `amqp`: what Spark reads of captures is what `decode` shows of them."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from amqproxy.capture.arrow import record_batches
from amqproxy.capture.decode import read_decoded
from amqproxy.capture.frame_columns import property_column
from amqproxy.pipeline import source
from amqproxy.pipeline.chains import chains, find
from amqproxy.pipeline.event_columns import SCHEMA
from amqproxy.pipeline.event_reading import event_batches
from amqproxy.pipeline.source import CapturePart, options_of, partitions_of, parts_of, read_part, states_of
from tests.amqp010 import recorded
from tests.capture import golden, shared_captures

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.once

CAPTURES = [*golden.captures(), *recorded.captures(), *shared_captures.files(recorded.NAMES)]
FILES = [str(path) for path in CAPTURES]


@pytest.fixture(scope="module")
def amqp(spark: SparkSession) -> Any:
    """Reads captures, with options."""
    source.register(spark)

    def read(paths: Any, **options: Any) -> DataFrame:
        given = [str(path) for path in paths] if isinstance(paths, list) else str(paths)
        return spark.read.format("amqp").options(**options).load(given)

    return read


def line_of(row: dict[str, Any]) -> dict[str, Any]:
    """What `decode --json` shows of a frame, as far as its columns have it."""
    line = {"ts_ns": row["ts_ns"], "stream": row["stream"], "connection": row["connection"], "from": row["sender"]}
    names = {"channel", "size", "method", "code", "reason", "offset", "lost", "rules", "tags", "verdict", "protocol"}
    line |= {name: row[name] for name in names if row[name] is not None}
    line["type"] = row["type"]
    if row["arguments"] is not None:
        line["arguments"] = json.loads(row["arguments"])
    return line


def shown(line: dict[str, Any]) -> dict[str, Any]:
    """The same of a line: properties are columns of their own, and are compared by themselves."""
    kept = {name: value for name, value in line.items() if name not in ("properties", "leg")}
    if line["type"] == "header":
        kept.pop("arguments", None)
    return kept


def test_frames_of_all_captures_are_those_of_decode(amqp: Any) -> None:
    """One job reads all of them: a row is a line of `decode --json`, in its order."""
    rows: dict[str, list[dict[str, Any]]] = {}
    for row in amqp(FILES, chains="file").toArrow().to_pylist():
        rows.setdefault(row["file"], []).append(row)
    for path in golden.captures():
        lines = [json.loads(line) for line in golden.records_path(path).read_text().splitlines()]
        found = sorted(rows[str(path)], key=lambda row: row["row"])
        assert [row["row"] for row in found] == list(range(len(found)))
        assert [line_of(row) for row in found] == [shown(line) for line in lines], path.name
        for row, line in zip(found, lines, strict=True):
            for name, value in line.get("properties", {}).items():
                held = row[property_column(name)]
                assert (json.loads(held) if name == "headers" else held) == value or isinstance(value, dict)
            if line["type"] == "header":
                assert row["body_size"] == line["arguments"]["body_size"]
    for path in CAPTURES:
        batches = record_batches(read_decoded(path), arguments=True, dictionaries=False)
        expected = [row for batch in batches for row in batch.to_pylist()]
        found = sorted(rows.get(str(path), []), key=lambda row: row["row"])
        assert [{name: row[name] for name in each} for row, each in zip(found, expected, strict=True)] == expected


def events_of(rows: Iterable[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """Rows of events in the order of each connection, as they are compared."""
    return sorted(tuple(map(repr, row.values())) for row in rows)


def test_events_of_all_captures_are_those_of_the_trace(amqp: Any) -> None:
    rows = amqp(FILES, table="events", chains="file", leg="client", body="16").toArrow().to_pylist()
    expected: list[dict[str, Any]] = []
    for chain in chains(FILES, "file"):
        batches = event_batches(chain.files, chain=chain.name, body=16)
        expected += pa.Table.from_batches(batches, SCHEMA).to_pylist()
    assert events_of(rows) == events_of(expected)


def test_what_is_selected_is_what_decode_selects(amqp: Any) -> None:
    path = golden.FOLDER / "confirms.pcapng"
    everything = amqp(path).toArrow().to_pylist()
    middle = everything[len(everything) // 2]["ts_ns"]
    start = f"{middle // 10**9}.{middle % 10**9:09}"
    later = amqp(path, start=start).toArrow().to_pylist()
    assert [row["ts_ns"] for row in later] == [row["ts_ns"] for row in everything if row["ts_ns"] >= middle]
    assert amqp(path, follow="0/1", table="frames").toArrow().column("channel").unique().to_pylist() == [1]
    events = amqp(path, table="events", end=start, follow="0/1").toArrow().to_pylist()
    assert {(row["channel"], row["ts_ns"] < middle) for row in events} == {(1, True)}


def test_columns_are_those_that_are_named(amqp: Any) -> None:
    path = golden.FOLDER / "confirms.pcapng"
    for table in ("frames", "events"):
        whole = amqp(path, table=table).toArrow()
        found = amqp(path, table=table, columns="type, ts_ns,rules").toArrow()
        assert found.column_names == ["type", "ts_ns", "rules"]
        assert found.to_pylist() == whole.select(found.column_names).to_pylist()


def test_shares_together_are_the_whole(amqp: Any) -> None:
    path = golden.FOLDER / "every-type.pcapng"
    whole = amqp(path).toArrow().to_pylist()
    assert len(whole) == len(golden.decoded(path))
    shared = sorted(amqp(path, shares="3").toArrow().to_pylist(), key=lambda row: row["row"])
    assert [{**row, "row": 0} for row in shared] == [{**row, "row": 0} for row in whole]
    captures = [path for path in CAPTURES if "confirms" in path.name or "deepflow" in path.name]
    one, three = (amqp(captures, table="events", shares=shares).toArrow().to_pylist() for shares in ("1", "3"))
    strays = ("connection-per-message", "unconsumed-queue")  # which look across connections
    assert events_of(row for row in three if row["kind"] not in strays) == events_of(
        row for row in one if row["kind"] not in strays
    )


def test_what_is_lost_is_a_row_and_the_job_goes_on(amqp: Any, tmp_path: Path) -> None:
    good = golden.FOLDER / "confirms.pcapng"
    data = good.read_bytes()
    folder = tmp_path / "ü 100% [x]"
    folder.mkdir()
    files = {
        "cut short.pcapng": data[: len(data) * 2 // 3],
        "100%.pcap": b"GMBU and more",
        "empty.pcapng": b"",
        "ünï☃.pcapng": data,
        "x.pcapng.gz": b"\x1f\x8b\x08\0 no gzip",
        "rubbish.cap": bytes(range(256)) * 40,
    }
    for name, content in files.items():
        (folder / name).write_bytes(content)
    gone = tmp_path / "gone.pcapng"
    frames = amqp([folder, gone]).toArrow().to_pylist()
    lost = {Path(row["file"]).name: row["reason"] for row in frames if row["stream"] is None}
    assert set(lost) == {*files, gone.name} - {"ünï☃.pcapng"}
    assert "cannot be opened" in lost[gone.name]
    whole = [row for row in frames if Path(row["file"]).name == "ünï☃.pcapng"]
    assert len(whole) == len(golden.decoded(good))
    assert sum(Path(row["file"]).name == "cut short.pcapng" for row in frames) > len(whole) // 2
    events = amqp([folder, gone], table="events").toArrow().to_pylist()
    assert {Path(row["file"]).name: row["text"] for row in events if row["stream"] is None} == lost
    assert None not in {row["time"] for row in events if Path(row["file"] or "").name != gone.name}


def test_a_file_that_is_completed_or_compressed_meanwhile_is_read(tmp_path: Path) -> None:
    data = (golden.FOLDER / "confirms.pcapng").read_bytes()
    partial = tmp_path / "amqproxy-20261122T174700.123456Z-7.pcapng.partial"
    partial.write_bytes(data)
    options = options_of({"path": str(tmp_path)})
    (part,) = parts_of(chains(find(options.paths)), options)
    whole = pa.Table.from_batches(read_part(part, options)).to_pylist()
    complete = partial.rename(partial.with_suffix(""))
    assert pa.Table.from_batches(read_part(part, options)).to_pylist() == whole
    complete.with_suffix(".pcapng.gz").write_bytes(gzip.compress(data))
    complete.unlink()
    assert pa.Table.from_batches(read_part(part, options)).to_pylist() == whole


def test_each_chain_goes_on_with_its_own_state(tmp_path: Path) -> None:
    data = (golden.FOLDER / "confirms.pcapng").read_bytes()
    for name in "ab":
        (tmp_path / f"{name}.pcap").write_bytes(data)
    options = options_of({"path": str(tmp_path), "table": "events", "carry": "true"})
    parts = parts_of(chains(find(options.paths)), options)
    rows = pa.Table.from_batches(batch for part in parts for batch in read_part(part, options))
    pq.write_table(rows.filter(pc.field("type") == "state"), tmp_path / "state.parquet")
    states = states_of(str(tmp_path / "state.parquet"), {part.chain for part in parts} | {"other"})
    assert set(states) == {part.chain for part in parts}
    assert all(len(each[None]) == 1 for each in states.values())
    assert states_of(str(tmp_path / "state.parquet"), {"other"}) == {}
    again = pa.Table.from_batches(batch for part in parts for batch in read_part(part, options, states[part.chain]))
    assert again.filter(pc.field("kind") == "state").num_rows == 0, "it could be read"
    swapped = states[parts[1].chain] | {None: [b"of another version"]}
    lost = pa.Table.from_batches(read_part(parts[0], options, swapped)).filter(pc.field("kind") == "state")
    assert "connections are joined" in lost.column("text").to_pylist()[0]


@pytest.mark.parametrize(
    ("options", "wrong"),
    [
        ({"table": "messages"}, "option table: 'messages' is not one of frames, events"),
        ({"tables": "events"}, "unknown option tables; there are table"),
        ({"columns": "type,size,kind,place"}, "option columns: frames has no kind, place"),
        ({"columns": "type,size,type"}, "option columns: each only once"),
        ({"columns": ""}, "option columns: frames has no "),
        ({"shares": "0"}, "option shares"),
        ({"shares": "two"}, "option shares: 'two' is not a number"),
        ({"body": "-1"}, "option body"),
        ({"start": "noon"}, "option start: 'noon' is not a time"),
        ({"carry": "maybe"}, "option carry"),
        ({"carry": "true"}, "frames need no state"),
        ({"carry": "true", "table": "events", "follow": "0"}, "read all, or part"),
        ({"shares": "2", "follow": "0"}, "option shares is without"),
        ({}, "nothing to read"),
    ],
)
def test_a_wrong_option_is_named(options: dict[str, str], wrong: str) -> None:
    given = {**options, "path": "x"} if options else {}
    with pytest.raises(ValueError, match=wrong):
        options_of(given)


def test_a_pattern_that_nothing_matches_is_an_error_before_anything_is_read(amqp: Any, tmp_path: Path) -> None:
    with pytest.raises(Exception, match="no file matches"):
        amqp(tmp_path / "*.pcap").count()


def test_partitions_hold_enough_and_no_more(tmp_path: Path) -> None:
    names = [f"amqproxy-20261122T1747{number:02}.000000Z-7.pcapng" for number in range(3)]
    for name in names:
        (tmp_path / name).touch()
    options = options_of({"path": "x"})
    found = chains([str(tmp_path / name) for name in names])
    assert [part.files for part in parts_of(found, options)] == [(str(tmp_path / name),) for name in names]
    (events,) = parts_of(found, options_of({"path": "x", "table": "events"}))
    assert len(events.files) == 3
    small = [CapturePart("c", (f"/nothing/{number}",)) for number in range(10_000)]
    assert 30 <= len(partitions_of(small)) <= 100
    assert [part for each in partitions_of(small) for part in each.parts] == small
    with (tmp_path / "large").open("wb") as large:
        large.truncate(1 << 30)
    mixed = [small[0], CapturePart("l", (str(tmp_path / "large"),)), small[1]]
    assert [len(each.parts) for each in partitions_of(mixed)] == [1, 1, 1]

"""Parquet files have the rows of JSON lines."""

from __future__ import annotations

import io
from collections.abc import Iterable
from typing import Any

import msgspec
import pyarrow.parquet as pq
import pytest

from amqproxy.amqp091.methods import BasicAck
from amqproxy.capture.decode import read_decoded
from amqproxy.capture.decoded import records_of
from amqproxy.capture.observed import observed
from amqproxy.export import parquet
from amqproxy.taps.observer import ObserverSettings
from tests.amqp010 import recorded
from tests.capture import golden
from tests.export.dialogue import Dialogue

CAPTURES = [*golden.captures(), *recorded.captures()]


def table(pieces: Iterable[bytes]) -> list[dict[str, Any]]:
    data = b"".join(pieces)
    file = pq.ParquetFile(io.BytesIO(data))
    if file.metadata.num_row_groups:
        assert file.metadata.row_group(0).column(0).compression == "ZSTD"
    return file.read().to_pylist()


def test_frames_are_those_of_the_records() -> None:
    for path in CAPTURES:
        decoded = list(read_decoded(path))
        rows = table(parquet.frames(decoded))
        records = [record for each in decoded for record in records_of(each)]
        assert [(row["ts_ns"], row["type"], row["method"], row["size"]) for row in rows] == [
            (each.ts_ns, each.type, each.method, each.size) for each in records
        ]
        for row, each in zip(rows, records, strict=True):
            if each.arguments is not None and each.type != "header":
                assert msgspec.json.decode(row["arguments"]) == msgspec.json.decode(msgspec.json.encode(each.arguments))


@pytest.mark.parametrize(("messages", "findings"), [(True, False), (False, True), (True, True)])
def test_messages_and_findings_are_those_of_the_reports(messages: bool, findings: bool) -> None:
    settings = ObserverSettings(messages=messages, findings=findings, body=20)
    for path in CAPTURES:
        reports = list(observed(read_decoded(path), settings))
        rows = table(parquet.reports(reports, messages=messages, findings=findings, body=True))
        assert len(rows) == len(reports)
        for row, each in zip(rows, reports, strict=True):
            record = msgspec.json.decode(each.to_json())
            assert int(row["time"].timestamp() * 1000) == row["ts_ns"] // 10**6
            for name, value in row.items():
                if name != "time":
                    assert value == expected(record, name), name


def expected(record: dict[str, Any], name: str) -> Any:
    value: Any = record
    for key in name.split("."):
        value = value.get(key) if isinstance(value, dict) else None
    if isinstance(value, dict) or (isinstance(value, list) and name not in ("rules", "tags")):
        return msgspec.json.encode(value).decode()
    if value is None or isinstance(value, str | list | bool) or name in parquet._INTEGERS or name == "seconds":
        return value
    return msgspec.json.encode(value).decode()


def test_batches_and_numbers_that_are_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet, "ROWS", 3)
    dialogue = Dialogue().client(BasicAck(delivery_tag=(1 << 64) - 1))
    for _ in range(10):
        dialogue.publish("", "q", b"x")
    reports = list(observed(dialogue.end(), ObserverSettings()))
    rows = table(parquet.reports(reports, messages=True, findings=False, body=False))
    assert len(rows) == len(reports) > 10
    assert [row["delivery_tag"] for row in rows if row["type"] == "settle"] == [None]
    assert "body" not in rows[0]


def test_a_batch_ends_before_its_bodies_take_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet, "MAX_BATCH_BYTES", 2_000)
    dialogue = Dialogue()
    for number in range(6):
        dialogue.publish("", f"q{number}", b"x" * 1_000)
    found = observed(dialogue.end(), ObserverSettings(body=1_000))
    file = pq.ParquetFile(io.BytesIO(b"".join(parquet.reports(found, messages=True, findings=False, body=True))))
    sizes = [file.metadata.row_group(place).num_rows for place in range(file.num_row_groups)]
    assert max(sizes[1:]) <= 2
    rows = [row for row in file.read().to_pylist() if row["type"] == "publish"]
    assert [(row["routing_key"], len(row["body"])) for row in rows] == [(f"q{number}", 1_000) for number in range(6)]


def test_a_file_may_be_empty() -> None:
    assert table(parquet.frames([])) == []
    assert table(parquet.reports([], messages=True, findings=False, body=False)) == []

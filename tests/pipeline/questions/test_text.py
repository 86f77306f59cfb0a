"""Answers for a person, as JSON and as CSV."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

pytest.importorskip("duckdb")

import pyarrow as pa

from amqproxy.pipeline.questions.text import csv_lines, json_lines, table_lines

pytestmark = pytest.mark.once

ANSWER = pa.Table.from_pylist(
    [
        {
            "user": "shop",
            "messages": 1234567,
            "bytes": 2048,
            "p99_ns": 1_500_000,
            "share": 0.25,
            "last": datetime(2026, 11, 2, 3, 4, 5, 678000, tzinfo=UTC),
        },
        {"user": "=1+1\x1b[2J", "messages": 2, "bytes": None, "p99_ns": -3, "share": 1.0, "last": None},
    ]
)


def test_a_table_for_a_person() -> None:
    assert list(table_lines(ANSWER)) == [
        "user            messages  bytes        p99  share  last",
        "shop           1,234,567  2 KiB     1.5 ms   25 %  2026-11-02 03:04:05.678",
        "=1+1\\u001b[2J          2      -  -0.003 µs  100 %  -",
    ]


def test_parts_are_shares_of_a_hundred() -> None:
    shares = [-18.444444, 0.99954, 1.0]
    answer = pa.Table.from_pylist([{"budget_left_share": each, "burn_rate": 1.5, "is_late": True} for each in shares])
    assert [line.partition("%")[0].strip() for line in table_lines(answer)] == [
        *("budget left  burn rate  is late", "-1,844.444", "99.954", "100"),
    ]


def test_json_has_plain_values() -> None:
    first, second = json_lines(ANSWER)
    assert first == (
        '{"user":"shop","messages":1234567,"bytes":2048,"p99_ns":1500000,"share":0.25,'
        '"last":"2026-11-02T03:04:05.678000Z"}'
    )
    assert '"bytes":null' in second


def test_csv_is_safe_in_a_spreadsheet() -> None:
    assert list(csv_lines(ANSWER)) == [
        "user,messages,bytes,p99_ns,share,last",
        "shop,1234567,2048,1500000,0.25,2026-11-02T03:04:05.678000Z",
        "'=1+1\\x1b[2J,2,,-3,1.0,",
    ]

"""Reading tables without Spark: what is missing, what is broken, what takes too long."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from amqproxy.pipeline.reading import Reader, TooMuch, Unreadable
from tests.pipeline.known_tables import HOUR, START_NS, write_table

pytestmark = pytest.mark.once

COLUMNS = {"messages": pa.schema({"ts_ns": pa.int64(), "size": pa.int64(), "newer": pa.utf8()})}


def test_no_tables_have_no_rows(tmp_path: Path) -> None:
    for directory in (tmp_path, tmp_path / "none"):
        reader = Reader(str(directory))
        assert reader.names() == []
        assert reader.span(["messages"]) is None
        assert reader.query("SELECT * FROM messages", COLUMNS, {}) == []


def test_columns_that_a_file_lacks_are_null_and_others_do_no_harm(tmp_path: Path) -> None:
    write_table(tmp_path, "messages", [{"ts_ns": START_NS, "size": 1, "unknown": "x"}])
    write_table(tmp_path, "messages", [{"ts_ns": START_NS, "newer": "y"}])
    found = Reader(str(tmp_path)).query("SELECT size, newer FROM messages ORDER BY size NULLS LAST", COLUMNS, {})
    assert found == [{"size": 1, "newer": None}, {"size": None, "newer": "y"}]


def test_only_committed_files_of_the_hours_that_are_asked_for_are_read(tmp_path: Path) -> None:
    write_table(tmp_path, "messages", [{"ts_ns": START_NS + n * HOUR, "size": n} for n in range(50)])
    reader = Reader(str(tmp_path))
    text = "SELECT list(size ORDER BY size) AS sizes FROM messages"
    whole = reader.query(text, COLUMNS, {})
    write_table(tmp_path, "messages", [{"ts_ns": START_NS, "size": 1000}])
    (tmp_path / "_pipeline" / "commits" / "00000002.json").unlink()
    assert reader.query(text, COLUMNS, {}) == whole == [{"sizes": list(range(50))}]
    [last] = (tmp_path / "messages").glob("date=2026-11-24/hour=23/*.parquet")
    last.write_bytes(b"PAR1 or not")
    between = reader.query(text, COLUMNS, {}, START_NS + HOUR, START_NS + 4 * HOUR)
    assert between == [{"sizes": [1, 2, 3]}]
    assert reader.span(["messages"]) == (START_NS, START_NS + 50 * HOUR)
    with pytest.raises(Unreadable, match="cannot be read"):
        reader.query(text, COLUMNS, {})
    last.unlink()
    with pytest.raises(Unreadable, match="cannot be read"):
        reader.query(text, COLUMNS, {})


def test_a_query_has_a_bounded_time_and_memory_and_opens_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "secret.csv").write_text("a,b\n")
    with pytest.raises(TooMuch, match="took more than 0 s: ask for a shorter time, or run `amqproxy pipeline compact"):
        Reader(str(tmp_path), seconds=0.2).query(
            "SELECT sum(hash(a.i * b.i)) FROM range(10000000) a(i), range(1000000) b(i)", {}, {}
        )
    with pytest.raises(TooMuch, match="more memory than the limit of 32MB"):
        Reader(str(tmp_path), memory="32MB").query("SELECT list(hash(i)) FROM range(100000000) t(i)", {}, {})
    with pytest.raises(Unreadable):
        Reader(str(tmp_path)).query(f"SELECT * FROM '{tmp_path}/secret.csv'", {}, {})

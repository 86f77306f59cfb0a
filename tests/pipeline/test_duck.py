"""The session of DuckDB in Spark's place: writing, reading, types and text, beside the tests of both engines."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

from pyspark.sql.types import IntegerType, LongType, StringType, StructType

from amqproxy.pipeline.duck import DuckSession, processes
from amqproxy.pipeline.generated_names import pattern

pytestmark = pytest.mark.once

COLUMNS = StructType().add("name", StringType()).add("hour", IntegerType()).add("count", LongType())


@pytest.fixture
def session() -> Iterator[DuckSession]:
    opened = DuckSession()
    yield opened
    opened.close()


def test_what_is_written_again_replaces_what_was(session: DuckSession, tmp_path: Path) -> None:
    path = str(tmp_path / "rows")
    for hours in ([1, 2], [2]):
        rows = session.createDataFrame([(f"n{hour}", hour, 3) for hour in hours], COLUMNS)
        session.write(rows, path, COLUMNS, ["hour"])
    files = [each.relative_to(path).as_posix() for each in Path(path).rglob("*.parquet")]
    assert files == ["hour=2/part-0.parquet"]
    found = session.parquet(COLUMNS, [f"{path}/{files[0]}"], path)
    assert [tuple(row) for row in found.select("name", "hour", "count").collect()] == [("n2", 2, 3)]


def test_a_column_that_is_missing_in_a_file_is_null(session: DuckSession, tmp_path: Path) -> None:
    less = StructType().add("name", StringType())
    session.write(session.createDataFrame([("a",)], less), str(tmp_path / "rows"), less)
    assert [tuple(row) for row in session.parquet(COLUMNS, [str(tmp_path / "rows")]).collect()] == [("a", None, None)]


def test_a_directory_may_have_any_name_and_no_file(session: DuckSession, tmp_path: Path) -> None:
    path = tmp_path / "it's [1] * ?"
    path.mkdir()
    assert session.parquet(COLUMNS, [str(path)]).collect() == []
    session.write(session.createDataFrame([("a", 1, 2)], COLUMNS), str(path), COLUMNS)
    assert session.parquet(COLUMNS, [str(path)]).collect() == [("a", 1, 2)]


def test_sums_have_64_bits(session: DuckSession, tmp_path: Path) -> None:
    rows = session.createDataFrame([("a", 1, 2**62), ("b", 2, 1)], COLUMNS)
    total = session.sql("SELECT sum(count) AS total FROM {rows}", rows=rows)
    assert str(total.toArrow().schema.field("total").type) == "int64"
    assert total.first() == (2**62 + 1,)


def test_generated_names_are_found_by_expressions_that_look_back(session: DuckSession) -> None:
    names = ["orders", None, "amq.gen-JzTY20BRgKO-HjmUJj0wLg", "k.0123456789abcdef01", ""]
    rows = session.createDataFrame([(name, 0, 0) for name in names], COLUMNS)
    found = session.sql(f"SELECT {pattern('name')} AS name FROM {{rows}}", rows=rows).collect()
    assert [row.name for row in found] == ["orders", None, "amq.gen-*", "k.*", ""]
    assert session.sql(f"SELECT {pattern('name')} AS name FROM {{rows}}", rows=rows.where("false")).collect() == []


def test_braces_and_names_in_text_are_left_alone(session: DuckSession) -> None:
    rows = session.createDataFrame([("{rows} __rows__", 7, 1)], COLUMNS)
    found = session.sql(
        "SELECT name, hour + {more} AS later FROM {rows} WHERE name LIKE '{{rows}}%'", rows=rows, more=1
    )
    assert found.collect() == [("{rows} __rows__", 8)]


def test_captures_are_read_without_locks_to_share(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: Any) -> None:
        raise FileNotFoundError(2, "No such file or directory")

    monkeypatch.setattr(processes, "ProcessPoolExecutor", refused)
    tasks: list[Any] = ["a", "b"]
    assert list(processes.spread(lambda given: (f"{each}.arrow" for each in given), tasks, 2)) == [
        ["a.arrow"],
        ["b.arrow"],
    ]

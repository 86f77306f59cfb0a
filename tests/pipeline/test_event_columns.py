"""The columns of events: those that are declared, of whatever values."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from amqproxy.pipeline import frame_rows
from amqproxy.pipeline.event_columns import SCHEMA, array_of
from amqproxy.pipeline.schema import EVENTS, FRAMES

pytestmark = pytest.mark.once


@pytest.mark.parametrize(("table", "columns"), [(EVENTS, SCHEMA), (FRAMES, frame_rows.SCHEMA)])
def test_the_columns_are_those_that_are_declared(table: StructType, columns: pa.Schema) -> None:
    declared = to_arrow_schema(table, timezone="UTC")
    assert [(each.name, each.type, each.nullable) for each in declared] == [
        (each.name, each.type, each.nullable) for each in columns
    ]


def test_what_does_not_fit_into_a_column_is_null_or_escaped() -> None:
    assert array_of([1, 1 << 63, None], pa.int64()).to_pylist() == [1, None, None]
    assert array_of(["a", b"\xff".decode("utf-8", "surrogateescape")], pa.utf8()).to_pylist() == ["a", "\\xff"]

"""The declared tables: every column has a meaning and a unit, and frames are those of Arrow."""

from __future__ import annotations

import pytest

from amqproxy.capture import arrow
from amqproxy.pipeline import schema
from amqproxy.pipeline.source import SourceOptions
from tests.pipeline import tables_page

pytestmark = pytest.mark.once


def test_every_column_has_a_comment_and_durations_have_a_unit():
    for name, table in schema.TABLES.items():
        assert len(set(table.names)) == len(table.names), name
        assert not {"date", "hour", "batch"} & set(table.names), name
        for column in table.fields:
            comment = column.metadata.get("comment", "")
            assert comment, f"{name}.{column.name}"
            if column.name.endswith("_ns"):
                assert column.dataType == schema.LONG, f"{name}.{column.name}"
                assert "ns" in comment.split() or "ns" in comment.replace(",", "").split(), f"{name}.{column.name}"


def test_frames_are_the_columns_of_arrow_and_where_they_are_from():
    columns = arrow.schema(arguments=True, body=True, dictionaries=False).names
    assert schema.FRAMES.names == [*columns, "chain", "connection_id", "file", "row"]


def test_what_is_stored_says_when_and_by_which_run():
    assert schema.stored(schema.MESSAGES).names == [*schema.MESSAGES.names, "date", "hour", "batch"]


def test_the_page_of_the_tables_is_as_they_are_declared():
    assert tables_page.PAGE.read_text() == tables_page.page(), "python -m tests.pipeline.tables_page"


def test_the_page_of_the_pipeline_has_each_option_and_each_type_of_event():
    text = (tables_page.PAGE.parent / "pipeline.md").read_text()
    for name in SourceOptions.__struct_fields__:
        assert f"| `{name}` |" in text or name == "paths", name
    kinds = schema.EVENTS["type"].metadata["comment"].replace(" or ", ", ").split(", ")
    assert [each for each in kinds if f"`{each}`" not in text] == []

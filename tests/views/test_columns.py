"""Chosen fields of records, as columns and as smaller objects."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET

from amqproxy.capture.decode import read_decoded
from amqproxy.capture.observed import observed
from amqproxy.taps.observer import ObserverSettings
from amqproxy.taps.record import Record
from amqproxy.views.columns import (
    Columns,
    cell,
    escaped,
    header_line,
    iso_time,
    json_lines,
    kinds_shown,
    separated_lines,
)
from tests.capture import golden
from tests.capture.records import read_records

FRAMES = kinds_shown(messages=False, findings=False)
REPORTS = kinds_shown(messages=True, findings=True)


def record(**fields: Any) -> Record:
    return Record(ts_ns=1, stream=0, connection="a:1-b:2", sender="client", type="header", **fields)


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("metod", "did you mean `method`?"),
        ("exchange", "did you mean `arguments.exchange`?"),
        ("routing_kye", "did you mean `arguments.routing_key`?"),
        ("headers.x-death", "did you mean `properties.headers.x-death`?"),
        ("properties.heders", "did you mean `properties.headers`?"),
        ("arguments.exchange.x", "arguments.exchange has no parts"),
        ("nonsense", "there are time, ts_ns, stream"),
    ],
)
def test_an_unknown_name_is_refused_with_what_was_perhaps_meant(name: str, error: str) -> None:
    with pytest.raises(ValueError, match="there is no field") as caught:
        Columns([name], FRAMES)
    assert error in str(caught.value)


def test_each_kind_of_record_has_its_own_names() -> None:
    Columns(["severity", "kind", "outcome", "seconds", "arguments.virtual_host"], REPORTS)
    with pytest.raises(ValueError, match="there is no field outcome"):
        Columns(["outcome"], FRAMES)


def test_every_key_of_the_golden_corpus_is_a_field_and_has_its_value() -> None:
    """The columns of each record, put together, are the record."""
    for path in golden.captures():
        records = [*read_records(path), *observed(read_decoded(path), ObserverSettings(findings=True))]
        for each in records:
            whole = json.loads(each.to_json())
            columns = Columns(list(whole), [type(each)])
            assert json.loads(*json_lines(columns)(each.to_json())) == whole
            parts = [f"{top}.{name}" for top, value in whole.items() if isinstance(value, dict) for name in value]
            if parts and "body" not in whole:
                columns = Columns(parts, [type(each)])
                wanted = {top: value for top, value in whole.items() if isinstance(value, dict) and value}
                assert json.loads(*json_lines(columns)(each.to_json())) == wanted
                assert separated_lines(columns)(each.to_json())[0].count("\t") == len(parts) - 1


def test_a_path_finds_names_that_contain_dots() -> None:
    headers = {"a.b": {"c.d": 1}, "a": {"b": 2}, "e": {"f": 3}}
    names = ["properties.headers.a.b.c.d", "properties.headers.a.b", "properties.headers.e.f", "properties.headers.no"]
    columns = Columns(names, FRAMES)
    assert columns.values(record(properties={"headers": headers})) == [1, {"c.d": 1}, 3, None]
    assert columns.values(record()) == [None] * 4


def test_a_whole_and_its_part() -> None:
    columns = Columns(["properties.headers.a", "properties.headers", "size"], FRAMES)
    line = record(properties={"headers": {"a": 1, "b": 2}}).to_json()
    assert list(columns.objects(line)) == [{"properties": {"headers": {"a": 1, "b": 2}}}]
    columns = Columns(["arguments", "arguments.body_size", "arguments.arguments.x"], FRAMES)
    line = record(arguments={"body_size": 3, "arguments": {"x": [1]}}).to_json()
    assert list(columns.objects(line)) == [{"arguments": {"body_size": 3, "arguments": {"x": [1]}}}]
    assert list(columns.rows(line)) == [[{"body_size": 3, "arguments": {"x": [1]}}, 3, [1]]]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (UNSET, ""),
        ("a b", "a b"),
        ("a\tb\\c\r\n", "a\\tb\\\\c\\r\\n"),
        ("\x1b[31mé→", "\\x1b[31mé→"),
        (True, "true"),
        (12, "12"),
        (0.25, "0.25"),
        ({"base64": "/w=="}, '{"base64":"/w=="}'),
        (["a", 1], '["a",1]'),
    ],
)
def test_a_cell(value: Any, text: str) -> None:
    assert escaped(cell(value)) == text


@given(st.text())
def test_an_escaped_text_is_on_one_line_and_can_be_read_back(text: str) -> None:
    shown = escaped(text)
    assert "\t" not in shown
    assert len(shown.splitlines()) <= 1
    assert shown.encode("latin-1", "backslashreplace").decode("unicode_escape") == text


def test_another_separator_quotes_as_csv_does() -> None:
    names = ["properties.headers.a", "properties.headers.b"]
    columns = Columns(names, FRAMES)
    line = separated_lines(columns, ",")(record(properties={"headers": {"a": 'x,"y"', "b": "z"}}).to_json())[0]
    assert next(csv.reader(io.StringIO(line))) == ['x,"y"', "z"]
    assert header_line(columns, ";") == ";".join(names)
    assert header_line(columns) == "\t".join(names)


@pytest.mark.parametrize(
    ("ts_ns", "text"),
    [
        (0, "1970-01-01T00:00:00.000000000Z"),
        (1_769_857_145_493_359_001, "2026-01-31T10:59:05.493359001Z"),
        (10**21, "1000000000000.000000000"),
    ],
)
def test_a_time(ts_ns: int, text: str) -> None:
    assert iso_time(ts_ns) == text

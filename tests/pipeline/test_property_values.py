"""Properties as columns: all of them as JSON, and each by itself."""

from __future__ import annotations

import json

import pytest

from amqproxy.amqp091.properties import NO_PROPERTIES, Properties
from amqproxy.amqp091.wire import Table
from amqproxy.pipeline.property_values import MAX_KNOWN_HEADERS, PROPERTY_COLUMNS, PropertyValues

pytestmark = pytest.mark.once


def columns_of(values: PropertyValues, properties: Properties) -> dict[str, object]:
    values.read(properties)
    found = dict(zip(PROPERTY_COLUMNS, values.columns, strict=True))
    return {name: value for name, value in found.items() if value is not None}


def test_each_property_has_its_column_and_all_are_json() -> None:
    values = PropertyValues()
    found = columns_of(values, Properties(message_id="m", type="t", timestamp=7, headers=Table({"a": 1})))
    assert (found["message_id"], found["message_type"], found["message_timestamp"]) == ("m", "t", 7)
    assert json.loads(found["headers"]) == {"a": 1}  # type: ignore[arg-type]
    assert json.loads(found["properties"])["headers"] == {"a": 1}  # type: ignore[arg-type]
    assert values.size > 0
    assert columns_of(values, NO_PROPERTIES) == columns_of(values, Properties()) == {}
    assert values.size == 0


def test_headers_that_are_remembered_are_bounded() -> None:
    values = PropertyValues()
    for number in range(3 * MAX_KNOWN_HEADERS):
        found = columns_of(values, Properties(headers=Table({"n": number})))
        assert json.loads(found["headers"]) == {"n": number}  # type: ignore[arg-type]
        assert len(values._headers) <= MAX_KNOWN_HEADERS

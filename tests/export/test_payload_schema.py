"""Schemas that are learnt: every value that was seen fulfils them, in whatever order it came; and they are bounded."""

from __future__ import annotations

import uuid
from typing import Any

import jsonschema
from hypothesis import given, settings
from hypothesis import strategies as st

from amqproxy.export.payload_schema import MAX_DEPTH, MAX_NAMES, NodeBudget, PayloadSchema
from tests.example_count import example_count

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5)
    | st.sampled_from(["2024-01-31", "2024-01-31T10:00:00Z", str(uuid.UUID(int=1))]),
    lambda inner: st.lists(inner, max_size=4)
    | st.dictionaries(st.sampled_from(["a", "b", "7", str(uuid.UUID(int=2))]), inner, max_size=4),
    max_leaves=12,
)  # fmt: skip


def learnt(*values: Any) -> PayloadSchema:
    schema = PayloadSchema()
    for value in values:
        schema.learn(value)
    return schema


@settings(max_examples=example_count(60), deadline=None)
@given(st.lists(VALUES, min_size=1, max_size=5), st.lists(VALUES, min_size=1, max_size=5))
def test_all_values_fulfil_the_schema_that_was_learnt_from_them(first: list[Any], second: list[Any]) -> None:
    together = learnt(*first)
    together.add(learnt(*second))
    validator = jsonschema.Draft7Validator(together.to_json())
    for value in first + second:
        validator.validate(value)
    assert together.to_json() == learnt(*first, *second).to_json()


def test_a_schema_says_what_is_always_there_and_of_which_kind() -> None:
    orders = [
        {"id": 1, "at": "2024-01-31T10:00:00Z", "lines": [{"sku": "a", "count": 1}]},
        {"id": 2, "at": "2024-02-01T10:00:00+01:00", "lines": [], "note": None, "price": 1},
        {"id": 3, "at": "2024-02-01T10:00:00.5Z", "lines": [{"sku": "b"}], "note": "x", "price": 1.5},
    ]
    assert learnt(*orders).to_json() == {
        "type": "object",
        "properties": {
            "id": {"type": "integer"},
            "at": {"type": "string", "format": "date-time"},
            "lines": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {"sku": {"type": "string"}, "count": {"type": "integer"}},
                    "required": ["sku"],
                },
            },
            "note": {"type": ["null", "string"]},
            "price": {"type": "number"},
        },
        "required": ["id", "at", "lines"],
    }


def test_generated_names_are_keys_of_a_map() -> None:
    by_id = {str(uuid.UUID(int=number)): {"n": number} for number in range(5)}
    inner = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    assert learnt(by_id).to_json() == {"type": "object", "additionalProperties": inner}
    assert learnt({"1": 5, "2": 6}).to_json() == {"type": "object", "additionalProperties": {"type": "integer"}}


def test_too_many_names_are_keys_of_a_map() -> None:
    words = [f"{chr(97 + number // 26)}{chr(97 + number % 26)}" for number in range(MAX_NAMES + 1)]
    assert learnt(dict.fromkeys(words, 1)).to_json() == {
        "type": "object",
        "additionalProperties": {"type": "integer"},
    }
    assert len(learnt(dict.fromkeys(words[:-1], 1)).to_json()["properties"]) == MAX_NAMES


def test_what_is_nested_too_deeply_is_anything() -> None:
    value: Any = 1
    for _ in range(MAX_DEPTH * 3):
        value = [value]
    schema = learnt(value).to_json()
    depth = 0
    while "items" in schema:
        schema, depth = schema["items"], depth + 1
    assert depth == MAX_DEPTH
    assert schema == {"type": "array"}


@settings(max_examples=example_count(60), deadline=None)
@given(st.lists(VALUES, min_size=1, max_size=5), st.lists(VALUES, min_size=1, max_size=5), st.integers(0, 6))
def test_without_room_a_schema_is_wider(first: list[Any], second: list[Any], room: int) -> None:
    budget = NodeBudget(room)
    narrow, other = PayloadSchema(budget), PayloadSchema(NodeBudget(room))
    for schema, values in ((narrow, first), (other, second)):
        for value in values:
            schema.learn(value)
    narrow.add(other)
    validator = jsonschema.Draft7Validator(narrow.to_json())
    for value in first + second:
        validator.validate(value)
    assert budget.left >= 0

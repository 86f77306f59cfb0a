"""Paths and types of bodies, and that no body takes much time or room."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amqproxy.pipeline.body_fields import (
    EVERY,
    MAX_BODY,
    MAX_COUNTED,
    MAX_VALUES,
    REST,
    Field,
    Sampling,
    fields_of,
)
from amqproxy.pipeline.span import HOUR
from tests.example_count import example_count

pytestmark = pytest.mark.once

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)
UUID = "550e8400-e29b-41d4-a716-446655440000"


def found(value: Any) -> dict[str, str]:
    """Each path with its types, and what it holds."""
    body = value if isinstance(value, bytes) else json.dumps(value).encode()
    paths: dict[str, set[str]] = {}
    for path, kind, holds in fields_of(body, len(body)):
        paths.setdefault(path, set()).add(kind if holds is None else f"{kind}: {holds}")
    return {path: ", ".join(sorted(kinds)) for path, kinds in sorted(paths.items())}


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (
            {"id": 7, "lines": [{"to": "ada@example.org"}, {"to": None, "n": 1.5}], "is_new": True},
            {
                "$": "object",
                "$.id": "integer",
                "$.is_new": "boolean",
                "$.lines": "array",
                "$.lines[]": "object",
                "$.lines[].n": "number",
                "$.lines[].to": "null, string, string: e-mail",
            },
        ),
        ({"password": "x", "token": None, "tel": 0}, {
            "$": "object", "$.password": "string, string: secret (by name)",
            "$.tel": "integer, integer: phone number (by name)", "$.token": "null",
        }),
        ({UUID: 1, "1234567": 1, "ada@example.org": {"x": 2}}, {
            "$": "object", "$.*": "integer, object", "$.*.x": "integer",
        }),
        ({"a b": 1, '"': 2, "": 3, "x" * 99: 4}, {
            "$": "object", '$["a b"]': "integer", '$["\\""]': "integer", '$[""]': "integer",
            f"$.{'x' * 63}…": "integer",
        }),
        ([1, "a"], {"$": "array", "$[]": "integer, string"}),
        (b"7", {"$": "integer"}),
        (b"", {"$": "empty"}),
        (b"hello", {"$": "text"}),
        (b"call +49 30 90182012", {"$": "text, text: phone number"}),
        (b'{"a": 1', {"$": "text"}),
        (b'{"a": "\xff"}', {"$": "binary"}),
        (b'{"a": 1' + b"0" * 400 + b"}", {"$": "object", "$.a": "integer"}),
        (b'{"a": 1' + b"0" * 60_000 + b"}", {"$": "text"}),
        (b'{"a": 1e999}', {"$": "text"}),
        (b"[" * 60_000 + b"]" * 5_000, {"$": "text"}),
    ],
)  # fmt: skip
def test_fields(body: Any, expected: dict[str, str]) -> None:
    assert found(body) == expected


@settings(max_examples=example_count(100), deadline=None)
@given(JSON | st.binary(max_size=200))
def test_any_body_has_one_kind_and_few_fields(value: Any) -> None:
    body = value if isinstance(value, bytes) else json.dumps(value).encode()
    fields = fields_of(body, len(body))
    assert sum(path == "$" and holds is None for path, _, holds in fields) == 1
    assert len(fields) <= 2 * len(body) + 1
    assert all(path == REST or path[0] == "$" for path, _, _ in fields)


def test_what_is_beyond_a_bound_is_said_to_be_there() -> None:
    deep: Any = 1
    for _ in range(200):
        deep = {"a": deep}
    assert found(deep)["…"] == "not inspected"
    assert len(found(deep)) == 18
    many = {f"field{chr(97 + each % 26)}{each}": each for each in range(3000)}
    fields = found(many)
    assert fields["…"] == "not inspected"
    assert len(fields) <= MAX_VALUES + 1
    assert found([[each] for each in range(3000)])["…"] == "not inspected"
    whole = b'"' + b"x" * MAX_BODY + b'"'
    assert fields_of(whole[:MAX_BODY], len(whole)) == {Field("$", "not inspected")}
    assert fields_of(b"{}", None) == {Field("$", "not inspected")}


def test_no_value_is_returned() -> None:
    secret = "4111111111111111"
    for body in (
        {"card": secret},
        {secret: 1},
        {f"key {secret}": {"x": int(secret)}},
        [secret],
        {"a": {secret: secret}},
    ):
        assert secret not in repr(fields_of(json.dumps(body).encode(), len(json.dumps(body))))


def test_a_sample_of_each_hour_is_taken() -> None:
    sampling = Sampling()
    taken = [each for each in range(1, 1001) if sampling.takes(each, "orders", None)]
    assert taken == [*range(1, EVERY + 1), *range(2 * EVERY, 1001, EVERY)]
    assert sampling.takes(1, "orders", "q"), "each queue has its own"
    assert sampling.takes(HOUR, "orders", None), "and each hour"
    for each in range(3 * MAX_COUNTED):
        sampling.takes(HOUR, f"reply.{each}", None)
    assert len(sampling._counts) <= MAX_COUNTED

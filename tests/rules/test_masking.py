"""Values, covered where they stand."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqproxy.amqp091.properties import NO_PROPERTIES, Properties
from amqproxy.amqp091.wire import Field, Table
from amqproxy.rules.masking import masked_json, masked_properties, masked_table, pointer
from amqproxy.rules.pattern import predicate
from tests.amqp091 import strategies


def test_tables() -> None:
    table = Table(
        [
            Field("token", "I", 5),
            Field("n", "B", 1),
            Field("in", "F", Table({"token": {"a": 1}, "m": 2})),
            Field("token", "S", "x"),
        ]
    )
    assert masked_table(table, predicate("token"), "***").fields == (
        Field("token", "S", "***"),
        Field("n", "B", 1),
        Field("in", "F", Table({"token": "***", "m": 2})),
        Field("token", "S", "***"),
    )


@given(strategies.tables)
def test_a_table_without_secrets_is_the_very_same(table: Table) -> None:
    assert masked_table(table, predicate("\x00none"), "***") is table


def test_properties() -> None:
    properties = Properties(user_id="u", app_id="a", timestamp=5, priority=1)
    assert masked_properties(properties, predicate(("user_id", "timestamp", "type")), "#") == Properties(
        user_id="#", app_id="a", priority=1
    )
    assert masked_properties(NO_PROPERTIES, predicate("*"), "#") is NO_PROPERTIES


@pytest.mark.parametrize(
    ("text", "steps"),
    [("", ()), ("/", ("",)), ("/a/b", ("a", "b")), ("/a~1b/~0/*", ("a/b", "~", "*")), ("/~01", ("~1",))],
)
def test_pointers(text: str, steps: tuple[str, ...]) -> None:
    assert pointer(text) == steps


def test_what_is_no_pointer() -> None:
    with pytest.raises(ValueError, match="must begin with /"):
        pointer("card")


@pytest.mark.parametrize(
    ("pointers", "before", "after"),
    [
        (["/a"], b'{"a": 1, "b": 2}', b'{"a":"*","b":2}'),
        (["/a/b"], b'{"a": {"b": {"c": 1}}}', b'{"a":{"b":"*"}}'),
        (["/items/*/card"], b'{"items":[{"card":1},{"card":2},{}]}', b'{"items":[{"card":"*"},{"card":"*"},{}]}'),
        (["/*/pin"], b'{"x":{"pin":1},"y":2}', b'{"x":{"pin":"*"},"y":2}'),
        (["/l/1"], b'{"l":[1,2]}', b'{"l":[1,"*"]}'),
        (["/a", "/a/b", "/c"], b'{"a":{"b":1},"c":3}', b'{"a":"*","c":"*"}'),
        ([""], b'{"a": 1}', b'"*"'),
        (["/none", "/l/7", "/l/x", "/s/x"], b'{"l": [1], "s": "text"}', b'{"l": [1], "s": "text"}'),
        (["/a"], b"not json", b"*"),
        (["/a"], b"\xff", b"*"),
        (["/a"], b"[" * 5000 + b"]" * 5000, b"*"),
        (["/a"], b'{"a":1,"n":1.10}', b'{"a":"*","n":1.10}'),
    ],
)
def test_json(pointers: list[str], before: bytes, after: bytes) -> None:
    assert masked_json(before, [pointer(text) for text in pointers], "*") == after


@given(st.recursive(st.integers() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)))
def test_what_is_not_pointed_at_stays(document: Any) -> None:
    body = msgspec.json.encode({"kept": document, "secret": document})
    masked = msgspec.json.decode(masked_json(body, [("secret",)], "*"))
    assert masked == msgspec.json.decode(msgspec.json.encode({"kept": document, "secret": "*"}))

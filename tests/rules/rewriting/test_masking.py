"""Values, covered where they stand."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqproxy.amqp091.properties import NO_PROPERTIES, Properties
from amqproxy.amqp091.wire import Array, Field, Item, Table
from amqproxy.rules.matching.patterns import predicate, regular_expression
from amqproxy.rules.rewriting.masking import (
    masked_json,
    masked_properties,
    masked_table,
    masked_text,
    pointer,
    unescaped,
)
from tests.amqp091 import strategies


def test_tables() -> None:
    table = Table(
        [
            Field("token", "I", 5),
            Field("n", "B", 1),
            Field("in", "F", Table({"token": {"a": 1}, "m": 2})),
            Field(
                "many", "A", Array([Item("F", Table({"token": 1})), Item("A", Array([Item("F", Table({"token": 2}))]))])
            ),
            Field("token", "S", "x"),
        ]
    )
    assert masked_table(table, predicate("token"), "***").fields == (
        Field("token", "S", "***"),
        Field("n", "B", 1),
        Field("in", "F", Table({"token": "***", "m": 2})),
        Field(
            "many",
            "A",
            Array([Item("F", Table({"token": "***"})), Item("A", Array([Item("F", Table({"token": "***"}))]))]),
        ),
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
        (["/a"], b"[" * 100_000 + b"]" * 100_000, b"*"),
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


@pytest.mark.parametrize(
    "body",
    [
        b'{"card": "4111", "card": 1}',
        b'{"a": {"card": "4111"}, "a": {}}',
        b'{"a": [{"\\u0063ard": "4111"}], "a": [1]}',
    ],
)
def test_what_stands_under_a_name_that_comes_twice_is_not_shown(body: bytes) -> None:
    pointers = [pointer("/card"), pointer("/a/card"), pointer("/a/*/card")]
    assert b"4111" not in masked_json(body, pointers, "***")


def test_a_body_without_secrets_stays_as_it_is_written() -> None:
    body = b'{"a": 1, "card-number": [1.50, "\\u0041"]}'
    assert masked_json(body, [pointer("/card")], "***") is body


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (r'{"card": "4111"}', '{"card": "***"}'),
        (r'{"card": "\u003411\u0031"}', '{"card": "***"}'),
        (r'{"card": "4\u00311\u0031", "b": "\u0022\n\\\u0034"}', '{"card": "***", "b": "\\"\\n\\\\4"}'),
        (r'{"b": "\u0041", "a\/b": 1}', r'{"b": "\u0041", "a\/b": 1}'),
        (r'{"path": "key\/41"}', '{"path": "***"}'),
        (
            r'{"lone": "\ud83d", "pair": "\ud83d\ude00", "c": "4\u003111"}',
            '{"lone": "\ufffd", "pair": "\U0001f600", "c": "***"}',
        ),
    ],
)
def test_secrets_that_are_written_with_escapes(text: str, expected: str) -> None:
    expressions = [regular_expression("4111"), regular_expression("key/[0-9]+")]
    assert masked_text(text, expressions, "***") == expected


json_texts = st.recursive(
    st.text() | st.integers(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=5
)


@given(json_texts, st.booleans())
def test_without_escapes_json_means_what_it_meant(value: Any, is_ascii: bool) -> None:
    text = json.dumps(value, ensure_ascii=is_ascii)
    assert json.loads(unescaped(text)) == value


def test_a_text_with_too_much_to_mask_is_masked_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(1000))
    monkeypatch.setattr("amqproxy.rules.rewriting.substitution.thread_time", lambda: next(clock))
    assert masked_text("1a" * 100, [regular_expression("[0-9]")], "***") == "***"

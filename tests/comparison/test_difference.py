"""How two values and two bodies differ."""

import copy
import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from amqproxy.comparison.difference import (
    MAX_CHANGES,
    Change,
    Difference,
    DifferenceKind,
    Place,
    body_changes,
    changes,
    first_difference,
)

leaves = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
values = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=4),
    max_leaves=12,
)


@given(values)
def test_nothing_differs_from_itself(value: Any) -> None:
    assert changes(value, copy.deepcopy(value)) == []


@given(values, values)
def test_either_way_the_same_fields_differ(one: Any, other: Any) -> None:
    forth, back = changes(one, other), changes(other, one)
    assert sorted(repr(each.mirrored) for each in forth) == sorted(map(repr, back))


@given(st.dictionaries(st.text(max_size=3), values, min_size=1), st.data())
def test_a_changed_field_is_named(table: dict[str, Any], data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(table)))
    assert changes(table, {**table, name: b"new"}, "headers") == [
        Change(field=f"headers.{name}", before=table[name], after=b"new")
    ] or isinstance(table[name], dict | list)
    without = {each: value for each, value in table.items() if each != name}
    assert changes(table, without) == [Change(field=name, before=table[name])]
    assert changes(without, table) == [Change(field=name, after=table[name])]


def test_true_is_not_one() -> None:
    assert changes({"a": True, "b": 1}, {"a": 1, "b": 1.0}) == [
        Change(field="a", before=True, after=1),
        Change(field="b", before=1, after=1.0),
    ]


def test_no_more_changes_are_made_than_are_shown() -> None:
    assert len(changes(list(range(1000)), list(range(1, 1001)))) == MAX_CHANGES
    one, other = (b"[" * 5000 + number + b"]" * 5000 for number in (b"1", b"2"))
    assert body_changes(one, other) == [Change(field="body", before="1" + "]" * 59, after="2" + "]" * 59, at=5000)]


@given(st.binary(max_size=200), st.binary(max_size=200), st.binary(max_size=200))
def test_the_first_byte_that_differs(start: bytes, one: bytes, other: bytes) -> None:
    at = first_difference(start + one, start + other)
    if one == other:
        assert at is None
    else:
        assert at is not None
        assert (start + one)[:at] == (start + other)[:at]
        assert (start + one)[at : at + 1] != (start + other)[at : at + 1]


def test_bodies() -> None:
    before = {"items": [{"price": 1.5, "name": "a"}, {"price": 2}], "gone": None}
    after = {"items": [{"price": 1.75, "name": "a"}], "new": []}
    one, other = json.dumps(before).encode(), json.dumps(after).encode()
    assert body_changes(one, other) == [
        Change(field="body", before=one[23:83].decode(), after=other[23:83].decode(), at=23),
        Change(field="body.items[0].price", before=1.5, after=1.75),
        Change(field="body.items[1]", before={"price": 2}),
        Change(field="body.gone", before=None),
        Change(field="body.new", after=[]),
    ]
    assert body_changes(b"abc", b"ab") == [Change(field="body", before="c", at=2)]
    assert body_changes(b"\0\1", b"\0\2") == [
        Change(field="body", before={"base64": "AQ=="}, after={"base64": "Ag=="}, at=1)
    ]
    assert body_changes(b"alike", b"alike", is_whole=False) == [Change(field="body", at=-1)]
    assert len(body_changes(b"[" * 30_000, b"[" * 30_001)) == 1


def test_as_json() -> None:
    difference = Difference(
        kind=DifferenceKind.CHANGED,
        type="publish",
        what="publish to orders",
        a=Place(ts_ns=1, stream=0, connection="a-b"),
        changes=(Change(field="code", before=312),),
    )
    assert json.loads(difference.to_json()) == {
        "report": "difference",
        "kind": "changed",
        "type": "publish",
        "what": "publish to orders",
        "a": {"ts_ns": 1, "stream": 0, "connection": "a-b"},
        "changes": [{"field": "code", "before": 312}],
    }
    assert DifferenceKind.MISSING.mirrored is DifferenceKind.EXTRA

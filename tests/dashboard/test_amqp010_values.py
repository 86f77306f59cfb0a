"""The values of maps, lists and structs of AMQP 0-10, with the bytes that they are in."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, given, settings

from amqproxy.amqp010.structs import Struct
from amqproxy.amqp010.wire import CODES, Array, Entry, Item, List, Map, UnknownStruct, encode_value
from amqproxy.dashboard.amqp010_values import coded_struct, type_name, value_field
from amqproxy.dashboard.field import MAX_ENTRIES, Field
from amqproxy.taps.amqp010.record import plain
from tests.amqp010.strategies import items, structs
from tests.dashboard.dissected_fields import as_shown, check_tiling
from tests.example_count import example_count

MODEST = settings(max_examples=example_count(100), deadline=None, suppress_health_check=[HealthCheck.too_slow])


def value_of(field: Field) -> Any:
    """What a field shows, as JSON has it."""
    within = [each for each in field.children if each.name not in ("key", "type", "length", "count")]
    if field.type == "map":
        return {each.name: value_of(each) for each in within}
    if field.type in ("list", "array"):
        return [value_of(each) for each in within]
    return field.value


def field_of(type_: str, value: Any) -> Field:
    code = CODES[type_]
    raw = b"..." + encode_value(code, value)
    found = value_field(raw, 3, 3, len(raw), "x", code, "x", ())
    assert (found.start, found.end, found.type) == (3, len(raw), type_)
    if found.children:
        check_tiling(found.children, 3, len(raw))
    return found


@MODEST
@given(items)
def test_every_value_is_covered(item: Item) -> None:
    field_of("list", List([item]))
    found = field_of("map", Map([Entry("k", *item)]))
    assert found.children[-1].name == "k"
    assert found.children[-1].type == item.type


@MODEST
@given(structs)
def test_every_struct_is_covered(struct: Struct | UnknownStruct) -> None:
    raw = struct.encode()
    check_tiling(tuple(coded_struct(raw, 4, len(raw))), 4, len(raw))


def test_values_are_those_of_records() -> None:
    value = Map({"text": "é", "number": -7, "big": 2**60, "none": None, "list": [1, {"a": True}], "bytes": b"\xff"})
    assert value_of(field_of("map", value)) == as_shown(plain(value))
    assert value_of(field_of("array", Array("uint8", [1, 2, 3]))) == [1, 2, 3]
    assert value_of(field_of("array", Array("void", [None] * 3))) == []
    assert value_of(field_of("array", Array(""))) == []


def test_of_very_many_entries_the_rest_is_bytes() -> None:
    many = range(2 * MAX_ENTRIES)
    for type_, value in (
        ("list", List(many)),
        ("map", Map({str(each): each for each in many})),
        ("array", Array("uint16", many)),
    ):
        children = field_of(type_, value).children
        assert len(children) < MAX_ENTRIES + 5
        assert children[-1].name == "more entries"


def test_entries_have_the_filter_that_finds_them() -> None:
    code = CODES["map"]
    raw = encode_value(code, Map({"a": "b", "n": {"in": 1}}))
    found = value_field(raw, 0, 0, len(raw), "headers", code, "headers", ())
    assert found.children[2].filter == 'headers["a"] == "b"'
    assert found.children[3].children[-1].filter == 'headers["n"]["in"] == 1'


def test_types_have_their_names() -> None:
    assert [type_name(code) for code in (0x85, 0xE1, 0xE3)] == ["str8", "sequence-set", "reply-to"]

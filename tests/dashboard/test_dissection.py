"""The fields of frames, with their bytes: held against the codec, for all methods and properties."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from amqproxy.amqp091.frame import BODY, HEADER, HEARTBEAT_FRAME, Frame, encode_frame, encode_method
from amqproxy.amqp091.methods import BY_INDEX, BY_NAME, BasicPublish, ConnectionStartOk, Method
from amqproxy.amqp091.properties import ContentHeader, Properties
from amqproxy.amqp091.transitions import CLIENT
from amqproxy.amqp091.wire import MAX_TABLE_DEPTH, Table
from amqproxy.dashboard.dissection import dissected
from amqproxy.dashboard.field import MAX_ENTRIES, Field
from amqproxy.rules.context import Client
from amqproxy.rules.engine.frame_filter import FrameFilter
from amqproxy.rules.matching.filters import compiled
from amqproxy.taps.record import MASK, arguments, encoded, json_mapping
from tests.amqp091.strategies import headers, methods, methods_of, mutated
from tests.dashboard.dissected_fields import as_shown, check_tiling, filters_in
from tests.example_count import example_count

MODEST = settings(max_examples=example_count(25), deadline=None, suppress_health_check=[HealthCheck.too_slow])


def by_name(fields: list[Field] | tuple[Field, ...]) -> dict[str, Field]:
    found: dict[str, Field] = {}
    for field in fields:
        for each in field.children if field.name == "bits" else [field]:
            found.setdefault(each.name, each)
    return found


def value_of(field: Field) -> Any:
    """What the JSON of records has for a field."""
    entries = [each for place, each in enumerate(field.children) if place > _length_at(field)]
    if field.type == "table":
        found: dict[str, Any] = {}
        for each in entries:
            found.setdefault(each.name, value_of(each))
        return found
    if field.type == "array":
        return [value_of(each) for each in entries]
    return field.value


def _length_at(field: Field) -> int:
    """Where the length is among the children: behind what an entry of a table begins with."""
    return next(
        (place for place, each in enumerate(field.children) if each.name == "length" and each.type == "long"), 0
    )


@MODEST
@given(methods, st.integers(0, 65535))
def test_a_method_is_covered_and_has_the_values_of_its_record(method: Method, channel: int) -> None:
    raw, fields = dissected(Frame(encode_method(channel, method)))
    check_tiling(fields, 0, len(raw))
    found = by_name(fields)
    encoded(fields)
    assert (found["channel"].value, found["method"].value) == (channel, method.name)
    for name, value in arguments(method).items():
        shown = value_of(found[name])
        if "…" not in str(shown) and "\\" not in repr(value):
            assert encoded(shown) == encoded(as_shown(value))


@MODEST
@given(headers)
def test_a_header_is_covered_and_has_the_values_of_its_record(header: ContentHeader) -> None:
    raw, fields = dissected(Frame(encode_frame(HEADER, 1, header.encode())))
    check_tiling(fields, 0, len(raw))
    found = by_name(fields)
    present = json_mapping(header.properties.present())
    assert found["flags"].value == list(present)
    for name, value in present.items():
        if "\\" not in repr(value):
            assert encoded(value_of(found[name])) == encoded(as_shown(value))


@MODEST
@given(mutated(st.sampled_from(BY_INDEX).flatmap(methods_of).map(lambda method: method.encode())), st.booleans())
def test_what_is_malformed_is_covered_too(payload: bytes, is_header: bool) -> None:
    if not is_header and payload[:4] not in {method.encode()[:4] for method in map(_blank, BY_INDEX)}:
        return  # no reader passes the frame of a method that there is not
    raw, fields = dissected(Frame(encode_frame(HEADER if is_header else 1, 1, payload)))
    check_tiling(fields, 0, len(raw))
    encoded(fields)


def _blank(cls: type[Method]) -> Method:
    values: dict[str, Any] = {"F": Table(), "S": b"", "s": "", "u": "", "b": False}
    return cls(*[values.get(letter, 0) for letter in cls.layout.decode()])


@pytest.mark.parametrize("raw", [HEARTBEAT_FRAME, encode_frame(BODY, 1, b"{}"), encode_frame(BODY, 1, b"")])
def test_other_frames(raw: bytes) -> None:
    check_tiling(dissected(Frame(raw))[1], 0, len(raw))


def test_a_password_is_neither_in_the_bytes_nor_in_the_fields() -> None:
    method = ConnectionStartOk(Table({"product": "pika"}), "PLAIN", b"\0guest\0hunter2", "en_US")
    raw, fields = dissected(Frame(encode_method(0, method)))
    assert b"hunter2" not in raw
    assert b"hunter2" not in encoded(fields)
    assert by_name(fields)["response"].value == MASK


HEADERS = Table(
    {"tenant": 'a "b"\\\n', "attempt": -3, "urgent": True, "big": 2**60, "ratio": 0.5, "in": Table({"k": "v"})}
)
PUBLISH = BasicPublish(0, "orders", 'eu."new"', True, False)
PROPERTIES = Properties(content_type="text/plain", headers=HEADERS, priority=5, timestamp=1767225600, type="é")


@pytest.mark.parametrize("kind", ["method", "header"])
def test_what_a_click_filters_by_holds_for_the_command(kind: str) -> None:
    header = ContentHeader(0, PROPERTIES)
    frames = [Frame(encode_method(1, PUBLISH)), Frame(encode_frame(HEADER, 1, header.encode()))]
    filters = filters_in(dissected(frames[kind == "header"])[1])
    assert len(filters) >= (6 if kind == "method" else 9)
    for each in filters:
        passed = FrameFilter(compiled(each), Client.named(1, "a-b")).sift(CLIENT, frames, 0.0)
        assert len(passed) == 2, each


def test_each_argument_of_requests_has_a_filter_that_holds() -> None:
    for name in ("queue.declare", "exchange.bind", "basic.consume", "basic.nack", "queue.bind"):
        method = _blank(BY_NAME[name])
        for each in filters_in(dissected(Frame(encode_method(1, method)))[1]):
            passed = FrameFilter(compiled(each), Client.named(1, "a-b")).sift(
                CLIENT, [Frame(encode_method(1, method))], 0.0
            )
            assert passed, each


def test_of_very_many_entries_the_rest_is_bytes() -> None:
    table = Table({"list": [1] * (2 * MAX_ENTRIES), **{str(number): number for number in range(2 * MAX_ENTRIES)}})
    raw, fields = dissected(Frame(encode_frame(HEADER, 1, ContentHeader(0, Properties(headers=table)).encode())))
    check_tiling(fields, 0, len(raw))
    headers = by_name(fields)["headers"]
    assert len(headers.children) < MAX_ENTRIES + 5
    assert [each.name for each in headers.children][-1] == "more entries"


@pytest.mark.parametrize("letter", [b"F", b"A"], ids=["tables", "arrays"])
def test_what_nests_too_deep_has_its_octets_for_a_value(letter: bytes) -> None:
    entries = b""
    for _ in range(5000):
        entries = (b"\x01k" if letter == b"F" else b"") + letter + len(entries).to_bytes(4) + entries
    table = Table.from_octets(entries if letter == b"F" else b"\x01k" + entries)
    frame = Frame(encode_method(1, BY_NAME["queue.declare"](arguments=table)))
    _, fields = dissected(frame)
    innermost = by_name(fields)["arguments"]
    depth = 0
    while innermost.children:
        innermost = innermost.children[-1]
        depth += 1
    assert depth == MAX_TABLE_DEPTH + 1
    assert innermost.value

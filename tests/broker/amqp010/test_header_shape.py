"""Headers of one shape, translated by it, beside the same headers translated one by one."""

from __future__ import annotations

import math
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqproxy.amqp091.properties import ContentHeader, Properties
from amqproxy.broker.amqp010.header_places import content_header_places, header_places
from amqproxy.broker.amqp010.header_shape import HeaderShape, learnt
from amqproxy.broker.amqp010.transfer_headers import TransferHeaders
from amqproxy.broker.message import Message
from tests.broker.amqp010.header_samples import TIME, content_header_of, header_of_jms, headers


def shape_of(data: bytes) -> HeaderShape | None:
    """The shape of a header segment."""
    made = content_header_of(data, 3)
    places = header_places(data)
    return learnt(data, places, made, content_header_places(made), lambda other: content_header_of(other, 3))


def segment_of(content_header: bytes, size: int = 3) -> bytes:
    """The header segment for a content header, translated."""
    return TransferHeaders().of(Message("e", "k", content_header, bytes(size)), content_header, math.inf, False)


def shape_back(content_header: bytes) -> HeaderShape | None:
    """The shape of a content header."""
    made = segment_of(content_header)
    places = content_header_places(content_header)
    return learnt(content_header, places, made, header_places(made), segment_of)


@given(st.lists(st.tuples(headers, st.integers(0, 2**40)), max_size=12), st.binary(max_size=3))
def test_it_translates_what_matches_as_a_translation_does(made: list[tuple[bytes, int]], before: bytes) -> None:
    shapes: list[HeaderShape] = []
    for data, size in made:
        expected = content_header_of(data, size)
        for shape in shapes:
            if shape.matches(before + data, len(before), len(data)):
                assert shape.translated(before + data, len(before), size) == expected
        learned = shape_of(data)
        if learned is not None:
            shapes.append(learned)


@given(st.lists(st.tuples(headers, st.integers(0, 99)), max_size=12))
def test_and_so_it_does_back(made: list[tuple[bytes, int]]) -> None:
    shapes: list[HeaderShape] = []
    for data, size in made:
        content_header = content_header_of(data, size)
        expected = segment_of(content_header, size)
        for shape in shapes:
            if shape.matches(content_header, 0, len(content_header)):
                assert shape.translated(content_header, 0, size) == expected
        learned = shape_back(content_header)
        if learned is not None:
            shapes.append(learned)


texts = st.one_of(
    st.uuids().map(str),
    st.uuids().map(lambda each: str(each).upper()),
    st.text(alphabet="0123456789abcdefg-", min_size=36, max_size=36),
    st.sampled_from(["", "ID:1", "-" * 36]),
)
seconds = st.one_of(st.integers(0, 2**64 - 1), st.integers(TIME // 1000, TIME // 1000 + 10), st.none())


@given(st.lists(st.tuples(texts, seconds), min_size=2, max_size=12))
def test_and_with_what_a_client_of_0_9_1_has_sent(made: list[tuple[str, int | None]]) -> None:
    shapes: list[HeaderShape] = []
    for message_id, timestamp in made:
        data = ContentHeader(3, Properties(message_id=message_id, timestamp=timestamp, type="t")).encode()
        for shape in shapes:
            if shape.matches(data, 0, len(data)):
                assert shape.translated(data, 0, 3) == segment_of(data)
        learned = shape_back(data)
        if learned is not None:
            shapes.append(learned)


def test_those_of_a_client_have_one_shape() -> None:
    first = header_of_jms(1).encode()
    shape = shape_of(first)
    back = shape_back(content_header_of(first, 3))
    assert shape is not None
    assert back is not None
    for number in range(2, 2000, 99):
        data = header_of_jms(number).encode()
        assert shape.matches(data, 0, len(data))
        content_header = shape.translated(data, 0, number)
        assert content_header == content_header_of(data, number)
        assert back.matches(content_header, 0, len(content_header))
        assert back.translated(content_header, 0, 3) == segment_of(content_header)
    whole = first.replace((TIME + 1000).to_bytes(8), (TIME + 999).to_bytes(8))
    assert not shape.matches(whole, 0, len(whole)), "0-9-1 has room for all of this time"


def test_one_without_anything_of_its_own_stays_the_same_object() -> None:
    data = ContentHeader(3, Properties(content_type="t")).encode()
    shape = shape_back(data)
    assert shape is not None
    first = shape.translated(data, 0, 3)
    assert shape.translated(data, 0, 3) is first
    assert shape.translated(data, 0, 4) == segment_of(data, 4)


@pytest.mark.parametrize("timestamp", [TIME // 1000, 0, -1, -TIME])
def test_a_time_that_is_not_in_milliseconds_is_of_no_shape(timestamp: int) -> None:
    data = header_of_jms(0).encode().replace(TIME.to_bytes(8), timestamp.to_bytes(8, signed=True))
    assert shape_of(data) is None


def test_what_is_translated_in_another_way_is_not_learnt() -> None:
    data = header_of_jms(1).encode()
    made = content_header_of(data, 3)
    places, made_places = header_places(data), content_header_places(made)
    assert learnt(data, places, made, made_places, lambda other: content_header_of(other, 3)) is not None
    assert learnt(data, places, made, made_places, lambda other: made) is None
    without = ContentHeader(3, Properties(message_id=str(UUID(int=1)))).encode()
    assert learnt(data, places, without, content_header_places(without), lambda other: without) is None

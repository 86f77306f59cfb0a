"""Where headers have their sizes, ids and timestamps."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqproxy.amqp010.properties import DeliveryProperties, FragmentProperties, Header, MessageProperties
from amqproxy.amqp091.properties import ContentHeader, Properties
from amqproxy.amqp091.wire import Field, Table
from amqproxy.broker.amqp010.header_places import HeaderPlaces, content_header_places, header_places
from tests.broker.amqp010.header_samples import TIME, content_header_of, header_of_jms

ID = UUID(int=0x0123456789ABCDEF << 64)


def found(data: bytes, places: HeaderPlaces) -> list[bytes | None]:
    """The size, the id, the seconds and the milliseconds."""
    ends = (
        (places.size_at, 8),
        (places.id_at, places.id_size),
        (places.seconds_at, 8),
        (places.milliseconds_at, 8),
    )
    return [data[at : at + size] if at >= 0 else None for at, size in ends]


def number(value: int) -> bytes:
    return value.to_bytes(8)


@pytest.mark.parametrize(
    ("structs", "expected"),
    [
        ((), [None] * 4),
        ((DeliveryProperties(timestamp=TIME),), [None, None, None, number(TIME)]),
        (
            (DeliveryProperties(priority=1, delivery_mode=2, ttl=3, timestamp=TIME, expiration=4, exchange="e"),),
            [None, None, None, number(TIME)],
        ),
        ((DeliveryProperties(ttl=3, exchange="e"), FragmentProperties()), [None] * 4),
        ((MessageProperties(7, ID), DeliveryProperties()), [number(7), ID.bytes, None, None]),
        ((MessageProperties(None, ID, b"c"),), [None, ID.bytes, None, None]),
    ],
)
def test_in_a_header(structs: tuple[object, ...], expected: list[bytes | None]) -> None:
    data = Header(structs).encode()
    assert found(data, header_places(data)) == expected


@pytest.mark.parametrize(
    ("properties", "expected"),
    [
        (Properties(), [None] * 3),
        (Properties(message_id=str(ID)), [str(ID).encode(), None, None]),
        (Properties(message_id="other"), [None] * 3),
        (Properties(content_type="t", content_encoding="e", timestamp=5), [None, number(5), None]),
        (
            Properties(
                headers=Table([Field("a", "I", 1)]),
                delivery_mode=1,
                priority=2,
                correlation_id="c",
                reply_to="r",
                expiration="9",
                message_id=str(ID),
                timestamp=5,
                type="t",
            ),
            [str(ID).encode(), number(5), None],
        ),
    ],
)
def test_in_a_content_header(properties: Properties, expected: list[bytes | None]) -> None:
    data = ContentHeader(77, properties).encode()
    assert found(data, content_header_places(data)) == [number(77), *expected]


def test_milliseconds_in_a_content_header() -> None:
    data = content_header_of(header_of_jms(1).encode(), 3)
    time = TIME + 1000
    message_id = str(UUID(int=0x1234 << 64 | 7919)).encode()
    assert found(data, content_header_places(data)) == [number(3), message_id, number(time // 1000), number(time)]


def test_what_is_blank_is_that_alone() -> None:
    one, other = (header_of_jms(each).encode() for each in (1, 99))
    assert one != other
    assert header_places(one).blank(one) == header_places(other).blank(other)
    assert header_places(one).holes() == [(10, 18), (29, 37), (37, 53)]


@given(st.binary(max_size=80), st.integers(0, 60))
def test_in_any_bytes(data: bytes, end: int) -> None:
    for each in (data, header_of_jms(1).encode()[:end] + data):
        assert len(header_places(each).blank(each)) == len(each)

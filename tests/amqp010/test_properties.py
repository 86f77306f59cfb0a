"""Headers and the structs in them."""

from __future__ import annotations

from hypothesis import given

from amqproxy.amqp010.frame import decode_header
from amqproxy.amqp010.properties import (
    NO_PROPERTIES,
    DeliveryProperties,
    FragmentProperties,
    Header,
    MessageProperties,
    StreamProperties,
)
from amqproxy.amqp010.wire import UnknownStruct
from tests.amqp010 import strategies

DELIVERY, FRAGMENT, MESSAGE = DeliveryProperties(ttl=1), FragmentProperties(last=False), MessageProperties(user_id=b"u")


@given(strategies.headers)
def test_a_header_comes_back_as_it_was(header: Header) -> None:
    data = header.encode()
    again = decode_header(data)
    assert again == header
    assert again.encode() == data


def test_what_is_in_a_header_in_any_order() -> None:
    other = UnknownStruct(0xFF00, b"")
    header = Header((MESSAGE, other, FRAGMENT, DELIVERY))
    assert (header.delivery, header.message, header.fragment) == (DELIVERY, MESSAGE, FRAGMENT)
    assert (NO_PROPERTIES.delivery, NO_PROPERTIES.message, NO_PROPERTIES.fragment) == (None, None, None)


def test_a_part_of_a_header_is_replaced() -> None:
    header = Header((MESSAGE, DELIVERY))
    assert header.replacing(DeliveryProperties(ttl=9)).entries == (MESSAGE, DeliveryProperties(ttl=9))
    assert header.replacing(StreamProperties()).entries == (MESSAGE, DELIVERY, StreamProperties())

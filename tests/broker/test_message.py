"""A message: its properties when they are asked for, and its header when it changes."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given

from amqproxy.amqp091.errors import ProtocolError
from amqproxy.amqp091.frame import HEADER, Frame, encode_frame
from amqproxy.amqp091.properties import NO_PROPERTIES, ContentHeader, Properties
from amqproxy.amqp091.wire import Field, Table
from amqproxy.broker.message import Message, header_with, published
from tests.amqp091 import strategies

BARE = ContentHeader(4, NO_PROPERTIES).encode()


def decoded(header: bytes) -> ContentHeader:
    return Frame(encode_frame(HEADER, 1, header)).header


@pytest.mark.parametrize(
    ("properties", "has_properties", "is_persistent"),
    [
        ({}, False, False),
        ({"delivery_mode": 2}, True, True),
        ({"delivery_mode": 1}, True, False),
        ({"delivery_mode": 0}, True, False),
        ({"delivery_mode": 3}, True, False),
        ({"content_type": ""}, True, False),
        ({"headers": Table({"delivery_mode": 2})}, True, False),
    ],
)
def test_what_the_bytes_of_the_header_show(
    properties: dict[str, Any], has_properties: bool, is_persistent: bool
) -> None:
    header = ContentHeader(4, Properties(**properties)).encode()
    for message in (Message("x", "k", header, b"body"), published("x", "k", header, b"body", None)):
        assert (message.has_properties, message.is_persistent) == (has_properties, is_persistent)
        assert message.properties == Properties(**properties)
        assert (message.exchange, message.routing_key, message.more_keys, message.size) == ("x", "k", (), 4)


@given(strategies.properties)
def test_whether_it_is_persistent_can_be_found_in_the_bytes(properties: Properties) -> None:
    header = ContentHeader(4, properties).encode()
    message = Message("x", "k", header, b"body")
    assert message.is_persistent == (properties.delivery_mode == 2)
    for size in range(14, len(header)):
        cut = Message("x", "k", header[:size], b"body")
        with suppress(ProtocolError):
            assert cut.is_persistent == message.is_persistent


def test_whether_it_is_persistent_needs_no_decoding() -> None:
    header = BARE[:12] + b"\x10\x80\x02\x05abc"  # a message-id of five bytes, three of which are there
    message = Message("x", "k", header, b"body")
    assert message.is_persistent
    with pytest.raises(ProtocolError):
        _ = message.properties


@given(strategies.properties)
def test_made_and_decoded_are_the_same(properties: Properties) -> None:
    made = Message.made("x", "k", properties, b"body", ("cc",))
    assert made.properties is properties
    made.forget_properties()
    assert made.properties == properties
    assert decoded(made.header) == ContentHeader(4, properties)
    assert made.more_keys == ("cc",)


def test_malformed_properties_are_reported_when_they_are_decoded() -> None:
    header = BARE[:12] + b"\x80\x00\x05abc"  # a content type of five bytes, three of which are there
    message = Message("x", "k", header, b"body")
    assert message.has_properties
    with pytest.raises(ProtocolError):
        _ = message.properties


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        (None, {"n": 7}),
        ({}, {"n": 7}),
        ({"a": 1, "b": 2}, {"a": 1, "b": 2, "n": 7}),
        ({"n": 1}, {"n": 7}),
        ({"n": 1, "a": 2}, {"a": 2, "n": 7}),
    ],
)
def test_a_header_more(headers: dict[str, int] | None, expected: dict[str, int]) -> None:
    properties = Properties(headers=None if headers is None else Table(headers), priority=3)
    message = Message.made("x", "k", properties, b"body")
    before = message.header
    changed = decoded(header_with(message, Field("n", "l", 7)))
    assert changed.body_size == 4
    assert changed.properties.priority == 3
    assert changed.properties.headers is not None
    assert [(field.name, field.value) for field in changed.properties.headers.fields] == [*expected.items()]
    assert (message.header, message.properties) == (before, properties)

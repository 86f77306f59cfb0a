"""Properties of messages from one protocol to the other, without what only one of them has."""

from uuid import UUID

import pytest

from amqproxy.amqp010.properties import DeliveryProperties, MessageProperties, ReplyTo
from amqproxy.amqp010.wire import Map
from amqproxy.amqp091.frame import HEADER, Frame, encode_frame
from amqproxy.amqp091.properties import NO_PROPERTIES, ContentHeader, Properties
from amqproxy.amqp091.wire import Table
from amqproxy.conversion.amqp010.message_properties import (
    CLUSTER_ID,
    JMS_TYPE,
    MESSAGE_ID,
    NO_DELIVERY,
    NO_MESSAGE,
    headers_of,
    plain_properties,
    plain_structs,
)

UUID_TEXT = "11111111-2222-3333-4444-555555555555"

ALL = Properties(
    content_type="text/plain",
    content_encoding="gzip",
    headers=Table({"a": 1}),
    delivery_mode=2,
    priority=4,
    correlation_id="c",
    reply_to="replies",
    expiration="5000",
    message_id=UUID_TEXT,
    timestamp=1_700_000_000,
    type=None,
    user_id="guest",
    app_id="tests",
)


def test_there_and_back() -> None:
    assert plain_properties(*plain_structs(ALL)) == ALL
    assert plain_structs(NO_PROPERTIES) == (NO_DELIVERY, NO_MESSAGE)
    assert plain_properties(NO_DELIVERY, NO_MESSAGE) == NO_PROPERTIES


def test_each_has_its_place() -> None:
    delivery, message = plain_structs(ALL)
    assert (delivery.priority, delivery.delivery_mode, delivery.ttl) == (4, 2, 5000)
    assert delivery.timestamp == 1_700_000_000_000
    assert (message.message_id, message.reply_to) == (UUID(UUID_TEXT), ReplyTo("", "replies"))
    assert (message.correlation_id, message.user_id, message.app_id) == (b"c", b"guest", b"tests")


@pytest.mark.parametrize(
    ("properties", "name"),
    [
        (Properties(message_id="m-1"), MESSAGE_ID),
        (Properties(type="order"), JMS_TYPE),
        (Properties(cluster_id="c"), CLUSTER_ID),
    ],
)
def test_what_0_10_has_among_the_headers(properties: Properties, name: str) -> None:
    headers = headers_of(properties)
    assert headers is not None
    assert list(headers) == [name]
    _, message = plain_structs(properties)
    assert message.application_headers is not None
    assert list(message.application_headers) == [name]
    assert plain_properties(NO_DELIVERY, message).present().items() >= properties.present().items()


def test_a_type_that_is_a_header_already_is_one_once() -> None:
    properties = plain_properties(NO_DELIVERY, MessageProperties(application_headers=Map({JMS_TYPE: "order"})))
    assert properties.type == "order"
    headers = headers_of(properties)
    assert headers is not None
    assert [field.name for field in headers.fields] == [JMS_TYPE]


@pytest.mark.parametrize(
    ("timestamp", "seconds"),
    [(1_700_000_000_000, 1_700_000_000), (1_700_000_000, 1_700_000_000), (-7, None)],
)
def test_a_time_in_milliseconds_or_in_seconds(timestamp: int, seconds: int | None) -> None:
    properties = plain_properties(DeliveryProperties(timestamp=timestamp), NO_MESSAGE)
    assert properties.timestamp == seconds
    assert Frame(encode_frame(HEADER, 1, ContentHeader(0, properties).encode())).header.properties == properties


@pytest.mark.parametrize("timestamp", [(2**63 - 1) // 1000, 2**63 // 1000 + 1, 2**64 // 1000, 2**64 - 1])
def test_a_time_that_0_10_cannot_hold_is_left_out(timestamp: int) -> None:
    delivery, _ = plain_structs(Properties(timestamp=timestamp))
    assert delivery.timestamp in (None, timestamp * 1000)
    assert len(delivery.encode()) == (8 if delivery.timestamp is None else 16)

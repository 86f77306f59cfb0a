"""Messages of 0-10 under the names of 0-9-1."""

from __future__ import annotations

from uuid import UUID

import pytest

from amqproxy.amqp010.commands import MessageTransfer
from amqproxy.amqp010.properties import DeliveryProperties, Header, MessageProperties, ReplyTo
from amqproxy.amqp010.wire import Map
from amqproxy.taps.amqp010.transfers import (
    MILLISECONDS,
    NO_TRANSFER_PROPERTIES,
    TransferDelivery,
    TransferProperties,
    TransferPublish,
    TransferReturn,
)

NAMES = (
    *("content_type", "content_encoding", "headers", "delivery_mode", "priority", "correlation_id", "reply_to"),
    *("expiration", "message_id", "timestamp", "type", "user_id", "app_id", "cluster_id"),
)
HEADER = Header(
    (
        DeliveryProperties(
            priority=7,
            delivery_mode=2,
            ttl=60_000,
            timestamp=1_700_000_000,
            exchange="x",
            routing_key="k",
            redelivered=True,
        ),
        MessageProperties(
            content_type="text/plain",
            content_encoding="gzip",
            message_id=UUID(int=1),
            correlation_id=b"\xff1",
            reply_to=ReplyTo(exchange="amq.direct", routing_key="answers"),
            user_id=b"guest",
            app_id=b"app",
            application_headers=Map({"x-jms-type": "order", "n": 1}),
        ),
    )
)


@pytest.mark.parametrize(
    ("accept_mode", "discards", "is_mandatory"),
    [(0, False, True), (0, True, False), (1, False, False), (None, False, False)],
)
def test_a_publish_is_mandatory_where_it_would_be_rejected(
    accept_mode: int | None, discards: bool, is_mandatory: bool
) -> None:
    header = Header((DeliveryProperties(routing_key="k", discard_unroutable=discards),))
    publish = TransferPublish.of(MessageTransfer(destination="x", accept_mode=accept_mode), header)
    assert (publish.name, publish.exchange, publish.routing_key) == ("message.transfer", "x", "k")
    assert publish.mandatory is is_mandatory
    assert TransferReturn.of(publish, 1, "").reply_text == "unroutable"


def test_a_delivery_has_what_its_header_says() -> None:
    delivery = TransferDelivery.of(MessageTransfer(destination="d"), HEADER, 5)
    assert (delivery.exchange, delivery.routing_key, delivery.redelivered) == ("x", "k", True)
    assert (delivery.delivery_tag, delivery.consumer_tag) == (5, "d")


def test_without_a_header_all_is_empty() -> None:
    publish = TransferPublish.of(MessageTransfer(), Header())
    assert (publish.exchange, publish.routing_key, publish.mandatory) == ("", "", False)
    assert NO_TRANSFER_PROPERTIES.present() == {}
    assert [getattr(NO_TRANSFER_PROPERTIES, name) for name in NAMES] == [None] * len(NAMES)


def test_properties_have_the_names_of_0_9_1() -> None:
    properties = TransferProperties(HEADER)
    assert [getattr(properties, name) for name in NAMES] == [
        *("text/plain", "gzip", Map({"x-jms-type": "order", "n": 1}), 2, 7, "\udcff1", "answers"),
        *("60000", str(UUID(int=1)), 1_700_000_000, "order", "guest", "app", None),
    ]
    assert properties.present()["reply_to"] == {"exchange": "amq.direct", "routing_key": "answers"}
    assert properties.present()["correlation_id"] == {"base64": "/zE="}


def test_milliseconds_become_seconds() -> None:
    header = Header((DeliveryProperties(timestamp=MILLISECONDS * 17),))
    assert TransferProperties(header).timestamp == MILLISECONDS * 17 // 1000

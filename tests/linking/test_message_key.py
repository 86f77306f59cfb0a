"""Which messages are alike."""

from __future__ import annotations

import pytest

from amqproxy.amqp091.properties import Properties
from amqproxy.amqp091.wire import Table
from amqproxy.linking.message_key import message_key
from tests.linking.events import delivered, published


def test_a_delivery_has_the_key_of_its_publish() -> None:
    """Headers and reply_to are not part of it: brokers change them."""
    sent = Properties(content_type="text/plain", reply_to="amq.rabbitmq.reply-to")
    got = Properties(content_type="text/plain", reply_to="amq.rabbitmq.reply-to.g1h", headers=Table({"x": 1}))
    assert message_key(published(1, properties=sent), "/") == message_key(delivered(2, properties=got), "/")


def test_a_message_id_is_all_that_counts() -> None:
    of_id = Properties(message_id="7")
    one = message_key(published(1, properties=of_id), "/")
    other = message_key(delivered(2, exchange="dlx", routing_key="r", properties=of_id), "/")
    assert one == other
    assert one is not None
    assert one.is_by_id
    assert message_key(published(1, properties=of_id), "other") != one


@pytest.mark.parametrize(
    "other",
    [
        published(1, b"other"),
        published(1, exchange="y"),
        published(1, routing_key="y"),
        published(1, properties=Properties(correlation_id="1")),
        published(1, properties=Properties(message_id="1")),
    ],
)
def test_unlike_messages(other: object) -> None:
    assert message_key(other, "/") != message_key(published(1), "/")  # type: ignore[arg-type]


def test_of_a_body_whose_end_is_not_kept_the_key_is_uncertain() -> None:
    key = message_key(published(1, b"beginning", size=1000), "/")
    assert key is not None
    assert not key.is_certain
    digested = message_key(published(1, b"beginning", size=1000, digest=b"d" * 16), "/")
    assert digested is not None
    assert digested.is_certain


def test_a_publish_that_was_not_shown_has_none() -> None:
    assert message_key(published(1, b"", size=None), "/") is None

"""Transfers as publishes and deliveries, and what is changed of them."""

from __future__ import annotations

from uuid import UUID

import pytest
from msgspec.structs import replace

from amqproxy.amqp010.commands import MessageTransfer
from amqproxy.amqp010.properties import DeliveryProperties, Header, MessageProperties, ReplyTo
from amqproxy.amqp010.wire import Entry, Map
from amqproxy.amqp091.methods import BasicDeliver, BasicPublish
from amqproxy.amqp091.properties import Properties
from amqproxy.amqp091.wire import Table
from amqproxy.conversion.amqp010.message_views import (
    changed_header,
    changed_transfer,
    properties_view,
    transfer_view,
    with_length,
)
from amqproxy.conversion.inexpressible import Inexpressible
from amqproxy.peer import CLIENT, SERVER

HEADERS = Map([Entry("a", "uint8", 1), Entry("id", "uuid", UUID(int=5))])
HEADER = Header(
    (
        DeliveryProperties(routing_key="k", priority=4, ttl=5000, exchange="x", redelivered=True),
        MessageProperties(content_length=5, correlation_id=b"c", application_headers=HEADERS),
    )
)
TRANSFER = MessageTransfer("there", 1, 0)


def test_views() -> None:
    assert transfer_view(CLIENT, TRANSFER, HEADER, 7) == BasicPublish(exchange="there", routing_key="k", mandatory=True)
    assert transfer_view(SERVER, TRANSFER, HEADER, (1 << 32) + 7) == BasicDeliver("there", 7, True, "x", "k")
    assert transfer_view(CLIENT, MessageTransfer(None, 1, 0), None, 0) == BasicPublish(mandatory=True)


def test_properties() -> None:
    found = properties_view(HEADER)
    assert (found.priority, found.expiration, found.correlation_id) == (4, "5000", "c")
    assert properties_view(None) == Properties()


def test_what_is_changed_of_a_method() -> None:
    before = transfer_view(CLIENT, TRANSFER, HEADER, 0)
    transfer, header = changed_transfer(
        CLIENT, TRANSFER, HEADER, before, replace(before, exchange="e", routing_key="n", mandatory=False)
    )
    assert transfer.destination == "e"
    assert header is not None
    assert header.delivery == replace(HEADER.entries[0], routing_key="n", discard_unroutable=True)
    assert header.message is HEADER.message
    assert changed_transfer(CLIENT, TRANSFER, HEADER, before, before) == (TRANSFER, HEADER)


def test_a_delivery_tag_cannot_be_changed() -> None:
    before = transfer_view(SERVER, TRANSFER, HEADER, 0)
    with pytest.raises(Inexpressible, match="delivery_tag"):
        changed_transfer(SERVER, TRANSFER, HEADER, before, replace(before, delivery_tag=1))


def test_headers_that_stay_keep_their_types() -> None:
    before = properties_view(HEADER)
    assert before.headers is not None
    after = replace(before, headers=Table([*before.headers.fields, *Table({"b": "new"}).fields]))
    header = changed_header(HEADER, before, after)
    assert header is not None
    assert header.message is not None
    assert header.message.application_headers is not None
    assert header.message.application_headers.entries == (*HEADERS.entries, Entry("b", "str16", "new"))
    assert header.delivery is HEADER.delivery


def test_a_header_of_a_message_that_had_none() -> None:
    header = changed_header(None, Properties(), Properties(priority=5, content_type="text/plain"))
    assert header == Header((DeliveryProperties(priority=5), MessageProperties(content_type="text/plain")))


@pytest.mark.parametrize(
    "after", [Properties(priority=10), Properties(expiration="soon"), Properties(timestamp=(1 << 64) - 1)]
)
def test_what_cannot_be_expressed(after: Properties) -> None:
    with pytest.raises(Inexpressible):
        changed_header(HEADER, properties_view(HEADER), after)


def test_replies() -> None:
    header = Header((MessageProperties(reply_to=ReplyTo("amq.direct", "k")),))
    before = properties_view(header)
    assert before.reply_to == "amq.direct/k"
    for text, reply_to in (("e/l", ReplyTo("e", "l")), ("q", ReplyTo("", "q")), (None, None)):
        changed = changed_header(header, before, replace(before, reply_to=text))
        assert changed is not None
        assert changed.message == MessageProperties(reply_to=reply_to)


def test_lengths() -> None:
    changed = with_length(HEADER, 9)
    assert changed is not None
    assert changed.message is not None
    assert changed.message.content_length == 9
    assert with_length(HEADER, 5) is HEADER
    assert with_length(None, 5) is None

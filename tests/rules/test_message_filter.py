"""Filters on messages of both protocols."""

from __future__ import annotations

import pytest

from amqproxy.amqp010.commands import MessageTransfer, QueueDeclare
from amqproxy.amqp010.controls import ConnectionOpen
from amqproxy.amqp010.frame import Frame as Amqp010Frame
from amqproxy.amqp010.frame import encode_method as encode_amqp010
from amqproxy.amqp010.properties import DeliveryProperties, Header, MessageProperties
from amqproxy.amqp010.wire import Map
from amqproxy.amqp091.frame import Frame, encode_method
from amqproxy.amqp091.methods import BasicPublish
from amqproxy.amqp091.methods import ConnectionOpen as Amqp091Open
from amqproxy.amqp091.properties import NO_PROPERTIES
from amqproxy.peer import CLIENT, SERVER
from amqproxy.rules.context import Client
from amqproxy.rules.matching.filters import Filter
from amqproxy.rules.message_filter import MessageFilter, message_filters_of
from amqproxy.taps.amqp010.transfers import TransferDelivery, TransferProperties, TransferPublish

HEADER = Header(
    (DeliveryProperties(routing_key="k", exchange="x"), MessageProperties(application_headers=Map({"tenant": "a"})))
)
TRANSFER = MessageTransfer(destination="d", accept_mode=1, acquire_mode=0)


@pytest.mark.parametrize(
    ("expression", "is_publish", "is_delivery"),
    [
        ('exchange == "d"', True, False),
        ('exchange == "x" && sender == "server"', False, True),
        ('routing_key == "k" && headers["tenant"] == "a"', True, True),
        ("size > 1000", True, True),
        ('body.contains("hello")', True, True),
        ('method == "queue.declare"', False, False),
    ],
)
def test_messages_of_0_10_are_chosen(expression: str, is_publish: bool, is_delivery: bool) -> None:
    chosen = MessageFilter(Filter(expression), Client.named(0, "a:1-b:2"))
    properties = TransferProperties(HEADER)
    publish = TransferPublish.of(TRANSFER, HEADER)
    delivery = TransferDelivery.of(TRANSFER, HEADER, 0)
    assert chosen.selects(CLIENT, 1, publish, properties, 5000, b"hello", ts_ns=0) is is_publish
    assert chosen.selects(SERVER, 1, delivery, properties, 5000, b"hello", ts_ns=0) is is_delivery


def test_requests_are_chosen() -> None:
    chosen = message_filters_of(Filter('queue == "q"'))(0, "a:1-b:2")
    assert chosen.selects(CLIENT, 1, QueueDeclare(queue="q"), NO_PROPERTIES, 0, b"", ts_ns=0)
    assert not chosen.selects(CLIENT, 1, QueueDeclare(queue="p"), NO_PROPERTIES, 0, b"", ts_ns=0)


def test_messages_of_0_9_1_are_chosen() -> None:
    chosen = MessageFilter(Filter('exchange == "x"'), Client.named(0, "a:1-b:2"))
    assert chosen.selects(CLIENT, 1, BasicPublish(exchange="x"), NO_PROPERTIES, 0, b"", ts_ns=0)
    assert not chosen.selects(CLIENT, 1, BasicPublish(exchange="y"), NO_PROPERTIES, 0, b"", ts_ns=0)


def test_the_client_is_known_by_what_it_says() -> None:
    for frame in (
        Amqp010Frame(encode_amqp010(0, ConnectionOpen(virtual_host="v"))),
        Frame(encode_method(0, Amqp091Open("v"))),
    ):
        chosen = MessageFilter(Filter('vhost == "v"'), Client.named(0, "a:1-b:2"))
        chosen.learn(CLIENT, frame)
        assert chosen.selects(CLIENT, 1, BasicPublish(), NO_PROPERTIES, 0, b"", ts_ns=0) is isinstance(frame, Frame)
        publish = TransferPublish.of(TRANSFER, HEADER)
        found = chosen.selects(CLIENT, 1, publish, TransferProperties(HEADER), 0, b"", ts_ns=0)
        assert found is isinstance(frame, Amqp010Frame)

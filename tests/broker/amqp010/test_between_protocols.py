"""Messages with every property and type of header through the broker, from one protocol to the other, and back."""

from __future__ import annotations

from typing import Any

import pytest

from amqproxy.amqp010.commands import MessageTransfer
from amqproxy.amqp010.properties import DeliveryProperties, Header, MessageProperties
from amqproxy.amqp010.wire import UnknownStruct
from amqproxy.amqp091.methods import BasicConsume, BasicGet, BasicPublish
from amqproxy.amqp091.properties import Properties
from amqproxy.amqp091.wire import Table
from amqproxy.broker.broker import Broker
from tests.broker.amqp010.client import Client010, Session010
from tests.broker.amqp010.message_samples import MESSAGES, PROPERTIES
from tests.broker.client import Client

OF_TRANSFER = ("exchange", "routing_key", "content_length", "expiration")
"""What the broker sets, whatever was sent."""


@pytest.fixture
def session() -> Session010:
    session = Client010(Broker()).open().session()
    for queue in ("there", "back"):
        session.declare(queue)
    return session


@pytest.fixture
def old(session: Session010) -> Client:
    """A client of 0-9-1 beside it."""
    client = Client(session.client.broker).open()
    client.channel()
    client.now = session.client.now
    return client


def transfer(session: Session010, key: str, structs: tuple[Any, ...]) -> None:
    """Publish with these structs in the header."""
    given = {type(each): each for each in structs}
    delivery = given.pop(DeliveryProperties, DeliveryProperties())
    values = {name: getattr(delivery, name) for name in DeliveryProperties.fields}
    entries = DeliveryProperties(**{**values, "routing_key": key}), *given.values()
    session.send(MessageTransfer("", 1, 0), Header(entries), b"body")


def received(session: Session010, queue: str) -> tuple[dict[str, Any], dict[str, Any], list[Any]]:
    """What comes of it: delivery-properties, message-properties, other structs."""
    session.subscribe(queue, queue, accept_mode=1)
    ((_, message),) = session.messages
    session.messages = []
    assert message.body == b"body"
    header = message.header
    assert header is not None
    others = [each for each in header.entries if isinstance(each, UnknownStruct)]
    return _present(header.delivery), _present(header.message), others


def _present(struct: Any) -> dict[str, Any]:
    return {name: value for name, value in struct.present().items() if name not in OF_TRANSFER}


def expected(structs: tuple[Any, ...]) -> tuple[dict[str, Any], dict[str, Any], list[Any]]:
    given = {type(each): each for each in (DeliveryProperties(), MessageProperties(), *structs)}
    others = [each for each in structs if isinstance(each, UnknownStruct)]
    return _present(given[DeliveryProperties]), _present(given[MessageProperties]), others


@pytest.mark.parametrize("structs", MESSAGES.values(), ids=MESSAGES.keys())
def test_0_10_to_0_10(session: Session010, structs: tuple[Any, ...]) -> None:
    transfer(session, "there", structs)
    assert received(session, "there") == expected(structs)


@pytest.mark.parametrize("structs", MESSAGES.values(), ids=MESSAGES.keys())
def test_0_10_through_a_client_of_0_9_1(session: Session010, old: Client, structs: tuple[Any, ...]) -> None:
    transfer(session, "there", structs)
    old.send(1, BasicGet(queue="there", no_ack=True))
    (got,) = old.receive()
    assert got.body == b"body"
    given = {name: getattr(got.properties, name) for name in Properties.__struct_fields__}
    old.send(1, BasicPublish(routing_key="back"), b"body", **given)
    assert received(session, "back") == expected(structs)


@pytest.mark.parametrize("name", PROPERTIES)
@pytest.mark.parametrize("is_consumed", [True, False])
def test_0_9_1_through_a_client_of_0_10(session: Session010, old: Client, name: str, is_consumed: bool) -> None:
    properties = PROPERTIES[name]
    given = {each: getattr(properties, each) for each in Properties.__struct_fields__}
    old.send(1, BasicPublish(routing_key="there"), b"body", **given)
    session.subscribe("there", "d", accept_mode=1)
    ((_, message),) = session.messages
    header = message.header
    assert header is not None
    transfer(session, "back", header.entries)
    session.take()
    assert session.exception is None
    old.send(1, BasicConsume(queue="back", no_ack=True) if is_consumed else BasicGet(queue="back", no_ack=True))
    (got,) = [each for each in old.receive() if each.body]
    for each in Properties.__struct_fields__:
        if each != "headers":
            assert getattr(got.properties, each) == getattr(properties, each), each
    sent, headers = (each or Table() for each in (properties.headers, got.properties.headers))
    fields = {field.name: field for field in headers.fields}
    assert [fields[field.name] for field in sent.fields] == list(sent.fields)

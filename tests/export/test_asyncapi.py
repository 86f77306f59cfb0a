"""AsyncAPI documents of captures: valid by the official schema, and true."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest

from amqproxy.amqp091.methods import (
    BasicAck,
    BasicConsume,
    BasicConsumeOk,
    BasicDeliver,
    ExchangeDeclare,
    ExchangeDeclareOk,
    QueueBind,
    QueueBindOk,
    QueueDeclare,
    QueueDeclareOk,
)
from amqproxy.amqp091.properties import Properties
from amqproxy.amqp091.wire import Table
from amqproxy.capture.decode import read_decoded
from amqproxy.capture.decoded import Decoded
from amqproxy.export import observed_channels
from amqproxy.export.asyncapi import asyncapi
from amqproxy.export.observed_channels import ObservedChannels
from tests.amqp010 import recorded
from tests.capture import golden, shared_captures
from tests.export.dialogue import Dialogue

SCHEMA = json.loads(gzip.decompress((Path(__file__).parent / "asyncapi-3.0.0.json.gz").read_bytes()))
VALIDATOR = jsonschema.Draft7Validator(SCHEMA)
JSON = Properties(content_type="application/json", delivery_mode=2)


def document(*decoded: Iterable[Decoded]) -> dict[str, Any]:
    """The document of what was decoded, which is valid."""
    observed = ObservedChannels()
    for one in decoded:
        for each in one:
            observed.feed(each)
    found = asyncapi(observed, ["a.pcapng"])
    assert_valid(found)
    assert observed._observed == {}
    return found


def assert_valid(found: dict[str, Any]) -> None:
    VALIDATOR.validate(found)
    assert json.loads(json.dumps(found)) == found
    for reference in references(found):
        at: Any = found
        for key in reference.removeprefix("#/").split("/"):
            at = at[key]
    for channel in found["channels"].values():
        address = channel["address"] or ""
        assert {part.partition("}")[0] for part in address.split("{")[1:]} == channel.get("parameters", {}).keys()
    for operation in found["operations"].values():  # its messages are some of the channel's
        assert all(each["$ref"].startswith(operation["channel"]["$ref"] + "/") for each in operation["messages"])


def references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"]
        value = list(value.values())
    if isinstance(value, list):
        for each in value:
            yield from references(each)


@pytest.mark.parametrize(
    "path",
    [*golden.captures(), *recorded.captures(), *shared_captures.files(recorded.NAMES)],
    ids=lambda path: path.name.partition(".pcap")[0],
)
def test_the_document_of_a_capture_is_valid(path: Path) -> None:
    document(read_decoded(path))


def test_a_service_is_described() -> None:
    producer = Dialogue("orders", "shop", product="shop-frontend")
    producer.client(ExchangeDeclare(exchange="events", type="topic", durable=True)).server(ExchangeDeclareOk())
    for number, customer in enumerate(("17", "3", "250")):
        body = json.dumps({"id": number, "customer": customer, "token": "hunter2"}).encode()
        producer.publish("events", f"customer.{customer}.ordered", body, JSON)
    producer.publish("events", "stock.low", b"\xff\xfe")
    consumer = Dialogue("billing", "shop", stream=1)
    consumer.client(QueueDeclare(queue="billing", durable=True)).server(QueueDeclareOk(queue="billing"))
    consumer.client(QueueBind(exchange="events", routing_key="customer.*.ordered")).server(QueueBindOk())
    consumer.client(BasicConsume(queue="billing")).server(BasicConsumeOk(consumer_tag="c"))
    deliver = BasicDeliver(consumer_tag="c", delivery_tag=1, exchange="events", routing_key="customer.17.ordered")
    consumer.content(deliver, b'{"id": 1, "customer": "17"}', JSON).client(BasicAck(delivery_tag=1))
    found = document(producer.end(), consumer.end())
    assert found["servers"] == {
        "10.0.0.2-5672-shop": {
            "host": "10.0.0.2:5672",
            "protocol": "amqp",
            "protocolVersion": "0-9-1",
            "description": "Virtual host `shop`.",
            "pathname": "/shop",
        }
    }
    channels = {channel["address"]: channel for channel in found["channels"].values()}
    assert channels.keys() == {"customer.{number}.ordered", "stock.low", "billing"}
    ordered = channels["customer.{number}.ordered"]
    exchange = {"name": "events", "vhost": "shop", "type": "topic", "durable": True, "autoDelete": False}
    assert ordered["bindings"]["amqp"] == {"is": "routingKey", "exchange": exchange, "bindingVersion": "0.3.0"}
    (message,) = ordered["messages"].values()
    assert message["contentType"] == "application/json"
    assert message["payload"] == {
        "type": "object",
        "properties": {"id": {"type": "integer"}, "customer": {"type": "string"}, "token": {"type": "string"}},
        "required": ["id", "customer", "token"],
    }
    assert message["examples"] == [{"payload": {"id": 0, "customer": "17", "token": "<masked>"}}]
    (binary,) = channels["stock.low"]["messages"].values()
    assert binary["payload"] == {"type": "string", "format": "binary"}
    queue = {"name": "billing", "vhost": "shop", "durable": True, "exclusive": False, "autoDelete": False}
    assert channels["billing"]["bindings"]["amqp"] == {"is": "queue", "queue": queue, "bindingVersion": "0.3.0"}
    assert channels["billing"]["x-bindings"] == [{"exchange": "events", "routingKey": "customer.*.ordered"}]
    operations = {(each["x-user"], each["action"]): each for each in found["operations"].values()}
    assert operations.keys() == {("orders", "send"), ("billing", "receive")}
    assert len(found["operations"]) == 3
    assert operations["billing", "receive"]["bindings"]["amqp"] == {"ack": True, "bindingVersion": "0.3.0"}
    assert operations["billing", "receive"]["title"] == "pika as user billing receives"
    assert "hunter2" not in json.dumps(found)
    assert "secret" not in json.dumps(found)  # the password of `Dialogue`


def test_messages_of_different_kinds_have_a_schema_each() -> None:
    dialogue = Dialogue()
    for kind, body in (("created", b'{"a": 1}'), ("deleted", b'{"b": "x"}'), ("created", b'{"a": 2, "c": []}')):
        headers = Table({"tenant": "acme", "attempt": 1})
        dialogue.publish("", "q", body, Properties(type=kind, headers=headers, reply_to="r", timestamp=1))
    dialogue.publish("", "q", b"17").publish("", "q", b"").publish("", "q", b"{broken")
    (channel,) = document(dialogue.end())["channels"].values()
    assert channel["messages"].keys() == {"created", "deleted", "message"}
    created = channel["messages"]["created"]
    assert created["payload"]["required"] == ["a"]
    assert created["headers"]["properties"] == {"tenant": {"type": "string"}, "attempt": {"type": "integer"}}
    assert created["bindings"]["amqp"]["messageType"] == "created"
    assert created["x-properties"] == ["reply_to", "timestamp"]
    assert created["contentType"] == "application/json"
    assert channel["messages"]["message"]["payload"] == {"type": "string"}


def test_direct_replies_have_one_channel() -> None:
    dialogue = (
        Dialogue().publish("", "amq.rabbitmq.reply-to.g1h2.abc==", b"{}").publish("", "amq.rabbitmq.reply-to.x", b"{}")
    )
    assert [each["address"] for each in document(dialogue.end())["channels"].values()] == ["amq.rabbitmq.reply-to"]


@pytest.mark.parametrize("name", ["{x}", "a/b#c ~1", "é☃", "x" * 255, "", "..", "\u202e", "a\nb"])
def test_any_name_can_be_described(name: str) -> None:
    dialogue = Dialogue(name, name or "/", product=name)
    dialogue.client(ExchangeDeclare(exchange=name, type="x-odd")).server(ExchangeDeclareOk())
    dialogue.declare(name, named="amq.gen-JzTY20BRgKO-HjmUJj0wLg").publish(name, name, b"x", Properties(type=name))
    dialogue.publish("", name, b"x", Properties(content_type=name or None))
    found = document(dialogue.end())
    assert len(found["channels"]) >= 2
    assert name == "" or any(each.get("x-exchange-type") == "x-odd" for each in found["channels"].values())


def test_a_name_that_is_not_utf_8_can_be_described() -> None:
    name = b"\xff\x80".decode("utf-8", "surrogateescape")
    dialogue = Dialogue(name, name, product=name).publish(name, name, b"x", Properties(type=name))
    text = msgspec.json.encode(document(dialogue.end()))
    assert b"Exchange \\\\udcff\\\\udc80, routing key" in text


def test_tables_are_bounded_and_what_is_left_out_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(observed_channels, "MAX_CHANNELS", 3)
    monkeypatch.setattr(observed_channels, "MAX_SHAPES", 2)
    dialogue = Dialogue()
    for letter in "abcde":
        dialogue.publish("", letter).publish("", "a", properties=Properties(type=letter))
    found = document(dialogue.end())
    assert len(found["channels"]) == 3
    assert len(found["channels"]["a"]["messages"]) == 2
    assert " 6 messages are left out" in found["info"]["description"]

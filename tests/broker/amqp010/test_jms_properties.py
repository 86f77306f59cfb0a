"""What a selector of JMS sees of a message."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from amqproxy.amqp010.properties import DeliveryProperties, MessageProperties
from amqproxy.amqp010.wire import Map
from amqproxy.amqp091.properties import Properties
from amqproxy.amqp091.wire import Table
from amqproxy.broker.amqp010 import jms_properties, message_conversion
from amqproxy.broker.amqp010.jms_properties import JmsProperties, is_selected
from amqproxy.broker.amqp010.jms_selector import JmsSelector
from amqproxy.broker.amqp010.message_conversion import properties_of
from amqproxy.broker.message import Message

ID = uuid.UUID(int=7)


def test_the_headers_of_jms_and_the_properties() -> None:
    headers = Map({"text": "x", "number": 5, "real": 2.5, "is_true": True, "bytes": b"x", "x-jms-type": "a type"})
    message = MessageProperties(message_id=ID, correlation_id=b"correlation", application_headers=headers)
    delivery = DeliveryProperties(priority=7, delivery_mode=2, timestamp=1_700_000_000_123)
    get = JmsProperties(properties_of((delivery, message))).get
    assert get("JMSMessageID") == f"ID:{ID}"
    assert get("JMSCorrelationID") == "correlation"
    assert get("JMSType") == "a type"
    assert (get("JMSPriority"), get("JMSDeliveryMode"), get("JMSTimestamp")) == (7, "PERSISTENT", 1_700_000_000_123)
    assert (get("text"), get("number"), get("real"), get("is_true")) == ("x", 5, 2.5, True)
    assert (get("bytes"), get("none")) == (None, None)


def test_the_timestamp_is_converted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    conversions: list[Properties] = []

    def structs_of(properties: Properties) -> Any:
        conversions.append(properties)
        return message_conversion.structs_of(properties)

    monkeypatch.setattr(jms_properties, "structs_of", structs_of)
    get = JmsProperties(properties_of((DeliveryProperties(timestamp=5_000),))).get
    assert [get("JMSTimestamp") for _ in range(3)] == [5_000] * 3
    assert len(conversions) == 1


def test_what_a_message_without_any_has() -> None:
    get = JmsProperties(Properties()).get
    names = ("JMSMessageID", "JMSCorrelationID", "JMSType", "JMSPriority", "JMSDeliveryMode", "JMSTimestamp", "x")
    assert [get(name) for name in names] == [None, None, None, 4, "NON_PERSISTENT", None, None]


def test_a_message_of_0_9_1_is_chosen_and_a_malformed_one_is_not() -> None:
    message = Message.made("", "q", Properties(headers=Table({"color": "red"}), type="t"), b"")
    assert is_selected(message, JmsSelector("color = 'red' AND JMSType = 't'"))
    assert not is_selected(message, JmsSelector("color = 'blue'"))
    malformed = Message("", "q", message.header[:12] + b"\x20\x00\x00\x00\x00\x09\x05", b"")
    assert not is_selected(malformed, JmsSelector("color IS NULL"))

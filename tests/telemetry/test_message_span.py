"""The names that OpenTelemetry has for what is known of a message."""

from typing import Any

import pytest

from amqproxy.telemetry.message_span import (
    DELIVER,
    PUBLISH,
    RETURN,
    SPAN_COST,
    MessageSpan,
    Operation,
    SpanFailure,
    cost_of,
    text,
)
from amqproxy.telemetry.trace_context import TraceContext


def span(operation: Operation = PUBLISH, **fields: Any) -> MessageSpan:
    known = {"exchange": "", "routing_key": "", "connection": {}, "context": None, "channel": 1, "start_ns": 1}
    return MessageSpan(operation=operation, **{**known, **fields})


@pytest.mark.parametrize(
    ("made", "name", "destination"),
    [
        (span(), "publish amq.default", "amq.default"),
        (span(routing_key="work"), "publish amq.default", "work"),
        (span(exchange="orders"), "publish orders", "orders"),
        (span(exchange="orders", routing_key="new"), "publish orders", "orders:new"),
        (span(DELIVER, exchange="orders", routing_key="new", queue="billing"), "deliver billing", "orders:new:billing"),
        (span(DELIVER, routing_key="work", queue="work"), "deliver work", "work"),
        (span(DELIVER, exchange="orders", queue="amq.gen-x"), "deliver orders", "orders:amq.gen-x"),
        (span(DELIVER, exchange="orders"), "deliver orders", "orders"),
        (span(exchange="or\udcffders"), "publish or\\udcffders", "or\\udcffders"),
    ],
)
def test_names(made: MessageSpan, name: str, destination: str) -> None:
    assert made.name == name
    assert made.attributes()["messaging.destination.name"] == destination


def test_all_attributes() -> None:
    made = span(
        DELIVER,
        connection={"server.address": "broker"},
        context=TraceContext("1" * 32, "2" * 16, is_sampled=True, tracestate="a=1"),
        exchange="orders",
        routing_key="new",
        queue="amq.gen-x",
        delivery_tag=3,
        message_id="m",
        correlation_id="c\udc80",
        size=0,
        is_redelivered=True,
        requeue=True,
        rules=("slow", "t\udcffag"),
        verdict="delayed",
        outcome="rejected",
        failure=SpanFailure("rejected by the consumer", "rejected"),
    )
    assert made.attributes() == {
        "server.address": "broker",
        "messaging.system": "rabbitmq",
        "messaging.operation.name": "deliver",
        "messaging.operation.type": "process",
        "messaging.destination.name": "orders:new:amq.gen-x",
        "messaging.destination.anonymous": True,
        "messaging.rabbitmq.destination.routing_key": "new",
        "messaging.rabbitmq.message.delivery_tag": 3,
        "messaging.message.id": "m",
        "messaging.message.conversation_id": "c\\udc80",
        "messaging.message.body.size": 0,
        "amqproxy.channel": 1,
        "amqproxy.outcome": "rejected",
        "amqproxy.redelivered": True,
        "amqproxy.requeue": True,
        "amqproxy.rules": ["slow", "t\\udcffag"],
        "amqproxy.verdict": "delayed",
        "error.type": "rejected",
    }
    assert cost_of(made) == SPAN_COST + len("orders" + "new" + "amq.gen-x" + "m" + "c." + "a=1")


def test_what_is_not_known_is_no_attribute() -> None:
    assert span(RETURN, outcome="returned").attributes() == {
        "messaging.system": "rabbitmq",
        "messaging.operation.name": "return",
        "messaging.destination.name": "amq.default",
        "amqproxy.channel": 1,
        "amqproxy.outcome": "returned",
    }


def test_integers_that_no_attribute_can_be_are_left_out() -> None:
    large = span(size=2**63, delivery_tag=2**64 - 1).attributes()
    assert "messaging.message.body.size" not in large
    assert "messaging.rabbitmq.message.delivery_tag" not in large
    most = span(size=2**63 - 1, delivery_tag=2**63 - 1).attributes()
    assert most["messaging.message.body.size"] == most["messaging.rabbitmq.message.delivery_tag"] == 2**63 - 1


@pytest.mark.parametrize(
    ("given", "shown"), [("a", "a"), ("\u00e4", "\u00e4"), ("\udcff", "\\udcff"), ("\ud800", "\\ud800")]
)
def test_texts_are_what_utf_8_can_hold(given: str, shown: str) -> None:
    assert text(given) == shown

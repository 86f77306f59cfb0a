"""The names that OpenTelemetry has for what is known of a message."""

from typing import Any

import pytest

from amqproxy.telemetry.message_span import DELIVER, PUBLISH, RETURN, SPAN_COST, MessageSpan, Operation, SpanFailure
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
        (span(exchange="or\udcffders"), "publish or\\xffders", "or\\xffders"),
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
        "messaging.message.conversation_id": "c\\x80",
        "messaging.message.body.size": 0,
        "amqproxy.channel": 1,
        "amqproxy.outcome": "rejected",
        "amqproxy.redelivered": True,
        "amqproxy.requeue": True,
        "amqproxy.rules": ["slow", "t\\xffag"],
        "amqproxy.verdict": "delayed",
        "error.type": "rejected",
    }
    assert made.cost == SPAN_COST + len("orders" + "new" + "amq.gen-x" + "m" + "c." + "a=1")


def test_what_is_not_known_is_no_attribute() -> None:
    assert span(RETURN, outcome="returned").attributes() == {
        "messaging.system": "rabbitmq",
        "messaging.operation.name": "return",
        "messaging.destination.name": "amq.default",
        "amqproxy.channel": 1,
        "amqproxy.outcome": "returned",
    }

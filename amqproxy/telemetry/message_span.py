"""What is recorded of one message on its way through the proxy, and the names that OpenTelemetry has for it.

The names are of the semantic conventions for messaging and for RabbitMQ, which are in development, as of version 1.30:
https://opentelemetry.io/docs/specs/semconv/messaging/rabbitmq/
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import msgspec

from amqproxy.telemetry.trace_context import TraceContext

AttributeValue: TypeAlias = str | int | bool | list[str]

DEFAULT_EXCHANGE = "amq.default"
"""What RabbitMQ calls the exchange without a name where it has to have one."""

GENERATED_QUEUE = "amq.gen-"
"""How the names of queues begin that the broker has chosen."""

MAX_INTEGER = 2**63 - 1
"""The largest integer that an attribute can be; AMQP's are larger."""

SPAN_COST = 1024
"""Bytes that a span takes, about, besides its texts."""


class Operation(NamedTuple):
    """What a span is of: the operation's name in AMQP, and what OpenTelemetry calls its type; "" for none."""

    name: str
    type: str


PUBLISH = Operation("publish", "send")
DELIVER = Operation("deliver", "process")
GET = Operation("get", "receive")
RETURN = Operation("return", "")


class SpanFailure(NamedTuple):
    """Why a span has the status Error: the description, and `error.type`, one of few."""

    description: str
    type: str


class MessageSpan(msgspec.Struct, kw_only=True):
    """One message, from its publish to what became of it, or from its delivery.

    Times are in nanoseconds since 1970. `connection` has the attributes of all spans of its connection.
    """

    operation: Operation
    connection: dict[str, AttributeValue]
    context: TraceContext | None
    channel: int
    start_ns: int
    end_ns: int = 0
    exchange: str
    routing_key: str
    queue: str | None = None
    delivery_tag: int | None = None
    message_id: str | None = None
    correlation_id: str | None = None
    size: int | None = None
    is_redelivered: bool = False
    rules: tuple[str, ...] = ()
    verdict: str = ""
    outcome: str = ""
    requeue: bool | None = None
    returned: SpanFailure | None = None
    failure: SpanFailure | None = None
    cost: int = 0
    """The bytes that were taken for it, about."""

    @property
    def name(self) -> str:
        """The name of the span: the operation, and the queue or the exchange, never a name that the broker made up."""
        queue = self.queue
        destination = queue if queue and not queue.startswith(GENERATED_QUEUE) else self.exchange or DEFAULT_EXCHANGE
        return f"{self.operation.name} {text(destination)}"

    @property
    def destination(self) -> str:
        """EXCHANGE:ROUTING_KEY, and :QUEUE of a delivery, without what is empty or twice the same."""
        parts = [self.exchange, self.routing_key]
        if self.queue and self.queue != self.routing_key:
            parts.append(self.queue)
        return text(":".join([part for part in parts if part]) or DEFAULT_EXCHANGE)

    def attributes(self) -> dict[str, AttributeValue]:
        """What is known of it."""
        found: dict[str, AttributeValue] = {
            **self.connection,
            "messaging.system": "rabbitmq",
            "messaging.operation.name": self.operation.name,
            "messaging.destination.name": self.destination,
            "amqproxy.channel": self.channel,
            "amqproxy.outcome": self.outcome,
        }
        if self.operation.type:
            found["messaging.operation.type"] = self.operation.type
        if self.routing_key:
            found["messaging.rabbitmq.destination.routing_key"] = text(self.routing_key)
        if self.queue and self.queue.startswith(GENERATED_QUEUE):
            found["messaging.destination.anonymous"] = True
        if self.delivery_tag is not None and self.delivery_tag <= MAX_INTEGER:
            found["messaging.rabbitmq.message.delivery_tag"] = self.delivery_tag
        if self.message_id:
            found["messaging.message.id"] = text(self.message_id)
        if self.correlation_id:
            found["messaging.message.conversation_id"] = text(self.correlation_id)
        if self.size is not None and self.size <= MAX_INTEGER:
            found["messaging.message.body.size"] = self.size
        if self.is_redelivered:
            found["amqproxy.redelivered"] = True
        if self.requeue is not None:
            found["amqproxy.requeue"] = self.requeue
        if self.rules:
            found["amqproxy.rules"] = [text(rule) for rule in self.rules]
        if self.verdict:
            found["amqproxy.verdict"] = self.verdict
        if self.failure is not None:
            found["error.type"] = self.failure.type
        return found


def cost_of(span: MessageSpan) -> int:
    """The bytes that a span takes, about."""
    texts = (span.exchange, span.routing_key, span.queue, span.message_id, span.correlation_id)
    size = SPAN_COST + sum(len(each) for each in texts if each)
    return size if span.context is None else size + len(span.context.tracestate)


def text(value: str) -> str:
    """A text of a peer as UTF-8 can hold it: what it cannot is escaped."""
    return value if value.isascii() else value.encode("utf-8", "backslashreplace").decode()

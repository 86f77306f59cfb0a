"""Classes of methods: those that a pooled client may send on a shared connection, and those for which it is pinned.

Only a method that cannot close the whole connection is shared: RabbitMQ closes it for hard errors, some of which cannot
be foreseen from the bytes, such as 541 for a transient queue in RabbitMQ 4.3.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from amqproxy.amqp091.errors import ProtocolError
from amqproxy.amqp091.frame import Frame
from amqproxy.amqp091.methods import (
    BasicPublish,
    ExchangeBind,
    ExchangeDeclare,
    ExchangeDelete,
    ExchangeUnbind,
    Method,
    QueueBind,
    QueueDeclare,
    QueueDelete,
    QueuePurge,
    QueueUnbind,
)


class PinReason(StrEnum):
    """Reason for which a client has got an upstream connection of its own."""

    CONSUMES = "consumes"
    GETS = "gets"
    QOS = "qos"
    TRANSACTION = "transaction"
    EXCLUSIVE = "exclusive"
    SERVER_NAMED = "server-named"
    UPDATE_SECRET = "update-secret"
    LARGE_MESSAGE = "large-message"
    MANY_CHANNELS = "many-channels"
    UNPROVEN = "unproven"
    """A method or a message of which it is not certain that it harms nobody."""
    HARD_ERROR = "hard-error"
    """A method for which the broker has closed a connection before."""
    QUARANTINE = "quarantine"
    """A client of those for which the broker has closed a shared connection."""
    HABIT = "habit"
    """A client of those that were pinned before."""


_BY_METHOD = {
    "basic.consume": PinReason.CONSUMES,
    "basic.cancel": PinReason.CONSUMES,
    "basic.get": PinReason.GETS,
    "basic.qos": PinReason.QOS,
    "tx.select": PinReason.TRANSACTION,
    "connection.update-secret": PinReason.UPDATE_SECRET,
}

_PROVABLE = (
    ExchangeDeclare,
    ExchangeDelete,
    ExchangeBind,
    ExchangeUnbind,
    QueueBind,
    QueueUnbind,
    QueuePurge,
    QueueDelete,
)


def with_queue(method: Method, last_queue: str) -> Method:
    """Return a method with the name of the last declared queue where RabbitMQ would insert it.

    It stands for an empty queue, and then for an empty routing key, too, in queue.unbind as well (RabbitMQ 3.10).
    """
    if not last_queue or isinstance(method, QueueDeclare) or getattr(method, "queue", "-") != "":
        return method  # queue.declare names a new queue
    if isinstance(method, QueueBind | QueueUnbind) and not method.routing_key:
        return msgspec.structs.replace(method, queue=last_queue, routing_key=last_queue)
    return msgspec.structs.replace(method, queue=last_queue)


def pin_reason(method: Method) -> PinReason | None:
    """Return why a method may neither be shared nor tried on a scout; `None` for those that a scout may try."""
    if isinstance(method, QueueDeclare):
        if method.exclusive:
            return PinReason.EXCLUSIVE
        return PinReason.SERVER_NAMED if not method.queue or method.queue.startswith("amq.") else None
    if isinstance(method, _PROVABLE):
        # without a name, it is the queue that was last declared on the channel
        return PinReason.SERVER_NAMED if getattr(method, "queue", "-") == "" else None
    return _BY_METHOD.get(method.name, PinReason.UNPROVEN)


def is_harmless_publish(method: BasicPublish) -> bool:
    """Whether RabbitMQ answers a publish at most by closing its channel."""
    return not method.immediate and _is_text(method.exchange) and _is_text(method.routing_key)


def is_harmless_header(frame: Frame) -> bool:
    """Whether a content header is one that every broker can decode."""
    try:
        header = frame.header
    except ProtocolError:
        return False
    return bool(header.class_id == BasicPublish.class_id and not header.weight)


def _is_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True

"""0-9-1 methods equivalent to 0-10 commands, so that code that inspects requests need only know the methods.

Only requests that both protocols have are covered, and only the fields that mean the same.
"""

from __future__ import annotations

from amqproxy.amqp010 import commands
from amqproxy.amqp010.domains import AcceptMode, AcquireMode
from amqproxy.amqp010.methods import Method as Amqp010Method
from amqproxy.amqp010.wire import Map
from amqproxy.amqp091 import methods
from amqproxy.amqp091.methods import Method as Amqp091Method
from amqproxy.amqp091.wire import Table

_BOUNDS = {"qpid.max_count": "x-max-length", "qpid.max_size": "x-max-length-bytes"}
"""RabbitMQ's queue length arguments, by Qpid's names for the same limits."""


def equivalent(method: Amqp091Method | Amqp010Method | None) -> Amqp091Method | None:
    """Return the 0-9-1 method equivalent to a request; `None` if 0-9-1 has none. A 0-9-1 method is returned as it is.

    A browsing subscription, which acquires no message, does not count as `no_ack`.
    """
    match method:
        case None:
            return None
        case Amqp091Method():
            return method
        case commands.MessageSubscribe():
            return methods.BasicConsume(
                queue=method.queue or "",
                consumer_tag=method.destination or "",
                no_ack=method.accept_mode == AcceptMode.NONE and method.acquire_mode != AcquireMode.NOT_ACQUIRED,
                exclusive=method.exclusive,
            )
        case commands.MessageCancel():
            return methods.BasicCancel(consumer_tag=method.destination or "")
        case commands.QueueDeclare():
            return methods.QueueDeclare(
                queue=method.queue or "",
                passive=method.passive,
                durable=method.durable,
                exclusive=method.exclusive,
                auto_delete=method.auto_delete,
                arguments=_arguments(method.arguments),
            )
        case commands.QueueDelete():
            return methods.QueueDelete(queue=method.queue or "", if_unused=method.if_unused, if_empty=method.if_empty)
        case commands.QueuePurge():
            return methods.QueuePurge(queue=method.queue or "")
        case commands.ExchangeBind():
            return methods.QueueBind(
                queue=method.queue or "", exchange=method.exchange or "", routing_key=method.binding_key or ""
            )
        case commands.ExchangeUnbind():
            return methods.QueueUnbind(
                queue=method.queue or "", exchange=method.exchange or "", routing_key=method.binding_key or ""
            )
        case commands.ExchangeDeclare():
            return methods.ExchangeDeclare(
                exchange=method.exchange or "",
                type=method.type or "",
                passive=method.passive,
                durable=method.durable,
                auto_delete=method.auto_delete,
            )
        case commands.ExchangeDelete():
            return methods.ExchangeDelete(exchange=method.exchange or "", if_unused=method.if_unused)
    return None


def _arguments(arguments: Map | None) -> Table:
    """Return the queue arguments that RabbitMQ knows by the same name, or by one of `_BOUNDS`."""
    found = {_BOUNDS.get(name, name): value for name, value in (arguments or Map()).items()}
    return Table({name: value for name, value in found.items() if name.startswith("x-") and _is_plain(value)})


def _is_plain(value: object) -> bool:
    return isinstance(value, (bool, str)) or (isinstance(value, int) and -(1 << 63) <= value < 1 << 63)

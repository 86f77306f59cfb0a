"""A virtual host to test, on its own."""

from __future__ import annotations

from typing import Any

from amqproxy.amqp091.wire import Table
from amqproxy.broker.events import EventDispatcher
from amqproxy.broker.exchanges.exchange import Exchange
from amqproxy.broker.message import Message
from amqproxy.broker.queues.queue import Queue
from amqproxy.broker.vhost import VirtualHost
from tests.broker.yard import message

NOW = 1000.0


class Estate:
    """A virtual host, with short ways to fill it; `events` are the names of what it reported."""

    def __init__(self) -> None:
        self.events: list[str] = []
        events = EventDispatcher()
        events.recorders.append(lambda event: self.events.append(event.name))
        self.vhost = VirtualHost("v", events)

    def queue(self, name: str = "q", *, auto_delete: bool = False, **arguments: Any) -> Queue:
        table = Table({f"x-{key.replace('_', '-')}": value for key, value in arguments.items()})
        return self.vhost.declare_queue(
            name, None, durable=False, exclusive=False, auto_delete=auto_delete, arguments=table, now=NOW
        )

    def exchange(self, name: str = "x", type_: str = "direct", *, auto_delete: bool = False, **more: Any) -> Exchange:
        arguments = Table({key.replace("_", "-"): value for key, value in more.items()})
        return self.vhost.declare_exchange(
            name, type_, durable=False, auto_delete=auto_delete, internal=False, arguments=arguments
        )

    def bind(self, source: Exchange, destination: Queue | Exchange, key: str = "") -> None:
        self.vhost.bind(source, destination, key, Table())

    def goes_to(self, exchange: str, key: str, *more_keys: str) -> set[str]:
        sent = Message(exchange, key, message().header, b"", None, more_keys)
        return {queue.name for queue in self.vhost.router.route(self.vhost.exchanges[exchange], sent, NOW).queues}

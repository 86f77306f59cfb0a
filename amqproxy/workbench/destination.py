"""Places to which messages of a queue are published."""

from __future__ import annotations

import secrets
from typing import Literal, Protocol

from amqproxy.amqp091.methods import (
    ExchangeDeclare,
    ExchangeDeclareOk,
    ExchangeDelete,
    ExchangeDeleteOk,
    QueueBind,
    QueueBindOk,
    QueueDeclare,
    QueueDeclareOk,
)
from amqproxy.amqp091.properties import Properties
from amqproxy.amqp091.wire import Table
from amqproxy.moving.broker_link import ChannelRefused
from amqproxy.moving.message_forwarder import MoveFailed
from amqproxy.moving.queue_move import exchange_for
from amqproxy.workbench.confirming_publisher import ConfirmingPublisher
from amqproxy.workbench.held_message import HeldMessage, with_headers, without
from amqproxy.workbench.origin import origin_of
from amqproxy.workbench.publish_window import Publication


class NoPlace(Exception):
    """The message has no place to go; the text has the reason."""


class Destination(Protocol):
    """A place for messages. `begin` and `end` are called once each; a dry run calls `check` instead of `begin`."""

    @property
    def text(self) -> str:
        """The place in words."""

    async def check(self, publisher: ConfirmingPublisher) -> None:
        """Raise `MoveFailed` if it does not exist; change nothing."""

    async def begin(self, publisher: ConfirmingPublisher) -> None:
        """Prepare it; raise `MoveFailed`."""

    def place(self, message: HeldMessage, properties: Properties, body: bytes) -> Publication:
        """Return the publish of a message with these properties and this body; raise `NoPlace`."""

    async def end(self, publisher: ConfirmingPublisher) -> None:
        """Remove what `begin` has made."""


class ToQueue:
    """A queue, by a fanout exchange of the run: messages keep their routing keys, and no CC leads them elsewhere."""

    def __init__(self, queue: str) -> None:
        self.queue = queue
        # Of two runs into one queue, the first to end must not delete the exchange of the other one.
        self._exchange = exchange_for(f"{queue}.{secrets.token_hex(4)}")

    @property
    def text(self) -> str:
        return f"queue {self.queue!r}"

    async def check(self, publisher: ConfirmingPublisher) -> None:
        try:
            await publisher.ask(QueueDeclare(queue=self.queue, passive=True), QueueDeclareOk)
        except ChannelRefused as error:
            raise MoveFailed(f"the target queue cannot be used: {error}") from None
        publisher.expect(self._exchange)

    async def begin(self, publisher: ConfirmingPublisher) -> None:
        await self.check(publisher)
        # If the run is killed, the exchange is deleted together with the queue.
        declaration = ExchangeDeclare(exchange=self._exchange, type="fanout", auto_delete=True)
        try:
            await publisher.ask(declaration, ExchangeDeclareOk)
            await publisher.ask(QueueBind(queue=self.queue, exchange=self._exchange), QueueBindOk)
        except ChannelRefused as error:
            raise MoveFailed(
                f"{error}: a move to a queue needs an exchange of its own for the routing keys. Without that "
                f"permission, move with --exchange '' --routing-key {self.queue}"
            ) from None

    def place(self, message: HeldMessage, properties: Properties, body: bytes) -> Publication:
        is_direct = not message.exchange and message.routing_key == self.queue
        has_copies = properties.headers is not None and "CC" in properties.headers
        return Publication(
            "" if is_direct and not has_copies else self._exchange, message.routing_key, properties, body
        )

    async def end(self, publisher: ConfirmingPublisher) -> None:
        await publisher.ask(ExchangeDelete(exchange=self._exchange), ExchangeDeleteOk)


class ToExchange:
    """An exchange, with the messages' own routing keys or another one."""

    def __init__(self, exchange: str, routing_key: str | None = None) -> None:
        self.exchange = exchange
        self.routing_key = routing_key

    @property
    def text(self) -> str:
        key = "their routing keys" if self.routing_key is None else f"routing key {self.routing_key!r}"
        return f"exchange {self.exchange!r} with {key}"

    async def check(self, publisher: ConfirmingPublisher) -> None:
        if reason := await publisher.missing(self.exchange):
            raise MoveFailed(f"the target exchange cannot be used: {reason}")

    async def begin(self, publisher: ConfirmingPublisher) -> None:
        await self.check(publisher)

    def place(self, message: HeldMessage, properties: Properties, body: bytes) -> Publication:
        key = message.routing_key if self.routing_key is None else self.routing_key
        return Publication(self.exchange, key, properties, body)

    async def end(self, publisher: ConfirmingPublisher) -> None:
        pass


class ToOrigin:
    """The origin of each dead letter: its first exchange and routing keys, or only the queue in which it died first.

    By the exchange, every queue that is bound for the routing key gets the message, also those that had it before.
    """

    def __init__(self, by: Literal["exchange", "queue"] = "exchange") -> None:
        self.by = by

    @property
    def text(self) -> str:
        if self.by == "queue":
            return "the queue in which each died first"
        return "the exchange and routing keys that each had before it died first"

    async def check(self, publisher: ConfirmingPublisher) -> None:
        pass

    async def begin(self, publisher: ConfirmingPublisher) -> None:
        pass

    def place(self, message: HeldMessage, properties: Properties, body: bytes) -> Publication:
        origin = origin_of(properties)
        if origin is None:
            raise NoPlace("it has no x-death: it is not a dead letter")
        headers = properties.headers or Table()
        if self.by == "queue":
            return Publication("", origin.queue, with_headers(properties, without(headers, "CC")), body)
        key, *copies = origin.routing_keys
        if copies and "CC" not in headers:  # RabbitMQ 3 takes it off when the queue has a dead-letter routing key
            headers = Table([*headers.fields, *Table({"CC": copies}).fields])
        return Publication(origin.exchange, key, with_headers(properties, headers), body)

    async def end(self, publisher: ConfirmingPublisher) -> None:
        pass

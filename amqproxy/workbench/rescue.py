"""Rescue of messages at the delivery limit: confirmed copies at the end of their queue."""

from __future__ import annotations

import secrets
from collections.abc import Sequence

from amqproxy.amqp091.methods import (
    ExchangeDeclare,
    ExchangeDeclareOk,
    ExchangeDelete,
    ExchangeDeleteOk,
    QueueBind,
    QueueBindOk,
)
from amqproxy.amqp091.properties import Properties
from amqproxy.moving.broker_link import ChannelRefused
from amqproxy.moving.message_forwarder import MoveFailed
from amqproxy.moving.queue_move import exchange_for
from amqproxy.workbench.confirming_publisher import ConfirmingPublisher
from amqproxy.workbench.held_message import HeldMessage
from amqproxy.workbench.publish_window import RETURNED, Publication


class Rescue:
    """Publisher of copies to the end of `queue`, by a fanout exchange that keeps their routing keys."""

    def __init__(self, publisher: ConfirmingPublisher, queue: str) -> None:
        self._publisher = publisher
        self._queue = queue
        # Two looks at one queue must not delete each other's exchange.
        self._exchange = exchange_for(f"{queue}.{secrets.token_hex(4)}")

    async def begin(self) -> None:
        """Prepare the exchange, and check that copies can be published; raise `MoveFailed` with the remedy.

        The check publishes while no queue is bound, so that the broker returns the message. Afterwards the permissions
        to configure and write the exchange, and to write the queue, are certain.
        """
        declaration = ExchangeDeclare(exchange=self._exchange, type="fanout", auto_delete=True)
        try:
            await self._publisher.ask(declaration, ExchangeDeclareOk)
            [outcome] = await self._publisher.publish([Publication(self._exchange, "", Properties(), b"")])
            if not outcome.startswith(RETURNED):
                raise MoveFailed(outcome)
            await self._publisher.ask(QueueBind(queue=self._queue, exchange=self._exchange), QueueBindOk)
        except (ChannelRefused, MoveFailed) as error:
            raise MoveFailed(
                f"a message at its delivery limit could not be kept, so no message was touched: {error}. This queue "
                "counts each return, also that of a look. Let the user configure, write and read exchanges named "
                f"{exchange_for(self._queue)}.*, and write and read the queue; or raise the delivery limit by a "
                "policy, and say it with --delivery-limit"
            ) from None

    async def copy(self, messages: Sequence[HeldMessage]) -> Sequence[str]:
        """Publish copies; return "" for each that is confirmed, or why it is not at the queue's end."""
        return await self._publisher.publish(
            [Publication(self._exchange, each.routing_key, each.properties, each.body) for each in messages]
        )

    async def end(self) -> None:
        """Delete the exchange."""
        await self._publisher.ask(ExchangeDelete(exchange=self._exchange), ExchangeDeleteOk)

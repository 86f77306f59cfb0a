"""Publishes with `mandatory` and publisher confirms, and knows what became of each message."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import trio

from amqproxy.amqp091.commands import Command, CommandReader
from amqproxy.amqp091.frame import METHOD, OVERHEAD
from amqproxy.amqp091.methods import (
    BasicAck,
    BasicNack,
    BasicPublish,
    BasicReturn,
    ChannelClose,
    ConfirmSelect,
    ConfirmSelectOk,
    ConnectionClose,
    ExchangeDeclare,
    ExchangeDeclareOk,
    Method,
)
from amqproxy.amqp091.properties import Properties
from amqproxy.moving.broker_link import Answer, BrokerLink, ChannelRefused
from amqproxy.moving.message_forwarder import CHANNEL, MoveFailed, refusal
from amqproxy.moving.unsettled_messages import UnsettledMessages

CONFIRM_TIMEOUT = 60.0
"""Seconds without any confirm after which the target counts as stuck, such as by a memory or disk alarm."""

REFUSED = "the target refused it (basic.nack): is the queue full?"


class Publication(msgspec.Struct, frozen=True):
    """A message to publish."""

    exchange: str
    routing_key: str
    properties: Properties
    body: bytes


class ConfirmingPublisher:
    """Publisher over a link of its own."""

    def __init__(self, link: BrokerLink) -> None:
        self.link = link
        self.unconfirmed = 0
        """Messages without an outcome, after `publish` has failed: the broker may have them."""
        self._is_confirming = False
        self._unsettled = UnsettledMessages()
        self._exchanges: dict[str, str] = {"": ""}

    async def ask(self, method: Method, answer: type[Answer]) -> Answer:
        """Send a request between two batches; raise `ChannelRefused`, after which the channel can be used again."""
        try:
            return await self.link.ask(method, answer)
        except ChannelRefused:
            await self.link.renew_channel()
            self._is_confirming = False
            raise

    def expect(self, exchange: str) -> None:
        """Treat an exchange as one that exists: a run that is not a dry one declares it."""
        self._exchanges[exchange] = ""

    async def missing(self, exchange: str) -> str:
        """Return why nothing can be published to an exchange; "" if it exists."""
        if exchange not in self._exchanges:
            try:
                await self.ask(ExchangeDeclare(exchange=exchange, passive=True), ExchangeDeclareOk)
                self._exchanges[exchange] = ""
            except ChannelRefused as error:
                self._exchanges[exchange] = str(error)
        return self._exchanges[exchange]

    async def publish(self, publications: Sequence[Publication]) -> list[str]:
        """Publish, and wait until all are confirmed; return "" for each, or why the broker did not take it.

        Raise `MoveFailed` if the broker closes the channel or confirms nothing for long, or one of `LOST`.
        """
        if not self._is_confirming:
            await self.ask(ConfirmSelect(), ConfirmSelectOk)
            self._is_confirming, self._unsettled = True, UnsettledMessages()
        batch = _Batch(publications)
        frames: list[bytes] = []
        for place, each in enumerate(publications):
            method = BasicPublish(exchange=each.exchange, routing_key=each.routing_key, mandatory=True)
            encoded = Command(CHANNEL, method, each.properties, each.body).encode(self.link.frame_max)
            if self.link.frame_max and _header_size(each.properties) > self.link.frame_max:
                batch.outcomes[place] = "its properties exceed the target's frame_max"
                continue
            self._unsettled.add(place, len(encoded))
            frames.append(encoded)
        self.unconfirmed = len(self._unsettled)
        commands = CommandReader()
        failures: list[BaseException] = []
        async with trio.open_nursery() as nursery:

            async def send() -> None:
                # The target may return messages meanwhile: who does not read them could be blocked by it.
                try:
                    await self.link.send(b"".join(frames))
                except Exception as error:  # noqa: BLE001 - raised below, outside the nursery, which would wrap it
                    failures.append(error)
                    nursery.cancel_scope.cancel()

            nursery.start_soon(send)
            try:
                while self._unsettled:
                    with trio.fail_after(CONFIRM_TIMEOUT):
                        received = await self.link.receive()
                    for frame in received:
                        command = commands.add(frame) if frame.channel or frame.kind == METHOD else None
                        if command is not None:
                            self._note(command, batch)
            except trio.TooSlowError:
                failures.append(
                    MoveFailed(f"the target has confirmed nothing for {CONFIRM_TIMEOUT:g} s: has it an alarm?")
                )
                nursery.cancel_scope.cancel()
            except Exception as error:  # noqa: BLE001 - as above
                failures.append(error)
                nursery.cancel_scope.cancel()
        self.unconfirmed = len(self._unsettled)
        if failures:
            raise failures[0]
        return batch.outcomes

    def _note(self, command: Command, batch: _Batch) -> None:
        method: Any = command.method
        match method:
            case BasicAck() | BasicNack():
                for place in self._unsettled.settle(method.delivery_tag, multiple=method.multiple):
                    if isinstance(method, BasicNack):
                        batch.outcomes[place] = REFUSED
            case BasicReturn():
                batch.note_return(command)
            case ChannelClose() | ConnectionClose():
                raise refusal("the target", method)


class _Batch:
    """The messages that are published together, and their outcomes."""

    def __init__(self, publications: Sequence[Publication]) -> None:
        self.outcomes = [""] * len(publications)
        self._publications = publications

    def note_return(self, command: Command) -> None:
        """Note that a message is returned: RabbitMQ confirms it afterwards, and names no number in the return.

        Of equal messages it does not matter which one is meant.
        """
        method, body, name = command.method, command.body, command.properties.message_id
        for place, each in enumerate(self._publications):
            if (
                not self.outcomes[place]
                and (each.exchange, each.routing_key) == (method.exchange, method.routing_key)
                and (each.body, each.properties.message_id) == (body, name)
            ):
                self.outcomes[place] = f"the target returned it: {method.reply_code} {method.reply_text}"
                return


def _header_size(properties: Properties) -> int:
    from amqproxy.amqp091.properties import ContentHeader

    return len(ContentHeader(0, properties).encode()) + OVERHEAD

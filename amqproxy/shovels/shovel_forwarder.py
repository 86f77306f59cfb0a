"""Deliveries to publishes, and confirms to acknowledgements, in each ack mode: the sans-IO core of a shovel."""

from __future__ import annotations

from collections.abc import Iterable

from amqproxy.amqp091.frame import METHOD, Frame, encode_method
from amqproxy.amqp091.methods import (
    BasicAck,
    BasicDeliver,
    BasicNack,
    BasicPublish,
    ChannelClose,
    ConnectionBlocked,
    ConnectionClose,
    ConnectionUnblocked,
)
from amqproxy.moving.message_forwarder import CHANNEL, MessageForwarder, Publish, refusal
from amqproxy.shovels.definition import Shovel
from amqproxy.shovels.property_changes import PropertyChanges


class ShovelForwarder(MessageForwarder):
    """Forwarder of a shovel's messages.

    `remaining` messages have to be settled before the shovel has done its work, and `unpublished` of them have to be
    published; `None` for a shovel without an end. `forwarded` counts publishes, `refused` those that the destination
    refused (basic.nack), whose messages return to the source. The destination takes nothing while it `is_blocked`.
    """

    def __init__(self, shovel: Shovel, changes: PropertyChanges, frame_max: int, remaining: int | None) -> None:
        super().__init__(self._publish, frame_max)
        self.remaining = self.unpublished = remaining
        self.forwarded = 0
        self.refused = 0
        self.is_blocked = False
        self._changes = None if changes.are_none else changes
        self._confirms = shovel.ack_mode == "on-confirm"
        self._acks = shovel.ack_mode != "no-ack"
        self._published = 0
        """Publishes that are not sent yet, in the ack modes without confirms, and the delivery tag of the last one."""
        self._last_published = 0
        self._left: list[int] = []
        """Delivery tags that are not published, since enough are; empty while `unpublished` is not 0."""
        destination = shovel.destination
        self._exchange = "" if destination.queue is not None else destination.exchange
        self._routing_key = destination.routing_key if destination.queue is None else destination.queue

    @property
    def is_over(self) -> bool:
        """Whether all messages are settled after which the shovel deletes itself."""
        return self.remaining == 0

    def _publish(self, delivered: BasicDeliver, header: Frame) -> Publish | None:
        if self.unpublished == 0 and self._acks:
            self._left.append(delivered.delivery_tag)
            return None  # it returns to the source when the channel is closed, or a published one is refused
        exchange, routing_key = self._exchange, self._routing_key
        method = BasicPublish(
            exchange=delivered.exchange if exchange is None else exchange,
            routing_key=delivered.routing_key if routing_key is None else routing_key,
        )
        return method, header.raw if self._changes is None else self._changes.frame(header)

    def note(self, delivery_tag: int, size: int) -> None:
        """Note that a delivery is published as a whole."""
        self.forwarded += 1
        if self.unpublished:  # without acks, more than that are published, since the source has forgotten them
            self.unpublished -= 1
        if self._confirms:
            super().note(delivery_tag, size)
        else:
            self._published += 1
            self._last_published = delivery_tag

    def acknowledge(self) -> bytes:
        """Settle what is published, in the ack modes without confirms, and return its acknowledgement, if it has one.

        Call it once the publishes are sent: those that cannot be sent are not settled.
        """
        count, self._published = self._published, 0
        self._settle(count)
        return encode_method(CHANNEL, BasicAck(self._last_published, multiple=True)) if count and self._acks else b""

    def confirm(self, frames: Iterable[Frame]) -> bytes:
        """Return the acknowledgements for the destination's frames; set `failure` if it closes the channel.

        A refused message is requeued in the source, as by RabbitMQ, which counts it as settled. It is published again,
        or another one in its place: deliveries that were not published are requeued, too, since the acknowledgement of
        a later one would cover them.
        """
        output: list[bytes] = []
        for frame in frames:
            if frame.kind != METHOD:
                continue
            method = frame.method
            match method:
                case BasicAck():
                    before = len(self.unsettled)
                    acks = self.unsettled.confirm(method.delivery_tag, multiple=method.multiple)
                    self._settle(before - len(self.unsettled))
                    output += [encode_method(CHANNEL, ack) for ack in acks]
                case BasicNack():
                    tags = self.unsettled.settle(method.delivery_tag, multiple=method.multiple)
                    self.refused += len(tags)
                    if tags and self.unpublished is not None:
                        self.unpublished += len(tags)
                        tags += self._left
                        self._left = []
                    output += [encode_method(CHANNEL, BasicNack(tag, requeue=True)) for tag in tags]
                case ConnectionBlocked():
                    self.is_blocked = True
                case ConnectionUnblocked():
                    self.is_blocked = False
                case ChannelClose() | ConnectionClose():
                    self.failure = refusal("the destination", method)
                    break
        return b"".join(output)

    def _settle(self, count: int) -> None:
        self.moved += count
        if self.remaining is not None:
            self.remaining = max(0, self.remaining - count)

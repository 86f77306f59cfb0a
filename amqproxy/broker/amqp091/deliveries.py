"""Deliveries of one 0-9-1 channel and their acknowledgements: on the hot path of every delivery and every ack."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Any

from amqproxy.amqp091.frame import Frame
from amqproxy.amqp091.methods import BasicAck, BasicGetOk, BasicNack, BasicReject
from amqproxy.broker.connections.deliveries import AT_ONCE, ENDING, EVERY_TAG, TAKEN, TAKING, ChannelDeliveries
from amqproxy.broker.connections.output import OutputBuffer, short_string
from amqproxy.broker.message import DeadLetteredMessage
from amqproxy.broker.queues.consumer import (
    ACK,
    CONSUMER_COST,
    GIVE_BACK,
    REJECT,
    REQUEUE,
    UNLIMITED,
    ConsumedQueue,
    Consumer,
    QueueEntry,
)

if TYPE_CHECKING:
    from amqproxy.broker.amqp091.owners import OwningChannel
    from amqproxy.broker.queues.queue import Queue
    from amqproxy.broker.vhost import VirtualHost

try:
    import cython
except ImportError:  # a plain run does not need Cython
    from amqproxy.compiled import _cython as cython

LOOKING = 16
"""Consumers whose check counts as one operation."""

_UNLIMITED = UNLIMITED  # these as C sees them
_AT_ONCE = AT_ONCE
_ACK = BasicAck.index
_SETTLEMENT = 21
_MULTIPLE, _REQUEUE = 1, 2


def _is_redelivered(entry: QueueEntry) -> cython.bint:
    """Whether a delivery bears the mark, as dead letters of RabbitMQ 4.3 do that were delivered before they died."""
    if entry.is_redelivered:
        return True
    message = entry.message
    return isinstance(message, DeadLetteredMessage) and message.was_delivered


class Deliveries(ChannelDeliveries):
    """Consumers of one channel by their tags, and the unacknowledged messages of those and of basic.get."""

    def __init__(self, channel: OwningChannel, vhost: VirtualHost, output: OutputBuffer) -> None:
        super().__init__(channel, vhost)
        self.number = channel.number
        self.output = output
        self.consumers: dict[str, Consumer] = {}
        self.is_transactional = False
        self._pending: list[tuple[list[QueueEntry], str]] = []

    @property
    def bytes_in_memory(self) -> int:
        """Approximate bytes of memory of the consumers and the unacknowledged messages."""
        return CONSUMER_COST * len(self.consumers) + self.unacked.bytes_in_memory

    # --- deliveries

    def takes(self, consumer: Consumer) -> bool:
        """Whether the channel can be sent one more message: room in the output, and below its prefetch limit."""
        return self.output.has_room and self.held < self.global_prefetch

    def deliver(self, consumer: Consumer, entry: QueueEntry, now: float) -> None:
        """Send a message to a consumer of this channel."""
        self.last_tag += 1
        if not consumer.no_ack:
            self.unacked.add(self.last_tag, entry)
            if self.global_prefetch != _UNLIMITED:
                self._has_had_its_turn(consumer)
        message = entry.message
        try:
            self.output.deliver(
                self.number,
                consumer.head,
                self.last_tag,
                _is_redelivered(entry),
                message.exchange,
                message.routing_key,
                entry.header,
                message.body,
            )
        except Exception as error:  # noqa: BLE001
            self._cannot_deliver(entry, error)
            return
        self._count_delivery(entry.queue, consumer.no_ack, entry.is_redelivered)
        if self._events.observers or self._vhost.is_traced:
            self._delivered(entry, now)

    def _cannot_deliver(self, entry: QueueEntry, error: Exception) -> None:
        self._note_failure(entry.queue, error)
        self.channel.connection.fail_soon()

    def _has_had_its_turn(self, consumer: Consumer) -> None:
        """Move a consumer that was sent a message behind the others that share the channel's prefetch."""
        consumers = self.consumers
        if len(consumers) > 1 and consumers.get(consumer.tag) is consumer:
            del consumers[consumer.tag]
            consumers[consumer.tag] = consumer

    def answer(self, queue: Queue, entry: QueueEntry, now: float, *, no_ack: bool) -> None:
        """Send basic.get-ok with the message that a basic.get took from a queue."""
        self.last_tag += 1
        if no_ack:
            queue.forget(entry)
        else:
            queue.hold(entry, None)
            self.unacked.add(self.last_tag, entry)
        message = entry.message
        got = BasicGetOk(
            self.last_tag, _is_redelivered(entry), message.exchange, message.routing_key, queue.message_count
        )
        try:
            self.channel.connection.send_method(self.number, got)
        except Exception as error:  # noqa: BLE001
            self._cannot_deliver(entry, error)
            return
        self.output.content(self.number, entry.header, message.body)
        self.count_get(queue, entry, no_ack=no_ack)
        if self._events.observers or self._vhost.is_traced:
            self._delivered(entry, now)

    def reply(self, consumer_tag: str, name: str, message: Any) -> None:
        """Deliver a message that was published to this channel's direct reply-to name."""
        tag = short_string(consumer_tag)
        self.output.deliver(
            self.number, tag, self.last_tag + 1, False, message.exchange, name, message.header, message.body
        )

    def queue_deleted(self, consumer: Consumer) -> None:
        """Remove a consumer whose queue is deleted, and send basic.cancel if the client supports that."""
        self.consumers.pop(consumer.tag, None)
        self._report_end(consumer)
        self.channel.connection.notify_cancelled(self.number, consumer.tag)

    # --- acknowledgements

    def settle(self, frame: Frame, now: float) -> None:
        """Process a basic.ack, basic.nack or basic.reject."""
        if frame.index == _ACK and frame.length() == _SETTLEMENT:
            # basic.ack comes as often as messages do: its fields are read from the frame without decoding a method.
            self._take(frame.long_long_at(11), frame.byte_at(19) & _MULTIPLE != 0, ACK, now)
            return
        method: BasicAck | BasicNack | BasicReject = frame.method
        multiple = not isinstance(method, BasicReject) and method.multiple
        outcome = ACK if isinstance(method, BasicAck) else REQUEUE if method.requeue else REJECT
        if outcome is REQUEUE and not multiple and isinstance(method, BasicReject):
            self._count_reject(method.delivery_tag)
        self._take(method.delivery_tag, multiple, outcome, now)

    def _count_reject(self, tag: int) -> None:
        """Count a rejected delivery from a quorum queue, where its coming back alone does not count."""
        if self._vhost.profile.counts_acquisitions:
            delivery = self.unacked.find(tag)  # Cython cannot compile `find(tag).delivery_count += 1`
            delivery.delivery_count += 1

    def _take(self, tag: cython.ulonglong, multiple: cython.bint, outcome: str, now: float) -> None:
        if multiple and self.unacked.most_up_to(tag) > min(_AT_ONCE, self._quantum.step):
            self.channel.connection.do(self._taking(tag, outcome, now), now)
            return
        entries = self.unacked.settle(tag, multiple)
        if self.is_transactional:
            self._pending.append((entries, outcome))
            return
        self._quantum.left -= len(entries)
        self.apply(entries, outcome, now)
        if self.global_prefetch != _UNLIMITED:
            self.pump(now)

    def _taking(self, tag: int, outcome: str, now: float) -> Generator[None, float, float]:
        """Settle every delivery up to a tag, in steps."""
        if tag:
            self.unacked.find(tag)
        if not self.is_transactional:
            return (yield from self._settling(self._parts(tag or self.last_tag), outcome, now))
        entries: list[QueueEntry] = []
        self._pending.append((entries, outcome))
        for some in self._parts(tag or self.last_tag):
            entries += some
            if self._quantum.spend(1 + len(some) // TAKING):
                now = yield
        return now

    def recover(self, now: float) -> None:
        """Requeue all unacknowledged messages, to be delivered again."""
        self.channel.connection.do(self._recovering(now), now)

    def _recovering(self, now: float) -> Generator[None, float, float]:
        return (yield from self._settling(self._parts(self.last_tag), REQUEUE, now))

    def pump(self, now: float) -> None:
        """Deliver waiting messages to blocked consumers, the least recently served consumers first."""
        self._quantum.left -= len(self.consumers) // LOOKING
        self._pump(list(self.consumers.values()), now)

    # --- transactions

    def committing(self, now: float) -> Generator[None, float, float]:
        """Apply the transaction's acknowledgements, in steps."""
        pending, self._pending = self._pending, []
        pending.reverse()
        while pending:
            entries, outcome = pending.pop()
            parts = (entries[start : start + TAKEN] for start in range(0, len(entries), TAKEN))
            now = yield from self._settling(parts, outcome, now)
        return now

    def rolling_back(self, now: float) -> Generator[None, float, float]:
        """Return the messages that the transaction settled to the unacknowledged ones, in steps."""
        pending, self._pending = self._pending, []
        pending.reverse()
        quantum = self._quantum
        entries = (entry for _ in range(len(pending)) for entry in pending.pop()[0])
        for count in self.unacked.putting_back(entries, min(TAKEN, quantum.step)):
            if quantum.spend(count):
                now = yield
        return now

    # --- the end

    def closing(self, now: float) -> Generator[None, float, float]:
        """Requeue unacknowledged messages, before any later message is delivered, and end all consumers; in steps.

        An auto-delete queue that ends with its last consumers gets nothing back.
        """
        self.global_prefetch = 0  # its own consumers get nothing more
        now = yield from self.rolling_back(now)
        ending: dict[ConsumedQueue, list[Consumer]] = {}
        for consumer in self.consumers.values():
            ending.setdefault(consumer.queue, []).append(consumer)
        self.consumers = {}
        last = [each for each, mine in ending.items() if each.auto_delete and len(mine) == len(each.consumers)]
        for queue in last:
            now = yield from self._ending(ending.pop(queue), now)
        now = yield from self._settling(self._parts(EVERY_TAG), GIVE_BACK, now)
        for consumers in ending.values():
            now = yield from self._ending(consumers, now)
        return now

    def _ending(self, consumers: list[Consumer], now: float) -> Generator[None, float, float]:
        quantum = self._quantum
        for consumer in consumers:
            with self._events.contained("a consumer's end failed", queue=str(consumer.queue)):
                self.end(consumer, now)
            if quantum.spend(ENDING):
                now = yield
        return now

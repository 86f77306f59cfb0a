"""Messages delivered to one client, and their outcomes; on the path of every delivery and settlement."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from amqproxy.amqp091.errors import ProtocolError
from amqproxy.broker import firehose
from amqproxy.broker.connections.unacked import UnackedDeliveries, by_queue
from amqproxy.broker.message_counts import MessageCounts
from amqproxy.broker.queues.consumer import (
    ACK,
    GIVE_BACK,
    REQUEUE,
    UNLIMITED,
    ConsumedQueue,
    Consumer,
    QueueEntry,
    Receiver,
)
from amqproxy.broker.vhost import VirtualHost

try:
    import cython
except ImportError:  # a plain run does not need Cython
    from amqproxy.compiled import _cython as cython

AT_ONCE = 64
"""Number of messages up to which they are settled at once, not in steps."""

TAKEN = 1024
"""Messages taken out between two checks whether the turn is over."""

TAKING = 32
"""Messages whose removal counts as one operation."""

EVERY_TAG = 1 << 62

ENDING = 4
"""Operations that the end of a consumer counts as."""


class ChannelDeliveries(Receiver):
    """Unsettled messages of one channel, or of a session; the dialects' deliveries derive from it.

    `channel` has a `place`, and a `connection` with a name. A `ProtocolError` closes the channel or its connection.
    """

    def __init__(self, channel: Any, vhost: VirtualHost) -> None:
        super().__init__()
        self.channel = channel
        self.unacked = UnackedDeliveries()
        self.last_tag = 0
        """The delivery tag that was assigned last."""
        self.counts = MessageCounts()
        self._totals = vhost.counts
        self._vhost = vhost
        self._events = vhost.events
        self._quantum = vhost.work.quantum

    def pump(self, now: float) -> None:
        """Deliver waiting messages to the client's blocked consumers."""
        raise NotImplementedError

    def _pump(self, consumers: Iterable[Consumer], now: float) -> None:
        """Deliver waiting messages to those of the consumers that are blocked, in this order."""
        queues: dict[ConsumedQueue, None] = {}
        for consumer in consumers:
            if consumer.is_blocked and consumer.queue.rejoin(consumer):
                queues[consumer.queue] = None
        for queue in queues:
            queue.pump(now)

    def _note_failure(self, queue: ConsumedQueue, error: Exception) -> None:
        """Report a delivery that cannot be encoded, such as a dead letter's too long routing key, and send no more.

        The caller has the receiver closed at the next tick, not in the middle of the delivery; its messages are
        requeued then. Like RabbitMQ, this does not close the client that published or requeued the message.
        """
        self._events.fail("delivery failed", error, queue=str(queue), client=self.channel.connection.name)
        self.global_prefetch = 0

    def _count_delivery(self, queue: ConsumedQueue, no_ack: cython.bint, is_redelivered: cython.bint) -> None:
        """Count a message that is sent to a consumer, for its queue, this channel and the virtual host."""
        mine, totals, its = self.counts, self._totals, queue.counts
        if no_ack:
            mine.delivered_no_ack += 1
            totals.delivered_no_ack += 1
            its.delivered_no_ack += 1
        else:
            mine.delivered += 1
            totals.delivered += 1
            its.delivered += 1
        if is_redelivered:
            mine.redelivered += 1
            totals.redelivered += 1
            its.redelivered += 1

    def count_get(self, queue: ConsumedQueue, entry: QueueEntry | None, *, no_ack: bool) -> None:
        """Count the answer to a basic.get, which `entry` is None for if the queue was empty."""
        for counts in (self.counts, self._totals, queue.counts):
            if entry is None:
                counts.got_empty += 1
                continue
            if no_ack:
                counts.got_no_ack += 1
            else:
                counts.got += 1
            counts.redelivered += entry.is_redelivered

    def _count_acks(self, count: cython.Py_ssize_t) -> None:
        self.counts.acked += count
        self._totals.acked += count

    def _delivered(self, entry: QueueEntry, now: float) -> None:
        """Report a delivery to observers, and trace it unless it is a firehose message itself."""
        vhost, message, queue = self._vhost, entry.message, entry.queue
        if vhost.is_traced and message.exchange != firehose.EXCHANGE:
            with vhost.events.contained("tracing failed", vhost=vhost.name):
                trace = firehose.traced_delivery(message, self.channel.place, queue.name, entry.is_redelivered)
                vhost.publish(vhost.exchanges[firehose.EXCHANGE], trace, now)
        if vhost.events.observers:
            details = {"queue": queue, "channel": self.channel, "tag": self.last_tag}
            vhost.events.report("message.delivered", vhost.name, message, **details)

    # --- outcomes

    def apply(self, entries: list[QueueEntry], outcome: str, now: float) -> None:
        """Apply an outcome to a few messages at once."""
        if self._events.observers:
            self._settled(entries, outcome)
        if len(entries) == 1:
            self._apply_in(entries[0].queue, entries, outcome, now)
        else:
            for queue, mine in by_queue(entries):
                self._apply_in(queue, mine, outcome, now)

    def _apply_in(self, queue: ConsumedQueue, entries: list[QueueEntry], outcome: str, now: float) -> None:
        if outcome is ACK:
            self._count_acks(len(entries))
            queue.counts.acked += len(entries)
            queue.ack(entries, now)
        elif outcome is REQUEUE:
            queue.requeue(entries, now)
        else:
            queue.reject(entries, now)

    def _settled(self, entries: list[QueueEntry], outcome: str) -> None:
        """Report settled messages to observers."""
        for entry in entries:
            details = {"queue": entry.queue, "channel": self.channel, "outcome": outcome}
            self._events.report("message.settled", self._vhost.name, entry.message, **details)

    def _parts(self, tag: int) -> Iterable[list[QueueEntry]]:
        """Remove the unacknowledged messages up to a tag and return them in parts."""
        return self.unacked.parts(tag, min(TAKEN, self._quantum.step))

    def _settling(self, parts: Iterable[list[QueueEntry]], outcome: str, now: float) -> Generator[None, float, float]:
        """Apply an outcome to any number of messages in steps, queue by queue.

        A queue holds back deliveries from the moment the first of its returning messages is found. A queue that fails
        to settle does not prevent the others from settling.
        """
        comes_back = outcome is REQUEUE or outcome is GIVE_BACK
        quantum = self._quantum
        queues: dict[ConsumedQueue, list[QueueEntry]] = {}
        refusal: ProtocolError | None = None
        try:
            for some in parts:
                for entry in some:
                    mine = queues.get(entry.queue)
                    if mine is None:
                        mine = queues[entry.queue] = []
                        if comes_back:
                            entry.queue.hold_back()
                    mine.append(entry)
                if self._events.observers and outcome is not GIVE_BACK:
                    self._settled(some, outcome)
                if quantum.spend(1 + len(some) // TAKING):
                    now = yield
            while queues:
                queue = next(iter(queues))
                entries = queues.pop(queue)
                if outcome is ACK:
                    self._count_acks(len(entries))
                    queue.counts.acked += len(entries)
                with self._contained(outcome, queue):
                    try:
                        now = yield from queue.settling(entries, outcome, now)
                    except ProtocolError as error:
                        refusal = error
        finally:
            for queue in queues:
                if comes_back:
                    queue.hold_no_more(now)
        if refusal is not None:
            raise refusal
        if 0 < self.global_prefetch < UNLIMITED:
            self.pump(now)
        return now

    def _contained(self, outcome: str, queue: ConsumedQueue) -> AbstractContextManager[None]:
        """Contain the failure of one queue while a channel ends, so that the other queues get their messages back."""
        if outcome is GIVE_BACK:
            return self._events.contained("requeueing failed", queue=str(queue))
        return nullcontext()

    def end(self, consumer: Consumer, now: float) -> None:
        """Unsubscribe a consumer that the channel has released, and report its end."""
        consumer.queue.unsubscribe(consumer, now)
        self._report_end(consumer)

    def _report_end(self, consumer: Consumer) -> None:
        if self._events.observers:
            self._events.report("consumer.deleted", self._vhost.name, consumer)

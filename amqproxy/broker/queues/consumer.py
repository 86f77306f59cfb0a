"""Consumers, the channels that receive for them, and the messages sent to them. On the path of every delivery."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from typing import Protocol

from amqproxy.amqp091.wire import Table
from amqproxy.broker.message import Message
from amqproxy.broker.message_counts import MessageCounts
from amqproxy.broker.queues.paged_bodies import PagedBody

try:
    import cython
except ImportError:  # a plain run does not need Cython
    from amqproxy.compiled import _cython as cython

UNLIMITED = 1 << 62
"""Prefetch without a limit."""

NOT_SENT = (1 << 64) - 1
"""Delivery tag of an unsent message without acknowledgements, which is back in its queue."""

CONSUMER_COST = 2048
"""Assumed memory cost of a consumer in bytes, with its arguments and its places in its queue and channel."""

ACK, REQUEUE, REJECT, GIVE_BACK = "ack", "requeue", "reject", "give back"
"""Outcomes of a delivery: done; back to its place; unwanted; back because the channel that held it is gone."""


class ConsumedQueue(Protocol):
    """The queue as consumers and entries see it; `queue` documents its methods."""

    @property
    def name(self) -> str: ...

    @property
    def takes_back(self) -> bool: ...

    @property
    def counts(self) -> MessageCounts: ...

    @property
    def auto_delete(self) -> bool: ...

    @property
    def consumers(self) -> Mapping[Consumer, None]: ...

    def rejoin(self, consumer: Consumer, /) -> bool: ...

    def unsubscribe(self, consumer: Consumer, now: float, /) -> None: ...

    def pump(self, now: float, /) -> None: ...

    def hold_back(self) -> None: ...

    def hold_no_more(self, now: float, /) -> None: ...

    def settling(self, entries: list[QueueEntry], outcome: str, now: float, /) -> Generator[None, float, float]: ...

    def ack(self, entries: list[QueueEntry], now: float, /) -> None: ...

    def reject(self, entries: Iterable[QueueEntry], now: float, /) -> None: ...

    def requeue(self, entries: Iterable[QueueEntry], now: float, /) -> None: ...

    def release(self, entries: list[QueueEntry], now: float, /) -> None: ...


class QueueEntry:
    """A message that a queue has taken out and will recognize when it is settled.

    `position` is its place in the backlog, `expires_at` (seconds) its expiration there, `header` the content header
    that goes out with it. `acquired` counts how often it came back to a quorum queue, `delivery_count` how often that
    counted as a delivery. `consumer` is the one that holds it, None for basic.get, and `tag` the delivery tag by which
    it is held.
    """

    __slots__ = (
        "acquired",
        "consumer",
        "delivery_count",
        "expires_at",
        "header",
        "is_redelivered",
        "message",
        "paged_body",
        "position",
        "queue",
        "tag",
    )

    def __init__(self, queue: ConsumedQueue, message: Message, position: int, expires_at: float) -> None:
        self.queue = queue
        self.message = message
        self.position = position
        self.expires_at = expires_at
        self.header = message.header
        self.consumer: Consumer | None = None
        self.tag = 0
        self.is_redelivered = False
        self.acquired = 0
        self.delivery_count = 0
        self.paged_body: PagedBody | None = None
        """Place of the message's body, if that is not in memory."""


def taken(queue: ConsumedQueue, message: Message, position: cython.longlong, expires_at: float) -> QueueEntry:
    """Return an entry, made without a call of its constructor: this is on the path of every delivery."""
    entry: QueueEntry = QueueEntry.__new__(QueueEntry)
    entry.queue = queue
    entry.message = message
    entry.position = position
    entry.expires_at = expires_at
    entry.header = message.header
    entry.consumer = None
    entry.tag = 0
    entry.is_redelivered = False
    entry.acquired = 0
    entry.delivery_count = 0
    entry.paged_body = None
    return entry


class Receiver:
    """The receiver of all messages for a channel's consumers: the base class of the channel's deliveries.

    `held` counts the messages that the consumers have not settled, which `global_prefetch` bounds.
    """

    def __init__(self) -> None:
        self.held = 0
        self.global_prefetch = UNLIMITED

    def takes(self, consumer: Consumer) -> bool:
        """Return whether the channel may be sent one more message for this consumer."""
        raise NotImplementedError

    def deliver(self, consumer: Consumer, entry: QueueEntry, now: float) -> None:
        """Send a message to a consumer of the channel."""
        raise NotImplementedError

    def queue_deleted(self, consumer: Consumer) -> None:
        """Handle the deletion of a consumer's queue: notify its client, if that supports it."""
        raise NotImplementedError


class Consumer:
    """A consumer of a queue; its messages are `deliveries` of its channel.

    `prefetch` bounds `unacked`, the number of its unacknowledged messages (UNLIMITED: no bound).

    `is_blocked` is the queue's mark on a consumer that was due and could not take a message.
    """

    __slots__ = (
        "arguments",
        "deliveries",
        "exclusive",
        "head",
        "is_blocked",
        "no_ack",
        "prefetch",
        "priority",
        "queue",
        "tag",
        "unacked",
    )

    def __init__(
        self,
        tag: str,
        queue: ConsumedQueue,
        deliveries: Receiver,
        *,
        no_ack: bool,
        exclusive: bool,
        prefetch: int,
        arguments: Table,
    ) -> None:
        self.tag = tag
        self.queue = queue
        self.deliveries = deliveries
        self.no_ack = no_ack
        self.exclusive = exclusive
        self.prefetch = UNLIMITED if no_ack or not prefetch else prefetch
        self.arguments = arguments
        priority = arguments.get("x-priority", 0)
        self.priority = priority if isinstance(priority, int) else 0
        self.unacked = 0
        self.is_blocked = False
        self.head = b""
        """Beginning of every delivery's frame to the consumer, kept by the channel."""

    def is_ready(self) -> bool:
        """Return whether the consumer may be sent one more message at once."""
        return self.unacked < self.prefetch and self.deliveries.takes(self)

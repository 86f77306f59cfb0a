"""Consumers, the channels that receive for them, and the messages that they are sent. On the way of every delivery."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from typing import Protocol

from amqproxy.amqp091.wire import Table
from amqproxy.broker.message import Message
from amqproxy.broker.queues.paged_bodies import PagedBody

try:
    import cython
except ImportError:  # a plain run does not need Cython
    from amqproxy.compiled import _cython as cython

UNLIMITED = 1 << 62
"""A prefetch without a limit."""

NOT_SENT = (1 << 64) - 1
"""The tag of what needs no acknowledgement, and could not be sent: it is back in its queue."""

CONSUMER_COST = 2048
"""Bytes of memory that a consumer is taken to cost, with its arguments and its places in its queue and channel."""

ACK, REQUEUE, REJECT, GIVE_BACK = "ack", "requeue", "reject", "give back"
"""The outcomes of a delivery: done; back to its place; unwanted; back, since the channel that had it is gone."""


class ConsumedQueue(Protocol):
    """The queue of a consumer and of an entry, as far as they know it; `queue` has what its methods do."""

    @property
    def name(self) -> str: ...

    @property
    def takes_back(self) -> bool: ...

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


class QueueEntry:
    """A message that a queue has taken out, and will know again when it is settled.

    `position` is where it was, `expires_at` (seconds) when its time there is over, `header` is the content header
    that goes out with it. `consumer` is who holds it, None for basic.get, and `tag` the delivery tag it is held by.
    """

    __slots__ = (
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
        self.delivery_count = 0
        self.paged_body: PagedBody | None = None
        """Where the message's body is, if that is not in memory."""


def taken(queue: ConsumedQueue, message: Message, position: cython.longlong, expires_at: float) -> QueueEntry:
    """An entry, made without a call: on the way of every delivery."""
    entry: QueueEntry = QueueEntry.__new__(QueueEntry)
    entry.queue = queue
    entry.message = message
    entry.position = position
    entry.expires_at = expires_at
    entry.header = message.header
    entry.consumer = None
    entry.tag = 0
    entry.is_redelivered = False
    entry.delivery_count = 0
    entry.paged_body = None
    return entry


class Receiver:
    """The receiver of all that a channel's consumers get: the base class of the channel's deliveries.

    `held` counts what the consumers have and have not settled, which `global_prefetch` bounds.
    """

    def __init__(self) -> None:
        self.held = 0
        self.global_prefetch = UNLIMITED

    def takes(self, consumer: Consumer) -> bool:
        """May the channel be sent one more message?"""
        raise NotImplementedError

    def deliver(self, consumer: Consumer, entry: QueueEntry, now: float) -> None:
        """Send a message to a consumer of the channel."""
        raise NotImplementedError

    def queue_deleted(self, consumer: Consumer) -> None:
        """The queue of a consumer is gone: notify its client, if it supports that."""
        raise NotImplementedError


class Consumer:
    """A consumer of a queue; its messages are `deliveries` of its channel.

    `prefetch` bounds `unacked`, what it holds that is not acknowledged (UNLIMITED: no bound).

    `is_blocked` is the queue's mark on one that was due and could not take.
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
        """What every delivery's frame to it begins with; the channel's to keep."""

    def is_ready(self) -> bool:
        """May it be sent one more message now?"""
        return self.unacked < self.prefetch and self.deliveries.takes(self)

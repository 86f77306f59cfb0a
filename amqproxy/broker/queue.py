"""One queue: messages in their order, and the consumers that they are handed to in turn.

What happens to a message that is not wanted (dead-lettering) and what a name means are the virtual host's business; it
is told through `Owner`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol

from amqproxy.amqp091.wire import Table
from amqproxy.broker.consumer import Consumer
from amqproxy.broker.message import Message

if TYPE_CHECKING:
    from amqproxy.broker.link import Link

NEVER = float("inf")


class Entry:
    """A message's place in one queue. `position` orders it; a requeued entry goes back to where it was."""

    __slots__ = ("delivery_count", "expires_at", "is_redelivered", "message", "position")

    def __init__(self, message: Message, position: int, expires_at: float) -> None:
        self.message = message
        self.position = position
        self.expires_at = expires_at
        self.is_redelivered = False
        self.delivery_count = 0


class Owner(Protocol):
    """What a queue tells its virtual host."""

    def dead_letter(self, queue: Queue, entry: Entry, reason: str, now: float) -> None:
        """The queue has no more use for a message, for the reason that x-death will name."""

    def became_unused(self, queue: Queue) -> None:
        """An auto-delete queue has lost its last consumer."""


class Queue:
    """One classic queue.

    `exclusive_to` is the connection that alone may use it. Times are in seconds; `expires_at` of the queue itself is
    NEVER unless it has x-expires.
    """

    def __init__(
        self,
        name: str,
        owner: Owner,
        *,
        durable: bool = False,
        auto_delete: bool = False,
        exclusive_to: Link | None = None,
        arguments: Table,
        now: float = 0.0,
    ) -> None:
        self.name = name
        self.durable = durable
        self.auto_delete = auto_delete
        self.exclusive_to = exclusive_to
        self.arguments = arguments
        self.consumers: list[Consumer] = []
        self.unacked = 0
        self.is_deleted = False
        self._owner = owner
        self._positions = 0
        self._octets = 0
        self._count = 0
        self._max_priority = min(_integer(arguments, "x-max-priority") or 0, 255)
        self._ready: list[deque[Entry]] = [deque() for _ in range(self._max_priority + 1)]
        self._turn = 0
        self._is_pumping = False
        self._ttl = _integer(arguments, "x-message-ttl")
        self._max_length = _integer(arguments, "x-max-length")
        self._max_octets = _integer(arguments, "x-max-length-bytes")
        self._overflow = arguments.get("x-overflow", "drop-head")
        self._single_active = bool(arguments.get("x-single-active-consumer", False))
        self._expires_after = _integer(arguments, "x-expires")
        self._used_at = now

    # --- what is in it

    @property
    def message_count(self) -> int:
        """Messages that are ready: neither handed out nor gone."""
        return self._count

    @property
    def octets(self) -> int:
        """Octets of the ready messages' bodies."""
        return self._octets

    def publish(self, message: Message, now: float) -> bool:
        """Take a message; False when the queue is full and rejects what is published."""
        if self._overflow != "drop-head" and self._is_full(message):
            if self._overflow == "reject-publish-dlx":
                self._owner.dead_letter(self, Entry(message, 0, NEVER), "maxlen", now)
            return False
        self._positions += 1
        entry = Entry(message, self._positions, self._expiry(message, now))
        self._append(entry)
        if self.consumers:
            self.pump(now)
        if self._max_length is not None or self._max_octets is not None:
            self._drop_surplus(now)
        return True

    def get(self, now: float) -> Entry | None:
        """Take the first ready message out."""
        self._used_at = now
        self.expire(now)
        for ready in reversed(self._ready):
            if ready:
                return self._take(ready)
        return None

    def purge(self) -> int:
        """Drop what is ready; how many that was."""
        count = self._count
        for ready in self._ready:
            ready.clear()
        self._count = self._octets = 0
        return count

    def requeue(self, entries: Iterable[Entry], now: float) -> None:
        """Put messages back to their places, to be handed out again as redelivered."""
        for entry in sorted(entries, key=lambda entry: entry.position, reverse=True):
            entry.is_redelivered = True
            ready = self._ready[self._priority(entry.message)]
            before = []
            while ready and ready[0].position < entry.position:
                before.append(ready.popleft())
            ready.appendleft(entry)
            ready.extendleft(reversed(before))
            self._count += 1
            self._octets += entry.message.size
        self.pump(now)

    def reject(self, entry: Entry, now: float) -> None:
        """A consumer does not want a message, nor anybody else to have it."""
        self._owner.dead_letter(self, entry, "rejected", now)

    def _append(self, entry: Entry) -> None:
        self._ready[self._priority(entry.message)].append(entry)
        self._count += 1
        self._octets += entry.message.size

    def _take(self, ready: deque[Entry]) -> Entry:
        entry = ready.popleft()
        self._count -= 1
        self._octets -= entry.message.size
        return entry

    def _priority(self, message: Message) -> int:
        if not self._max_priority:
            return 0
        return min(message.properties.priority or 0, self._max_priority)

    # --- who takes from it

    def subscribe(self, consumer: Consumer, now: float) -> None:
        """Add a consumer; those of higher priority come first."""
        place = len(self.consumers)
        while place and self.consumers[place - 1].priority < consumer.priority:
            place -= 1
        self.consumers.insert(place, consumer)
        self._used_at = now

    def unsubscribe(self, consumer: Consumer, now: float) -> None:
        """Remove a consumer; the queue goes with its last one if it is auto-delete."""
        self.consumers.remove(consumer)
        self._used_at = now
        if not self.consumers and self.auto_delete:
            self._owner.became_unused(self)
        else:
            self.pump(now)

    def pump(self, now: float) -> None:
        """Hand out what is ready, for as long as somebody takes it."""
        if self._is_pumping or not self.consumers:
            return
        self._is_pumping = True
        try:
            while self._count:
                self.expire(now)
                consumer = self._next_consumer()
                if consumer is None:
                    return
                entry = self.get(now)
                if entry is None:
                    return
                consumer.channel.deliver(consumer, entry)
        finally:
            self._is_pumping = False

    def _next_consumer(self) -> Consumer | None:
        """Whose turn it is: the highest priority that takes any, and in it each in turn."""
        consumers = self.consumers
        if self._single_active:
            return consumers[0] if consumers[0].is_ready else None
        count = len(consumers)
        if count == 1:
            return consumers[0] if consumers[0].is_ready else None
        best: Consumer | None = None
        for step in range(count):
            consumer = consumers[(self._turn + step) % count]
            if (best is None or consumer.priority > best.priority) and consumer.is_ready:
                best = consumer
        if best is not None:
            self._turn = (consumers.index(best) + 1) % count
        return best

    # --- how long, and how much

    def expire(self, now: float) -> None:
        """Let go of the messages at the head whose time is over. RabbitMQ looks at no others."""
        for ready in self._ready:
            while ready and ready[0].expires_at <= now:
                self._owner.dead_letter(self, self._take(ready), "expired", now)

    @property
    def next_deadline(self) -> float:
        """When `expire` will next have something to do, or the queue itself is to go."""
        heads = [ready[0].expires_at for ready in self._ready if ready]
        return min([*heads, self.expires_at])

    @property
    def expires_at(self) -> float:
        """When the queue itself is to go for want of use."""
        if self._expires_after is None or self.consumers:
            return NEVER
        return self._used_at + self._expires_after / 1000

    def touch(self, now: float) -> None:
        """Note that the queue is used."""
        self._used_at = now

    def _expiry(self, message: Message, now: float) -> float:
        milliseconds = [] if self._ttl is None else [self._ttl]
        if message.has_properties and message.properties.expiration is not None:
            milliseconds.append(int(message.properties.expiration))
        return now + min(milliseconds) / 1000 if milliseconds else NEVER

    def _is_full(self, message: Message) -> bool:
        return (self._max_length is not None and self._count >= self._max_length) or (
            self._max_octets is not None and self._octets + message.size > self._max_octets
        )

    def _drop_surplus(self, now: float) -> None:
        while self._count and (
            (self._max_length is not None and self._count > self._max_length)
            or (self._max_octets is not None and self._octets > self._max_octets)
        ):
            lowest = next(ready for ready in self._ready if ready)
            self._owner.dead_letter(self, self._take(lowest), "maxlen", now)


def _integer(arguments: Table, name: str) -> int | None:
    value = arguments.get(name)
    return value if isinstance(value, int) else None

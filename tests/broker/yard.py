"""Queues on their own: a virtual host that records reports, and channels that take as much as they may."""

from __future__ import annotations

from typing import Any

from amqproxy.amqp091.properties import ContentHeader, Properties
from amqproxy.amqp091.wire import Table
from amqproxy.broker.amqp091.deliveries import Deliveries
from amqproxy.broker.message import Message
from amqproxy.broker.queues.at_least_once import DeadLetter
from amqproxy.broker.queues.consumer import UNLIMITED, Consumer, QueueEntry
from amqproxy.broker.queues.queue import Queue
from amqproxy.broker.queues.queue_storage import QueueStorage
from amqproxy.broker.queues.queue_types import QUEUE_TYPES
from amqproxy.broker.work import WorkQueue
from amqproxy.rabbitmq.profile import OLDEST


def message(body: str | bytes = b"", *, exchange: str = "", key: str = "q", **properties: Any) -> Message:
    if isinstance(properties.get("headers"), dict):
        properties["headers"] = Table(properties["headers"])
    data = body.encode() if isinstance(body, str) else body
    return Message(exchange, key, ContentHeader(len(data), Properties(**properties)).encode(), data)


class Yard:
    """Plays the virtual host `v`, at a time that is set."""

    name = "v"
    profile = OLDEST

    def __init__(self) -> None:
        self.now = 1000.0
        self.dead: list[tuple[str, str]] = []
        """Bodies of the dead letters of queues, with their reasons."""
        self.unused: list[str] = []
        self.looks: dict[Queue, float] = {}
        self.failures: list[tuple[str, dict[str, object]]] = []
        self.work = WorkQueue()

    def dead_letter(
        self, queue: Queue, message: Message, reason: str, now: float, letter: DeadLetter | None = None
    ) -> None:
        self.dead.append((message.body.decode(), reason))

    def became_unused(self, queue: Queue) -> None:
        queue.is_deleted = True
        self.unused.append(queue.name)

    def look_at(self, queue: Queue, when: float) -> None:
        self.looks[queue] = when

    def failed(self, queue: Queue, event: str, failure: Exception, **fields: object) -> None:
        self.failures.append((event, {**fields, "reason": repr(failure)}))

    def queue(
        self,
        type_: str = "classic",
        /,
        *,
        auto_delete: bool = False,
        storage: QueueStorage | None = None,
        **arguments: Any,
    ) -> Queue:
        """A queue; its arguments without their x-, and with underscores."""
        table = Table({f"x-{name.replace('_', '-')}": value for name, value in arguments.items()})
        return QUEUE_TYPES[type_]("q", self, auto_delete=auto_delete, arguments=table, now=self.now, storage=storage)

    def publish(self, queue: Queue, *bodies: str, **properties: Any) -> list[bool]:
        return [queue.publish(message(body, **properties), self.now) for body in bodies]

    def get(self, queue: Queue, count: int = 1) -> list[QueueEntry]:
        """As basic.get with acks does."""
        entries = []
        for _ in range(count):
            entry = queue.get(self.now)
            assert entry is not None
            queue.hold(entry, None)
            entries.append(entry)
        return entries

    def drain(self, queue: Queue) -> list[str]:
        bodies = []
        while entry := queue.get(self.now):
            bodies.append(entry.message.body.decode())
        return bodies

    def consumer(self, queue: Queue, *, room: int = 1 << 30, prefetch: int = 0, **options: Any) -> Taker:
        taker = Taker(queue, prefetch, room, self, **options)
        queue.subscribe(taker.consumer, self.now)
        queue.pump(self.now)
        return taker

    def wait(self, seconds: float) -> None:
        """Advance the time, and call the queues whose time has come."""
        self.now += seconds
        while due := [queue for queue, when in self.looks.items() if when <= self.now]:
            for queue in due:
                del self.looks[queue]
                queue.tick(self.now)


class Taker(Deliveries):
    """Plays the deliveries of a channel with one consumer; its client takes `room` messages at most."""

    def __init__(self, queue: Queue, prefetch: int, room: int, yard: Yard, **options: Any) -> None:
        self.held = 0
        self.global_prefetch = UNLIMITED
        self.room = room
        self.yard = yard
        self.entries: list[QueueEntry] = []
        arguments = Table(options.pop("arguments", {}))
        settings = {"no_ack": False, "exclusive": False, **options}
        self.consumer = Consumer("t", queue, self, prefetch=prefetch, arguments=arguments, **settings)

    def takes(self, consumer: Consumer) -> bool:
        return len(self.entries) < self.room

    def deliver(self, consumer: Consumer, entry: QueueEntry, now: float) -> None:
        self.entries.append(entry)

    @property
    def bodies(self) -> list[str]:
        return [entry.message.body.decode() for entry in self.entries]

    def ack(self, *places: int) -> None:
        self.consumer.queue.ack([self.entries[place] for place in places], self.yard.now)

    def requeue(self, *places: int) -> None:
        self.consumer.queue.requeue([self.entries[place] for place in places], self.yard.now)

    def reject(self, *places: int) -> None:
        self.consumer.queue.reject([self.entries[place] for place in places], self.yard.now)

    def cancel(self) -> None:
        self.consumer.queue.unsubscribe(self.consumer, self.yard.now)

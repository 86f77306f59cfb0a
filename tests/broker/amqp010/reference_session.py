"""What sessions of AMQP 0-10 are to do with messages, as plainly as possible: random programs are compared with it.

Everything is a list, and is looked for from the front. Which of several subscriptions gets a message is the broker's to
choose among those with credit, so the reference is shown what was delivered, and knows whether that may be.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Entry:
    """A message, at its place in a queue."""

    body: bytes
    queue: Queue
    place: int
    is_redelivered: bool = False


@dataclass(eq=False)
class Queue:
    """`ready` is in the order of the places."""

    name: str
    ready: list[Entry] = field(default_factory=list)
    places: int = 0

    def publish(self, body: bytes) -> None:
        self.places += 1
        self.ready.append(Entry(body, self, self.places))

    def put_back(self, entry: Entry, *, is_marked: bool) -> None:
        entry.is_redelivered |= is_marked
        self.ready.append(entry)
        self.ready.sort(key=lambda each: each.place)


@dataclass(eq=False)
class Subscription:
    """`credit` is None without a limit. `window` counts how often it was stopped."""

    queue: Queue
    accepts: bool
    is_window: bool
    credit: int | None = 0
    window: int = 0

    @property
    def room(self) -> int:
        return 1 << 30 if self.credit is None else self.credit


@dataclass(eq=False)
class Session:
    """`held` are the transfers that are not settled, `in_flight` those that give credit back, by their ids."""

    subscriptions: dict[str, Subscription] = field(default_factory=dict)
    held: dict[int, Entry] = field(default_factory=dict)
    in_flight: dict[int, tuple[Subscription, int]] = field(default_factory=dict)
    is_transactional: bool = False
    published: list[tuple[Queue, bytes]] = field(default_factory=list)
    accepted: dict[int, Entry] = field(default_factory=dict)

    # --- what the client does

    def publish(self, queue: Queue, body: bytes) -> None:
        if self.is_transactional:
            self.published.append((queue, body))
        else:
            queue.publish(body)

    def subscribe(self, destination: str, queue: Queue, *, accepts: bool, is_window: bool) -> None:
        self.subscriptions[destination] = Subscription(queue, accepts, is_window)

    def flow(self, destination: str, credit: int | None) -> None:
        subscription = self.subscriptions[destination]
        if credit is None or subscription.credit is None:
            subscription.credit = None
        else:
            subscription.credit += credit

    def stop(self, destination: str) -> None:
        self.subscriptions[destination].credit = 0
        self.subscriptions[destination].window += 1

    def complete(self, ids: list[int]) -> None:
        for each in ids:
            subscription, window = self.in_flight.pop(each, (None, 0))
            if subscription is not None and subscription.window == window and subscription.credit is not None:
                subscription.credit += 1

    def accept(self, ids: list[int]) -> None:
        for each in ids:
            entry = self.held.pop(each, None)
            if entry is not None and self.is_transactional:
                self.accepted[each] = entry

    def reject(self, ids: list[int]) -> None:
        for each in ids:
            self.held.pop(each, None)

    def release(self, ids: list[int], *, is_marked: bool) -> None:
        for each in ids:
            entry = self.held.pop(each, None) or self.accepted.pop(each, None)
            if entry is not None:
                entry.queue.put_back(entry, is_marked=is_marked)

    def commit(self) -> None:
        for queue, body in self.published:
            queue.publish(body)
        self.published, self.accepted = [], {}

    def roll_back(self) -> None:
        """What was accepted is held again."""
        self.held |= self.accepted
        self.published, self.accepted = [], {}

    def end(self) -> None:
        """What was not settled, or not committed, is where it was."""
        self.roll_back()
        self.subscriptions.clear()
        self.release(list(self.held), is_marked=True)

    # --- what the broker does

    def delivered(self, position: int, destination: str, body: bytes, is_redelivered: bool) -> None:
        """A message has come to a subscription, which must have credit for it; that it is the queue's is checked."""
        subscription = self.subscriptions[destination]
        assert subscription.room > 0, "sent without credit"
        (entry,) = [each for each in subscription.queue.ready if each.body == body]
        assert entry.is_redelivered == is_redelivered, f"{body!r} is marked as redelivered: {is_redelivered}"
        subscription.queue.ready.remove(entry)
        if subscription.accepts:
            self.held[position] = entry
        if subscription.credit is not None:
            subscription.credit -= 1
            if subscription.is_window:
                self.in_flight[position] = subscription, subscription.window


class Reference:
    """All queues and sessions."""

    def __init__(self, queues: tuple[str, ...], sessions: int) -> None:
        self.queues = {name: Queue(name) for name in queues}
        self.sessions = [Session() for _ in range(sessions)]

    def takers(self, queue: Queue) -> list[Subscription]:
        """The subscriptions that may be sent a message of a queue."""
        subscriptions = [each for session in self.sessions for each in session.subscriptions.values()]
        return [each for each in subscriptions if each.queue is queue and each.room]

    def due(self, queue: Queue) -> list[bytes]:
        """The messages that are to be sent now, in their order: the first, as far as there is credit for them."""
        room = sum(each.room for each in self.takers(queue))
        return [each.body for each in queue.ready[:room]]

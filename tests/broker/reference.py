"""What a broker is to do, as plainly as possible: random programs are compared with it.

Everything is a list, and is looked for from the front. Nothing here knows how `amqproxy.broker` does it. Who of several
consumers gets a message is the broker's to choose among those that may, so `Reference` is shown what was delivered.
"""

from __future__ import annotations

import pickle
import sys
from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any


class Refused(Exception):
    """The broker is to close the channel, or the connection, with this reply code."""

    def __init__(self, code: int, scope: str = "channel") -> None:
        super().__init__(f"{scope} {code}")
        self.code = code
        self.scope = scope


class Ambiguous(Exception):
    """What is asked has no one answer: two came to a queue at the same time, and the order is not defined."""


@dataclass(frozen=True)
class Message:
    """`deaths` are the entries of x-death: queue, reason and count of each, the newest first."""

    number: int
    exchange: str
    key: str
    priority: int = 0
    is_persistent: bool = False
    deaths: tuple[tuple[str, str, int], ...] = ()

    def died(self, queue: str, reason: str) -> tuple[tuple[str, str, int], ...]:
        """Its deaths with one more."""
        count = sum(n for q, r, n in self.deaths if (q, r) == (queue, reason))
        # RabbitMQ 3.10 reverses those before it: see tests/behaviours/test_dead_letters.py
        others = tuple(death for death in reversed(self.deaths) if death[:2] != (queue, reason))
        return ((queue, reason, count + 1), *others)


@dataclass
class Entry:
    """A message in a queue, at its place there."""

    message: Message
    place: int
    is_redelivered: bool = False


@dataclass(frozen=True)
class Delivery:
    """What came to a consumer, or as an answer to basic.get."""

    tag: int
    message: Message
    is_redelivered: bool


@dataclass(eq=False)
class Consumer:
    tag: str
    queue: Queue
    channel: Channel
    no_ack: bool
    exclusive: bool
    prefetch: int
    priority: int
    delivered: deque[Delivery]
    """What has come to it and is not accounted for."""

    @property
    def has_room(self) -> bool:
        if self.no_ack:
            return True
        settling = [held for _, settled in self.channel.settlements for held in settled]
        held = [held for held in self.channel.held + settling if held.consumer is not None]
        mine = [each for each in held if each.consumer is self]
        return (not self.prefetch or len(mine) < self.prefetch) and (
            not self.channel.global_prefetch or len(held) < self.channel.global_prefetch
        )


@dataclass
class Held:
    """What a channel was given and has not settled."""

    tag: int
    queue: Queue
    entry: Entry
    consumer: Consumer | None


@dataclass(eq=False)
class Queue:
    name: str
    owner: int | None
    auto_delete: bool
    durable: bool
    arguments: dict[str, Any]
    ready: list[Entry] = field(default_factory=list)
    consumers: list[Consumer] = field(default_factory=list)
    active: Consumer | None = None
    places: int = 0
    is_deleted: bool = False
    was_touched_by: set[object] = field(default_factory=set)

    @property
    def max_length(self) -> int | None:
        return self.arguments.get("x-max-length")

    @property
    def is_refusing(self) -> bool:
        return str(self.arguments.get("x-overflow", "drop-head")).startswith("reject")

    def put(self, entry: Entry) -> None:
        self.ready.append(entry)
        self.ready.sort(key=lambda each: (-self.level(each.message), each.place))

    def level(self, message: Message) -> int:
        return min(message.priority, self.arguments.get("x-max-priority", 0))

    def takers(self) -> list[Consumer]:
        """Those who may be given the next message."""
        if self.arguments.get("x-single-active-consumer"):
            return [self.active] if self.active is not None and self.active.has_room else []
        able = [each for each in self.consumers if each.has_room]
        return [each for each in able if each.priority == max(each.priority for each in able)]


@dataclass(eq=False)
class Exchange:
    name: str
    type: str
    auto_delete: bool = False
    internal: bool = False
    alternate: str | None = None
    durable: bool = False
    bindings: list[tuple[Queue | Exchange, str]] = field(default_factory=list)

    def matches(self, pattern: str, key: str) -> bool:
        if self.type == "fanout":
            return True
        if self.type == "direct":
            return pattern == key
        return topic_matches(pattern.split("."), key.split("."))


def topic_matches(pattern: list[str], words: list[str]) -> bool:
    if not pattern:
        return not words
    if pattern[0] == "#":
        return any(topic_matches(pattern[1:], words[start:]) for start in range(len(words) + 1))
    return bool(words) and pattern[0] in ("*", words[0]) and topic_matches(pattern[1:], words[1:])


@dataclass(eq=False)
class Channel:
    """`publishes` are what a transaction is to do; `settlements` too, which it does after them."""

    number: int
    connection: int
    held: list[Held] = field(default_factory=list)
    consumers: dict[str, Consumer] = field(default_factory=dict)
    prefetch: int = 0
    global_prefetch: int = 0
    is_transactional: bool = False
    is_confirming: bool = False
    published: int = 0
    publishes: list[tuple[Message, list[str], bool]] = field(default_factory=list)
    settlements: list[tuple[str, list[Held]]] = field(default_factory=list)


class Reference:
    """All there is. `expect_event` is called with what else is to come to a channel: `("return", number)`, `("cancel",
    tag)`, …

    Where channels `are_concurrent`, each does its part when it comes to it, and so does the client that closes them.
    """

    def __init__(
        self, channels: list[Channel], expect_event: Callable[..., None], *, are_concurrent: bool = False
    ) -> None:
        self.channels = channels
        self.expect_event = expect_event
        self.are_concurrent = are_concurrent
        self.served: set[int] = set()
        """Channels that were sent a message in this step."""
        self.queues: dict[str, Queue] = {}
        self.exchanges = {"": Exchange("", "direct", durable=True)}
        self.dead: deque[tuple[Queue, Message, str]] = deque()
        self.delivered: defaultdict[tuple[int, str], deque[Delivery]] = defaultdict(deque)
        """What has come to each channel's consumers."""
        self.is_rehearsal = False
        """Nothing has come: every message goes to the first who may have it."""

    def copy(self) -> Reference:
        """Another one, without a notice."""
        expect_event, self.expect_event = self.expect_event, _ignored
        copy: Reference = pickle.loads(pickle.dumps(self))  # several times faster than copy.deepcopy
        self.expect_event = expect_event
        return copy

    # --- a step begins, and ends

    def begin(self) -> None:
        self.served = set()
        for queue in self.queues.values():
            queue.was_touched_by = set()

    def touch(self, queue: Queue, who: object) -> None:
        queue.was_touched_by.add(who)
        if len(queue.was_touched_by) > 1:
            raise Ambiguous

    def end(self) -> None:
        """All was delivered that could be, and nothing else was."""
        for queue in self.queues.values():
            self.deliver(queue)
        left = {place: list(deliveries) for place, deliveries in self.delivered.items() if deliveries}
        assert not left, f"delivered, and should not be: {left}"
        for queue in self.queues.values():
            takers = [(each.channel.number, each.tag) for each in queue.takers()]
            assert not (queue.ready and takers), f"{queue.ready[0]} was not delivered to one of {takers}"

    # --- exchanges

    def declare_exchange(self, new: Exchange) -> None:
        there = self.exchanges.setdefault(new.name, new)
        if any(
            getattr(there, name) != getattr(new, name)
            for name in ("type", "auto_delete", "internal", "alternate", "durable")
        ):
            raise Refused(406)

    def delete_exchange(self, name: str, if_unused: bool) -> None:
        exchange = self.exchanges.get(name)
        if exchange is None:
            return
        if if_unused and exchange.bindings:
            raise Refused(406)
        self.remove_exchange(exchange)

    def remove_exchange(self, exchange: Exchange) -> None:
        del self.exchanges[exchange.name]
        self.unbind_all(exchange)

    def exchange(self, name: str) -> Exchange:
        if name not in self.exchanges:
            raise Refused(404)
        return self.exchanges[name]

    # --- bindings

    def destination(self, channel: Channel, kind: str, name: str) -> Queue | Exchange:
        return self.queue(channel, name) if kind == "queue" else self.exchange(name)

    def bind(self, channel: Channel, kind: str, name: str, source: str, key: str) -> None:
        exchange = self.exchange(source)
        binding = (self.destination(channel, kind, name), key)
        if binding not in exchange.bindings:
            exchange.bindings.append(binding)

    def unbind(self, channel: Channel, kind: str, name: str, source: str, key: str) -> None:
        places = self.queues if kind == "queue" else self.exchanges
        if source in self.exchanges and name in places:
            exchange = self.exchanges[source]
            binding = (places[name], key)
            if binding in exchange.bindings:
                exchange.bindings.remove((self.destination(channel, kind, name), key))
                self.remove_if_unused(exchange)

    def unbind_all(self, destination: Queue | Exchange) -> None:
        for exchange in list(self.exchanges.values()):
            left = [binding for binding in exchange.bindings if binding[0] is not destination]
            if left != exchange.bindings:
                exchange.bindings = left
                self.remove_if_unused(exchange)

    def remove_if_unused(self, exchange: Exchange) -> None:
        if exchange.auto_delete and not exchange.bindings and self.exchanges.get(exchange.name) is exchange:
            self.remove_exchange(exchange)

    def route(self, name: str, key: str) -> list[str]:
        """The names of the queues that a message goes to."""
        if not name:
            return [key] if key in self.queues else []
        found: list[str] = []
        waiting, seen = [name], {name}
        while waiting:
            exchange = self.exchanges[waiting.pop()]
            places = [place for place, pattern in exchange.bindings if exchange.matches(pattern, key)]
            found += [place.name for place in places if isinstance(place, Queue)]
            further = [place.name for place in places if isinstance(place, Exchange)]
            if not places and exchange.alternate in self.exchanges:
                further = [exchange.alternate]
            waiting += [each for each in further if each not in seen]
            seen.update(further)
        return list(dict.fromkeys(found))

    # --- queues

    def queue(self, channel: Channel, name: str) -> Queue:
        if name not in self.queues:
            raise Refused(404)
        queue = self.queues[name]
        if queue.owner not in (None, channel.connection):
            raise Refused(405)
        return queue

    def declare_queue(
        self, channel: Channel, name: str, exclusive: bool, auto_delete: bool, durable: bool, arguments: dict[str, Any]
    ) -> tuple[int, int]:
        """How many messages are ready, and how many consumers there are."""
        owner = channel.connection if exclusive else None
        queue = self.queues.get(name)
        if queue is None:
            queue = self.queues[name] = Queue(name, owner, auto_delete, durable, arguments)
        if queue.owner != owner:
            raise Refused(405)
        if (queue.auto_delete, queue.durable, queue.arguments) != (auto_delete, durable, arguments):
            raise Refused(406)
        return len(queue.ready), len(queue.consumers)

    def inspect(self, channel: Channel, name: str) -> tuple[int, int]:
        queue = self.queue(channel, name)
        return len(queue.ready), len(queue.consumers)

    def purge(self, channel: Channel, name: str) -> int:
        queue = self.queue(channel, name)
        count = len(queue.ready)
        queue.ready.clear()
        return count

    def delete_queue(self, channel: Channel, name: str, if_unused: bool, if_empty: bool) -> int:
        if name not in self.queues:
            return 0
        queue = self.queue(channel, name)
        if (if_unused and queue.consumers) or (if_empty and queue.ready):
            raise Refused(406)
        return self.remove_queue(queue)

    def remove_queue(self, queue: Queue) -> int:
        del self.queues[queue.name]
        queue.is_deleted = True
        self.unbind_all(queue)
        for consumer in queue.consumers:
            del consumer.channel.consumers[consumer.tag]
            self.expect_event(consumer.channel, "cancel", consumer.tag)
        return len(queue.ready)

    # --- publishing

    def publish(self, channel: Channel, message: Message, mandatory: bool) -> None:
        if self.exchange(message.exchange).internal:
            raise Refused(403)
        names = self.route(message.exchange, message.key)
        if channel.is_transactional:
            channel.publishes.append((message, names, mandatory))
        else:
            self.enqueue(channel, message, names, mandatory)

    def enqueue(self, channel: Channel, message: Message, names: list[str], mandatory: bool) -> None:
        queues = [self.queues[name] for name in names if name in self.queues]
        if not queues and mandatory:
            self.expect_event(channel, "return", message.number)
        taken = [self.put(queue, message, channel) for queue in queues]
        self.bury()
        channel.published += 1
        if channel.is_confirming:
            self.expect_event(channel, "ack" if all(taken) else "nack", channel.published)

    def put(self, queue: Queue, message: Message, who: object) -> bool:
        """Give a queue a message; False when it is full and does not take it."""
        self.touch(queue, who)
        if queue.is_refusing and queue.max_length is not None and len(queue.ready) >= queue.max_length:
            if queue.arguments["x-overflow"] == "reject-publish-dlx":
                self.dead.append((queue, message, "maxlen"))
            return False
        queue.places += 1
        queue.put(Entry(message, queue.places))
        self.deliver(queue)
        self.drop_surplus(queue)
        return True

    def drop_surplus(self, queue: Queue) -> None:
        if queue.max_length is not None and not queue.is_refusing:
            while len(queue.ready) > queue.max_length:
                self.dead.append((queue, queue.ready.pop(0).message, "maxlen"))

    def bury(self) -> None:
        """Let what queues have let go take its way, one after the other."""
        while self.dead:
            queue, message, reason = self.dead.popleft()
            exchange = queue.arguments.get("x-dead-letter-exchange")
            if exchange is None or exchange not in self.exchanges:
                continue
            key = queue.arguments.get("x-dead-letter-routing-key", message.key)
            deaths = message.died(queue.name, reason)
            message = replace(message, exchange=exchange, key=key, deaths=deaths)
            for name in self.route(exchange, key):
                if reason == "rejected" or not is_cycle(name, message.deaths):
                    self.put(self.queues[name], message, queue.name)

    # --- delivering

    def consume(self, channel: Channel, name: str, tag: str, no_ack: bool, exclusive: bool, priority: int) -> Consumer:
        if tag in channel.consumers:
            raise Refused(530, "connection")
        queue = self.queue(channel, name)
        is_single = queue.arguments.get("x-single-active-consumer")
        if any(each.exclusive for each in queue.consumers) or (exclusive and (queue.consumers or is_single)):
            raise Refused(403)
        delivered = self.delivered[channel.number, tag]
        consumer = Consumer(tag, queue, channel, no_ack, exclusive, channel.prefetch, priority, delivered)
        channel.consumers[tag] = consumer
        queue.consumers.append(consumer)
        queue.active = queue.active or consumer
        return consumer

    def deliver(self, queue: Queue) -> None:
        """Account for what the queue has delivered, as long as it was its first message, and to one who may have it."""
        while queue.ready:
            entry = queue.ready[0]
            takers = queue.takers()
            if self.is_rehearsal:
                for each in takers[:1]:
                    each.delivered.append(Delivery(sys.maxsize, entry.message, entry.is_redelivered))
            takers = [each for each in takers if each.delivered]
            takers = [each for each in takers if each.delivered[0].message.number == entry.message.number]
            # One of them may have had it back from another, whose channel was closed then.
            takers.sort(key=lambda each: each.delivered[0].is_redelivered != entry.is_redelivered)
            if not takers:
                return
            taker = takers[0]
            delivery = taker.delivered.popleft()
            self.served.add(taker.channel.number)
            queue.ready.pop(0)
            assert (delivery.message, delivery.is_redelivered) == (entry.message, entry.is_redelivered)
            if not taker.no_ack:
                taker.channel.held.append(Held(delivery.tag, queue, entry, taker))
                taker.channel.held.sort(key=lambda held: held.tag)

    def cancel(self, channel: Channel, tag: str) -> None:
        if tag in channel.consumers:
            self.end_consumer(channel.consumers.pop(tag))
            self.bury()

    def end_consumer(self, consumer: Consumer) -> None:
        queue = consumer.queue
        queue.consumers.remove(consumer)
        if queue.active is consumer:
            queue.active = max(queue.consumers, key=lambda each: each.priority, default=None)
        if queue.auto_delete and not queue.consumers:
            self.remove_queue(queue)

    def get(self, channel: Channel, name: str, no_ack: bool, tag: int) -> tuple[Entry, int] | None:
        """The message, and how many are left."""
        queue = self.queue(channel, name)
        if not queue.ready:
            return None
        entry = queue.ready.pop(0)
        if not no_ack:
            channel.held.append(Held(tag, queue, entry, None))
        return entry, len(queue.ready)

    # --- settling

    def settle(self, channel: Channel, tag: int, multiple: bool, outcome: str) -> None:
        """`outcome` is "ack", "requeue" or "reject"."""
        if tag not in [held.tag for held in channel.held] and not (multiple and tag == 0):
            raise Refused(406)
        settled = [held for held in channel.held if held.tag == tag or (multiple and (held.tag < tag or not tag))]
        channel.held = [held for held in channel.held if held not in settled]
        if channel.is_transactional:
            channel.settlements.append((outcome, settled))
        else:
            self.apply(channel, outcome, settled)

    def apply(self, channel: Channel, outcome: str, settled: list[Held]) -> None:
        for queue, entries in by_queue(settled):
            if queue.is_deleted:
                continue
            self.touch(queue, channel)
            if outcome == "requeue":
                self.put_back(queue, entries)
            elif outcome == "reject":
                self.dead.extend((queue, entry.message, "rejected") for entry in entries)
            self.deliver(queue)
        self.bury()

    def put_back(self, queue: Queue, entries: list[Entry]) -> None:
        for entry in entries:
            queue.put(Entry(entry.message, entry.place, is_redelivered=True))
        self.drop_surplus(queue)

    def recover(self, channel: Channel) -> None:
        held, channel.held = channel.held, []
        self.apply(channel, "requeue", held)

    # --- transactions

    def select_confirms(self, channel: Channel) -> None:
        if channel.is_transactional:
            raise Refused(406)
        if not channel.is_confirming:
            channel.is_confirming, channel.published = True, 0

    def select_transactions(self, channel: Channel) -> None:
        if channel.is_confirming:
            raise Refused(406)
        channel.is_transactional = True

    def commit(self, channel: Channel) -> None:
        if not channel.is_transactional:
            raise Refused(406)
        publishes, channel.publishes = channel.publishes, []
        settlements, channel.settlements = channel.settlements, []
        for message, names, mandatory in publishes:
            self.enqueue(channel, message, names, mandatory)
        for outcome, settled in settlements:
            self.apply(channel, outcome, settled)

    def roll_back(self, channel: Channel) -> None:
        if not channel.is_transactional:
            raise Refused(406)
        channel.publishes = []
        channel.held += [held for _, settled in channel.settlements for held in settled]
        channel.held.sort(key=lambda held: held.tag)
        channel.settlements = []

    # --- the end of a channel, and of a connection

    def close_channel(self, channel: Channel) -> None:
        held = channel.held + [held for _, settled in channel.settlements for held in settled]
        held.sort(key=lambda held: held.tag)
        consumers = list(channel.consumers.values())
        vars(channel).update(vars(Channel(channel.number, channel.connection)))
        for consumer in consumers:
            self.end_consumer(consumer)
        self.apply(channel, "requeue", held)

    def refuse(self, channel: Channel, scope: str) -> None:
        """Close what was misused."""
        mine = [each for each in self.channels if each.connection == channel.connection]
        closed = [channel] if scope == "channel" else mine
        if self.are_concurrent and not self.served.isdisjoint(each.number for each in closed):
            raise Ambiguous  # what was on its way may have come, or not
        if scope == "channel":
            self.close_channel(channel)
        else:
            self.close_connection(channel.connection)

    def close_connection(self, connection: int) -> None:
        mine = [channel for channel in self.channels if channel.connection == connection]
        if self.are_concurrent:
            given_back = [(held.queue, channel) for channel in mine for held in channel.held]
            takers = [(each.queue, channel) for channel in mine for each in channel.consumers.values()]
            if any(queue is its and channel is not other for queue, channel in given_back for its, other in takers):
                raise Ambiguous  # what one gives back may be given to the other, before that ends too
        for channel in mine:
            self.close_channel(channel)
        for queue in list(self.queues.values()):
            if queue.owner == connection:
                self.remove_queue(queue)

    # --- the end of the broker, and its second life

    def restart(self) -> None:
        """What is durable is there again, with what was persistent in it; whatever was handed out is redelivered."""
        for channel in self.channels:
            settling = [held for _, settled in channel.settlements for held in settled]
            for held in channel.held + settling:
                held.queue.put(replace(held.entry, is_redelivered=True))
            vars(channel).update(vars(Channel(channel.number, channel.connection)))
        self.queues = {queue.name: queue for queue in self.queues.values() if queue.durable and queue.owner is None}
        self.exchanges = {exchange.name: exchange for exchange in self.exchanges.values() if exchange.durable}
        left = [*self.queues.values(), *self.exchanges.values()]
        for exchange in self.exchanges.values():
            exchange.bindings = [binding for binding in exchange.bindings if any(binding[0] is each for each in left)]
        for queue in self.queues.values():
            queue.ready = [entry for entry in queue.ready if entry.message.is_persistent]
            queue.consumers, queue.active = [], None
        for _, queue in sorted(self.queues.items()):
            self.drop_surplus(queue)
            self.bury()


def _ignored(channel: Channel, what: str, *details: Any) -> None:
    """No notice."""


def by_queue(settled: list[Held]) -> Iterator[tuple[Queue, list[Entry]]]:
    queues = list({id(held.queue): held.queue for held in settled}.values())
    for queue in queues:
        yield queue, [held.entry for held in settled if held.queue is queue]


def is_cycle(name: str, deaths: tuple[tuple[str, str, int], ...]) -> bool:
    """Was the message let go by that queue before, and has no consumer rejected it since?"""
    for queue, reason, _ in deaths:
        if reason == "rejected":
            return False
        if queue == name:
            return True
    return False

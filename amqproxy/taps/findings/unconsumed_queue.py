"""Queues that receive messages, and have no consumer."""

from __future__ import annotations

from collections.abc import Iterable

from amqproxy.amqp091.methods import (
    BasicConsume,
    BasicGet,
    QueueBind,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueuePurge,
    QueueUnbind,
)
from amqproxy.peer import SERVER
from amqproxy.taps.findings.detector import on
from amqproxy.taps.findings.finding import RecordNumber, Severity
from amqproxy.taps.findings.process_detector import ConnectionPlace, ProcessDetector, Sighting
from amqproxy.taps.findings.refusable_publishes import ChannelKey, QueueKey, RefusablePublish, RefusablePublishes
from amqproxy.taps.trace.amqp091.declarations import declarations
from amqproxy.taps.trace.equivalents import equivalent
from amqproxy.taps.trace.events import (
    ChannelClosed,
    ConnectionClosed,
    ConnectionOpened,
    HistoryLost,
    MessagePublished,
    MessageReturned,
    PublishesSettled,
    RequestAnswered,
    RequestSent,
    Settlement,
    StateRestored,
)
from amqproxy.taps.trace.open_tags import Span

QUIET_NS = 60_000_000_000
"""Time in nanoseconds after its first message within which a queue should be consumed."""

MAX_QUEUES = 10_000
"""Limit on the remembered queues, those declared last."""

MAX_BINDINGS = 10_000
"""Limit on the remembered bindings to these queues."""

MAX_CONNECTIONS = 20_000
"""Limit on the connections whose virtual host is remembered."""

MAX_CHANNELS = 20_000
"""Limit on the channels whose last declared queue is remembered, which an empty name stands for."""

BOUNDED = ("x-message-ttl", "x-expires", "x-max-length", "x-max-length-bytes")
"""Arguments that keep a queue from growing without bound, such as a delay queue in which messages only wait."""

REFUSED = (Settlement.NACKED, Settlement.ROLLED_BACK)
"""Outcomes of publishes that reached no queue."""

PUBLISHES = ("basic.publish", "message.transfer", None)
"""Methods named by a close that refuses a publish; not every broker names one."""

BindingKey = tuple[str, str, str]
"""A virtual host, an exchange and a routing key."""


class ObservedQueue:
    """A declared queue: its connection and channel, and the number of messages it has received while unconsumed."""

    __slots__ = ("bindings", "channel", "connection", "declared", "first_ts_ns", "is_consumed", "messages", "published")

    def __init__(self, connection: ConnectionPlace, channel: int, declared: RecordNumber | None) -> None:
        self.connection = connection
        self.channel = channel
        self.declared = declared
        self.bindings: set[BindingKey] = set()
        self.published: RecordNumber | None = None
        self.first_ts_ns = 0
        self.messages = 0
        self.is_consumed = False


class UnconsumedQueue(ProcessDetector):
    """A queue is declared and gets messages, and nothing that is observed consumes it.

    While connections are open whose consumers are not all known, from their beginning or a snapshot, any queue may be
    consumed by these. Messages that expire do not count, nor those that the broker has refused.
    """

    kind = "unconsumed-queue"
    severity = Severity.WARNING
    why = "Its messages stay for ever: the broker's memory and disk fill, until it blocks all publishers."
    remedy = "Start its consumer, or delete the queue and its bindings; limit the queue by a length or a TTL."

    def __init__(self) -> None:
        self._queues: dict[QueueKey, ObservedQueue] = {}
        self._waiting: dict[QueueKey, ObservedQueue] = {}  # ordered by their first messages
        self._bindings: dict[BindingKey, set[str]] = {}
        self._consumed: dict[QueueKey, None] = {}
        """Queues that were consumed, and whose declaration was not seen."""
        self._has_forgotten = False
        """Whether a queue that was consumed may be missing."""
        self._vhosts: dict[int, str] = {}
        self._last: dict[int, dict[int, str]] = {}
        """Queues that each connection's channels have declared last."""
        self._last_count = 0
        self._unknown: set[int] = set()
        self._refusable = RefusablePublishes()

    # --- connections

    @on(ConnectionOpened)
    def _on_opened(self, connection: ConnectionPlace, event: ConnectionOpened, record: RecordNumber | None) -> None:
        if len(self._vhosts) < MAX_CONNECTIONS and event.virtual_host is not None:
            self._vhosts[connection.stream] = event.virtual_host

    @on(HistoryLost)
    def _on_lost(self, connection: ConnectionPlace, event: HistoryLost, record: RecordNumber | None) -> None:
        self._unknown.add(connection.stream)
        self._forget_last(connection.stream)
        for queue in self._waiting.values():  # what was missed may have taken the messages
            queue.messages = 0
        self._waiting.clear()

    @on(StateRestored)
    def _on_restored(self, connection: ConnectionPlace, event: StateRestored, record: RecordNumber | None) -> None:
        stream, vhost, snapshot = connection.stream, event.virtual_host, event.snapshot
        self._unknown.add(stream)
        if snapshot is None or vhost is None or len(self._vhosts) >= MAX_CONNECTIONS:
            return
        self._vhosts[stream] = vhost
        self._forget_last(stream)
        knows_consumers = True
        for channel in snapshot.channels:
            knows_consumers = knows_consumers and channel.knows_consumers
            if channel.last_queue:
                self._set_last(stream, channel.number, channel.last_queue)
            for consumer in channel.consumers:
                if consumer.queue:
                    self._consume(vhost, consumer.queue)
                else:
                    knows_consumers = False
        bindings: list[QueueBind] = []
        for _, request in declarations(snapshot):
            match request:
                case QueueDeclare() if not self._has_forgotten:  # else its consumer may be among those
                    self._observe(connection, 0, vhost, request.queue, request, None)
                case QueueBind():
                    bindings.append(request)
        for request in bindings:
            self._bind((vhost, request.queue), (vhost, request.exchange, request.routing_key))
        if knows_consumers:
            self._unknown.discard(stream)

    @on(ConnectionClosed)
    def _on_closed(self, connection: ConnectionPlace, event: ConnectionClosed, record: RecordNumber | None) -> None:
        for channel in self._refusable.channels_of(connection.stream):
            self._end_channel(channel, event)
        self._forget_last(connection.stream)
        self._vhosts.pop(connection.stream, None)
        self._unknown.discard(connection.stream)

    # --- requests

    @on(RequestAnswered, RequestSent)
    def _on_request(
        self, connection: ConnectionPlace, event: RequestAnswered | RequestSent, record: RecordNumber | None
    ) -> list[Sighting]:
        request = equivalent(event.request)
        if request is None:
            return []
        vhost = self._vhosts.get(connection.stream)
        name: str = getattr(request, "queue", "") or self._last.get(connection.stream, {}).get(event.channel, "")
        match request:
            case BasicConsume() | BasicGet():
                self._consume(vhost, name)
            case QueueDeclare():
                self._declare(connection, vhost, request, event, record)
            case QueueBind():
                self._bind((vhost or "", name), (vhost or "", request.exchange, request.routing_key))
            case QueueUnbind():
                self._unbind((vhost or "", name), (vhost or "", request.exchange, request.routing_key))
            case QueueDelete():
                self._forget((vhost or "", name))
            case QueuePurge():
                found = self._waiting.pop((vhost or "", name), None)
                if found is not None:
                    found.messages = 0
            case _:
                return []
        return self.look(event.ts_ns)

    def _declare(
        self,
        connection: ConnectionPlace,
        vhost: str | None,
        request: QueueDeclare,
        event: RequestAnswered | RequestSent,
        record: RecordNumber | None,
    ) -> None:
        reply = event.reply if isinstance(event, RequestAnswered) else None
        name = reply.queue if isinstance(reply, QueueDeclareOk) else request.queue
        self._set_last(connection.stream, event.channel, name)
        found = None if vhost is None else self._observe(connection, event.channel, vhost, name, request, record)
        if vhost is not None and found is not None and isinstance(reply, QueueDeclareOk):
            if reply.consumer_count:
                self._mark_consumed((vhost, name), found)
            elif reply.message_count and not found.messages:
                self._add_message((vhost, name), found, event.ts_ns, record, reply.message_count)

    def _observe(
        self,
        connection: ConnectionPlace,
        channel: int,
        vhost: str,
        name: str,
        request: QueueDeclare,
        record: RecordNumber | None,
    ) -> ObservedQueue | None:
        """Return a declared queue; `None` if it may be without a consumer."""
        found = self._queues.get((vhost, name))
        if found is None and name and not (request.passive or request.exclusive or _is_bounded(request)):
            if len(self._queues) >= MAX_QUEUES:
                oldest = next(iter(self._queues))
                self._has_forgotten = self._has_forgotten or self._queues[oldest].is_consumed
                self._forget(oldest)
            found = self._queues[vhost, name] = ObservedQueue(connection, channel, record)
            found.is_consumed = (vhost, name) in self._consumed
            self._consumed.pop((vhost, name), None)
        return found

    def _set_last(self, stream: int, channel: int, name: str) -> None:
        """Remember the queue that a channel has declared last, "" if its name is unknown."""
        channels = self._last.setdefault(stream, {})
        if channel not in channels:
            if self._last_count >= MAX_CHANNELS:
                return
            self._last_count += 1
        channels[channel] = name

    def _forget_last(self, stream: int) -> None:
        self._last_count -= len(self._last.pop(stream, ()))

    def _consume(self, vhost: str | None, name: str) -> None:
        if vhost is not None and name:
            found = self._queues.get((vhost, name))
            if found is not None:
                self._mark_consumed((vhost, name), found)
                return
            if len(self._consumed) >= MAX_QUEUES:
                self._consumed.pop(next(iter(self._consumed)))
                self._has_forgotten = True
            self._consumed[vhost, name] = None
            return
        for key, each in self._queues.items():  # any queue, in this virtual host or in any
            if key[1] == (name or key[1]) and key[0] == (vhost or key[0]):
                self._mark_consumed(key, each)

    def _mark_consumed(self, key: QueueKey, queue: ObservedQueue) -> None:
        queue.is_consumed = True
        self._waiting.pop(key, None)

    def _forget(self, key: QueueKey) -> None:
        queue = self._queues.pop(key, None)
        self._waiting.pop(key, None)
        self._consumed.pop(key, None)
        for place in queue.bindings if queue is not None else ():
            self._remove_binding(key[1], place)

    def _bind(self, key: QueueKey, place: BindingKey) -> None:
        queue = self._queues.get(key)
        if queue is not None and (place in self._bindings or len(self._bindings) < MAX_BINDINGS):
            self._bindings.setdefault(place, set()).add(key[1])
            queue.bindings.add(place)

    def _unbind(self, key: QueueKey, place: BindingKey) -> None:
        queue = self._queues.get(key)
        if queue is not None and place in queue.bindings:
            queue.bindings.remove(place)
            self._remove_binding(key[1], place)

    def _remove_binding(self, queue: str, place: BindingKey) -> None:
        bound = self._bindings[place]
        bound.discard(queue)
        if not bound:
            del self._bindings[place]

    # --- messages

    @on(MessagePublished)
    def _on_published(
        self, connection: ConnectionPlace, event: MessagePublished, record: RecordNumber | None
    ) -> list[Sighting] | None:
        vhost = self._vhosts.get(connection.stream)
        if vhost is None:
            return None
        method = event.method
        names: Iterable[str] = (method.routing_key,)
        if method.exchange:
            names = self._bindings.get((vhost, method.exchange, method.routing_key), ())
        counting: list[QueueKey] = []
        for name in names if event.properties.expiration is None else ():
            found = self._queues.get((vhost, name))
            if found is not None and not found.is_consumed:
                self._add_message((vhost, name), found, event.ts_ns, record)
                counting.append((vhost, name))
        if counting:
            publish = RefusablePublish(event.ts_ns, counting, bool(event.awaits))
            self._refusable.add((connection.stream, event.channel), event.number, publish)
        return self.look(event.ts_ns) if self._waiting else None

    def _add_message(
        self, key: QueueKey, queue: ObservedQueue, ts_ns: int, record: RecordNumber | None, count: int = 1
    ) -> None:
        if queue.is_consumed:
            return
        if not queue.messages:
            queue.first_ts_ns = ts_ns
            self._waiting[key] = queue
        queue.messages += count
        queue.published = record

    @on(PublishesSettled)
    def _on_settled(self, connection: ConnectionPlace, event: PublishesSettled, record: RecordNumber | None) -> None:
        queues = self._refusable.settle((connection.stream, event.channel), event.spans)
        if event.outcome in REFUSED:
            self._take_back(queues)

    @on(MessageReturned)
    def _on_returned(self, connection: ConnectionPlace, event: MessageReturned, record: RecordNumber | None) -> None:
        if event.number is not None:
            span = Span(event.number, event.number, event.ts_ns)
            self._take_back(self._refusable.settle((connection.stream, event.channel), (span,)))

    @on(ChannelClosed)
    def _on_channel_closed(
        self, connection: ConnectionPlace, event: ChannelClosed, record: RecordNumber | None
    ) -> None:
        self._end_channel((connection.stream, event.channel), event)
        if self._last.get(connection.stream, {}).pop(event.channel, None) is not None:
            self._last_count -= 1

    def _end_channel(self, channel: ChannelKey, event: ChannelClosed | ConnectionClosed) -> None:
        if event.by is SERVER and event.code not in (0, 200) and event.method in PUBLISHES:
            self._take_back(self._refusable.refuse(channel, event.ts_ns))
        else:
            self._refusable.forget(channel)

    def _take_back(self, queues: Iterable[QueueKey]) -> None:
        """Uncount messages of these queues, since the broker refused them."""
        for key in queues:
            queue = self._queues.get(key)
            if queue is not None and queue.messages:
                queue.messages -= 1
                if not queue.messages:
                    self._waiting.pop(key, None)

    def look(self, now_ns: int) -> list[Sighting]:
        """Report the queues whose first message came at least a minute ago."""
        sightings: list[Sighting] = []
        while self._waiting:
            key, queue = next(iter(self._waiting.items()))
            if now_ns - queue.first_ts_ns < QUIET_NS:
                break
            del self._waiting[key]
            if self._unknown:
                queue.messages = 0  # its next message begins another minute
                continue
            queue.is_consumed = True  # reported once
            text = f"queue {key[1]} has got {queue.messages} messages, and nothing has consumed it for a minute"
            evidence = tuple(each for each in (queue.declared, queue.published) if each is not None)
            sightings.append(Sighting(queue.connection, queue.channel, text, evidence))
        return sightings


def _is_bounded(declare: QueueDeclare) -> bool:
    """Whether the queue drops messages by itself, or is a stream, which is read but not consumed."""
    arguments = declare.arguments
    return any(name in arguments for name in BOUNDED) or arguments.get("x-queue-type") == "stream"

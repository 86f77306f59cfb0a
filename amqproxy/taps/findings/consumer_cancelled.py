"""Consumers that the broker has cancelled, and the causes."""

from __future__ import annotations

from collections import deque

import msgspec

from amqproxy.amqp091.methods import BasicCancel, BasicConsume, BasicConsumeOk, QueueDelete
from amqproxy.peer import SERVER
from amqproxy.taps.findings.detector import on
from amqproxy.taps.findings.finding import RecordNumber, Severity, is_reported
from amqproxy.taps.findings.process_detector import ConnectionPlace, ProcessDetector, Sighting
from amqproxy.taps.trace.equivalents import equivalent
from amqproxy.taps.trace.events import (
    ChannelClosed,
    ConnectionClosed,
    ConnectionOpened,
    HistoryLost,
    RequestAnswered,
    RequestSent,
)

MAX_CONNECTIONS = 20_000
"""Limit on the connections whose consumers are remembered."""

MAX_CONSUMERS = 10_000
"""Limit on the remembered consumers of all connections."""

MAX_DELETIONS = 1000
"""Limit on the remembered deletions of queues, the newest."""

MAX_HELD = 1000
"""Limit on the cancellations whose cause may still be seen."""

WITHIN_NS = 1_000_000_000
"""Longest time in nanoseconds between a cancellation and its queue.delete."""

RESOURCE_DELETED = 408
"""Code with which a broker without basic.cancel ends the session of a consumer whose queue was deleted."""

Place = tuple[int, str]
"""A channel, and the tag of a consumer on it."""

QueueKey = tuple[str, str]
"""A virtual host, and the name of a queue in it."""


class ConsumerClient(msgspec.Struct):
    """A connection, the queues of its consumers, and whether the broker notifies it of their cancellation, or can.

    `cancelled` counts the consumers that the broker has cancelled.
    """

    connection: ConnectionPlace
    vhost: str
    is_told: bool
    can_be_told: bool = True
    consumers: dict[Place, QueueKey] = msgspec.field(default_factory=dict)
    cancelled: int = 0


class Deletion(msgspec.Struct, frozen=True):
    """A queue.delete, with its time and its connection."""

    ts_ns: int
    connection: ConnectionPlace
    record: RecordNumber | None


class Cancellation(msgspec.Struct, frozen=True):
    """A basic.cancel of the broker whose cause was not seen."""

    ts_ns: int
    connection: ConnectionPlace
    channel: int
    tag: str
    queue: QueueKey
    record: RecordNumber | None


class ConsumerCancelled(ProcessDetector):
    """The broker has ended a consumer, and the client did not ask for it.

    A client that deletes the queue itself knows.
    """

    kind = "consumer-cancelled"
    severity = Severity.WARNING
    why = "The consumer gets no more messages: a client that does not handle this waits forever, and looks healthy."
    remedy = (
        "Handle basic.cancel (announce the capability consumer_cancel_notify, set the library's callback): declare and "
        "consume again, or stop; without basic.cancel, the session may end with resource-deleted. Delete only queues "
        "that nothing consumes (if_unused)."
    )

    def __init__(self) -> None:
        self._clients: dict[int, ConsumerClient] = {}
        self._consumers = 0
        self._untold: dict[QueueKey, set[tuple[int, Place]]] = {}
        """Consumers of each queue whose client is not notified of their end, with their connections' numbers."""
        self._deletions: dict[QueueKey, Deletion] = {}
        self._held: deque[Cancellation] = deque()

    # --- connections

    @on(ConnectionOpened)
    def _on_opened(self, connection: ConnectionPlace, event: ConnectionOpened, record: RecordNumber | None) -> None:
        if len(self._clients) < MAX_CONNECTIONS and event.virtual_host is not None:
            capabilities = (event.client_properties or {}).get("capabilities")
            is_told = isinstance(capabilities, dict) and capabilities.get("consumer_cancel_notify") is True
            self._clients[connection.stream] = ConsumerClient(connection, event.virtual_host, is_told)

    @on(ConnectionClosed)
    def _on_closed(
        self, connection: ConnectionPlace, event: ConnectionClosed, record: RecordNumber | None
    ) -> list[Sighting]:
        found: list[Sighting] = []
        if self._held:
            mine = [each for each in self._held if each.connection.stream == connection.stream]
            self._held = deque(each for each in self._held if each.connection.stream != connection.stream)
            found = [sighting for each in mine for sighting in self._cancelled(each, None)]
        client = self._clients.pop(connection.stream, None)
        if client is not None:
            for place in list(client.consumers):
                self._end(client, place)
        return found + self.look(event.ts_ns)

    @on(ChannelClosed)
    def _on_channel(
        self, connection: ConnectionPlace, event: ChannelClosed, record: RecordNumber | None
    ) -> list[Sighting]:
        client = self._clients.get(connection.stream)
        if client is None:
            return []
        ended: list[tuple[Place, QueueKey]] = []
        for place in [each for each in client.consumers if each[0] == event.channel]:
            if queue := self._end(client, place):
                ended.append((place, queue))
        if event.by is not SERVER or event.code != RESOURCE_DELETED:
            return []
        # Qpid does not cancel subscriptions: it may end the session, or say nothing, as Broker-J does.
        named = [each for each in ended if f"'{each[1][1]}'" in event.text]
        known = [each for each in ended if each[1] in self._deletions]
        return [
            sighting
            for place, queue in named or known or (ended if len(ended) == 1 else ())
            for sighting in self._cancel(Cancellation(event.ts_ns, connection, *place, queue, record))
        ]

    @on(HistoryLost)
    def _on_lost(self, connection: ConnectionPlace, event: HistoryLost, record: RecordNumber | None) -> None:
        client = self._clients.get(connection.stream)
        if client is not None:
            for place in list(client.consumers):
                self._end(client, place)  # it may have been cancelled unseen

    # --- consumers and queues

    @on(RequestAnswered, RequestSent)
    def _on_request(
        self, connection: ConnectionPlace, event: RequestAnswered | RequestSent, record: RecordNumber | None
    ) -> list[Sighting]:
        client = self._clients.get(connection.stream)
        if client is None:
            return []
        request = equivalent(event.request)
        found: list[Sighting] = []
        match request:
            case BasicConsume() if request.queue:
                client.can_be_told = isinstance(event.request, BasicConsume)
                reply = event.reply if isinstance(event, RequestAnswered) else None
                tag = reply.consumer_tag if isinstance(reply, BasicConsumeOk) else request.consumer_tag
                self._begin(client, (event.channel, tag), (client.vhost, request.queue))
            case BasicCancel():
                place = (event.channel, request.consumer_tag)
                queue = self._end(client, place) or (client.vhost, "")
                if event.sender is SERVER:
                    found = self._cancel(Cancellation(event.ts_ns, connection, *place, queue, record))
            case QueueDelete() if request.queue:
                found = self._delete((client.vhost, request.queue), Deletion(event.ts_ns, connection, record))
            case _:
                return []
        return found + self.look(event.ts_ns)

    def _begin(self, client: ConsumerClient, place: Place, queue: QueueKey) -> None:
        self._end(client, place)
        if self._consumers < MAX_CONSUMERS:
            self._consumers += 1
            client.consumers[place] = queue
            if not client.is_told:
                self._untold.setdefault(queue, set()).add((client.connection.stream, place))

    def _end(self, client: ConsumerClient, place: Place) -> QueueKey | None:
        """Forget a consumer, and return its queue; `None` if it is unknown."""
        queue = client.consumers.pop(place, None)
        if queue is None:
            return None
        self._consumers -= 1
        untold = self._untold.get(queue, set())
        untold.discard((client.connection.stream, place))
        if not untold:
            self._untold.pop(queue, None)
        return queue

    def _cancel(self, cancelled: Cancellation) -> list[Sighting]:
        deletion = self._deletions.get(cancelled.queue)
        if deletion is not None and cancelled.ts_ns - deletion.ts_ns <= WITHIN_NS:
            return self._cancelled(cancelled, deletion)
        self._held.append(cancelled)
        return self._cancelled(self._held.popleft(), None) if len(self._held) > MAX_HELD else []

    def _delete(self, queue: QueueKey, deletion: Deletion) -> list[Sighting]:
        """Report the consumers that a deletion ends: those cancelled before, and those whose client is not told."""
        self._deletions.pop(queue, None)
        self._deletions[queue] = deletion
        if len(self._deletions) > MAX_DELETIONS:
            del self._deletions[next(iter(self._deletions))]
        caused = [each for each in self._held if each.queue == queue]
        self._held = deque(each for each in self._held if each.queue != queue)
        found = [sighting for each in caused for sighting in self._cancelled(each, deletion)]
        for stream, place in sorted(self._untold.get(queue, ())):
            client = self._clients[stream]
            self._end(client, place)
            found += self._cancelled(Cancellation(deletion.ts_ns, client.connection, *place, queue, None), deletion)
        return found

    # --- findings

    def look(self, now_ns: int) -> list[Sighting]:
        """Report the cancellations whose cause was not seen in time."""
        found: list[Sighting] = []
        while self._held and now_ns - self._held[0].ts_ns > WITHIN_NS:
            found += self._cancelled(self._held.popleft(), None)
        return found

    def _cancelled(self, cancelled: Cancellation, deletion: Deletion | None) -> list[Sighting]:
        connection = cancelled.connection
        client = self._clients.get(connection.stream)
        if deletion is not None and deletion.connection.stream == connection.stream:
            return []
        times = 1
        if client is not None:
            times = client.cancelled = client.cancelled + 1
            if not is_reported(times):
                return []
        queue = f" of queue {cancelled.queue[1]}" if cancelled.queue[1] else ""
        if deletion is None:
            cause = "no queue.delete was seen: it was deleted elsewhere, has expired, or its node went down"
        else:
            cause = f"{deletion.connection.name} has deleted it"
        if client is not None and not client.is_told and client.can_be_told:
            cause += "; the client is not told, since it lacks the capability consumer_cancel_notify"
        records = (deletion.record if deletion else None, cancelled.record)
        evidence = tuple(each for each in records if each is not None)
        text = f"the broker ended consumer {cancelled.tag}{queue}: {cause}"
        return [Sighting(connection, cancelled.channel, text, evidence, times, cancelled.ts_ns)]

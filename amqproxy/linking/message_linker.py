"""The lives of messages across connections, from the events of all connections of a source."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeAlias, TypeVar

from amqproxy.linking.alike_messages import AlikeMessages, Found
from amqproxy.linking.dead_letters import DeadLetter, dead_letter, returns_to_queue
from amqproxy.linking.forgotten_keys import ForgottenKeys
from amqproxy.linking.linked_connection import NOT_KNOWN, LinkedConnection
from amqproxy.linking.message_key import MessageKey, message_key
from amqproxy.linking.message_life import DELIVERY_COST, LIFE_COST, Delivery, Group, MessageLife, Place, Publish
from amqproxy.linking.requests_and_replies import RequestsAndReplies
from amqproxy.linking.taking_part import NOT_FORWARDED, NOT_TAKEN, RETURNED, is_in_transaction
from amqproxy.peer import CLIENT
from amqproxy.taps.note import NOTHING, Note
from amqproxy.taps.trace.events import (
    ChannelClosed,
    ConnectionClosed,
    ConnectionOpened,
    DeliveriesSettled,
    HistoryLost,
    MessageDelivered,
    MessagePublished,
    MessageReturned,
    PublishesSettled,
    Settlement,
    StateRestored,
    TraceEvent,
    encoded_headers,
)

MAX_CUT = 16_384
"""Maximum number of connections and channels that are remembered to have been cut."""

T = TypeVar("T")

MAX_CONNECTIONS = 20_000
"""Maximum number of connections whose facts are kept; beyond it the first opened is forgotten."""

OnLife: TypeAlias = Callable[[MessageLife], None]
OnDelivery: TypeAlias = Callable[[MessageLife, Delivery], None]


class MessageLinker:
    """Links publishes and deliveries, in at most `memory` bytes: beyond it the oldest settled lives are forgotten.

    `on_delivered` is called with each delivery, `on_settled` when its outcome is known, `on_forgotten` with each life
    that is forgotten, `on_changed` with each that a publish, a delivery or an outcome was added to. Events of one
    connection have to come in their order.
    """

    def __init__(
        self,
        memory: int,
        *,
        on_delivered: OnDelivery | None = None,
        on_settled: OnDelivery | None = None,
        on_forgotten: OnLife | None = None,
        on_changed: OnLife | None = None,
    ) -> None:
        self._memory = memory
        self._show_delivered = on_delivered
        self._show_settled = on_settled
        self._show_forgotten = on_forgotten
        self._show_changed = on_changed
        self.lives: dict[int, MessageLife] = {}
        """Remembered lives by number, the oldest first."""
        self.is_whole = True
        """Whether the beginning of all connections was seen, and nothing was lost."""
        self.forgotten = self.forgotten_open = 0
        """Number of lives that were forgotten, and of those that were not settled."""
        self.size = 0
        """Approximate memory of the lives, in bytes."""
        self._next = 1
        self.connections: dict[int, LinkedConnection] = {}
        """The last connections that were opened, by number."""
        self._alike: dict[int, AlikeMessages] = {}
        self._unpublished: dict[int, MessageLife] = {}
        self._published: dict[Place, dict[int, MessageLife]] = {}
        self._delivered: dict[Place, dict[int, Delivery]] = {}
        self._settled: deque[int] = deque()
        self._cut: dict[int | Place, None] = {}
        self._cut_until = 0
        self._keys = ForgottenKeys()
        self._requests = RequestsAndReplies()

    def take(self, stream: int, events: Iterable[TraceEvent], note: Note = NOTHING) -> None:
        """Take events of the connection numbered `stream`; `note` is the effect of rules on their command."""
        for event in events:
            handler = _HANDLERS.get(type(event))
            if handler is not None:
                handler(self, stream, event, note)
        if self.size > self._memory:
            self._make_room()

    def with_id(self, message_id: str) -> Iterator[MessageLife]:
        """Yield the remembered lives of messages with this message_id."""
        for life in self.lives.values():
            if life.message_id == message_id:
                yield life

    def at(self, stream: int, channel: int, number: int, ts_ns: int, *, is_delivery: bool) -> MessageLife | None:
        """Return the life with this publish, by its number, or this delivery, by its tag."""
        for life in reversed(self.lives.values()):
            if is_delivery:
                if any(_is_at(each, each.tag, stream, channel, number, ts_ns) for each in life.deliveries):
                    return life
            elif life.publish is not None and _is_at(life.publish, life.publish.number, stream, channel, number, ts_ns):
                return life
        return None

    # --- publishes

    def _on_published(self, stream: int, event: MessagePublished, note: Note) -> None:
        host = self.connections.get(stream, NOT_KNOWN).virtual_host
        method, properties = event.method, event.properties
        place = Place(stream, event.channel, event.epoch)
        publish = Publish(
            event.ts_ns,
            place,
            event.number,
            host,
            method.exchange,
            method.routing_key,
            event.size,
            properties.message_id,
            properties.correlation_id,
            properties.reply_to,
            is_uncommitted=is_in_transaction(event),
        )
        key = message_key(event, host)
        life = self._new(key, publish)
        if note.verdict in NOT_FORWARDED:
            publish.outcome, publish.takes_part = note.verdict, False
            self._note_settled(life)
            return
        if event.awaits is not False or method.mandatory:
            self._published.setdefault(place, {})[event.number] = life
        if event.awaits is not True:
            publish.outcome = "sent" if event.awaits is False else "unknown"
        if key is not None:
            alike = self._alike.get(key.number)
            if alike is None:
                alike = self._alike[key.number] = AlikeMessages(is_cut=key.number in self._keys)
            alike.add(life)
        if properties.correlation_id or properties.reply_to:
            self._requests.link(life)
        if self._show_changed is not None:
            self._show_changed(life)

    def _on_returned(self, stream: int, event: MessageReturned, note: Note) -> None:
        place = Place(stream, event.channel, event.epoch)
        life = self._published.get(place, {}).get(event.number or 0)
        if life is not None and life.publish is not None:
            life.publish.is_returned = True
            if life.publish.outcome == "sent":
                life.publish.outcome = RETURNED
                _remove(self._published, place, life.publish.number)
            self._exclude(life)

    def _on_publishes_settled(self, stream: int, event: PublishesSettled, note: Note) -> None:
        place = Place(stream, event.channel, event.epoch)
        published = self._published.get(place)
        if published is None:
            return
        for span in event.spans:
            for number in span.among(published):
                life = published.pop(number, None)
                publish = None if life is None else life.publish
                if life is None or publish is None:
                    continue
                publish.outcome, publish.settled_ns = str(event.outcome), event.ts_ns
                if event.outcome in NOT_TAKEN:
                    self._exclude(life)
                elif publish.is_uncommitted and event.outcome == Settlement.COMMITTED:
                    publish.is_uncommitted = False
                    if (alike := self._alike.get(life.key)) is not None:
                        alike.put_last(life)
                self._note_settled(life)
        if not published:
            del self._published[place]

    def _exclude(self, life: MessageLife) -> None:
        """Mark a publish as one that has reached no queue, and undo its links."""
        assert life.publish is not None
        life.publish.takes_part = False
        if (alike := self._alike.get(life.key)) is not None:
            alike.exclude(life)
            self._drop_empty(life.key, alike)
        for delivery in life.deliveries:
            delivery.among = 0
            delivery.life = None
            other = self._new(MessageKey(life.key, life.is_by_id), None)
            other.unpublished_id = life.message_id
            self._append(other, delivery)
        life.deliveries.clear()
        self._note_settled(life)

    # --- deliveries

    def _on_delivered(self, stream: int, event: MessageDelivered, note: Note) -> None:
        host = self.connections.get(stream, NOT_KNOWN).virtual_host
        method, properties = event.method, event.properties
        place = Place(stream, event.channel, event.epoch)
        tag, consumer_tag = method.delivery_tag, getattr(method, "consumer_tag", None)
        death = dead_letter(properties)
        queue = event.queue
        named = (host, queue) if queue else (place, consumer_tag)
        group = Group(named, death.count if death else 0, method.exchange, method.routing_key)
        delivery = Delivery(
            event.ts_ns,
            place,
            tag,
            queue,
            consumer_tag,
            group,
            method.redelivered or returns_to_queue(properties) > 0,
            event.is_browsed,
            outcome=event.outcome,
        )
        if death is not None:
            delivery.died_in, delivery.died_of = death.queue, death.reason
        key, found = self._find(event, host, delivery, death)
        life = found.life
        if life is None:
            life = self._of_unpublished(key, delivery, properties.message_id)
        else:
            delivery.among = found.among
            delivery.is_certain = (
                found.is_certain
                and host is not None
                and key is not None
                and key.is_certain
                and (key.is_by_id or self.is_whole)
                and not life.is_cut
            )
        self._append(life, delivery)
        if delivery.outcome is None:
            if tag is None:
                delivery.outcome = "unknown"
            else:
                self._delivered.setdefault(place, {})[tag] = delivery
        self._note_settled(life)
        if self._show_delivered is not None:
            self._show_delivered(life, delivery)

    def _find(
        self, event: MessageDelivered, host: str | None, delivery: Delivery, death: DeadLetter | None
    ) -> tuple[MessageKey | None, Found]:
        """Return the key of a delivery, and the published message that it is taken for.

        A dead letter has the exchange and routing key of its last dead-lettering, and those before in its headers.
        """
        group = delivery.group
        delivered: tuple[str | None, str | None] = (group.exchange, group.routing_key)
        routes = dict.fromkeys((*death.routes, delivered)) if death is not None else (delivered,)
        key: MessageKey | None = None
        matches: list[tuple[MessageKey, AlikeMessages, Group]] = []
        for exchange, routing_key in routes:
            other = message_key(event, host, exchange, routing_key)
            key = key or other
            alike = None if other is None else self._alike.get(other.number)
            fitting = group if death is None else group._replace(exchange=exchange, routing_key=routing_key)
            if other is not None and alike is not None and alike.fits(fitting):
                matches.append((other, alike, fitting))
        is_certain = len(matches) == 1
        if not matches and key is not None and key.is_by_id and (alike := self._alike.get(key.number)) is not None:
            matches.append(
                (key, alike, group._replace(exchange=None, routing_key=None))
            )  # a rule may have changed them
        if not matches:
            return key, Found(None, 0, is_certain=False)
        key, alike, delivery.group = matches[0]
        if event.is_browsed or _is_of_stream(event):
            found = alike.browsed_delivery(delivery.group)
        elif delivery.is_redelivered:
            found = alike.redelivery(delivery.group, self._is_gone)
        else:
            found = alike.first_delivery(delivery.group)
        if is_certain:
            return key, found
        others = sum(len(each[1].lives) for each in matches[1:])
        return key, Found(found.life, found.among + others, is_certain=False)

    def _is_gone(self, delivery: Delivery) -> bool:
        """Whether the queue has surely taken the client's final answer: the channel was not cut after it."""
        place = delivery.place
        if not delivery.is_final or place.stream <= self._cut_until:
            return False
        return place not in self._cut and place.stream not in self._cut

    def _of_unpublished(self, key: MessageKey | None, delivery: Delivery, message_id: str | None) -> MessageLife:
        """Return the life of a delivery whose publish was not seen: of a former delivery, or a new one."""
        life = None if key is None else self._unpublished.get(key.number)
        if key is not None and life is not None:
            before = [each for each in life.deliveries if each.group.queue == delivery.group.queue]
            if delivery.died_in is not None:
                follows = any(each.queue == delivery.died_in for each in life.deliveries)
            elif delivery.is_redelivered:
                follows = bool(before) and not before[-1].is_final
            else:
                follows = key.is_by_id and not before
            if follows:
                return life
        life = self._new(key, None)
        life.unpublished_id = message_id
        if key is not None:
            self._unpublished[key.number] = life
        return life

    def _append(self, life: MessageLife, delivery: Delivery) -> None:
        """Append a delivery to its life, and link it to the former one that it repeats or follows."""
        queue = (delivery.group.queue[0], delivery.died_in) if delivery.died_in else delivery.group.queue
        if delivery.is_redelivered or delivery.died_in is not None:
            for each in reversed(life.deliveries):
                if each.group.queue == (delivery.group.queue if delivery.is_redelivered else queue):
                    delivery.former = each
                    break
        delivery.life = life
        life.deliveries.append(delivery)
        oldest = life.leave_out()
        if oldest is None:
            life.cost += DELIVERY_COST
            self.size += DELIVERY_COST
        elif oldest.tag is not None:
            _remove(self._delivered, oldest.place, oldest.tag)

    def _on_deliveries_settled(self, stream: int, event: DeliveriesSettled, note: Note) -> None:
        place = Place(stream, event.channel, event.epoch)
        delivered = self._delivered.get(place)
        if delivered is None:
            return
        outcome = str(event.outcome)
        refused = event.outcome in (Settlement.NACKED, Settlement.REJECTED, Settlement.RECOVERED)
        for span in event.spans:
            for tag in span.among(delivered):
                delivery = delivered.pop(tag, None)
                if delivery is None:
                    continue
                delivery.outcome, delivery.settled_ns = outcome, event.ts_ns
                if refused:
                    delivery.requeue = event.requeue
                life = delivery.life
                if life is not None:
                    self._note_settled(life)
                    if self._show_settled is not None:
                        self._show_settled(life, delivery)
        if not delivered:
            del self._delivered[place]

    # --- connections

    def _on_opened(self, stream: int, event: ConnectionOpened | StateRestored, note: Note) -> None:
        if event.virtual_host is not None:
            self.connections[stream] = LinkedConnection.of(event)
            if len(self.connections) > MAX_CONNECTIONS:
                del self.connections[next(iter(self.connections))]
        if isinstance(event, StateRestored):
            self.is_whole = False

    def _on_lost(self, stream: int, event: HistoryLost, note: Note) -> None:
        self.is_whole = False

    def _on_closed(self, stream: int, event: ConnectionClosed, note: Note) -> None:
        if event.by is not CLIENT or event.is_by_proxy:
            self._note_cut(stream, stream)

    def _on_channel_closed(self, stream: int, event: ChannelClosed, note: Note) -> None:
        if event.by is not CLIENT or event.is_by_proxy:
            self._note_cut(Place(stream, event.channel, event.epoch), stream)

    def _note_cut(self, cut: int | Place, stream: int) -> None:
        """Remember a channel or connection on which the broker may not have read the client's last answers."""
        self._cut[cut] = None
        if len(self._cut) > MAX_CUT:
            oldest = next(iter(self._cut))
            del self._cut[oldest]
            self._cut_until = max(self._cut_until, oldest if isinstance(oldest, int) else oldest.stream)

    # --- memory

    def _new(self, key: MessageKey | None, publish: Publish | None) -> MessageLife:
        number = self._next
        self._next += 1
        is_by_id = key is not None and key.is_by_id
        life = MessageLife(number, key.number if key is not None else -number, is_by_id, publish)
        if publish is not None:
            life.cost = LIFE_COST + sum([len(each) for each in _texts(publish) if each])
        self.lives[number] = life
        self.size += life.cost
        return life

    def _note_settled(self, life: MessageLife) -> None:
        if life.is_settled and not life.is_listed:
            life.is_listed = True
            self._settled.append(life.number)
        if self._show_changed is not None:
            self._show_changed(life)

    def _make_room(self) -> None:
        while self.size > self._memory and len(self.lives) > 1:
            life = None
            while self._settled and life is None:
                found = self.lives.get(self._settled.popleft())
                if found is not None:
                    found.is_listed = False
                    life = found if found.is_settled else None
            if life is None:
                life = next(iter(self.lives.values()))
                self.forgotten_open += 1
            self._forget(life)

    def _forget(self, life: MessageLife) -> None:
        if self._show_forgotten is not None:
            self._show_forgotten(life)
        del self.lives[life.number]
        self.size -= life.cost
        self.forgotten += 1
        publish = life.publish
        if publish is not None:
            _remove(self._published, publish.place, publish.number)
            self._requests.forget(life)
            if publish.takes_part:
                self._keys.add(life.key)
        if (alike := self._alike.get(life.key)) is not None:
            alike.forget(life)
            self._drop_empty(life.key, alike)
        if self._unpublished.get(life.key) is life:
            del self._unpublished[life.key]
        for delivery in life.deliveries:
            if delivery.tag is not None:
                _remove(self._delivered, delivery.place, delivery.tag)
            delivery.life = delivery.former = None

    def _drop_empty(self, key: int, alike: AlikeMessages) -> None:
        if not alike.lives:
            del self._alike[key]


def _remove(by_place: dict[Place, dict[int, T]], place: Place, number: int) -> None:
    found = by_place.get(place)
    if found is not None:
        found.pop(number, None)
        if not found:
            del by_place[place]


def _is_at(found: Publish | Delivery, number: int | None, stream: int, channel: int, wanted: int, ts_ns: int) -> bool:
    place = found.place
    return found.ts_ns == ts_ns and number == wanted and place.stream == stream and place.channel == channel


def _texts(publish: Publish) -> tuple[str | None, ...]:
    return (publish.exchange, publish.routing_key, publish.message_id, publish.correlation_id, publish.reply_to)


def _is_of_stream(event: MessageDelivered) -> bool:
    """Whether a delivery is of a RabbitMQ stream, which keeps its messages."""
    headers = event.properties.headers
    return headers is not None and b"x-stream-offset" in encoded_headers(event.properties)


_HANDLERS: dict[type[Any], Callable[[MessageLinker, int, Any, Note], None]] = {
    ChannelClosed: MessageLinker._on_channel_closed,
    ConnectionClosed: MessageLinker._on_closed,
    ConnectionOpened: MessageLinker._on_opened,
    DeliveriesSettled: MessageLinker._on_deliveries_settled,
    HistoryLost: MessageLinker._on_lost,
    MessageDelivered: MessageLinker._on_delivered,
    MessagePublished: MessageLinker._on_published,
    MessageReturned: MessageLinker._on_returned,
    PublishesSettled: MessageLinker._on_publishes_settled,
    StateRestored: MessageLinker._on_opened,
}

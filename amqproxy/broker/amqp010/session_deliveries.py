"""Deliveries of a session: the receiver of all its subscriptions, and the transfers that are not settled.

A transfer's delivery tag is the position of its command plus one: tags start at 1.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from itertools import chain

from msgspec import structs

from amqproxy.amqp010.command_ids import CommandIds
from amqproxy.amqp010.frame import decode_header
from amqproxy.amqp010.properties import DeliveryProperties
from amqproxy.broker.amqp010.browser import acquiring
from amqproxy.broker.amqp010.jms_properties import is_selected
from amqproxy.broker.amqp010.orphans import orphaning
from amqproxy.broker.amqp010.owners import OwningSession
from amqproxy.broker.amqp010.subscription import Subscription
from amqproxy.broker.amqp010.transfer_headers import TransferHeaders
from amqproxy.broker.connections.deliveries import AT_ONCE, ENDING, EVERY_TAG, ChannelDeliveries
from amqproxy.broker.connections.unacked import by_queue
from amqproxy.broker.queues.consumer import (
    ACK,
    CONSUMER_COST,
    GIVE_BACK,
    NOT_SENT,
    REQUEUE,
    ConsumedQueue,
    Consumer,
    QueueEntry,
)
from amqproxy.broker.queues.queue import PeekedMessage, Place, Queue

try:
    import cython
except ImportError:  # a plain run does not need Cython
    from amqproxy.compiled import _cython as cython

MAX_IN_FLIGHT = 65_536
"""Number of window-mode transfers that the client has not completed above which it is sent no more."""

MOST_LOOKS = 4 * MAX_IN_FLIGHT
"""Maximum number of transfers looked at for one session.completed; the ranges that exceed it are ignored."""

LOOKING = 16
"""Number of transfers that are looked at for one unit of the quantum."""

PUMPED = 4
"""Number of subscriptions that are checked for waiting messages for one unit of the quantum."""

ACQUIRED = 1 << 63
"""Offset that, added to its position, is the tag of a browsed message that has been acquired."""


class SessionDeliveries(ChannelDeliveries):
    """Subscriptions of one session by destination, and the messages sent to them that are not settled."""

    def __init__(self, session: OwningSession) -> None:
        super().__init__(session, session.vhost)
        self.sender = session.sender
        self.subscriptions: dict[str, Subscription] = {}
        self.browsed: dict[int, tuple[Queue, Place, bool]] = {}
        """Transfers that may be acquired, by position, and whether they have to be accepted then."""
        self.acquired: dict[int, QueueEntry] = {}
        """Entries of the transfers that have been acquired, by position."""
        self._in_flight: dict[int, tuple[Subscription, int, int]] = {}
        self._headers = TransferHeaders()

    @property
    def bytes_in_memory(self) -> int:
        """Approximate bytes of memory that the subscriptions and unsettled messages take."""
        return CONSUMER_COST * len(self.subscriptions) + self.unacked.bytes_in_memory

    # --- sending

    def takes(self, consumer: Consumer) -> bool:
        """Return whether the subscription may be sent one more message."""
        if not self.sender.may_send() or self.held >= self.global_prefetch or len(self._in_flight) >= MAX_IN_FLIGHT:
            return False
        subscription: Subscription | None = self.subscriptions.get(consumer.tag)
        return subscription is not None and subscription.consumer is consumer and subscription.has_credit()

    def deliver(self, consumer: Consumer, entry: QueueEntry, now: float) -> None:
        """Send a message to a subscription."""
        subscription: Subscription = self.subscriptions[consumer.tag]
        message = entry.message
        selector = subscription.selector
        if selector is not None and subscription.browser is None:
            self._quantum.left -= selector.cost
            if not is_selected(message, selector):
                if not consumer.no_ack:
                    entry.queue.ack([entry], now)  # no other consumer wants this copy
                return
        try:
            header: bytes = self._headers.of(message, entry.header, entry.expires_at, entry.is_redelivered)
        except Exception as error:  # noqa: BLE001
            self._cannot_deliver(entry.queue, error)
            if entry.queue.takes_back:
                self._put_back(subscription, consumer, entry, now)
            return
        if subscription.resume_id is not None:
            header = _resumable(header, subscription)
        size: cython.Py_ssize_t = len(header) + len(message.body)
        if subscription.size is not None and size > subscription.size and entry.queue.takes_back:
            subscription.needs = size
            self._put_back(subscription, consumer, entry, now)
            return
        position: cython.longlong = self.sender.transfer(subscription, header, message.body)
        self.last_tag = position + 1
        if not consumer.no_ack:
            self.unacked.add(position + 1, entry)
        if subscription.is_window and (subscription.messages is not None or subscription.size is not None):
            self._in_flight[position] = subscription, size, subscription.window
        subscription.spend(size)
        self._count_delivery(entry.queue, consumer.no_ack, entry.is_redelivered)
        if self._events.observers or self._vhost.is_traced:
            self._delivered(entry, now)

    def browse(self, subscription: Subscription, peeked: PeekedMessage, now: float) -> bool:
        """Send a message that stays in its queue; return False if there is not enough credit for it."""
        message = peeked.message
        try:
            header = self._headers.of(message, message.header, peeked.expires_at, False)
        except Exception as error:  # noqa: BLE001
            self._cannot_deliver(subscription.queue, error)
            return True
        message.forget_properties()
        if subscription.resume_id is not None:
            header = _resumable(header, subscription)
        size = len(header) + len(message.body)
        if subscription.size is not None and size > subscription.size:
            subscription.needs = size
            return False
        position = self.sender.transfer(subscription, header, message.body)
        self.last_tag = position + 1
        if subscription.queue.type == "classic":  # other types cannot acquire from the middle of the queue
            self.browsed[position] = subscription.queue, peeked.place, subscription.accepts_explicitly
        if len(self.browsed) > MAX_IN_FLIGHT:
            del self.browsed[next(iter(self.browsed))]
        if subscription.is_window and (subscription.messages is not None or subscription.size is not None):
            self._in_flight[position] = subscription, size, subscription.window
        subscription.spend(size)
        return True

    def acquiring(self, ids: Iterable[range], now: float) -> Generator[None, float, CommandIds]:
        """Acquire transfers in steps, as far as their messages are still there; return the positions of those."""
        wanted: dict[Queue, dict[Place, tuple[int, bool]]] = {}
        for each in ids:
            if self._quantum.spend(1 + min(len(each), len(self.browsed)) // LOOKING):
                now = yield
            for position in _known(self.browsed, each):
                queue, place, is_to_be_accepted = self.browsed.pop(position)
                wanted.setdefault(queue, {})[place] = position, is_to_be_accepted
                if self._quantum.spend(1):
                    now = yield
        found = CommandIds()
        for queue, places in wanted.items():
            entries = yield from acquiring(queue, set(places), self._quantum, now)
            for place, entry in entries.items():
                position, is_to_be_accepted = places[place]
                if is_to_be_accepted:
                    entry.tag = ACQUIRED + position
                    self.acquired[position] = entry
                else:
                    queue.ack([entry], now)
                found.add(range(position, position + 1))
        return found

    def _put_back(self, subscription: Subscription, consumer: Consumer, entry: QueueEntry, now: float) -> None:
        """Put a message that cannot be sent back to where it was."""
        if consumer.no_ack:
            subscription.queue.hold(entry, consumer)  # for `requeue`, which releases it: it was not held
            entry.tag = NOT_SENT
        entry.queue.release([entry], now)

    def _cannot_deliver(self, queue: ConsumedQueue, error: Exception) -> None:
        self._note_failure(queue, error)
        self.channel.fail_soon()

    def queue_deleted(self, consumer: Consumer) -> None:
        """Detach a subscription from its deleted queue. As with Broker-J 9.2, the client is not told; it may cancel."""
        subscription = self.subscriptions.get(consumer.tag)
        if subscription is not None and subscription.consumer is consumer:
            subscription.consumer = None
            self._report_end(consumer)

    # --- completing and settling

    def completed(self, ids: Iterable[range], now: float) -> None:
        """Process the completion of transfers, which in window mode gives back their credit."""
        in_flight = self._in_flight
        if not in_flight:
            return
        queues: dict[ConsumedQueue, None] = {}
        budget = MOST_LOOKS
        for each in ids:
            is_small = len(each) <= len(in_flight)
            budget -= len(each) if is_small else len(in_flight)
            if budget < 0:
                break
            ended = each if is_small else [position for position in in_flight if position in each]
            for position in ended:
                found = in_flight.pop(position, None)
                if found is None:
                    continue
                subscription, size, window = found
                if window == subscription.window:
                    subscription.give_back(size)
                    queues[subscription.queue] = None
        if queues:
            self.pump(now)

    def pump(self, now: float) -> None:
        """Send the subscriptions the messages that wait for them."""
        if len(self.subscriptions) > LOOKING:
            self._quantum.left -= len(self.subscriptions) // PUMPED
        consumers: list[Consumer] = []
        for subscription in list(self.subscriptions.values()):
            if subscription.browser is not None:
                subscription.browser.tick(now)
            elif subscription.consumer is not None:
                consumers.append(subscription.consumer)
        self._pump(consumers, now)

    def taking(self, ids: Iterable[range]) -> Iterator[list[QueueEntry]]:
        """Take out the held messages of these positions, in parts between which a turn may end.

        Positions that are not held are ignored, as Qpid does.
        """
        for each in ids:
            if self.browsed:
                for position in _known(self.browsed, each):
                    del self.browsed[position]  # only settling releases a transfer that is not acquired
                if self._quantum.spend(1 + min(len(each), len(self.browsed)) // LOOKING):
                    yield []
            if self.acquired:
                self._quantum.left -= 1 + min(len(each), len(self.acquired)) // LOOKING
                yield [self.acquired.pop(position) for position in _known(self.acquired, each)]
            if not len(self.unacked):
                continue
            start = max(each.start, self.unacked.oldest - 1)
            stop = min(each.stop, self.last_tag)
            for first in range(start, stop, AT_ONCE):
                last = min(first + AT_ONCE, stop)
                yield self.unacked.take_range(first + 1, last)
                self._quantum.left -= (last - first) // LOOKING

    def accept_few(self, ids: list[range], now: float) -> cython.bint:
        """Accept the held messages of these positions at once; return False, with nothing done, if that takes more."""
        if self.browsed or self.acquired:
            return False
        count: cython.Py_ssize_t = 0
        for each in ids:
            count += len(each)
        if count > AT_ONCE:
            return False
        start: cython.longlong
        stop: cython.longlong
        last: cython.longlong = self.last_tag
        for each in ids:
            start, stop = each.start, each.stop
            start, stop = max(start, 0), min(stop, last)
            if start < stop and (entries := self.unacked.take_range(start + 1, stop)):
                self.apply(entries, ACK, now)
        self._quantum.left -= count
        return True

    def settle(self, entries: list[QueueEntry], outcome: str, now: float, *, redelivered: bool = True) -> None:
        """Apply an outcome to a few messages; without `redelivered`, returning ones keep their redelivered marks."""
        if outcome is not REQUEUE or redelivered:
            self.apply(entries, outcome, now)
            return
        if self._events.observers:
            self._settled(entries, outcome)
        for queue, mine in by_queue(entries):
            queue.release(mine, now)

    def settling(
        self,
        ids: Iterable[range],
        outcome: str,
        now: float,
        *,
        redelivered: bool = True,
        also: Sequence[QueueEntry] = (),
    ) -> Generator[None, float, float]:
        """Apply an outcome to these positions, and to the entries `also`, in steps.

        The messages that go back are all back before any of them is delivered again.
        """
        held_back: dict[ConsumedQueue, None] = {}
        parts = [list(also[start : start + AT_ONCE]) for start in range(0, len(also), AT_ONCE)]
        try:
            for part in chain(parts, self.taking(ids)):
                if outcome is REQUEUE:
                    for entry in part:
                        if entry.queue not in held_back:
                            held_back[entry.queue] = None
                            entry.queue.hold_back()
                self.settle(part, outcome, now, redelivered=redelivered)
                if self._quantum.spend(len(part)):
                    now = yield
        finally:
            for queue in held_back:
                queue.hold_no_more(now)
        return now

    def putting_back(self, entries: Iterable[QueueEntry], now: float) -> Generator[None, float, float]:
        """Undo the taking of messages for a transaction that is rolled back, in steps."""
        others: list[QueueEntry] = []
        for entry in entries:
            if entry.tag < ACQUIRED:
                others.append(entry)
            else:
                self.acquired[entry.tag - ACQUIRED] = entry
            if self._quantum.spend(1):
                now = yield
        for count in self.unacked.putting_back(others, AT_ONCE):
            if self._quantum.spend(count):
                now = yield
        return now

    # --- the end

    def cancelling(self, subscription: Subscription, now: float) -> Generator[None, float, float]:
        """End a subscription; the messages sent to it stay as they are.

        In steps, as its queue may be deleted with it.
        """
        if self.subscriptions.get(subscription.destination) is subscription:
            del self.subscriptions[subscription.destination]
        queue = subscription.queue
        if queue.auto_delete and len(queue.consumers) == 1:
            now = yield from orphaning(self._vhost, queue, now)
        if subscription.browser is not None:
            subscription.browser.end()
        if subscription.consumer is not None:
            self.end(subscription.consumer, now)
        return now

    def closing(self, now: float) -> Generator[None, float, float]:
        """Give back the unsettled messages, and end all subscriptions, in steps."""
        self.global_prefetch = 0
        self._in_flight.clear()
        self.browsed.clear()
        acquired, self.acquired = list(self.acquired.values()), {}
        now = yield from self._settling(chain(self._parts(EVERY_TAG), [acquired]), GIVE_BACK, now)
        while self.subscriptions:
            _, subscription = self.subscriptions.popitem()
            with self._events.contained("a subscription's end failed", queue=str(subscription.queue)):
                now = yield from self.cancelling(subscription, now)
            if self._quantum.spend(ENDING):
                now = yield
        return now


def _resumable(header: bytes, subscription: Subscription) -> bytes:
    """Return a header segment with the resume-id that a subscription asks for."""
    entries = decode_header(header)
    delivery = entries.delivery or DeliveryProperties()
    wanted = {"resume_id": subscription.resume_id, "resume_ttl": subscription.resume_ttl}
    return entries.replacing(structs.replace(delivery, **wanted)).encode()


def _known(transfers: Mapping[int, object], ids: range) -> list[int]:
    """Return those of the positions that have one of these transfers."""
    if len(ids) <= len(transfers):
        return [position for position in ids if position in transfers]
    return [position for position in transfers if position in ids]

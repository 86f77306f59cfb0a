"""One queue: its messages in order, and the consumers that they are delivered to in turn.

The virtual host dead-letters messages and resolves names; the queue notifies it through `QueueObserver`. Every message
passes through publishing, delivering and settling, so this code is kept lean. It is a single class, since all
operations share the queue's counts, which are C fields once compiled.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol

from amqproxy.amqp091.errors import AccessRefused, PreconditionFailed
from amqproxy.amqp091.wire import Table
from amqproxy.broker.message import Message
from amqproxy.broker.message_counts import MessageCounts
from amqproxy.broker.queues.backlog import FLAGS, HAS_EXPIRATION, HAS_PRIORITY, NEVER, Backlog, SeenPositions
from amqproxy.broker.queues.consumer import ACK, GIVE_BACK, NOT_SENT, REJECT, REQUEUE, UNLIMITED, Consumer, QueueEntry
from amqproxy.broker.queues.durable_backlog import DurableBacklog
from amqproxy.broker.queues.held_orphans import HeldOrphans
from amqproxy.broker.queues.paged_bodies import whole
from amqproxy.broker.queues.paged_messages import MESSAGE_COST, UNREADABLE, PageStore
from amqproxy.broker.queues.policies import NO_EFFECT, EffectivePolicy, effective_arguments
from amqproxy.broker.queues.queue_arguments import QueueSettings, priority_levels
from amqproxy.broker.queues.queue_storage import QueueStorage
from amqproxy.broker.queues.round_robin import RoundRobin, SingleActiveConsumer
from amqproxy.broker.storage.batch import DurabilityTicket
from amqproxy.broker.work import WorkQueue
from amqproxy.rabbitmq.profile import Profile

if TYPE_CHECKING:
    from amqproxy.broker.queues.at_least_once import DeadLetter

try:
    import cython
except ImportError:  # a plain run does not need Cython
    from amqproxy.compiled import _cython as cython

PART = 8
"""Messages that are settled between two checks whether the turn is over."""

LETTING_GO = 8
"""Quantum cost of dropping a message, which may be published elsewhere."""

NEVER_SAMPLED = (0, (0, 0, 0))
"""`Queue.sampled` of a queue in which nothing has happened."""

DELETED = "deleted"
"""The reason in x-death of messages that were sent on because their queue was deleted."""

MOST_LOOKERS = 64
"""Number of lookers of one user in one queue up to which they are notified of each new message.

The notification is part of publishing the message.
"""

_NEVER = NEVER  # these are typed in the .pxd file
_UNLIMITED = UNLIMITED
_LETTING_GO = LETTING_GO
_FLAGS = FLAGS
_HAS_EXPIRATION = HAS_EXPIRATION
_HAS_PRIORITY = HAS_PRIORITY


Place = tuple[int, int]
"""Place of a message in a queue: its priority, and its position among the messages of that priority."""


LockedEntries = dict[Place, QueueEntry | None]
"""Entries that transactions have accepted and not committed, by their places."""


class PeekedMessage(NamedTuple):
    """A message that waits in a queue; `expires_at` (seconds) is its expiration there."""

    place: Place
    message: Message
    expires_at: float


class ExclusiveOwner(Protocol):
    """The connection that alone may use its `exclusive_queues`."""

    @property
    def exclusive_queues(self) -> dict[Queue, None]: ...


class Looker(Protocol):
    """An object that looks for messages in a queue."""

    def queue_changed(self, now: float, /) -> None:
        """Handle a new message that waits in the queue."""


class QueueObserver(Protocol):
    """The events that a queue reports to its virtual host."""

    name: str
    work: WorkQueue
    profile: Profile

    def dead_letter(
        self, queue: Queue, message: Message, reason: str, now: float, letter: DeadLetter | None = None
    ) -> None:
        """Dead-letter a message that the queue drops, for the reason that x-death will name.

        With `letter`, its `letter_sent` has to be called.
        """

    def became_unused(self, queue: Queue) -> None:
        """Handle an auto-delete queue that has lost its last consumer, or a queue that was unused too long."""

    def look_at(self, queue: Queue, when: float) -> None:
        """Schedule a call of `Queue.tick` at that time."""

    def failed(self, queue: Queue, event: str, failure: Exception, **fields: object) -> None:
        """Report a failure that is the queue's, and not its caller's."""


class Queue:
    """A classic queue; a subclass is another type.

    `exclusive_to` is the connection that alone may use it. Times are in seconds. `settings` are the result of arguments
    and policy; `policy_names` are the policy and the operator policy they come from. `unacked` counts the messages that
    are delivered and not settled; `counts` are kept by the channels that publish and consume.

    Work that does not fit into a turn of the loop is left to the `work` of the owner. Until then, the queue `is_busy`
    if a client could notice that it is not done, and nothing is delivered ahead of the messages that have yet to come
    back.
    """

    type: ClassVar[str] = "classic"
    takes_back: ClassVar[bool] = True
    """Whether delivered messages that are not wanted come back."""
    _successor_waits: ClassVar[bool] = True
    """Whether the next single active consumer waits until the messages of the cancelled one are settled."""
    __slots__ = (
        "_backlogs",
        "_count",
        "_exclusive",
        "_holds",
        "_is_dropping",
        "_is_late",
        "_is_listed",
        "_is_pumping",
        "_is_refusing",
        "_is_timed",
        "_looked_at",
        "_max_bytes",
        "_max_length",
        "_max_priority",
        "_orphans",
        "_owner",
        "_priority_offset",
        "_quantum",
        "_round_robin",
        "_storage",
        "_ttl",
        "_used_at",
        "_usual_priority",
        "arguments",
        "auto_delete",
        "body_bytes",
        "consumers",
        "counts",
        "durable",
        "exclusive_to",
        "is_deleted",
        "is_no_local",
        "is_orphaning",
        "locked_by",
        "lookers",
        "name",
        "policy",
        "policy_names",
        "sampled",
        "settings",
        "unacked",
    )

    def __init__(
        self,
        name: str,
        owner: QueueObserver,
        *,
        durable: bool = False,
        auto_delete: bool = False,
        exclusive_to: ExclusiveOwner | None = None,
        arguments: Table,
        now: float = 0.0,
        storage: QueueStorage | None = None,
        effect: EffectivePolicy = NO_EFFECT,
    ) -> None:
        self.name = name
        self.durable = durable
        self.auto_delete = auto_delete
        self.exclusive_to = exclusive_to
        self.locked_by: ExclusiveOwner | None = None
        """The named session that alone may use the queue; unlike an exclusive queue, it outlives its session."""
        self.arguments = arguments
        self.policy: Mapping[str, Any] = effect.definition
        self.policy_names: tuple[str | None, str | None] = (effect.policy, effect.operator_policy)
        self.consumers: dict[Consumer, None] = {}
        self.lookers: dict[str, dict[Looker, None]] = {}
        """Lookers in the queue, which take no turns, by the name of their user."""
        self.unacked = 0
        self.counts = MessageCounts()
        self.sampled = NEVER_SAMPLED
        """The last sample in which it changed, and its activity, ready and unacked messages then."""
        self.body_bytes = (
            0 if storage is None else storage.body_bytes(owner.name, name, arguments.get("x-max-priority", 0))
        )
        """Bytes of the ready messages' bodies."""
        self.is_deleted = False
        self.is_no_local = str(arguments.get("no-local")).lower() == "true"
        """Whether the queue refuses messages published on its owner's own connection: an argument of Qpid's."""
        self.is_orphaning = False
        """Whether messages that come back once the queue is deleted go to its dead-letter exchange."""
        self._orphans: HeldOrphans | None = None
        self._owner = owner
        self._quantum = owner.work.quantum
        self._storage = storage
        self._max_priority = arguments.get("x-max-priority", 0)
        self._priority_offset, self._usual_priority = priority_levels(arguments)
        priorities = storage.priorities(owner.name, name, self._max_priority) if storage is not None else (0,)
        self._backlogs: list[tuple[int, Backlog]] = [(each, self._new_backlog(each)) for each in priorities]
        self._count = sum(len(backlog) for _, backlog in self._backlogs)
        is_single = arguments.get("x-single-active-consumer", False)
        self._round_robin = SingleActiveConsumer() if is_single else RoundRobin()
        self._exclusive: Consumer | None = None
        self._is_pumping = self._is_listed = self._is_late = False
        self._holds = 0
        self._is_timed = self._count > 0
        self._looked_at = NEVER
        self._used_at = now
        self._follow(QueueSettings.of(effective_arguments(arguments, effect.definition)))
        self._look_ahead()

    @property
    def _profile(self) -> Profile:
        """The RabbitMQ version whose behaviour the queue has."""
        return self._owner.profile

    def _new_backlog(self, priority: int) -> Backlog:
        if self._storage is None:
            return Backlog(self._lost)
        message_log = self._storage.message_log(self._owner.name, self.name, priority)
        return DurableBacklog(message_log, self._storage.fetch, self._lost)

    def _lost(self, messages: int, body_bytes: int) -> None:
        """Report messages that cannot be read from the disk any more: they are lost, and the queue stays usable."""
        self._count -= messages
        self.body_bytes = max(0, self.body_bytes - body_bytes) if self._count else 0
        self._owner.failed(self, "messages lost", LookupError("they cannot be read back"), count=messages)

    def apply(self, settings: QueueSettings, now: float) -> None:
        """Apply other settings; messages over a limit are dropped at once."""
        self._follow(settings)
        if self._is_dropping and not self._holds:
            self._drop_surplus(now)
        self._look_ahead()

    def recovered(self, now: float, locked: LockedEntries | None = None) -> None:
        """Start after a restart, once everything is recovered that was there before, dead letters' targets included.

        The messages that transactions have `locked` are taken out again.
        """
        if locked:
            self._lock(locked)
        self._settle_down(now)

    def _lock(self, locked: LockedEntries) -> None:
        """Take out the messages that transactions have accepted. Those that were not found stay None."""
        for priority, backlog in self._backlogs:
            wanted = {position for each, position in locked if each == priority}
            last = max(wanted, default=0)
            passed: list[QueueEntry] = []
            while wanted and backlog:
                entry = backlog.take(self)
                if entry is None:
                    continue
                if entry.position in wanted:
                    wanted.remove(entry.position)
                    self._count -= 1
                    self.body_bytes -= len(entry.message.body)
                    self.hold(entry, None)
                    locked[priority, entry.position] = entry
                else:
                    passed.append(entry)
                if entry.position >= last:
                    break
            for entry in passed:
                backlog.put_back(entry)

    def _follow(self, settings: QueueSettings) -> None:
        self.settings = settings
        self._ttl = settings.message_ttl
        self._max_length = UNLIMITED if settings.max_length is None else settings.max_length
        self._max_bytes = UNLIMITED if settings.max_bytes is None else settings.max_bytes
        is_bounded = settings.max_length is not None or settings.max_bytes is not None
        self._is_refusing = is_bounded and settings.overflow != "drop-head"
        self._is_dropping = is_bounded and settings.overflow == "drop-head"

    def __str__(self) -> str:
        return f"queue '{self.name}' in vhost '{self._owner.name}'"

    # --- messages

    @property
    def message_count(self) -> int:
        """Number of ready messages: neither delivered nor gone."""
        return self._count

    @property
    def consumer_count(self) -> int:
        return len(self.consumers)

    @property
    def exclusive_consumer(self) -> Consumer | None:
        """The consumer that alone may consume; None without one."""
        return self._exclusive

    @property
    def single_active_consumer(self) -> Consumer | None:
        """The consumer that gets all messages of a queue with x-single-active-consumer; None without one."""
        turns = self._round_robin
        return turns.active if isinstance(turns, SingleActiveConsumer) else None

    @property
    def entered(self) -> int:
        """Number of messages that have come in: since the broker's start or, for a durable queue, since its own."""
        return sum(backlog.entered for _, backlog in self._backlogs)

    @property
    def left(self) -> int:
        """Number of messages that have been delivered or dropped; some may have come back since."""
        return sum(backlog.left for _, backlog in self._backlogs)

    def __iter__(self) -> Iterator[Message]:
        """Iterate over the ready messages, the next one first."""
        for _, backlog in self._backlogs:
            yield from backlog

    @property
    def peek_cost(self) -> int:
        """Number of messages that a `peek` goes over in addition to those that it returns."""
        return sum([backlog.peek_cost for _, backlog in self._backlogs])

    def peek(
        self, seen: Mapping[int, SeenPositions], most: int, body_bytes: int, depth: int = UNLIMITED
    ) -> list[PeekedMessage]:
        """Return the first ready messages that were not `seen` (their positions, by priority); they stay in the queue.

        Up to `most` messages are returned, or about `body_bytes` of bodies, from among the first `depth`.
        """
        found: list[PeekedMessage] = []
        for priority, backlog in self._backlogs:
            if len(found) >= most or body_bytes <= 0 or depth <= 0:
                break
            for position, message, expires_at in backlog.peek(seen[priority], most - len(found), body_bytes, depth):
                found.append(PeekedMessage((priority, position), message, expires_at))
                body_bytes -= len(message.body)
            depth -= len(backlog)
        return found

    def peeked_positions(self) -> Iterator[tuple[int, int, list[int]]]:
        """Yield, for each priority, the last position taken out, and the positions that have come back."""
        for priority, backlog in self._backlogs:
            yield priority, backlog.left, backlog.back

    def place_of(self, entry: QueueEntry) -> Place:
        """Return the place from which a message was taken out, as in `peek`."""
        message = entry.message
        return self._level(message, message.header[_FLAGS]) if self._max_priority else 0, entry.position

    def publish(self, message: Message, now: float, ticket: DurabilityTicket | None = None) -> bool:
        """Publish a message; return False if the queue is full and rejects it. `ticket` counts it, if it is stored."""
        if self._is_refusing and self._refuses(message, now):
            return False
        flags: cython.int = message.header[_FLAGS]
        expires_at: float = _NEVER
        if self._ttl is not None or flags & _HAS_EXPIRATION:
            expires_at = self._expiry(message, flags, now)
        backlog: Backlog = self._backlog_for(message, flags) if self._max_priority else self._backlogs[0][1]
        if not self._count and not self._holds:
            consumer = self._round_robin.next()
            if consumer is not None:
                self._hand_out(backlog.entry(self, message, expires_at, ticket), consumer, now)
                return True
        backlog.add(message, expires_at, ticket)
        self._count += 1
        self.body_bytes += len(message.body)
        if self.lookers:
            self._notify_lookers(now)
        if self._is_dropping and not self._holds:
            self._drop_surplus(now)
        if expires_at != _NEVER:
            self._is_timed = True
            if not self._holds:
                self.expire(now)
            self._look_ahead()
        return True

    def keeps(self, message: Message) -> bool:
        """Return whether the message survives a restart of the broker."""
        return self._storage is not None and message.is_persistent

    def admits(self, messages: int, body_bytes: int) -> bool:
        """Return whether the queue would take `messages` more messages, with `body_bytes` of bodies."""
        if not self._is_refusing:
            return True
        return self._count + messages <= self._max_length and self.body_bytes + body_bytes <= self._max_bytes

    def admit(self, message: Message, now: float, ticket: DurabilityTicket | None = None) -> None:
        """Publish a message that was admitted before: it is not refused any more."""
        is_refusing, self._is_refusing = self._is_refusing, False
        try:
            self.publish(message, now, ticket)
        finally:
            self._is_refusing = is_refusing

    def get(self, now: float) -> QueueEntry | None:
        """Take the first ready message out. `ProtocolError` when this type of queue cannot be asked."""
        self._used_at = now
        if self._is_timed:
            self.expire(now)
        entry: QueueEntry | None = None
        while self._count and entry is None:
            entry = self._take()
        if entry is not None:
            if self._is_timed:
                self.expire(now)  # so that the remaining count excludes expired messages behind it
            self._look_ahead()
        return entry

    def purge(self) -> int:
        """Drop the ready messages; return their number."""
        count = self._count
        for _, backlog in self._backlogs:
            for container in backlog.clear():
                self._owner.work.free(container)
        self._count = self.body_bytes = 0
        self._is_timed = False
        return count

    def _take(self) -> QueueEntry | None:
        """Take the first ready message; there must be one. None if it could not be read, and is lost."""
        backlog: Backlog = self._backlogs[0][1]
        if len(self._backlogs) > 1:
            backlog = self._first_backlog()
        entry = backlog.take(self)
        if entry is None:
            return None
        self._count -= 1
        self.body_bytes -= len(entry.message.body)
        if not self._count:
            self._is_timed = False
        return entry

    def _first_backlog(self) -> Backlog:
        """Return the backlog of the first ready message; there must be one."""
        return next(backlog for _, backlog in self._backlogs if backlog)

    def _backlog_for(self, message: Message, flags: int) -> Backlog:
        """Return the backlog for the message's priority. The backlogs are in order, the highest priority first."""
        priority = self._level(message, flags)
        for each, backlog in self._backlogs:
            if each == priority:
                return backlog
        new = self._new_backlog(priority)
        self._backlogs.append((priority, new))
        self._backlogs.sort(key=lambda each: -each[0])
        return new

    def _level(self, message: Message, flags: cython.int) -> int:
        """Return the message's priority in this queue, from 0 to the queue's highest."""
        priority: cython.int = self._usual_priority
        highest: cython.int = self._max_priority
        if flags & _HAS_PRIORITY:
            priority = message.properties.priority or 0
        priority -= self._priority_offset
        return 0 if priority < 0 else highest if priority > highest else priority

    # --- settling

    def ack(self, entries: list[QueueEntry], now: float) -> None:
        """Acknowledge messages."""
        self._acked(entries)
        if self._count:
            self.pump(now)

    def reject(self, entries: Iterable[QueueEntry], now: float) -> None:
        """Drop or dead-letter messages that their consumer has rejected."""
        self._rejected(entries, now)
        self.pump(now)

    def requeue(self, entries: Iterable[QueueEntry], now: float) -> None:
        """Put messages back to their places, to be delivered again as redelivered."""
        self._requeued(entries, now)
        self._settle_down(now)

    def release(self, entries: list[QueueEntry], now: float) -> None:
        """Put messages back to their places with their redelivered marks unchanged, such as unsent ones."""
        marks = [entry.is_redelivered for entry in entries]
        self.hold_back()
        self.requeue(entries, now)
        for entry, mark in zip(entries, marks, strict=True):
            entry.is_redelivered = mark
        self.hold_no_more(now)

    def give_back(self, entries: Iterable[QueueEntry], now: float) -> None:
        """Put back the messages that a channel held when it was closed."""
        self._given_back(entries, now)
        self._settle_down(now)

    def settling(self, entries: list[QueueEntry], outcome: str, now: float) -> Generator[None, float, float]:
        """Settle any number of messages with one outcome in steps: the list is used up. Returns the time at its end.

        Messages that come back are all back before any of them, or any later one, is delivered: the caller that lets
        them come back has called `hold_back`, and this ends that.
        """
        comes_back = outcome is REQUEUE or outcome is GIVE_BACK
        quantum = self._quantum
        size = min(PART, quantum.step)
        try:
            entries.reverse()
            while entries:
                part = entries[-size:]
                del entries[-size:]
                part.reverse()
                if outcome is ACK:
                    self._acked(part)
                elif outcome is REJECT:
                    self._rejected(part, now)
                elif outcome is REQUEUE:
                    self._requeued(part, now)
                else:
                    self._given_back(part, now)
                quantum.left -= len(part)
                if entries and quantum.left <= 0 and quantum.is_over():
                    now = yield
        finally:
            if comes_back:
                self.hold_no_more(now)
        if not comes_back:
            self.pump(now)
        return now

    def hold_back(self) -> None:
        """Deliver nothing, and answer no request, until the messages that are coming back are there."""
        self._holds += 1

    def hold_no_more(self, now: float) -> None:
        """End a `hold_back`: all messages are back."""
        self._holds -= 1
        self._settle_down(now)

    def _acked(self, entries: list[QueueEntry]) -> None:
        entry: QueueEntry
        for entry in entries:
            self._release(entry)
            if self._storage is not None:
                self.forget(entry)

    def _rejected(self, entries: Iterable[QueueEntry], now: float) -> None:
        for entry in entries:
            self._release(entry)
            if not self.is_deleted:
                self._let_go(entry, "rejected", now)
            elif self.is_orphaning:
                self._orphan(entry, now)

    def _requeued(self, entries: Iterable[QueueEntry], now: float) -> None:
        for entry in entries:
            self._release(entry)
            if not self.is_deleted:
                entry.is_redelivered = True
                self._put_back(entry)
            elif self.is_orphaning:
                self._orphan(entry, now)

    def _orphan(self, entry: QueueEntry, now: float) -> None:
        """Dead-letter a message that comes back once the queue is deleted."""
        self._quantum.left -= _LETTING_GO
        self.forget(entry, is_used=False)
        try:
            message = entry.message if entry.paged_body is None else whole(entry)
        except UNREADABLE as error:
            self._owner.failed(self, "messages lost", error, count=1)
            return
        self._owner.dead_letter(self, message, DELETED, now)

    def _given_back(self, entries: Iterable[QueueEntry], now: float) -> None:
        self._requeued(entries, now)

    def forget(self, entry: QueueEntry, *, is_used: bool = True) -> None:
        """Remove a message from storage: it is settled, or never will be, and does not come back to this place."""
        if self._storage is None:
            return
        message = entry.message
        if not self.is_deleted:
            backlog = self._backlog_for(message, message.header[_FLAGS]) if self._max_priority else self._backlogs[0][1]
            backlog.done(entry, is_used=is_used)
        elif self._orphans is not None:
            priority = self._level(message, message.header[_FLAGS]) if self._max_priority else 0
            self._orphans.done(priority, entry.position, is_used=is_used)

    def _let_go(self, entry: QueueEntry, reason: str, now: float) -> None:
        """Drop a message that the queue has no more use for, and dead-letter it for a reason that x-death will name."""
        self._quantum.left -= _LETTING_GO
        self._quantum.hasten()
        self.forget(entry, is_used=self.settings.dead_letter_exchange is None)
        try:
            message = entry.message if entry.paged_body is None else whole(entry)
        except UNREADABLE as error:
            self._owner.failed(self, "messages lost", error, count=1)
            return
        self._owner.dead_letter(self, message, reason, now)

    def letter_sent(self, letter: DeadLetter, has_arrived: bool, now: float) -> None:
        """Take the result of sending a dead letter that the queue keeps until it has arrived."""
        raise NotImplementedError

    def _put_back(self, entry: QueueEntry) -> None:
        message = entry.message
        backlog = self._backlog_for(message, message.header[_FLAGS]) if self._max_priority else self._backlogs[0][1]
        backlog.put_back(entry)
        self._count += 1
        self.body_bytes += len(message.body) if entry.paged_body is None else entry.paged_body.body_bytes
        if entry.expires_at != _NEVER:
            self._is_timed = True

    def _settle_down(self, now: float) -> None:
        """After messages came back, drop those over a limit or expired, and deliver the rest."""
        if not self._holds:  # otherwise this is done when the hold ends
            self._round_robin.wait_no_more()
            self._settle_further(now)

    def _settle_further(self, now: float) -> None:
        if (self._is_dropping and not self._drop_surplus(now)) or (self._is_timed and not self.expire(now)):
            return  # a later turn does the rest
        self.pump(now)
        self._look_ahead()

    # --- work left to later turns

    def is_settled(self, now: float) -> bool:
        """Return whether all work is done whose absence a client could notice."""
        if self._is_timed and not self._holds:
            self.expire(now)
        return not self.is_busy

    @property
    def is_busy(self) -> bool:
        """Whether there is work to be done before the next request is answered."""
        return self._holds > 0 or self._is_late

    def _go_on_later(self) -> None:
        if not self._is_listed:
            self._is_listed = True
            self._owner.work.add(self._go_on)

    def _go_on(self, now: float) -> bool:
        self._is_listed = self._is_late = False
        if not self.is_deleted and not self._holds:
            self._settle_further(now)
        return False  # if there is more, the queue has been added again

    def _release(self, entry: QueueEntry) -> None:
        """Release a message from the consumer that holds it."""
        self.unacked -= 1
        consumer = entry.consumer
        if consumer is not None:
            entry.consumer = None  # a requeued message must not keep its consumer alive
            consumer.unacked -= 1
            consumer.deliveries.held -= 1
            if consumer.is_blocked and consumer.is_ready() and consumer.deliveries.global_prefetch == _UNLIMITED:
                self._round_robin.add(consumer)  # with a global prefetch, its channel decides whose turn it is

    # --- consumers

    def check_consumer(self, *, exclusive: bool, no_ack: bool, prefetch: int, is_limited: bool) -> None:
        """Raise `ProtocolError` if there cannot be such a consumer.

        `is_limited` is whether its channel has a global prefetch.
        """
        is_taken = self._exclusive is not None or (exclusive and self.consumers)
        if is_taken or (exclusive and isinstance(self._round_robin, SingleActiveConsumer)):
            raise AccessRefused(f"{self} in exclusive use")

    def subscribe(self, consumer: Consumer, now: float) -> None:
        """Add a consumer. It gets no message before the next `pump`."""
        self.consumers[consumer] = None
        if consumer.exclusive:
            self._exclusive = consumer
        self._round_robin.add(consumer)
        self._round_robin.wait_no_more()
        self._used_at = now

    def subscribe_aside(self, consumer: Consumer, now: float) -> None:
        """Add a consumer that takes no turns: one of the `lookers` takes messages out for it."""
        self.consumers[consumer] = None
        if consumer.exclusive:
            self._exclusive = consumer
        consumer.is_blocked = True
        self._used_at = now

    def _notify_lookers(self, now: float) -> None:
        for mine in list(self.lookers.values()):
            if len(mine) > MOST_LOOKERS:
                continue  # they also look at intervals, though later
            self._quantum.left -= len(mine)
            for looker in list(mine):
                looker.queue_changed(now)

    def unsubscribe(self, consumer: Consumer, now: float) -> None:
        """Remove a consumer; an auto-delete queue is deleted with its last one."""
        if self.consumers.pop(consumer, self) is self:
            return
        if consumer is self._exclusive:
            self._exclusive = None
        self._round_robin.remove(consumer)
        if not self._count or not (self._successor_waits and self._profile.successor_waits):
            self._round_robin.wait_no_more()
        self._used_at = now
        if not self.consumers and self.auto_delete:
            self._owner.became_unused(self)
        else:
            self.pump(now)
            self._look_ahead()

    def rejoin(self, consumer: Consumer) -> bool:
        """Give a blocked consumer turns again if it can take messages; then the next `pump` includes it."""
        if not consumer.is_ready():
            return False
        self._round_robin.add(consumer)
        return True

    def pump(self, now: float) -> None:
        """Deliver ready messages, as long as a consumer can take them."""
        if self._is_pumping or self._holds or self._is_late or not self._count:
            return
        quantum = self._quantum
        self._is_pumping = True
        try:
            while self._count:
                if self._is_timed and not self.expire(now):
                    break
                if not self._count:
                    break
                consumer = self._round_robin.next()
                if consumer is None:
                    break
                entry = self._take()
                if entry is not None:
                    self._hand_out(entry, consumer, now)
                quantum.left -= 1
                if quantum.left <= 0 and self._count and quantum.is_over():
                    self._go_on_later()
                    break
        except Exception as error:  # noqa: BLE001 - the client that publishes or settles is not at fault
            self._owner.failed(self, "handing out failed", error)
        finally:
            self._is_pumping = False
        if self._is_timed:
            self._look_ahead()

    def _hand_out(self, entry: QueueEntry, consumer: Consumer, now: float) -> None:
        if not consumer.no_ack:
            self.hold(entry, consumer)
            consumer.deliveries.deliver(consumer, entry, now)
            return
        entry.tag = 0
        consumer.deliveries.deliver(consumer, entry, now)
        if self._storage is not None and entry.tag != NOT_SENT:
            self.forget(entry)

    def hold(self, entry: QueueEntry, consumer: Consumer | None) -> None:
        """Record that a message is unacknowledged until it is settled; `consumer` is None for basic.get."""
        self.unacked += 1
        entry.consumer = consumer  # in place of an earlier consumer
        if consumer is not None:
            consumer.unacked += 1
            consumer.deliveries.held += 1

    # --- expiry and limits

    def expire(self, now: float) -> bool:
        """Drop or dead-letter the expired messages at the head. RabbitMQ looks at no others.

        False if the turn was over before all of them were gone.
        """
        while self._count and self._head_expires_at() <= now:
            if self._quantum.left <= 0 and self._quantum.is_over():
                return self._leave_head()
            entry = self._take()
            if entry is not None:
                self._let_go(entry, "expired", now)
        return True

    def _leave_head(self) -> bool:
        """Leave the messages at the head to be dropped in later turns; return False, as it is not done."""
        self._is_late = True
        self._go_on_later()
        return False

    def tick(self, now: float) -> None:
        """Perform the work that is due: expiry of the queue, and of its messages."""
        self._looked_at = NEVER
        if self.is_deleted:
            return
        if self.expires_at <= now:
            self._owner.became_unused(self)
            return
        if self._is_timed and not self._holds:
            self.expire(now)
        self._look_ahead()

    def touch(self, now: float) -> None:
        """Note that the queue is used."""
        self._used_at = now

    @property
    def expires_at(self) -> float:
        """Time at which the queue itself is deleted for want of use."""
        if self.settings.expires is None or self.consumers:
            return NEVER
        return self._used_at + self.settings.expires

    @property
    def next_deadline(self) -> float:
        """Time at which `tick` will next have work."""
        return min(self.expires_at, self._head_expires_at() if self._is_timed else NEVER)

    def _look_ahead(self) -> None:
        """Ask for a `tick` if something is due earlier than the time it is scheduled for."""
        if self.is_busy:
            return  # a later turn looks at it anyway
        if self._is_timed or self.settings.expires is not None:
            when = self.next_deadline
            if when < self._looked_at:
                self._looked_at = when
                self._owner.look_at(self, when)

    def _head_expires_at(self) -> float:
        for _, backlog in self._backlogs:
            if backlog:
                try:
                    return backlog.expires_at
                except Exception as error:  # noqa: BLE001 - the disk's trouble, and not the caller's
                    self._owner.failed(self, "reading failed", error)
                    break
        return NEVER

    def _expiry(self, message: Message, flags: int, now: float) -> float:
        ttl = NEVER if self._ttl is None else self._ttl
        if flags & HAS_EXPIRATION:
            ttl = min(ttl, int(message.properties.expiration or 0) / 1000)
        return now + ttl

    def _refuses(self, message: Message, now: float) -> bool:
        if self._count < self._max_length and self.body_bytes + len(message.body) <= self._max_bytes:
            return False
        if self.settings.overflow == "reject-publish-dlx":
            self._owner.dead_letter(self, message, "maxlen", now)
        return True

    def _drop_surplus(self, now: float) -> bool:
        """Drop the messages over the limits; return False if the turn was over before all of them were dropped."""
        while self._count and (self._count > self._max_length or self.body_bytes > self._max_bytes):
            if self._quantum.left <= 0 and self._quantum.is_over():
                return self._leave_head()
            entry = self._take()
            if entry is not None:
                self._let_go(entry, "maxlen", now)
        return True

    # --- paging

    @property
    def bytes_in_memory(self) -> int:
        """Approximate bytes of memory that the ready messages take."""
        return (
            self.body_bytes + self._count * MESSAGE_COST - sum(backlog.bytes_paged_out for _, backlog in self._backlogs)
        )

    def page_out(self, page_store: PageStore, most: int) -> int:
        """Page out about `most` bytes, from the lowest priority up; return the bytes that this frees.

        `OSError` if the disk does not take them.
        """
        freed = 0
        for _, backlog in reversed(self._backlogs):
            if freed < most:
                freed += backlog.page_out(page_store, most - freed)
        return freed

    # --- deletion

    def discard(self) -> None:
        """Delete the queue's messages with it; unsettled ones may still go to an alternate exchange."""
        if self.is_orphaning and self._storage is not None:
            self._orphans = HeldOrphans(self, self._owner.name, self._storage.journal)
        for priority, backlog in self._backlogs:
            if self._orphans is not None and isinstance(backlog, DurableBacklog):
                self._orphans.keep(priority, backlog)
            for container in backlog.discard():
                self._owner.work.free(container)
        self._backlogs = [(0, Backlog())]
        self._count = self.body_bytes = 0
        self._is_timed = False

    def check_delete(self, *, if_unused: bool, if_empty: bool) -> None:
        """Raise `ProtocolError` if the queue is not as the client that deletes it expects."""
        if if_unused and self.consumers:
            raise PreconditionFailed(f"{self} in use")
        if if_empty and self._count:
            raise PreconditionFailed(f"{self} not empty")

"""One queue: its messages in order, and the consumers that they are delivered to in turn.

Dead-lettering and the resolution of names are the virtual host's part; the queue notifies it through `QueueObserver`.
Every message passes through publishing, delivering and settling, so this code is kept lean.

One class, and so one long file: all ways into a queue and out of it share its counts, which C sees.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol

from amqproxy.amqp091.errors import AccessRefused, PreconditionFailed
from amqproxy.amqp091.wire import Table
from amqproxy.broker.message import Message
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

if TYPE_CHECKING:
    from amqproxy.broker.queues.at_least_once import DeadLetter

try:
    import cython
except ImportError:  # a plain run does not need Cython
    from amqproxy.compiled import _cython as cython

PART = 8
"""Messages that are settled between two looks whether the turn is over."""

LETTING_GO = 8
"""What it costs of a turn to let a message go, which may be published elsewhere."""

DELETED = "deleted"
"""The reason in x-death of messages that were sent on because their queue was deleted."""

MOST_LOOKERS = 64
"""What looks for messages is notified of each that comes, up to so many of one user in one queue: that is part of
publishing it.
"""

_NEVER = NEVER  # these as C sees them
_UNLIMITED = UNLIMITED
_LETTING_GO = LETTING_GO
_FLAGS = FLAGS
_HAS_EXPIRATION = HAS_EXPIRATION
_HAS_PRIORITY = HAS_PRIORITY


Place = tuple[int, int]
"""Where a message of a queue is: its priority, and its position among those of that."""


LockedEntries = dict[Place, QueueEntry | None]
"""What transactions have accepted and not committed, by its places."""


class PeekedMessage(NamedTuple):
    """A message that waits in a queue; `expires_at` (seconds) is when its time there is over."""

    place: Place
    message: Message
    expires_at: float


class ExclusiveOwner(Protocol):
    """The connection that alone may use its `exclusive_queues`."""

    @property
    def exclusive_queues(self) -> dict[Queue, None]: ...


class Looker(Protocol):
    """What looks for messages in a queue."""

    def queue_changed(self, now: float, /) -> None:
        """A message has come, which waits."""


class QueueObserver(Protocol):
    """What a queue reports to its virtual host."""

    name: str
    work: WorkQueue

    def dead_letter(
        self, queue: Queue, message: Message, reason: str, now: float, letter: DeadLetter | None = None
    ) -> None:
        """The queue has no more use for a message, for the reason that x-death will name.

        With `letter`, its `letter_sent` is to be called.
        """

    def became_unused(self, queue: Queue) -> None:
        """The queue has lost the last consumer it was for, or was not used for as long as it may."""

    def look_at(self, queue: Queue, when: float) -> None:
        """`Queue.tick` is to be called at that time."""

    def failed(self, queue: Queue, event: str, failure: Exception, **fields: object) -> None:
        """Something has failed that is the queue's own trouble, and not the caller's."""


class Queue:
    """One classic queue; a subclass is another type.

    `exclusive_to` is the connection that alone may use it. Times are in seconds. `settings` are what arguments and
    policy come to; `policy_names` are the policy and the operator policy they come from. `unacked` counts what is
    handed out and not settled.

    What does not fit into a turn of the loop is left to the `work` of the owner. Until then the queue `is_busy` where
    a client could notice that it is not done, and nothing is handed out past what is still to come back.
    """

    type: ClassVar[str] = "classic"
    takes_back: ClassVar[bool] = True
    """Does what is handed out and not wanted come back?"""
    _successor_waits: ClassVar[bool] = True
    """Does the next single active consumer wait for what the one that was cancelled has not settled?"""
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
        """By the users whose they are."""
        """What looks for messages in it, and takes no turns."""
        self.unacked = 0
        self.body_bytes = (
            0 if storage is None else storage.body_bytes(owner.name, name, arguments.get("x-max-priority", 0))
        )
        """Bytes of the ready messages' bodies."""
        self.is_deleted = False
        self.is_no_local = str(arguments.get("no-local")).lower() == "true"
        """Whether it takes no message that its owner's own connection publishes: an argument of Qpid's."""
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

    def _new_backlog(self, priority: int) -> Backlog:
        if self._storage is None:
            return Backlog(self._lost)
        message_log = self._storage.message_log(self._owner.name, self.name, priority)
        return DurableBacklog(message_log, self._storage.fetch, self._lost)

    def _lost(self, messages: int, body_bytes: int) -> None:
        """Some of what waits on the disk cannot be read any more: it costs itself, and not the queue."""
        self._count -= messages
        self.body_bytes = max(0, self.body_bytes - body_bytes) if self._count else 0
        self._owner.failed(self, "messages lost", LookupError("they cannot be read back"), count=messages)

    def apply(self, settings: QueueSettings, now: float) -> None:
        """Let other settings hold; what is over a limit now goes at once."""
        self._follow(settings)
        if self._is_dropping and not self._holds:
            self._drop_surplus(now)
        self._look_ahead()

    def recovered(self, now: float, locked: LockedEntries | None = None) -> None:
        """All is there that was there before a restart, and so where its dead letters go: it can begin.

        What transactions have `locked` is out again.
        """
        if locked:
            self._lock(locked)
        self._settle_down(now)

    def _lock(self, locked: LockedEntries) -> None:
        """Take out what transactions have accepted. What was not found stays None."""
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

    # --- what is in it

    @property
    def message_count(self) -> int:
        """Messages that are ready: neither handed out nor gone."""
        return self._count

    @property
    def consumer_count(self) -> int:
        return len(self.consumers)

    @property
    def entered(self) -> int:
        """How many messages have come in so far: since the broker's start, or of a durable queue, since its own."""
        return sum(backlog.entered for _, backlog in self._backlogs)

    @property
    def left(self) -> int:
        """How many of them have been handed out, or dropped; some may have come back since."""
        return sum(backlog.left for _, backlog in self._backlogs)

    def __iter__(self) -> Iterator[Message]:
        """The ready messages, the next first."""
        for _, backlog in self._backlogs:
            yield from backlog

    @property
    def peek_cost(self) -> int:
        """How many messages a `peek` goes over, beside those that it returns."""
        return sum([backlog.peek_cost for _, backlog in self._backlogs])

    def peek(
        self, seen: Mapping[int, SeenPositions], most: int, body_bytes: int, depth: int = UNLIMITED
    ) -> list[PeekedMessage]:
        """The first of the ready messages that were not `seen` (by priority, their positions): they stay.

        So many, or about so many bytes of bodies, of the first `depth`.
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
        """What a `peek` goes over: of each priority, the last position that has gone out, and those that are back."""
        for priority, backlog in self._backlogs:
            yield priority, backlog.left, backlog.back

    def place_of(self, entry: QueueEntry) -> Place:
        """Where a message was that has been taken out, as `peek` has it."""
        message = entry.message
        return self._level(message, message.header[_FLAGS]) if self._max_priority else 0, entry.position

    def publish(self, message: Message, now: float, ticket: DurabilityTicket | None = None) -> bool:
        """Take a message; False when the queue is full and rejects it. `ticket` counts it, if it is stored."""
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
        """Would it be there again after a restart?"""
        return self._storage is not None and message.is_persistent

    def admits(self, messages: int, body_bytes: int) -> bool:
        """Would so many messages more, with so many bytes of bodies, all be taken?"""
        if not self._is_refusing:
            return True
        return self._count + messages <= self._max_length and self.body_bytes + body_bytes <= self._max_bytes

    def admit(self, message: Message, now: float, ticket: DurabilityTicket | None = None) -> None:
        """Take a message that was admitted before: it is not refused any more."""
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
                self.expire(now)  # so that the count of what is left is without what has expired behind it
            self._look_ahead()
        return entry

    def purge(self) -> int:
        """Drop what is ready; how many that was."""
        count = self._count
        for _, backlog in self._backlogs:
            for container in backlog.clear():
                self._owner.work.free(container)
        self._count = self.body_bytes = 0
        self._is_timed = False
        return count

    def _take(self) -> QueueEntry | None:
        """The first ready message; there must be one. None where it could not be read, and is lost."""
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
        """Where the first ready message is; there must be one."""
        return next(backlog for _, backlog in self._backlogs if backlog)

    def _backlog_for(self, message: Message, flags: int) -> Backlog:
        """Where messages of this one's priority wait. The backlogs are in order, the highest priority first."""
        priority = self._level(message, flags)
        for each, backlog in self._backlogs:
            if each == priority:
                return backlog
        new = self._new_backlog(priority)
        self._backlogs.append((priority, new))
        self._backlogs.sort(key=lambda each: -each[0])
        return new

    def _level(self, message: Message, flags: cython.int) -> int:
        """The priority, from 0 to the queue's highest, that a message has in it."""
        priority: cython.int = self._usual_priority
        highest: cython.int = self._max_priority
        if flags & _HAS_PRIORITY:
            priority = message.properties.priority or 0
        priority -= self._priority_offset
        return 0 if priority < 0 else highest if priority > highest else priority

    # --- settling: what was handed out is done with, or is not

    def ack(self, entries: list[QueueEntry], now: float) -> None:
        """What these were is done."""
        self._acked(entries)
        if self._count:
            self.pump(now)

    def reject(self, entries: Iterable[QueueEntry], now: float) -> None:
        """Drop these, or dead-letter them: their consumer has rejected them."""
        self._rejected(entries, now)
        self.pump(now)

    def requeue(self, entries: Iterable[QueueEntry], now: float) -> None:
        """Put messages back to their places, to be handed out again as redelivered."""
        self._requeued(entries, now)
        self._settle_down(now)

    def give_back(self, entries: Iterable[QueueEntry], now: float) -> None:
        """Put back what a channel held when it went."""
        self._given_back(entries, now)
        self._settle_down(now)

    def settling(self, entries: list[QueueEntry], outcome: str, now: float) -> Generator[None, float, float]:
        """The same in steps, for any number of messages: the list is used up. Returns the time it ends at.

        What comes back is back as a whole before any of it, or of what came later, is handed out: the caller that lets
        it come back has called `hold_back`, and this ends that.
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
        """Deliver nothing, and answer no request, until what is coming back is there."""
        self._holds += 1

    def hold_no_more(self, now: float) -> None:
        """All is back."""
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
        """This is settled, or never will be: it will not come back, or not here."""
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
        """There is no more use for this here, for a reason that x-death will name."""
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
        """A dead letter that the queue keeps until it has arrived was sent: has it?"""
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
        """After messages came back: drop what is too much and what is over, and hand out the rest."""
        if not self._holds:  # otherwise this is done when the hold ends
            self._round_robin.wait_no_more()
            self._settle_further(now)

    def _settle_further(self, now: float) -> None:
        if (self._is_dropping and not self._drop_surplus(now)) or (self._is_timed and not self.expire(now)):
            return  # and the rest later
        self.pump(now)
        self._look_ahead()

    # --- what a turn leaves to later ones

    def is_settled(self, now: float) -> bool:
        """Is all work done whose absence a client could notice?"""
        if self._is_timed and not self._holds:
            self.expire(now)
        return not self.is_busy

    @property
    def is_busy(self) -> bool:
        """Is there work left to be done before the next request is answered?"""
        return self._holds > 0 or self._is_late

    def _go_on_later(self) -> None:
        if not self._is_listed:
            self._is_listed = True
            self._owner.work.add(self._go_on)

    def _go_on(self, now: float) -> bool:
        self._is_listed = self._is_late = False
        if not self.is_deleted and not self._holds:
            self._settle_further(now)
        return False  # it is in line again, if there is more

    def _release(self, entry: QueueEntry) -> None:
        """The consumer of a message holds it no more."""
        self.unacked -= 1
        consumer = entry.consumer
        if consumer is not None:
            entry.consumer = None  # a message that waits again is not to keep it
            consumer.unacked -= 1
            consumer.deliveries.held -= 1
            if consumer.is_blocked and consumer.is_ready() and consumer.deliveries.global_prefetch == _UNLIMITED:
                self._round_robin.add(consumer)  # with a global prefetch, its channel decides whose turn it is

    # --- who takes from it

    def check_consumer(self, *, exclusive: bool, no_ack: bool, prefetch: int, is_limited: bool) -> None:
        """`ProtocolError` for a consumer that cannot be; `is_limited` is whether its channel has a global prefetch."""
        is_taken = self._exclusive is not None or (exclusive and self.consumers)
        if is_taken or (exclusive and isinstance(self._round_robin, SingleActiveConsumer)):
            raise AccessRefused(f"{self} in exclusive use")

    def subscribe(self, consumer: Consumer, now: float) -> None:
        """Add a consumer. It is handed nothing before the next `pump`."""
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
                continue  # they look by themselves, too, though later
            self._quantum.left -= len(mine)
            for looker in list(mine):
                looker.queue_changed(now)

    def unsubscribe(self, consumer: Consumer, now: float) -> None:
        """Remove a consumer; the queue goes with its last one if it is auto-delete."""
        if self.consumers.pop(consumer, self) is self:
            return
        if consumer is self._exclusive:
            self._exclusive = None
        self._round_robin.remove(consumer)
        if not self._count or not self._successor_waits:
            self._round_robin.wait_no_more()
        self._used_at = now
        if not self.consumers and self.auto_delete:
            self._owner.became_unused(self)
        else:
            self.pump(now)
            self._look_ahead()

    def rejoin(self, consumer: Consumer) -> bool:
        """A consumer that was blocked may be able to take again. If so, the next `pump` counts it in."""
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
        entry.consumer = consumer  # and no longer its consumer before that
        if consumer is not None:
            consumer.unacked += 1
            consumer.deliveries.held += 1

    # --- how long, and how much

    def expire(self, now: float) -> bool:
        """Let go of the messages at the head whose time is over. RabbitMQ looks at no others.

        False when the turn was over before all of them were gone.
        """
        while self._count and self._head_expires_at() <= now:
            if self._quantum.left <= 0 and self._quantum.is_over():
                return self._leave_head()
            entry = self._take()
            if entry is not None:
                self._let_go(entry, "expired", now)
        return True

    def _leave_head(self) -> bool:
        """Leave it to later turns to drop what is at the head: False, that is not done."""
        self._is_late = True
        self._go_on_later()
        return False

    def tick(self, now: float) -> None:
        """Do what is due."""
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
        """When the queue itself is to go for want of use."""
        if self.settings.expires is None or self.consumers:
            return NEVER
        return self._used_at + self.settings.expires

    @property
    def next_deadline(self) -> float:
        """When `tick` will next have something to do."""
        return min(self.expires_at, self._head_expires_at() if self._is_timed else NEVER)

    def _look_ahead(self) -> None:
        """Ask for a look at the queue when something is due that was not foreseen."""
        if self.is_busy:
            return  # then it is looked at anyway
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
        """Drop what is over the limits; False when the turn was over before that was all of it."""
        while self._count and (self._count > self._max_length or self.body_bytes > self._max_bytes):
            if self._quantum.left <= 0 and self._quantum.is_over():
                return self._leave_head()
            entry = self._take()
            if entry is not None:
                self._let_go(entry, "maxlen", now)
        return True

    # --- what memory has no room for

    @property
    def bytes_in_memory(self) -> int:
        """About how many bytes of memory the ready messages take."""
        return (
            self.body_bytes + self._count * MESSAGE_COST - sum(backlog.bytes_paged_out for _, backlog in self._backlogs)
        )

    def page_out(self, page_store: PageStore, most: int) -> int:
        """Let messages wait on the disk, those of the lowest priority first; how many bytes, about `most`, that
        gives back. `OSError` when the disk does not take them.
        """
        freed = 0
        for _, backlog in reversed(self._backlogs):
            if freed < most:
                freed += backlog.page_out(page_store, most - freed)
        return freed

    # --- its end

    def discard(self) -> None:
        """The queue is deleted, with its messages; those that are out may still go to an alternate exchange."""
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
        """`ProtocolError` when the queue is not as the client that deletes it expects."""
        if if_unused and self.consumers:
            raise PreconditionFailed(f"{self} in use")
        if if_empty and self._count:
            raise PreconditionFailed(f"{self} not empty")

"""Quorum queues on one node: deliveries are counted, and limited."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, Any, ClassVar

from amqproxy.amqp091.errors import NotImplementedByServer, ResourceLocked
from amqproxy.amqp091.wire import Field
from amqproxy.broker.message import Message, header_with
from amqproxy.broker.queues.at_least_once import SEND_AGAIN_AFTER, DeadLetter, PendingDeadLetters
from amqproxy.broker.queues.backlog import FLAGS, MOST_PEEKED, NEVER, Backlog, SeenPositions
from amqproxy.broker.queues.consumer import ConsumedQueue, Consumer, QueueEntry
from amqproxy.broker.queues.durable_backlog import DurableBacklog
from amqproxy.broker.queues.paged_bodies import page_in, page_out_bodies, whole
from amqproxy.broker.queues.paged_messages import MESSAGE_COST, UNREADABLE, Fetch, PageStore
from amqproxy.broker.queues.policies import effective_arguments
from amqproxy.broker.queues.queue import LETTING_GO, LockedEntries, Queue
from amqproxy.broker.queues.round_robin import SingleActiveConsumer
from amqproxy.broker.storage.message_log import MessageLog
from amqproxy.broker.work import Container, Job

if TYPE_CHECKING:
    from amqproxy.broker.queues.queue_arguments import QueueSettings

PREFETCH = 2000
"""Maximum prefetch of a consumer, also of one without a prefetch."""

TWO_LEVELS = 2
"""Priority levels of RabbitMQ 4.0, which delivers two high messages for each normal one; here, its queues have none."""

USUAL_PRIORITY = 4
"""Priority of a message without one."""

REASONS = ("rejected", "expired", "delivery_limit", "maxlen")
"""Reasons why a quorum queue drops a message. The order is part of the format on the disk."""

LOW_WATER = 0.8
"""Fraction of its limits to which a queue that has refused must come down before it takes messages again."""


class RequeueOrder(Backlog):
    """A backlog in which requeued messages wait in front, in the order they came back, or else behind the rest.

    It is in memory or on the disk: its two subclasses declare `_again` and `_behind`, since two bases cannot both have
    slots.
    """

    __slots__ = ()

    _again: deque[QueueEntry]
    _behind: dict[int, QueueEntry]

    def __len__(self) -> int:
        return len(self._again) + super().__len__()

    def __iter__(self) -> Iterator[Message]:
        for entry in self._again:
            yield whole(entry)
        yield from super().__iter__()

    @property
    def peek_cost(self) -> int:
        return min(len(self._again), MOST_PEEKED) + super().peek_cost

    def peek(self, seen: SeenPositions, most: int, body_bytes: int, depth: int) -> list[tuple[int, Message, float]]:
        rows: list[tuple[int, Message, float]] = []
        for entry in islice(self._again, MOST_PEEKED):
            if len(rows) >= most or body_bytes <= 0:
                return rows
            if entry.position in seen:
                continue
            with suppress(*UNREADABLE):
                message = whole(entry)
                rows.append((entry.position, message, entry.expires_at))
                body_bytes -= len(message.body)
        if len(rows) < most and body_bytes > 0:
            rows += super().peek(seen, most - len(rows), body_bytes, depth - len(self._again))
        return rows

    def put_back(self, entry: QueueEntry) -> None:
        self._again.append(entry)
        if entry.paged_body is not None:
            self._returned_bytes_paged_out += entry.paged_body.body_bytes

    def take(self, queue: ConsumedQueue) -> QueueEntry | None:
        if self._again:
            again = self._again.popleft()
            return again if again.paged_body is None or self._restore(again) else None
        entry = super().take(queue)
        return self._behind.pop(entry.position, entry) if self._behind and entry is not None else entry

    def _came_back(self) -> Iterable[QueueEntry]:
        return self._again

    @property
    def expires_at(self) -> float:
        return self._again[0].expires_at if self._again else super().expires_at

    def clear(self) -> list[Container]:
        dropped = [*super().clear(), self._again, self._behind]
        self._again, self._behind = deque(), {}  # type: ignore[misc]  # slots of the two below
        return dropped

    def discard(self) -> list[Container]:
        return [*super().discard(), self._again, self._behind]


class RequeueFirst(RequeueOrder):
    """A requeue order in memory."""

    __slots__ = ("_again", "_behind")

    def __init__(self, on_lost: Callable[[int, int], None] = lambda messages, body_bytes: None) -> None:
        super().__init__(on_lost)
        self._again = deque()
        self._behind = {}

    def put_behind(self, entry: QueueEntry) -> None:
        """Put a message that was taken out behind all others. An error of `UNREADABLE` if its body is lost."""
        page_in(entry)
        self.add(entry.message, entry.expires_at)
        entry.position = self._position + len(self._fresh)
        self._behind[entry.position] = entry

    def keep_letter(self, entry: QueueEntry, reason: str) -> None:
        """Note nothing of a dead letter that waits: it is in memory alone."""


class DurableRequeueFirst(RequeueOrder, DurableBacklog):
    """A requeue order on the disk: it logs all messages, and which of them have come back, in their order."""

    __slots__ = ("_again", "_behind", "_turn")

    keeps_all = True

    def __init__(
        self,
        message_log: MessageLog,
        fetch: Fetch,
        on_lost: Callable[[int, int], None] = lambda messages, body_bytes: None,
    ) -> None:
        DurableBacklog.__init__(self, message_log, fetch, on_lost)
        self._again = deque()
        self._behind = {}
        self._turn = 0

    def keep_letter(self, entry: QueueEntry, reason: str) -> None:
        """Note that a message is a dead letter, so that it is still one after a restart.

        A turn below 0 is the place of the reason in `REASONS`, from -1 on.
        """
        self._message_log.returned(entry.position, entry.delivery_count, -1 - REASONS.index(reason))

    def recover(self, queue: ConsumedQueue) -> tuple[list[QueueEntry], list[DeadLetter]]:
        """Take out the messages that were delivered or requeued when an earlier broker ended, and the dead letters.

        The requeued messages come first, in their order. Each of the messages has its count as if it were back, and has
        yet to be put back. The second list has the dead letters that had not arrived.
        """
        back: list[tuple[int, QueueEntry]] = []
        out: list[QueueEntry] = []
        letters: list[DeadLetter] = []
        while self._paged is not None:
            first = self._paged.first
            if first is None or first.position > self._redelivered_to:
                break
            turn = first.turn
            entry = self.take(queue)
            assert entry is not None
            if turn < 0:
                letters.append(DeadLetter(entry, REASONS[-1 - turn]))
                continue
            if turn:
                back.append((turn, entry))
            else:
                entry.delivery_count += 1
                out.append(entry)
            entry.is_redelivered = True
        return [entry for _, entry in sorted(back, key=lambda each: each[0])] + out, letters

    def put_back(self, entry: QueueEntry) -> None:
        super().put_back(entry)
        self._out.pop(entry.position)
        self._turn += 1
        self._message_log.returned(entry.position, entry.delivery_count, self._turn)

    def put_behind(self, entry: QueueEntry) -> None:
        page_in(entry)
        self._message_log.settled(entry.position, self._out.pop(entry.position), is_used=False)
        self.add(entry.message, entry.expires_at)
        entry.position = self._position + len(self._fresh)
        self._behind[entry.position] = entry
        self._message_log.returned(entry.position, entry.delivery_count)

    def take(self, queue: ConsumedQueue) -> QueueEntry | None:
        is_again = bool(self._again)
        entry = super().take(queue)
        if is_again and entry is not None:
            self._went_out(entry)
            self._message_log.returned(entry.position, entry.delivery_count)
        return entry


class QuorumQueue(Queue):
    type: ClassVar[str] = "quorum"
    _successor_waits: ClassVar[bool] = False
    __slots__ = ("_is_full", "_keeps_letters", "_letters", "_returns")
    _backlogs: list[tuple[int, RequeueFirst | DurableRequeueFirst]]  # type: ignore[assignment]

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self._is_full = False
        self._letters = PendingDeadLetters()
        self._keeps_letters = False
        self._returns: deque[Backlog] = deque()
        """The backlogs of returned messages, in the order in which those came back, if there are priorities."""
        super().__init__(*arguments, **options)
        levels = self._profile.quorum_priorities
        if levels > TWO_LEVELS and self._storage is None:
            self._max_priority, self._usual_priority = levels - 1, USUAL_PRIORITY
            self._backlogs = [(each, self._new_backlog(each)) for each in (USUAL_PRIORITY, 0)]

    def _new_backlog(self, priority: int) -> RequeueFirst | DurableRequeueFirst:
        if self._storage is None:
            return RequeueFirst(self._lost)
        message_log = self._storage.message_log(self._owner.name, self.name, priority)
        return DurableRequeueFirst(message_log, self._storage.fetch, self._lost)

    def _follow(self, settings: QueueSettings) -> None:
        if settings.overflow == "reject-publish-dlx":
            settings = settings._replace(overflow="drop-head")
        if settings.delivery_limit is None and "x-delivery-limit" not in effective_arguments(
            self.arguments, self.policy
        ):
            settings = settings._replace(delivery_limit=self._profile.delivery_limit)
        super()._follow(settings)
        is_asked = settings.dead_letter_strategy == "at-least-once" and settings.dead_letter_exchange is not None
        # As with RabbitMQ, at-least-once needs reject-publish, and is at-most-once without.
        self._keeps_letters = is_asked and settings.overflow == "reject-publish"

    # --- dead letters kept until they have arrived

    def _let_go(self, entry: QueueEntry, reason: str, now: float) -> None:
        if not self._keeps_letters:
            super()._let_go(entry, reason, now)
            return
        letter = DeadLetter(entry, reason)
        self._letters.add(letter)
        self._quantum.left -= LETTING_GO
        self._send(letter, now)

    def _send(self, letter: DeadLetter, now: float) -> None:
        letter.attempts += 1
        try:
            message = whole(letter.entry)
        except UNREADABLE as error:
            self._owner.failed(self, "messages lost", error, count=1)
            self._letters.arrived(letter)
            return
        self._owner.dead_letter(self, message, letter.reason, now, letter)

    def letter_sent(self, letter: DeadLetter, has_arrived: bool, now: float) -> None:
        if self.is_deleted:
            return
        if has_arrived:
            self._letters.arrived(letter)
            self.forget(letter.entry, is_used=False)
        else:
            if letter.attempts == 1:
                self._backlogs[0][1].keep_letter(letter.entry, letter.reason)
            self._letters.wait(letter, now)
            self._look_ahead()

    def _sending_again(self, now: float) -> Job:
        """Send all letters again that have not arrived, in steps; if letters need not be kept, for the last time."""
        letters = self._letters.pop_unsent()
        quantum = self._quantum
        while letters and not self.is_deleted:
            letter = letters.popleft()
            if self._keeps_letters:
                self._send(letter, now)
            else:
                self._letters.arrived(letter)
                super()._let_go(letter.entry, letter.reason, now)
            if quantum.spend(LETTING_GO):
                now = yield

    def tick(self, now: float) -> None:
        if self._letters.due <= now and not self.is_deleted:
            self._owner.work.do(self._sending_again(now), now)
        super().tick(now)

    @property
    def next_deadline(self) -> float:
        return min(super().next_deadline, self._letters.due)

    def _look_ahead(self) -> None:
        if self._letters.due < self._looked_at:
            self._looked_at = self._letters.due
            self._owner.look_at(self, self._looked_at)
        super()._look_ahead()

    @property
    def bytes_in_memory(self) -> int:
        letters = sum(MESSAGE_COST + len(letter.entry.message.body) for letter in self._letters)
        return super().bytes_in_memory + letters

    def page_out(self, page_store: PageStore, most: int) -> int:
        freed = super().page_out(page_store, most)
        if freed < most:
            entries = (letter.entry for letter in self._letters if letter.entry.paged_body is None)
            freed += page_out_bodies(entries, page_store, most - freed)
        return freed

    # --- priorities: returned messages come before all others, in the order in which they came back

    def _put_back(self, entry: QueueEntry) -> None:
        super()._put_back(entry)
        if self._max_priority:
            message = entry.message
            self._returns.append(self._backlog_for(message, message.header[FLAGS]))

    def _first_backlog(self) -> Backlog:
        return self._returns.popleft() if self._returns else super()._first_backlog()

    def _head_expires_at(self) -> float:
        return self._returns[0].expires_at if self._returns else super()._head_expires_at()

    def purge(self) -> int:
        self._returns.clear()
        return super().purge()

    def discard(self) -> None:
        self._returns.clear()
        super().discard()

    # --- differences from a classic queue

    def get(self, now: float) -> QueueEntry | None:
        if isinstance(self._round_robin, SingleActiveConsumer):
            raise ResourceLocked(
                f"cannot obtain access to locked {self}. basic.get operations are not supported by quorum queues "
                "with single active consumer"
            )
        entry = super().get(now)
        if entry is not None and (self._profile.counts_first_delivery or entry.acquired or entry.delivery_count):
            self._count_delivery(entry)
        return entry

    def recovered(self, now: float, locked: LockedEntries | None = None) -> None:
        """Requeue the messages that were out when an earlier broker ended, behind those requeued before."""
        locked = locked or {}
        for _, backlog in self._backlogs:
            if isinstance(backlog, DurableRequeueFirst):
                entries, letters = backlog.recover(self)
                self._count -= len(entries) + len(letters)
                self.body_bytes -= sum(len(entry.message.body) for entry in entries)
                self.body_bytes -= sum(letter.body_bytes for letter in letters)
                for letter in letters:
                    self._letters.add(letter)
                    self._letters.wait(letter, now - SEND_AGAIN_AFTER)  # sent as soon as all queues have recovered
                for entry in entries:
                    place = 0, entry.position
                    if place in locked:
                        entry.delivery_count -= 1  # it has not come back
                        self.hold(entry, None)
                        locked[place] = entry
                    else:
                        self._come_back(entry, now)
        super().recovered(now)

    def keeps(self, message: Message) -> bool:
        return self._storage is not None

    def admits(self, messages: int, body_bytes: int) -> bool:
        if not self._is_refusing:
            return True
        self._note_fullness()
        count, size = self._count + self._letters.count, self.body_bytes + self._letters.body_bytes
        is_room = count + messages <= self._max_length and size + body_bytes <= self._max_bytes
        return is_room and not self._is_full

    def _requeued(self, entries: Iterable[QueueEntry], now: float) -> None:
        """Put messages behind all others or, with a delivery limit or from RabbitMQ 4.3 on, in front of them."""
        profile = self._profile
        is_behind = self.settings.delivery_limit is None and not profile.requeues_to_front
        self._return(entries, now, is_behind=is_behind, is_counted=not profile.counts_acquisitions)

    def _given_back(self, entries: Iterable[QueueEntry], now: float) -> None:
        self._return(entries, now, is_behind=False)

    def _return(self, entries: Iterable[QueueEntry], now: float, *, is_behind: bool, is_counted: bool = True) -> None:
        for entry in entries:
            self._release(entry)
            if not self.is_deleted:
                entry.delivery_count += is_counted
                entry.acquired += 1
                self._come_back(entry, now, is_behind=is_behind)
            elif self.is_orphaning:
                self._orphan(entry, now)

    def _come_back(self, entry: QueueEntry, now: float, *, is_behind: bool = False) -> None:
        limit = self.settings.delivery_limit
        if limit is not None and entry.delivery_count > limit:
            self._let_go(entry, "delivery_limit", now)
            return
        entry.is_redelivered = True
        if is_behind:
            self._put_behind(entry)
        else:
            self._put_back(entry)

    def _put_behind(self, entry: QueueEntry) -> None:
        try:
            self._backlogs[0][1].put_behind(entry)
        except UNREADABLE as error:
            self._owner.failed(self, "messages lost", error, count=1)
            return
        self._count += 1
        self.body_bytes += len(entry.message.body)
        if entry.expires_at != NEVER:
            self._is_timed = True

    def check_consumer(self, *, exclusive: bool, no_ack: bool, prefetch: int, is_limited: bool) -> None:
        if is_limited:
            raise NotImplementedByServer(f"{self} does not support global qos")

    def subscribe(self, consumer: Consumer, now: float) -> None:
        if not consumer.no_ack:
            consumer.prefetch = min(consumer.prefetch, PREFETCH)
        super().subscribe(consumer, now)

    def _hand_out(self, entry: QueueEntry, consumer: Consumer, now: float) -> None:
        if entry.delivery_count or entry.acquired:
            self._count_delivery(entry)
        super()._hand_out(entry, consumer, now)

    def _count_delivery(self, entry: QueueEntry) -> None:
        profile = self._profile
        counts = []
        if profile.counts_acquisitions and entry.acquired:
            counts.append(Field("x-acquired-count", "l", entry.acquired))
        if entry.delivery_count or profile.counts_first_delivery:
            counts.append(Field("x-delivery-count", "l", entry.delivery_count))
        entry.header = header_with(entry.message, *counts)

    def _refuses(self, message: Message, now: float) -> bool:
        """Return whether the queue is full: once it is over a limit, by one message, and until it is well below."""
        self._note_fullness()
        return self._is_full

    def _note_fullness(self) -> None:
        count, body_bytes = self._count + self._letters.count, self.body_bytes + self._letters.body_bytes
        if count > self._max_length or body_bytes > self._max_bytes:
            self._is_full = True
        elif count <= int(self._max_length * LOW_WATER) and body_bytes <= int(self._max_bytes * LOW_WATER):
            self._is_full = False

    def check_delete(self, *, if_unused: bool, if_empty: bool) -> None:
        for is_asked, flag in ((if_unused, "if-unused"), (if_empty, "if-empty")):
            if is_asked:
                raise NotImplementedByServer(
                    f"cannot delete {self}. queue.delete operations with {flag} flag set are not supported by "
                    "quorum queues"
                )

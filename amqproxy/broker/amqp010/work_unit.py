"""Messages published and accepted in a transaction of tx or dtx, until it is committed or rolled back.

A commit is all or nothing: queues that reject a surplus are asked before anything is done, and a commit that takes more
than one step is on the disk, decided, before the first: after a kill, a restart does the rest.
"""

from __future__ import annotations

from collections.abc import Generator
from itertools import chain
from typing import NamedTuple

from amqproxy.amqp010.command_ids import CommandIds
from amqproxy.amqp010.errors import ResourceLimitExceeded
from amqproxy.amqp010.results import Xid
from amqproxy.broker.amqp010.session_deliveries import ACQUIRED, SessionDeliveries
from amqproxy.broker.amqp010.transaction_log import AT_ONCE, TransactionLog
from amqproxy.broker.message import Message
from amqproxy.broker.message_counts import MessageCounts
from amqproxy.broker.queues.consumer import GIVE_BACK, ConsumedQueue, QueueEntry
from amqproxy.broker.queues.paged_messages import MESSAGE_COST
from amqproxy.broker.queues.queue import Queue
from amqproxy.broker.storage.batch import DurabilityTicket
from amqproxy.broker.vhost import VirtualHost

MOST_OPERATIONS = 1_000_000
MOST_BYTES = 256 * 1024 * 1024
"""Limits on the operations and the bytes of one transaction."""


class Publication(NamedTuple):
    """A published message with at most `AT_ONCE` queues; `position` and `size` locate its row in the log, or are 0.

    `counts` are those of its session, None after a restart. `is_further` is a part with the next queues of a message.
    """

    message: Message
    queues: tuple[Queue, ...]
    position: int = 0
    size: int = 0
    counts: MessageCounts | None = None
    is_further: bool = False


class Acceptance(NamedTuple):
    """Accepted messages of one queue; `position` and `size` are as in `Publication`."""

    queue: ConsumedQueue
    entries: list[QueueEntry]
    position: int = 0
    size: int = 0


class WorkUnit:
    """Messages that are yet to be published to their queues, and accepted messages that are yet to be settled."""

    def __init__(self, vhost: VirtualHost) -> None:
        self._vhost = vhost
        self._quantum = vhost.work.quantum
        self._published: list[Publication] = []
        self._accepted: dict[ConsumedQueue, list[QueueEntry]] = {}
        self._acceptances: list[Acceptance] = []
        """Accepted messages in parts, once they are in the log."""
        self._acked: dict[MessageCounts, int] = {}
        """Number of accepted messages by the counts of their sessions."""
        self._loads: dict[Queue, tuple[int, int]] = {}
        """Number of messages that each queue is to get, and the bytes of their bodies."""
        self._count = self._size = self._memory = 0
        self._log: TransactionLog | None = None

    def __bool__(self) -> bool:
        return bool(self._published or self._accepted or self._acceptances)

    @property
    def accepted(self) -> int:
        """Number of accepted messages."""
        parts = [*self._accepted.values(), *(each.entries for each in self._acceptances)]
        return sum(map(len, parts))

    @property
    def published(self) -> int:
        """Number of published messages."""
        return self._count - self.accepted

    @property
    def bytes_in_memory(self) -> int:
        """Approximate bytes of memory that the transaction takes."""
        return self._memory

    def publish(self, message: Message, queues: tuple[Queue, ...], counts: MessageCounts | None = None) -> None:
        """Publish a message to these queues with the commit, and count it for its session then."""
        self._grow(len(message.body), len(message.body))
        for start in range(0, len(queues) or 1, AT_ONCE):
            part = queues[start : start + AT_ONCE]
            self._published.append(Publication(message, part, counts=counts, is_further=start > 0))
        for queue in queues:
            count, size = self._loads.get(queue, (0, 0))
            self._loads[queue] = count + 1, size + len(message.body)

    def accept(self, entries: list[QueueEntry], counts: MessageCounts | None = None) -> None:
        """Settle these messages with the commit, and count them for their session then."""
        if counts is not None:
            self._acked[counts] = self._acked.get(counts, 0) + len(entries)
        for entry in entries:
            self._grow(0, len(entry.message.body))
            self._accepted.setdefault(entry.queue, []).append(entry)

    def withdrawing(self, positions: CommandIds) -> Generator[None, float, list[QueueEntry]]:
        """Withdraw the acceptance of transfers of the transaction's only session, in steps; return their entries."""
        withdrawn: list[QueueEntry] = []
        for queue, entries in list(self._accepted.items()):
            kept: list[QueueEntry] = []
            for entry in entries:
                position = entry.tag - ACQUIRED if entry.tag >= ACQUIRED else entry.tag - 1
                if position in positions:
                    withdrawn.append(entry)
                    self._count -= 1
                    for counts in self._acked:  # of the only session
                        self._acked[counts] -= 1
                    self._count_memory(-len(entry.message.body) - MESSAGE_COST)
                else:
                    kept.append(entry)
                if self._quantum.spend(1):
                    yield
            if kept:
                self._accepted[queue] = kept
            else:
                del self._accepted[queue]
        return withdrawn

    def _grow(self, size: int, memory: int) -> None:
        self._count += 1
        self._size += size
        self._count_memory(memory + MESSAGE_COST)
        if self._count > MOST_OPERATIONS or self._size > MOST_BYTES:
            raise ResourceLimitExceeded(
                f"a transaction of more than {MOST_OPERATIONS} messages, or of {MOST_BYTES} bytes"
            )

    def check(self) -> None:
        """Raise `ResourceLimitExceeded` if a queue would reject its messages."""
        for queue, load in self._loads.items():
            if not queue.is_deleted and not queue.admits(*load):
                raise ResourceLimitExceeded(f"{queue} is full")

    # --- on the disk

    def keeping(
        self, xid: Xid | None, ticket: DurabilityTicket | None, now: float, *, is_decided: bool
    ) -> Generator[None, float, float]:
        """Log in steps the operations that can be on the disk. They are there once everything logged by then is."""
        self._log = log = TransactionLog(self._vhost, xid)
        published = self._published
        for index, publication in enumerate(published):
            message, queues = publication.message, publication.queues
            keeping = [queue for queue in queues if not queue.is_deleted and queue.keeps(message)]
            if keeping:
                position, size = log.publishes(message, keeping, ticket)
                published[index] = publication._replace(position=position, size=size)
            if self._quantum.spend(1 + len(queues)):
                now = yield
        accepted, self._accepted = self._accepted, {}
        for queue, entries in accepted.items():
            for start in range(0, len(entries), AT_ONCE):
                self._acceptances.append(self._noted(log, queue, entries[start : start + AT_ONCE], ticket))
                if self._quantum.spend(AT_ONCE):
                    now = yield
        if xid is not None or log.has_rows:
            log.keep(is_decided=is_decided)
        return now

    def _noted(
        self, log: TransactionLog, queue: ConsumedQueue, entries: list[QueueEntry], ticket: DurabilityTicket | None
    ) -> Acceptance:
        if isinstance(queue, Queue) and queue.takes_back and not queue.is_deleted:
            places = [queue.place_of(entry) for entry in entries if queue.keeps(entry.message)]
            if places:
                return Acceptance(queue, entries, *log.accepts(queue, places, ticket))
        return Acceptance(queue, entries)

    def discard_log(self) -> None:
        """Delete the transaction's log from the disk; nothing else of the transaction changes."""
        if self._log is None:
            return
        self._log.delete()
        self._log = None
        self._published = [each._replace(position=0, size=0) for each in self._published]
        for each in self._acceptances:
            self._accepted.setdefault(each.queue, []).extend(each.entries)
        self._acceptances = []

    def recover(self, log: TransactionLog, published: list[Publication], accepted: list[Acceptance]) -> None:
        """Restore the transaction from its rows on the disk."""
        self._log, self._published, self._acceptances = log, published, accepted
        self._count = len(published) + sum(len(each.entries) for each in accepted)
        self._size = sum(len(each.message.body) for each in published)
        held = sum(len(entry.message.body) for each in accepted for entry in each.entries)
        self._count_memory(self._size + held + self._count * MESSAGE_COST)
        for each in published:
            log.uses(each.queues)
        for one in accepted:
            if isinstance(one.queue, Queue):
                log.uses((one.queue,))

    # --- committing and rolling back

    def committing(self, ticket: DurabilityTicket, now: float) -> Generator[None, float, float]:
        """Commit in steps, after `check`; `ticket` counts the messages that have to be on the disk."""
        operations = sum(len(each.queues) for each in self._published) + self._count
        if operations > AT_ONCE and self._vhost.storage is not None:
            if self._log is None:
                now = yield from self.keeping(None, None, now, is_decided=True)
            else:
                self._log.keep(is_decided=True)
        log, self._log = self._log, None
        published, self._published = self._published, []
        settlements = self._take_settlements()
        for counts, number in self._acked.items():
            counts.acked += number
        published.reverse()
        settlements.reverse()
        self._forget()
        is_stepwise = operations > AT_ONCE
        spent = 0
        while published or settlements:
            spent += self._enqueue(published.pop(), log, ticket, now) if published else 0
            spent += self._settle(settlements.pop(), log, now) if not published and settlements else 0
            if is_stepwise and self._quantum.spend(spent):
                now = yield
            spent = 0 if is_stepwise else spent
        self._quantum.left -= spent
        if log is not None:
            log.delete()
        return now

    def _enqueue(
        self, publication: Publication, log: TransactionLog | None, ticket: DurabilityTicket, now: float
    ) -> int:
        message = publication.message
        queues = [queue for queue in publication.queues if not queue.is_deleted]
        self._count_publish(publication, queues)
        for queue in queues:
            queue.admit(message, now, ticket)
        message.forget_properties()
        if log is not None and publication.position:
            log.done(publication.position, publication.size)
        return len(publication.queues) or 1

    def _count_publish(self, publication: Publication, queues: list[Queue]) -> None:
        """Count a publish for its exchange, these queues, its session and the virtual host."""
        totals, exchange = self._vhost.counts, self._vhost.exchanges.get(publication.message.exchange)
        if not publication.is_further:
            for counts in (publication.counts or MessageCounts(), totals):
                counts.published += 1
                counts.dropped += not queues
        totals.routed += len(queues)
        if exchange is not None:
            exchange.counts.published += not publication.is_further
            exchange.counts.routed += len(queues)
        for queue in queues:
            queue.counts.published += 1

    def _settle(self, acceptance: Acceptance, log: TransactionLog | None, now: float) -> int:
        for counts in (acceptance.queue.counts, self._vhost.counts):
            counts.acked += len(acceptance.entries)
        acceptance.queue.ack(acceptance.entries, now)
        if log is not None and acceptance.position:
            log.done(acceptance.position, acceptance.size)
        return len(acceptance.entries)

    def _take_settlements(self) -> list[Acceptance]:
        """Take all accepted messages, in parts."""
        parts, self._acceptances = self._acceptances, []
        accepted, self._accepted = self._accepted, {}
        for queue, entries in accepted.items():
            parts += [Acceptance(queue, entries[start : start + AT_ONCE]) for start in range(0, len(entries), AT_ONCE)]
        return parts

    def _forget(self) -> None:
        self._published = []
        self._acked = {}
        self._loads.clear()
        self._count = self._size = 0
        self._count_memory(-self._memory)

    def _count_memory(self, difference: int) -> None:
        self._memory += difference
        self._vhost.uncommitted_bytes += difference

    def rolling_back(self, deliveries: SessionDeliveries, now: float) -> Generator[None, float, float]:
        """Roll back in steps: the session holds the accepted messages again."""
        self._forget()
        accepted, self._accepted = self._accepted, {}
        return (yield from deliveries.putting_back(chain.from_iterable(accepted.values()), now))

    def giving_back(self, now: float) -> Generator[None, float, float]:
        """Roll back in steps without a session: the accepted messages go back to their queues."""
        self.discard_log()
        self._forget()
        accepted, self._accepted = self._accepted, {}
        for queue, entries in accepted.items():
            queue.hold_back()
            now = yield from queue.settling(entries, GIVE_BACK, now)
        return now

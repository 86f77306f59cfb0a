"""Messages that wait in a durable queue, with the persistent ones in the journal's message log too.

After a restart they wait on the disk, and are read on demand, so that a queue of a million opens at once.
"""

from __future__ import annotations

from collections.abc import Callable

from amqproxy.broker.message import Message
from amqproxy.broker.queues.backlog import Backlog
from amqproxy.broker.queues.consumer import ConsumedQueue, QueueEntry
from amqproxy.broker.queues.paged_messages import Fetch, PagedMessages, PageStore
from amqproxy.broker.storage.batch import DurabilityTicket
from amqproxy.broker.storage.message_log import MessageLog
from amqproxy.broker.storage.packing import PackedMessage
from amqproxy.broker.work import Container


class DurableBacklog(Backlog):
    """A `Backlog` in which each message taken out must be reported again: by `put_back`, or by `done`.

    `fetch` reads the earlier content of the message log; nothing else may have been reported to that log yet.
    """

    __slots__ = ("_committed", "_fetch", "_mark", "_message_log", "_out", "_redelivered_to", "_transient")

    keeps_all = False
    """Whether messages that are not persistent are logged, too."""

    def __init__(
        self,
        message_log: MessageLog,
        fetch: Fetch | None = None,
        on_lost: Callable[[int, int], None] = lambda messages, body_bytes: None,
    ) -> None:
        super().__init__(on_lost)
        self._message_log = message_log
        self._fetch = fetch
        self._position = self._committed = message_log.last
        self._mark: tuple[int, int] | None = None
        self._redelivered_to = message_log.delivered_to
        self._out: dict[int, int] = {}
        self._transient: set[int] = set()
        if fetch is not None and message_log.messages:
            self._paged = PagedMessages(
                message_log.number, fetch, message_log.messages, message_log.body_bytes, self._lost
            )

    def add(self, message: Message, expires_at: float, ticket: DurabilityTicket | None = None) -> None:
        super().add(message, expires_at)
        position = self._position + len(self._fresh)
        if self.keeps_all or message.is_persistent:
            self._message_log.enqueued(position, message, expires_at, ticket)
        else:
            self._transient.add(position)

    def entry(
        self, queue: ConsumedQueue, message: Message, expires_at: float, ticket: DurabilityTicket | None = None
    ) -> QueueEntry:
        entry = super().entry(queue, message, expires_at)
        if self.keeps_all or message.is_persistent:
            self._message_log.enqueued(entry.position, message, expires_at, ticket)
            self._went_out(entry)
        return entry

    def take(self, queue: ConsumedQueue) -> QueueEntry | None:
        entry = super().take(queue)
        if entry is None:
            return None
        if entry.position in self._transient:
            self._transient.remove(entry.position)
        else:
            self._went_out(entry)
        return entry

    def _went_out(self, entry: QueueEntry) -> None:
        self._out[entry.position] = len(entry.message.body)
        self._message_log.delivered(entry.position)

    def put_back(self, entry: QueueEntry) -> None:
        super().put_back(entry)
        if self._out.pop(entry.position, None) is None:
            self._transient.add(entry.position)
        elif entry.delivery_count:
            self._message_log.returned(entry.position, entry.delivery_count)

    def done(self, entry: QueueEntry, *, is_used: bool = True) -> None:
        """Settle a message in the message log: it will not come back."""
        size = self._out.pop(entry.position, None)
        if size is not None:
            self._message_log.settled(entry.position, size, is_used=is_used)

    def clear(self) -> list[Container]:
        dropped = [*super().clear(), self._transient]
        self._transient = set()
        self._message_log.purged(self._out)
        return dropped

    def hand_over(self) -> tuple[MessageLog, dict[int, int]]:
        """Hand over the message log with the unsettled messages (sizes by position); all others are dropped from it."""
        out, self._out = self._out, {}
        if out:
            self._message_log.purged(out)
        return self._message_log, out

    def discard(self) -> list[Container]:
        return [*super().discard(), self._transient, self._out]

    # --- messages that are only on the disk

    def _lost(self, messages: int, body_bytes: int, position: int | None) -> None:
        if position is not None:
            self._message_log.settled(position, body_bytes, is_used=False)
        super()._lost(messages, body_bytes, position)

    def _take_paged(self, queue: ConsumedQueue) -> QueueEntry | None:
        assert self._paged is not None
        taken = self._paged.pop()
        if not self._paged:
            self._paged = None
        if taken is None:
            return None
        row, is_kept = taken
        entry = QueueEntry(queue, row.message, row.position, row.expires_at)
        if is_kept:
            entry.delivery_count = row.delivery_count
            entry.is_redelivered = row.delivery_count > 0 or row.position <= self._redelivered_to
        else:
            self._transient.add(row.position)
        return entry

    def page_out(self, page_store: PageStore, most: int) -> int:
        self._look_at_the_disk()
        return super().page_out(page_store, most)

    def _look_at_the_disk(self) -> None:
        """Update the position up to which everything is committed, and the mark to check the next time."""
        journal = self._message_log.journal
        last = self._position + len(self._fresh)
        if self._mark is None:
            self._mark = journal.number, last
        if not journal.is_dirty and journal.last_committed == journal.number - 1:
            self._committed, self._mark = last, None
        elif self._mark[0] <= journal.last_committed:
            self._committed, self._mark = self._mark[1], None

    def _new_paged_messages(self) -> PagedMessages:
        return PagedMessages(self._message_log.number, self._fetch, lost=self._lost)

    def _lead(self, paged: PagedMessages, rows: list[PackedMessage]) -> None:
        for row in rows:
            paged.lead(row, is_kept=row.position not in self._transient)
            self._transient.discard(row.position)

    def _page_out(self, paged: PagedMessages, page_store: PageStore, rows: list[PackedMessage]) -> int:
        count = 0
        transient = []
        refused = self._message_log.refused
        for row in rows:
            if row.position in self._transient:
                transient.append(row)
            elif row.position > self._committed or self._fetch is None or row.position in refused:
                break
            count += 1
        if transient:
            paged.put_paged_out(page_store, transient)
        for row in rows[:count]:
            if row.position in self._transient:
                self._transient.remove(row.position)
            else:
                paged.put_kept(row)
        return count

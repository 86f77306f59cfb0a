"""A disk and page files that are only played, for what waits in queues and streams."""

from __future__ import annotations

from collections.abc import Sequence

from amqproxy.broker.storage.batch import POSITION_BITS, LogOwner, LogState
from amqproxy.broker.storage.definition_records import DefinitionRecord, DurableSegment
from amqproxy.broker.storage.journal import Journal
from amqproxy.broker.storage.message_log import MessageLog
from amqproxy.broker.storage.packing import PackedMessage
from amqproxy.broker.storage.page_file import PageBlock, PageFile

NEVER = float("inf")


class Disk:
    """A message log's journal, and what a store would have of it."""

    def __init__(self, vhost: str = "/", owner: LogOwner | None = None) -> None:
        self.owner = owner or LogOwner("queue", vhost, "q")
        self.journal = Journal()
        self.message_log = self.journal.message_log(self.owner)
        self.durables: dict[str, DefinitionRecord] = {}
        self.rows: dict[int, PackedMessage] = {}
        self.fetches: list[int] = []

    def commit(self) -> None:
        batch = self.journal.take_batch()
        self.journal.committed(batch)
        for first, last, kept in batch.cleared:
            self.rows = {id_: row for id_, row in self.rows.items() if not first <= id_ <= last or id_ - first in kept}
        for row in batch.rows:
            position = row.id & ((1 << POSITION_BITS) - 1)
            expires_at = NEVER if row.expires_at is None else row.expires_at
            self.rows[row.id] = PackedMessage(position, expires_at, 0, row.message)
        for id_ in batch.settled:
            self.rows.pop(id_, None)
        for id_, (count, turn) in batch.delivery_counts.items():
            self.rows[id_] = self.rows[id_]._replace(delivery_count=count, turn=turn)
        for key, durable in batch.durables.items():
            if durable is None:
                self.durables.pop(key, None)
            else:
                self.durables[key] = durable

    @property
    def segments(self) -> list[DurableSegment]:
        return [each for each in self.durables.values() if isinstance(each, DurableSegment)]

    def fetch(self, log_number: int, position: int, limit: int) -> list[PackedMessage]:
        found = [row for _, row in sorted(self.rows.items()) if row.position >= position][:limit]
        self.fetches.append(len(found))
        return found

    def times(self, log_number: int) -> list[tuple[int, float]]:
        return [(row.position, row.expires_at) for _, row in sorted(self.rows.items())]

    def again(self) -> MessageLog:
        """The message log after a restart."""
        self.commit()
        message_log = self.message_log
        assert message_log.messages == len(self.rows)
        state = LogState(
            message_log.number, message_log.messages, message_log.body_bytes, message_log.last, message_log.delivered_to
        )
        self.message_log = MessageLog(self.journal, self.owner, state)
        self.journal.message_logs[self.owner] = self.message_log
        return self.message_log


class Memory:
    """Plays page files; `rows` are the blocks that are wanted."""

    def __init__(self) -> None:
        self.rows: dict[PageBlock, list[PackedMessage]] = {}
        self.is_full = False
        self.unreadable: set[int] = set()
        """The first positions of blocks that cannot be read any more."""

    def put(self, rows: Sequence[PackedMessage]) -> PageBlock:
        if self.is_full:
            raise OSError("full")
        body_bytes = sum(len(row.message.body) for row in rows)
        block = PageBlock(PageFile(-1), 0, 0, rows[0].position, rows[-1].position, len(rows), body_bytes)
        self.rows[block] = list(rows)
        return block

    def read(self, block: PageBlock) -> list[PackedMessage]:
        if block.first in self.unreadable:
            raise OSError("unreadable")
        return self.rows[block]

    def drop(self, block: PageBlock) -> None:
        del self.rows[block]

"""The part of a backlog that is on the disk: after the requeued messages, and before the fresh ones.

Persistent messages of a durable queue are fetched from its message log, which has them anyway; all others come from the
page files. The first few are in memory, and the rest is read on demand, more at once each time.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol

from amqproxy.broker.message import Message
from amqproxy.broker.storage.packing import DAMAGED, PackedMessage

if TYPE_CHECKING:
    from amqproxy.broker.storage.page_file import PageBlock

NEVER = float("inf")

UNREADABLE = (OSError, ValueError, struct.error)
"""Errors raised for a block that cannot be read any more."""

READ_AHEAD = 1024
"""Maximum number of messages fetched at once: the first time it is one, and then twice as many each time."""

MESSAGE_COST = 256
"""Assumed memory cost of a waiting message in bytes, beyond its body."""

Fetch = Callable[[int, int, int], Sequence[PackedMessage]]
"""Reader of a message log, by its number, a first position and a count: at least one message, if there is one."""


Lost = Callable[[int, int, int | None], None]
"""Callback with the number of lost messages, the bytes of their bodies, and the position of one, or None."""


def _ignore(messages: int, body_bytes: int, position: int | None) -> None:
    """Ignore losses."""


class PageStore(Protocol):
    """Store for messages that no message log has: a `PageFiles`."""

    def put(self, rows: Sequence[PackedMessage]) -> PageBlock: ...
    def read(self, block: PageBlock) -> list[PackedMessage]: ...
    def drop(self, block: PageBlock) -> None: ...


class PagedMessages:
    """Messages in the order of their positions; each addition goes behind all that are here.

    `log_number` is the number of the message log that `fetch` reads, with `messages` and `body_bytes` from before.
    `bytes_paged_out` is the memory that paging saves. Messages that cannot be read any more are skipped, and `lost` is
    called with their number, the bytes of their bodies, and the position of one that the message log still has.
    """

    __slots__ = (
        "_blocks",
        "_count",
        "_fetch",
        "_kept",
        "_left",
        "_log_number",
        "_next",
        "_paged_out",
        "_reading",
        "bytes_paged_out",
        "lost",
    )

    def __init__(
        self,
        log_number: int = 0,
        fetch: Fetch | None = None,
        messages: int = 0,
        body_bytes: int = 0,
        lost: Lost = _ignore,
    ) -> None:
        self.lost = lost
        self._log_number = log_number
        self._fetch = fetch
        self._count = self._left = messages
        self._next = 0
        self._reading = 1
        self._kept: deque[PackedMessage] = deque()
        self._paged_out: deque[PackedMessage] = deque()
        self._blocks: deque[tuple[PageStore, PageBlock]] = deque()
        self.bytes_paged_out = body_bytes + messages * MESSAGE_COST

    def __len__(self) -> int:
        return self._count

    # --- adding

    def lead(self, row: PackedMessage, *, is_kept: bool) -> None:
        """Add a message in memory: one of the first, before anything is paged out."""
        (self._kept if is_kept else self._paged_out).append(row)
        self._count += 1

    def put_kept(self, row: PackedMessage) -> None:
        """Count a message that is known to be on the disk, in the message log."""
        if not self._left:
            self._next = row.position
        self._left += 1
        self._count += 1
        self.bytes_paged_out += len(row.message.body) + MESSAGE_COST

    def put_paged_out(self, page_store: PageStore, rows: Sequence[PackedMessage]) -> None:
        """Page messages out, at least one: all of them or, with an `OSError`, none."""
        block = page_store.put(rows)
        self._blocks.append((page_store, block))
        self._count += block.messages
        self.bytes_paged_out += block.body_bytes + block.messages * MESSAGE_COST

    # --- taking out

    @property
    def expires_at(self) -> float:
        """Expiration of the first message; never, if none can be read any more."""
        first = self.first
        return NEVER if first is None else first.expires_at

    def pop(self) -> tuple[PackedMessage, bool] | None:
        """Take the first message out; return it, and whether it is in the message log. None if none can be read."""
        row = self.first
        if row is None:
            return None
        self._count -= 1
        is_kept = bool(self._kept) and self._kept[0] is row
        (self._kept if is_kept else self._paged_out).popleft()
        return row, is_kept

    @property
    def first(self) -> PackedMessage | None:
        """The first message, which stays; None if none can be read any more.

        Damaged messages before it are lost by reading this.
        """
        while not self._kept and self._left:
            self._read_log()
        while not self._paged_out and self._blocks:
            self._read_block()
        if not self._kept:
            return self._paged_out[0] if self._paged_out else None
        if not self._paged_out or self._kept[0].position < self._paged_out[0].position:
            return self._kept[0]
        return self._paged_out[0]

    def _read_log(self) -> None:
        assert self._fetch is not None
        rows = self._fetch(self._log_number, self._next, min(self._reading, self._left))
        if not rows:  # the message log has fewer than it announced
            messages, self._left = self._left, 0
            self._count -= messages
            self.bytes_paged_out = sum(block.body_bytes + block.messages * MESSAGE_COST for _, block in self._blocks)
            self.lost(messages, 0, None)
            return
        self._left -= len(rows)
        self._next = rows[-1].position + 1
        self._reading = min(2 * self._reading, READ_AHEAD)
        for row in rows:
            size = row.size or len(row.message.body)
            self.bytes_paged_out -= size + MESSAGE_COST
            if row.message is DAMAGED:
                self._count -= 1
                self.lost(1, size, row.position)
            else:
                self._kept.append(row)

    def _read_block(self) -> None:
        page_store, block = self._blocks.popleft()
        self.bytes_paged_out -= block.body_bytes + block.messages * MESSAGE_COST
        try:
            self._paged_out.extend(page_store.read(block))
        except UNREADABLE:
            self._count -= block.messages
            self.lost(block.messages, block.body_bytes, None)
        finally:
            page_store.drop(block)

    def clear(self) -> None:
        """Drop all messages; the caller deals with those in the message log."""
        for page_store, block in self._blocks:
            page_store.drop(block)
        self._blocks.clear()
        self._kept.clear()
        self._paged_out.clear()
        self._count = self._left = self.bytes_paged_out = 0

    # --- iterating

    def __iter__(self) -> Iterator[Message]:
        """Iterate over all messages, which stay."""
        return (row.message for row in self.rows())

    def rows(self) -> Iterator[PackedMessage]:
        """Iterate over all messages with their positions; they stay."""
        kept, paged_out = self._all_kept(), self._all_paged_out()
        first, second = next(kept, None), next(paged_out, None)
        while first is not None or second is not None:
            if second is None or (first is not None and first.position < second.position):
                assert first is not None
                yield first
                first = next(kept, None)
            else:
                yield second
                second = next(paged_out, None)

    def _all_kept(self) -> Iterator[PackedMessage]:
        yield from self._kept
        left, position = self._left, self._next
        while left and self._fetch is not None:
            rows = self._fetch(self._log_number, position, min(left, READ_AHEAD))
            if not rows:
                break
            yield from (row for row in rows if row.message is not DAMAGED)
            left -= len(rows)
            position = rows[-1].position + 1

    def _all_paged_out(self) -> Iterator[PackedMessage]:
        yield from self._paged_out
        for page_store, block in self._blocks:
            with suppress(*UNREADABLE):
                yield from page_store.read(block)

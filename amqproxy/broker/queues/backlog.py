"""Messages that wait in a queue. On the path of every message that finds no consumer."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import islice, repeat
from typing import Protocol

from amqproxy.amqp091.properties import Properties
from amqproxy.broker.message import Message
from amqproxy.broker.queues.consumer import ConsumedQueue, QueueEntry, taken
from amqproxy.broker.queues.paged_bodies import page_in, page_out_bodies, whole
from amqproxy.broker.queues.paged_messages import MESSAGE_COST, UNREADABLE, PagedMessages, PageStore
from amqproxy.broker.storage.batch import DurabilityTicket
from amqproxy.broker.storage.packing import PackedMessage
from amqproxy.broker.work import Container

NEVER = float("inf")
_NEVER = NEVER  # typed in the .pxd file

HEAD_MESSAGES = 64
HEAD_BYTES = 64 * 1024
"""Limits of a backlog's head, which always stays in memory: in messages, and in bytes with their cost."""

BLOCK_MESSAGES = 1024
BLOCK_BYTES = 256 * 1024
"""Messages or bytes that are paged out at once, whichever comes first."""

MOST_PEEKED = 10_000
MOST_PEEKED_BYTES = 4 * 1024 * 1024
"""Maximum number of requeued or paged-out messages, and of body bytes, that a peek goes over."""


class SeenPositions(Protocol):
    """Positions of messages that were peeked at before."""

    def __contains__(self, position: object, /) -> bool: ...

    def next_missing(self, position: int, /) -> int: ...


class Backlog:
    """A first-in-first-out backlog: requeued messages return to their places, and a surplus is paged out.

    A waiting message has its position by its place alone, and each message taken out came before all that never were:
    so nothing is kept beside a waiting message, and a million of them cost little more than their bytes. `on_lost` is
    called with the number of messages that can no longer be read, and the bytes of their bodies.
    """

    __slots__ = ("_expiries", "_fresh", "_paged", "_position", "_returned", "_returned_bytes_paged_out", "on_lost")

    def __init__(self, on_lost: Callable[[int, int], None] = lambda messages, body_bytes: None) -> None:
        self.on_lost = on_lost
        self._fresh: deque[Message] = deque()
        self._expiries: deque[float] | None = None
        self._paged: PagedMessages | None = None
        self._position = 0
        self._returned: list[tuple[int, QueueEntry]] = []
        self._returned_bytes_paged_out = 0
        """Body bytes of the requeued messages that are not in memory."""

    def __len__(self) -> int:
        count = len(self._fresh) + len(self._returned)
        return count if self._paged is None else count + len(self._paged)

    def __iter__(self) -> Iterator[Message]:
        """Iterate over the waiting messages in order."""
        # A copy of the heap, not a sort: a caller that wants only the first message does not pay for all.
        returned = self._returned.copy()
        while returned:
            yield whole(heapq.heappop(returned)[1])
        if self._paged is not None:
            yield from self._paged
        yield from self._fresh

    @property
    def peek_cost(self) -> int:
        """Number of messages that a `peek` goes over in addition to those that it returns."""
        return min(len(self._returned), MOST_PEEKED) + (
            0 if self._paged is None else min(len(self._paged), MOST_PEEKED)
        )

    @property
    def back(self) -> list[int]:
        """Positions of the requeued messages, as far as a `peek` goes over them."""
        return [entry.position for entry in islice(self._came_back(), MOST_PEEKED)]

    def peek(self, seen: SeenPositions, most: int, body_bytes: int, depth: int) -> list[tuple[int, Message, float]]:
        """Return the first messages whose positions are not `seen`, among the first `depth`; they stay in the backlog.

        Each comes with its position and its expiration, up to `most` messages or about `body_bytes` of bodies. Requeued
        and paged-out messages are gone over from their beginning, up to `MOST_PEEKED` of either, or `MOST_PEEKED_BYTES`
        of bodies.
        """
        rows: list[tuple[int, Message, float]] = []
        returned = [each for each in self._returned[:MOST_PEEKED] if each[0] not in seen]
        for position, entry in sorted(returned)[:most]:
            with suppress(*UNREADABLE):
                message = whole(entry)
                rows.append((position, message, entry.expires_at))
                body_bytes -= len(message.body)
            if body_bytes <= 0:
                return rows
        paged = self._paged
        if paged is not None and seen.next_missing(self.left + 1) <= self._position:
            self._peek_paged(paged, seen, most, rows)
            return rows
        self._peek_fresh(seen, most, body_bytes, depth - len(self._returned) - (len(paged) if paged else 0), rows)
        return rows

    def _peek_paged(
        self, paged: PagedMessages, seen: SeenPositions, most: int, rows: list[tuple[int, Message, float]]
    ) -> None:
        body_bytes = MOST_PEEKED_BYTES
        for row in islice(paged.rows(), MOST_PEEKED):
            if len(rows) >= most or body_bytes <= 0:
                break
            body_bytes -= len(row.message.body)
            if row.position not in seen:
                rows.append((row.position, row.message, row.expires_at))

    def _peek_fresh(
        self, seen: SeenPositions, most: int, body_bytes: int, depth: int, rows: list[tuple[int, Message, float]]
    ) -> None:
        first, fresh, expiries = self._position + 1, self._fresh, self._expiries
        position = seen.next_missing(first)
        while len(rows) < most and body_bytes > 0 and position - first < min(len(fresh), depth):
            message = fresh[position - first]
            rows.append((position, message, NEVER if expiries is None else expiries[position - first]))
            body_bytes -= len(message.body)
            position = seen.next_missing(position + 1)

    @property
    def entered(self) -> int:
        """Number of messages that have come in so far."""
        return self._position + len(self._fresh)

    @property
    def left(self) -> int:
        """Number of messages that have been taken out or dropped; some may have been requeued since."""
        return self._position if self._paged is None else self._position - len(self._paged)

    def add(self, message: Message, expires_at: float, ticket: DurabilityTicket | None = None) -> None:
        """Append a message. `ticket` counts it, if it has to be stored."""
        self._fresh.append(message)
        if self._expiries is not None:
            self._expiries.append(expires_at)
        elif expires_at != _NEVER:
            self._expiries = deque((NEVER,)) * (len(self._fresh) - 1)
            self._expiries.append(expires_at)

    def entry(
        self, queue: ConsumedQueue, message: Message, expires_at: float, ticket: DurabilityTicket | None = None
    ) -> QueueEntry:
        """Return the entry of a message that passes through an empty backlog, as by `add` and `take`."""
        self._position += 1
        return taken(queue, message, self._position, expires_at)

    def take(self, queue: ConsumedQueue) -> QueueEntry | None:
        """Take the first message out; there must be one. None if the rest cannot be read any more."""
        if self._returned:
            entry: QueueEntry = heapq.heappop(self._returned)[1]
            return entry if entry.paged_body is None or self._restore(entry) else None
        if self._paged is not None:
            return self._take_paged(queue)
        self._position += 1
        message = self._fresh.popleft()
        if self._expiries is None:
            return taken(queue, message, self._position, _NEVER)
        expires_at = self._expiries.popleft()
        if not self._fresh:
            self._expiries = None
        return taken(queue, message, self._position, expires_at)

    def put_back(self, entry: QueueEntry) -> None:
        """Put a message that was taken out back to its place."""
        heapq.heappush(self._returned, (entry.position, entry))
        if entry.paged_body is not None:
            self._returned_bytes_paged_out += entry.paged_body.body_bytes

    def _restore(self, entry: QueueEntry) -> bool:
        """Load the body of a requeued message; return False if it is lost."""
        assert entry.paged_body is not None
        body_bytes = entry.paged_body.body_bytes
        self._returned_bytes_paged_out -= body_bytes
        try:
            page_in(entry)
        except UNREADABLE:
            self._lost(1, body_bytes, None)
            return False
        return True

    def done(self, entry: QueueEntry, *, is_used: bool = True) -> None:
        """Note that a message taken out will not come back: it was consumed, or is moved elsewhere."""

    @property
    def expires_at(self) -> float:
        """Expiration of the first message."""
        if self._returned:
            return self._returned[0][1].expires_at
        if self._paged is not None:
            return self._paged.expires_at
        return self._expiries[0] if self._expiries else NEVER

    def clear(self) -> list[Container]:
        """Drop all messages; return their containers, which take time to be freed."""
        dropped: list[Container] = [self._fresh, self._returned]
        if self._expiries is not None:
            dropped.append(self._expiries)
        self._position += len(self._fresh)
        self._fresh = deque()
        self._expiries = None
        self._returned = []
        self._returned_bytes_paged_out = 0
        if self._paged is not None:
            self._paged.clear()
            self._paged = None
        return dropped

    def discard(self) -> list[Container]:
        """Drop all messages, when no more are added; return their containers."""
        return Backlog.clear(self)

    # --- paging

    @property
    def bytes_paged_out(self) -> int:
        """Bytes of memory that paging out has saved."""
        return (
            self._returned_bytes_paged_out
            if self._paged is None
            else self._returned_bytes_paged_out + self._paged.bytes_paged_out
        )

    def _came_back(self) -> Iterable[QueueEntry]:
        """Return the requeued messages."""
        return (entry for _, entry in self._returned)

    def page_out(self, page_store: PageStore, most: int) -> int:
        """Page out about `most` bytes: fresh messages, then bodies of requeued ones; return the bytes that this frees.

        The first few messages stay in memory. `OSError` if the disk does not take the messages: then they wait where
        they were.
        """
        freed = self._page_out_fresh(page_store, most)
        if freed < most:
            back = page_out_bodies(
                (entry for entry in self._came_back() if entry.paged_body is None), page_store, most - freed
            )
            self._returned_bytes_paged_out += back
            freed += back
        return freed

    def _page_out_fresh(self, page_store: PageStore, most: int) -> int:
        if self._paged is None and len(self._fresh) > 1:
            self._paged = self._new_paged_messages()
            head = self._first_fresh(HEAD_MESSAGES, HEAD_BYTES)
            self._lead(self._paged, head)
            self._drop_fresh(len(head))
        paged, before = self._paged, self.bytes_paged_out
        while paged is not None and paged.bytes_paged_out - before < most:
            rows = self._first_fresh(BLOCK_MESSAGES, BLOCK_BYTES)
            if sum(len(row.message.body) + MESSAGE_COST for row in rows) < HEAD_BYTES:
                break
            count = self._page_out(paged, page_store, rows)
            self._drop_fresh(count)
            if count < len(rows):
                break
        return self.bytes_paged_out - before

    def _new_paged_messages(self) -> PagedMessages:
        return PagedMessages(lost=self._lost)

    def _lead(self, paged: PagedMessages, rows: list[PackedMessage]) -> None:
        """Move messages to the paged ones, still in memory, in front of all that are paged out."""
        for row in rows:
            paged.lead(row, is_kept=False)

    def _page_out(self, paged: PagedMessages, page_store: PageStore, rows: list[PackedMessage]) -> int:
        """Page messages out; return how many of them, from the first, are on the disk."""
        paged.put_paged_out(page_store, rows)
        return len(rows)

    def _first_fresh(self, messages: int, body_bytes: int) -> list[PackedMessage]:
        """Return the first fresh messages, up to limits on their number and bytes; they stay in the backlog."""
        rows: list[PackedMessage] = []
        expiries = repeat(NEVER) if self._expiries is None else self._expiries
        for message, expires_at in zip(self._fresh, expiries, strict=False):
            rows.append(PackedMessage(self._position + 1 + len(rows), expires_at, 0, message))
            body_bytes -= len(message.body) + MESSAGE_COST
            if len(rows) >= messages or body_bytes <= 0:
                break
        return rows

    def _drop_fresh(self, count: int) -> None:
        self._position += count
        for _ in range(count):
            self._fresh.popleft()
            if self._expiries is not None:
                self._expiries.popleft()
        if not self._fresh:
            self._expiries = None

    def _lost(self, messages: int, body_bytes: int, position: int | None) -> None:
        """Report paged-out messages that cannot be read any more."""
        self.on_lost(messages, body_bytes)

    def _take_paged(self, queue: ConsumedQueue) -> QueueEntry | None:
        assert self._paged is not None
        taken = self._paged.pop()
        if not self._paged:
            self._paged = None
        return None if taken is None else QueueEntry(queue, taken[0].message, taken[0].position, taken[0].expires_at)


def _flag(name: str) -> int:
    return 0x80 >> Properties.__struct_fields__.index(name)


FLAGS = 12
"""Offset of the first byte of the property flags in a content header's payload."""
HAS_EXPIRATION = _flag("expiration")
HAS_PRIORITY = _flag("priority")

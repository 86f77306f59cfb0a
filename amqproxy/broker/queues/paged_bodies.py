"""Bodies of unacknowledged or requeued messages that were moved to the page files because memory is short.

The `EntryWithBody` of such a message stays in memory, without its body. `page_in` loads the body again.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol

from amqproxy.broker.message import Message
from amqproxy.broker.storage.packing import PackedMessage

if TYPE_CHECKING:
    from amqproxy.broker.queues.paged_messages import PageStore
    from amqproxy.broker.storage.page_file import PageBlock

BLOCK_MESSAGES = 1024
BLOCK_BYTES = 256 * 1024
"""Messages or bytes that are paged out at once, whichever comes first."""

LEAST_BODY = 512
"""Bytes from which on a body is worth paging out: the rest of its entry stays in memory."""


class PagedBodies:
    """A block of bodies on the disk. It is dropped with the last entry that has its body there."""

    __slots__ = ("_block", "_page_store")

    last_read: tuple[PagedBodies, list[PackedMessage]] | None = None
    """The last block that was read, kept because requeued messages mostly return in order."""

    def __init__(self, page_store: PageStore, block: PageBlock) -> None:
        self._page_store = page_store
        self._block = block

    def body(self, number: int) -> bytes:
        """Return one of the bodies. An error of `UNREADABLE` if it cannot be read any more."""
        read = PagedBodies.last_read
        if read is None or read[0] is not self:
            PagedBodies.last_read = read = self, self._page_store.read(self._block)
        return read[1][number].message.body

    def __del__(self) -> None:
        self._page_store.drop(self._block)


class PagedBody:
    """Place of an entry's body; `body_bytes` is its size."""

    __slots__ = ("bodies", "body_bytes", "number")

    def __init__(self, bodies: PagedBodies | None, number: int, body_bytes: int) -> None:
        self.bodies = bodies
        self.number = number
        self.body_bytes = body_bytes


class BodyOwner(Protocol):
    """The queue of an entry; `takes_back` is whether it may want the entry's message again."""

    @property
    def takes_back(self) -> bool: ...


class EntryWithBody(Protocol):
    """An entry taken out of a queue, whose body may be moved to the disk, or is there (`paged_body`)."""

    message: Message
    paged_body: PagedBody | None
    expires_at: float

    @property
    def queue(self) -> BodyOwner: ...


def page_out_bodies(entries: Iterable[EntryWithBody], page_store: PageStore, most: int) -> int:
    """Page out about `most` bytes of the entries' bodies; return the bytes that this frees.

    `OSError` if the disk does not take them: then the rest stays in memory.
    """
    freed = 0
    chosen: list[EntryWithBody] = []
    body_bytes = 0
    for entry in entries:
        size = len(entry.message.body)
        if size < LEAST_BODY:
            continue
        if not entry.queue.takes_back:  # the queue keeps the message, and never needs the entry's copy
            _strip(entry, PagedBody(None, 0, size))
            freed += size
        else:
            chosen.append(entry)
            body_bytes += size
        if body_bytes >= BLOCK_BYTES or len(chosen) >= BLOCK_MESSAGES:
            freed += _put(chosen, page_store)
            chosen, body_bytes = [], 0
        if freed + body_bytes >= most:
            break
    return freed + _put(chosen, page_store)


def _put(entries: list[EntryWithBody], page_store: PageStore) -> int:
    if not entries:
        return 0
    rows = [PackedMessage(number, entry.expires_at, 0, entry.message) for number, entry in enumerate(entries)]
    bodies = PagedBodies(page_store, page_store.put(rows))
    body_bytes = 0
    for number, entry in enumerate(entries):
        size = len(entry.message.body)
        _strip(entry, PagedBody(bodies, number, size))
        body_bytes += size
    return body_bytes


def _strip(entry: EntryWithBody, paged_body: PagedBody) -> None:
    whole = entry.message
    entry.paged_body = paged_body
    entry.message = Message(whole.exchange, whole.routing_key, whole.header, b"", None, whole.more_keys)


def whole(entry: EntryWithBody) -> Message:
    """Return an entry's message with its body, wherever that is. An error of `UNREADABLE` if it cannot be read."""
    paged_body: PagedBody | None = entry.paged_body
    if paged_body is None or paged_body.bodies is None:
        return entry.message
    stub = entry.message
    return Message(
        stub.exchange, stub.routing_key, stub.header, paged_body.bodies.body(paged_body.number), None, stub.more_keys
    )


def page_in(entry: EntryWithBody) -> None:
    """Load an entry's body into memory. An error of `UNREADABLE` if it cannot be read any more."""
    if entry.paged_body is not None:
        entry.message = whole(entry)
        entry.paged_body = None

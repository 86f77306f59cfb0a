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
"""What is paged out at once: so many messages, or so many bytes, whichever comes first."""

LEAST_BODY = 512
"""Bytes of a body from which on it is worth its place on the disk: what an entry costs beside it stays in memory."""


class PagedBodies:
    """A block in which some bodies are. It is dropped with the last entry that has its body there."""

    __slots__ = ("_block", "_page_store")

    last_read: tuple[PagedBodies, list[PackedMessage]] | None = None
    """What comes back comes back in its order, more often than not: so the last block that was read is kept."""

    def __init__(self, page_store: PageStore, block: PageBlock) -> None:
        self._page_store = page_store
        self._block = block

    def body(self, number: int) -> bytes:
        """One of them. An error of `UNREADABLE` where it cannot be read any more."""
        read = PagedBodies.last_read
        if read is None or read[0] is not self:
            PagedBodies.last_read = read = self, self._page_store.read(self._block)
        return read[1][number].message.body

    def __del__(self) -> None:
        self._page_store.drop(self._block)


class PagedBody:
    """Where an entry's body is; `body_bytes` is how long it is."""

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
    """What is out of a queue, and is to have its body on the disk, or has it there (`paged_body`)."""

    message: Message
    paged_body: PagedBody | None
    expires_at: float

    @property
    def queue(self) -> BodyOwner: ...


def page_out_bodies(entries: Iterable[EntryWithBody], page_store: PageStore, most: int) -> int:
    """Let the bodies of some entries wait on the disk, about `most` bytes of them; how many that gives back.

    `OSError` when the disk does not take them: then the rest stays in memory.
    """
    freed = 0
    chosen: list[EntryWithBody] = []
    body_bytes = 0
    for entry in entries:
        size = len(entry.message.body)
        if size < LEAST_BODY:
            continue
        if not entry.queue.takes_back:  # it has the message itself, and never wants it from here
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
    """An entry's message with its body, wherever that is. An error of `UNREADABLE` where it cannot be read any more."""
    paged_body: PagedBody | None = entry.paged_body
    if paged_body is None or paged_body.bodies is None:
        return entry.message
    stub = entry.message
    return Message(
        stub.exchange, stub.routing_key, stub.header, paged_body.bodies.body(paged_body.number), None, stub.more_keys
    )


def page_in(entry: EntryWithBody) -> None:
    """Let an entry have its body again. An error of `UNREADABLE` where it cannot be read any more."""
    if entry.paged_body is not None:
        entry.message = whole(entry)
        entry.paged_body = None

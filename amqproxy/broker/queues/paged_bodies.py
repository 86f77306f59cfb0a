"""Bodies of messages that are out, or have come back, while memory has no room for them: they wait in the page files.

What is out is known by its `Entry`, and stays where it is but for its body. Who needs that again calls `bring_back`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from amqproxy.broker.message import Message
from amqproxy.broker.storage.packing import Stored

if TYPE_CHECKING:
    from amqproxy.broker.queues.backlog import Entry
    from amqproxy.broker.queues.paged_messages import Place
    from amqproxy.broker.storage.page_file import Block

BLOCK_MESSAGES = 1024
BLOCK_OCTETS = 256 * 1024
"""What is put away at once, until it is so many messages or so much."""

LEAST_BODY = 512
"""Octets of a body from which on it is worth its place on the disk: what an entry costs beside it stays in memory."""


class Bodies:
    """A block in which some bodies are. It is dropped with the last entry that has its body there."""

    __slots__ = ("_block", "_place")

    last_read: tuple[Bodies, list[Stored]] | None = None
    """What comes back comes back in its order, more often than not: so the last block that was read is kept."""

    def __init__(self, place: Place, block: Block) -> None:
        self._place = place
        self._block = block

    def body(self, number: int) -> bytes:
        """One of them. An error of `UNREADABLE` where it cannot be read any more."""
        read = Bodies.last_read
        if read is None or read[0] is not self:
            Bodies.last_read = read = self, self._place.read(self._block)
        return read[1][number].message.body

    def __del__(self) -> None:
        self._place.drop(self._block)


class Away:
    """Where an entry's body is; `octets` is how long it is."""

    __slots__ = ("bodies", "number", "octets")

    def __init__(self, bodies: Bodies | None, number: int, octets: int) -> None:
        self.bodies = bodies
        self.number = number
        self.octets = octets


def put_away(entries: Iterable[Entry], place: Place, most: int) -> int:
    """Let the bodies of some entries wait on the disk, about `most` octets of them; how many that gives back.

    `OSError` when the disk does not take them: then the rest stays in memory.
    """
    freed = 0
    chosen: list[Entry] = []
    octets = 0
    for entry in entries:
        size = len(entry.message.body)
        if size < LEAST_BODY:
            continue
        if not entry.queue.takes_back:  # it has the message itself, and never wants it from here
            _strip(entry, Away(None, 0, size))
            freed += size
        else:
            chosen.append(entry)
            octets += size
        if octets >= BLOCK_OCTETS or len(chosen) >= BLOCK_MESSAGES:
            freed += _put(chosen, place)
            chosen, octets = [], 0
        if freed + octets >= most:
            break
    return freed + _put(chosen, place)


def _put(entries: list[Entry], place: Place) -> int:
    if not entries:
        return 0
    rows = [Stored(number, entry.expires_at, 0, entry.message) for number, entry in enumerate(entries)]
    bodies = Bodies(place, place.put(rows))
    octets = 0
    for number, entry in enumerate(entries):
        size = len(entry.message.body)
        _strip(entry, Away(bodies, number, size))
        octets += size
    return octets


def _strip(entry: Entry, away: Away) -> None:
    whole = entry.message
    entry.away = away
    entry.message = Message(whole.exchange, whole.routing_key, whole.header, b"", None, whole.more_keys)


def whole(entry: Entry) -> Message:
    """An entry's message with its body, wherever that is. An error of `UNREADABLE` where it cannot be read any more."""
    away: Away | None = entry.away
    if away is None or away.bodies is None:
        return entry.message
    stub = entry.message
    return Message(stub.exchange, stub.routing_key, stub.header, away.bodies.body(away.number), None, stub.more_keys)


def bring_back(entry: Entry) -> None:
    """Let an entry have its body again. An error of `UNREADABLE` where it cannot be read any more."""
    if entry.away is not None:
        entry.message = whole(entry)
        entry.away = None

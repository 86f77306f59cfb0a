"""Messages that wait in a durable queue: the persistent ones are in its lane of the journal too.

After a restart they wait on the disk, and are read as they are wanted, so that a queue of a million opens at once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

from amqproxy.broker.backlog import NEVER, Backlog, Entry
from amqproxy.broker.journal import Lane
from amqproxy.broker.message import Message

if TYPE_CHECKING:
    from amqproxy.broker.queue import Queue

READ_AHEAD = 1024
"""Messages that are read at once, at most. The first time it is one, and then twice as many each time."""


class Stored(Protocol):
    """A message on the disk, as the store has it."""

    @property
    def position(self) -> int: ...
    @property
    def expires_at(self) -> float: ...
    @property
    def delivery_count(self) -> int: ...
    @property
    def message(self) -> Message: ...


Fetch = Callable[[int, int, int], Sequence[Stored]]
"""Messages of a lane by its number, from a position on, so many: at least one, if there is one."""


class KeptBacklog(Backlog):
    """As `Backlog`, and what it takes out must be told of again: by `put_back`, or by `done`.

    `fetch` reads what the lane holds from before; nothing else of the lane may have been told yet.
    """

    __slots__ = ("_ahead", "_fetch", "_lane", "_left", "_next", "_out", "_reading", "_redelivered_to", "_transient")

    def __init__(self, lane: Lane, fetch: Fetch | None = None) -> None:
        super().__init__()
        self._lane = lane
        self._fetch = fetch
        self._position = lane.last
        self._left = lane.messages if fetch is not None else 0
        self._redelivered_to = lane.delivered_to
        self._ahead: deque[Stored] = deque()
        self._next = 0
        self._reading = 1
        self._out: dict[int, int] = {}
        self._transient: set[int] = set()

    def __len__(self) -> int:
        return super().__len__() + self._left

    def __iter__(self) -> Iterator[Message]:
        for _, entry in sorted(self._returned, key=lambda each: each[0]):
            yield entry.message
        yield from (each.message for each in self._stored())
        yield from self._fresh

    def add(self, message: Message, expires_at: float) -> None:
        super().add(message, expires_at)
        position = self._position + len(self._fresh)
        if message.is_persistent:
            self._lane.enqueued(position, message, expires_at)
        else:
            self._transient.add(position)

    def entry(self, queue: Queue, message: Message, expires_at: float) -> Entry:
        entry = super().entry(queue, message, expires_at)
        if message.is_persistent:
            self._lane.enqueued(entry.position, message, expires_at)
            self._went_out(entry)
        else:
            self._transient.add(entry.position)
        return entry

    def take(self, queue: Queue) -> Entry:
        entry = self._take_stored(queue) if self._left and not self._returned else super().take(queue)
        if entry.position not in self._transient:
            self._went_out(entry)
        return entry

    def _went_out(self, entry: Entry) -> None:
        self._out[entry.position] = len(entry.message.body)
        self._lane.delivered(entry.position)

    def put_back(self, entry: Entry) -> None:
        super().put_back(entry)
        self._came_back(entry)

    def _came_back(self, entry: Entry) -> None:
        if self._out.pop(entry.position, None) is not None and entry.delivery_count:
            self._lane.returned(entry.position, entry.delivery_count)

    def done(self, entry: Entry) -> None:
        """What was taken out will not come back."""
        size = self._out.pop(entry.position, None)
        if size is None:
            self._transient.discard(entry.position)
        else:
            self._lane.settled(entry.position, size)

    @property
    def expires_at(self) -> float:
        if self._left and not self._returned:
            return self._head().expires_at
        if self._returned:
            return self._returned[0][1].expires_at
        return self._expiries[0] if self._expiries else NEVER

    def clear(self) -> None:
        waiting = {entry.position for _, entry in self._returned}
        first_fresh = self._position
        super().clear()
        self._left = 0
        self._ahead.clear()
        self._transient = {each for each in self._transient if each <= first_fresh and each not in waiting}
        self._lane.purged(self._out)

    # --- what is on the disk from before

    def _head(self) -> Stored:
        """The first of what is left there; there must be one."""
        if not self._ahead:
            assert self._fetch is not None
            self._ahead.extend(self._fetch(self._lane.number, self._next, min(self._reading, self._left)))
            self._next = self._ahead[-1].position + 1
            self._reading = min(2 * self._reading, READ_AHEAD)
        return self._ahead[0]

    def _take_stored(self, queue: Queue) -> Entry:
        stored = self._head()
        self._ahead.popleft()
        self._left -= 1
        entry = Entry(queue, stored.message, stored.position, stored.expires_at)
        entry.is_redelivered = stored.position <= self._redelivered_to
        entry.delivery_count = stored.delivery_count
        return entry

    def _stored(self) -> Iterator[Stored]:
        """All of what is left there, which stays."""
        yield from self._ahead
        left, position = self._left - len(self._ahead), self._next
        while left and self._fetch is not None:
            some = self._fetch(self._lane.number, position, min(left, READ_AHEAD))
            yield from some
            left -= len(some)
            position = some[-1].position + 1

"""Messages that wait in a queue. On the way of every message that finds no consumer."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING

from amqproxy.amqp091.properties import Properties
from amqproxy.broker.message import Message

if TYPE_CHECKING:
    from amqproxy.broker.consumer import Consumer
    from amqproxy.broker.queue import Queue

NEVER = float("inf")


class Entry:
    """A message that a queue has taken out, and will know again when it is settled.

    `position` says where it was, `expires_at` (seconds) when its time there is over, `header` is the content header
    that goes out with it. `consumer` is who holds it, None for basic.get, and `tag` the delivery tag it is held by.
    """

    __slots__ = (
        "consumer",
        "delivery_count",
        "expires_at",
        "header",
        "is_redelivered",
        "message",
        "position",
        "queue",
        "tag",
    )

    def __init__(self, queue: Queue, message: Message, position: int, expires_at: float) -> None:
        self.queue = queue
        self.message = message
        self.position = position
        self.expires_at = expires_at
        self.header = message.header
        self.consumer: Consumer | None = None
        self.tag = 0
        self.is_redelivered = False
        self.delivery_count = 0


class Backlog:
    """First in, first out; what is put back goes to where it was.

    What waits has its position by its place alone, and what was taken out came before all that never was: so nothing
    is kept beside a waiting message, and a million of them cost little more than their octets.
    """

    __slots__ = ("_expiries", "_fresh", "_position", "_returned")

    def __init__(self) -> None:
        self._fresh: deque[Message] = deque()
        self._expiries: deque[float] | None = None
        self._position = 0
        self._returned: list[tuple[int, Entry]] = []

    def __len__(self) -> int:
        return len(self._fresh) + len(self._returned)

    def __iter__(self) -> Iterator[Message]:
        """What waits, in its order."""
        for _, entry in sorted(self._returned, key=lambda each: each[0]):
            yield entry.message
        yield from self._fresh

    def add(self, message: Message, expires_at: float) -> None:
        """Let a message wait behind all others."""
        self._fresh.append(message)
        if self._expiries is not None:
            self._expiries.append(expires_at)
        elif expires_at != NEVER:
            self._expiries = deque((NEVER,)) * (len(self._fresh) - 1)
            self._expiries.append(expires_at)

    def entry(self, queue: Queue, message: Message, expires_at: float) -> Entry:
        """What `add` and `take` would come to, when nothing waits."""
        self._position += 1
        return Entry(queue, message, self._position, expires_at)

    def take(self, queue: Queue) -> Entry:
        """Take the first message out; there must be one."""
        if self._returned:
            return heapq.heappop(self._returned)[1]
        self._position += 1
        message = self._fresh.popleft()
        if self._expiries is None:
            return Entry(queue, message, self._position, NEVER)
        expires_at = self._expiries.popleft()
        if not self._fresh:
            self._expiries = None
        return Entry(queue, message, self._position, expires_at)

    def put_back(self, entry: Entry) -> None:
        """Let a message that was taken out wait where it was."""
        heapq.heappush(self._returned, (entry.position, entry))

    def done(self, entry: Entry) -> None:
        """What was taken out will not come back."""

    @property
    def expires_at(self) -> float:
        """When the time of the first message is over."""
        if self._returned:
            return self._returned[0][1].expires_at
        return self._expiries[0] if self._expiries else NEVER

    def clear(self) -> None:
        """Drop everything."""
        self._position += len(self._fresh)
        self._fresh.clear()
        self._expiries = None
        self._returned.clear()


def _flag(name: str) -> int:
    return 0x80 >> Properties.__struct_fields__.index(name)


FLAGS = 12
"""Where in a content header's payload the first octet of the property flags is."""
HAS_EXPIRATION = _flag("expiration")
HAS_PRIORITY = _flag("priority")

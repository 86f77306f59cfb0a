"""Lets waiting messages go from memory to the disk while more of it is used than messages are for.

The rule: once the broker uses half of the memory at which its publishers are held up, the queue that holds most in
memory parks what is behind its head, or the channel what is out there, and then the next, until as much is free as was
too much.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterable, Iterator
from itertools import count
from typing import TYPE_CHECKING

from amqproxy.broker.parked import Place

if TYPE_CHECKING:
    from amqproxy.broker.queue import Queue
    from amqproxy.broker.unacked import Unacked
    from amqproxy.broker.vhost import VirtualHost

SHARE = 0.5
"""Of the limit for memory: where paging begins, as with RabbitMQ."""

SLICE = 1024 * 1024
"""Octets that one `work` parks, about: a few thousandths of a second, in which nobody is served."""

LEAST = 128 * 1024
"""Octets of a queue in memory that are worth a look: a head may stay anyway."""


class Paging:
    """`measured` says how much memory is in use (octets), and `work` then parks a slice of what is too much.

    `vhosts` and `unacked` give all there are. `place` takes what no lane has: until it is set, nothing is done.
    `failed` is called with whether the disk has refused something, or has taken something again; `relieved` when all
    is done for now.
    """

    def __init__(
        self,
        limit: int | None,
        vhosts: Callable[[], Iterable[VirtualHost]],
        failed: Callable[[bool, float], None] = lambda has_failed, now: None,
        unacked: Callable[[], Iterable[Unacked]] = lambda: (),
    ) -> None:
        self.threshold = math.inf if limit is None else limit * SHARE
        self.place: Place | None = None
        self.relieved: Callable[[], None] = lambda: None
        self._vhosts = vhosts
        self._failed = failed
        self._unacked = unacked
        self._surplus = 0
        self._holders: list[tuple[int, int, Queue | Unacked]] = []

    @property
    def is_due(self) -> bool:
        """Is there something to do now?"""
        return self._surplus > 0

    def measured(self, memory: int, now: float) -> None:
        """So many octets of memory are in use now."""
        self._surplus = 0
        self._holders = []
        if memory <= self.threshold or self.place is None:
            self._failed(False, now)
            return
        numbers = count()
        self._surplus = memory - int(self.threshold)
        for vhost in self._vhosts():
            self._surplus -= vhost.held.park()
            self._list(vhost.queues.values(), numbers)
        self._list(self._unacked(), numbers)
        heapq.heapify(self._holders)

    def _list(self, holders: Iterable[Queue | Unacked], numbers: Iterator[int]) -> None:
        sizes = ((each.octets_in_memory, each) for each in holders)
        self._holders += [(-size, next(numbers), each) for size, each in sizes if size > LEAST]

    def work(self, now: float) -> None:
        """Park a slice of what is too much."""
        room = SLICE
        while self._surplus > 0 and room > 0:
            if not self._holders or self.place is None:
                self._surplus = 0
                break
            _, number, holder = heapq.heappop(self._holders)
            if holder.is_deleted:
                continue
            try:
                freed = holder.park(self.place, min(room, self._surplus))
            except OSError:
                self._surplus = 0
                self._failed(True, now)
                return
            if freed:
                room -= freed
                self._surplus -= freed
                self._failed(False, now)
                size = holder.octets_in_memory
                if size > LEAST:
                    heapq.heappush(self._holders, (-size, number, holder))
        if self._surplus <= 0:
            self.relieved()

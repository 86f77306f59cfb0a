"""Paging: waiting messages move from memory to the disk while the broker uses more memory than they may take.

The rule: once the broker uses half of the memory at which its publishers are blocked, the queue that holds most in
memory pages out the messages behind its head, or the channel its unsettled messages, and then the next, until the
surplus is freed.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterable
from typing import Protocol

from amqproxy.broker.queues.paged_messages import PageStore
from amqproxy.broker.vhost import VirtualHost
from amqproxy.broker.work import Job, WorkQueue

SHARE = 0.5
"""Share of the memory limit at which paging begins, as with RabbitMQ."""

SLICE = 1024 * 1024
"""Approximate bytes that one `work` pages out: a few thousandths of a second, in which no client is served."""

LEAST = 128 * 1024
"""Bytes in memory above which a queue is worth paging: its head may stay anyway."""


class Pageable(Protocol):
    """A queue, or a channel's unsettled messages: it holds messages in memory, and can page them out."""

    @property
    def is_deleted(self) -> bool: ...

    @property
    def bytes_in_memory(self) -> int: ...

    def page_out(self, page_store: PageStore, most: int, /) -> int:
        """Page out about `most` bytes; return the bytes that this frees. `OSError` if the disk does not take them."""


class Paging:
    """Paging of all queues and channels: `measured` takes the memory in use (bytes), `work` pages out a slice.

    The search for the largest of very many is left to later turns. `vhosts` and `unacked` give all queues and unsettled
    messages. `page_store` takes messages that no message log has: until it is set, nothing is paged out. `failed` is
    called with whether the disk has refused something, or has taken something again; `relieved` when all is done for
    the time being.
    """

    def __init__(
        self,
        limit: int | None,
        later: WorkQueue,
        vhosts: Callable[[], Iterable[VirtualHost]],
        failed: Callable[[bool, float], None] = lambda has_failed, now: None,
        unacked: Callable[[], Iterable[Pageable]] = lambda: (),
    ) -> None:
        self.threshold = math.inf if limit is None else limit * SHARE
        self.page_store: PageStore | None = None
        self.relieved: Callable[[], None] = lambda: None
        self._later = later
        self._vhosts = vhosts
        self._failed = failed
        self._unacked = unacked
        self._is_listing = False
        self._surplus = 0
        self._holders: list[tuple[int, int, Pageable]] = []

    @property
    def is_due(self) -> bool:
        """Whether there is a surplus to page out."""
        return self._surplus > 0

    def measured(self, memory: int, now: float) -> None:
        """Take the measured memory use (bytes), and start to list the holders of messages if it is too high."""
        if self._is_listing:
            return
        self._surplus = 0
        self._holders = []
        if memory <= self.threshold or self.page_store is None:
            self._failed(False, now)
            return
        self._is_listing = True
        self._later.do(self._listing(memory - int(self.threshold)), now)

    def _listing(self, surplus: int) -> Job:
        """List the holders of messages in steps, and release delayed messages that are on the disk already."""
        quantum = self._later.quantum
        try:
            for vhost in list(self._vhosts()):
                for count, freed in vhost.delayed.paging_out():
                    surplus -= freed
                    if quantum.spend(count):
                        yield
                yield from self._list(list(vhost.queues.values()))
            yield from self._list(self._unacked())
            heapq.heapify(self._holders)
            self._surplus = surplus
        finally:
            self._is_listing = False

    def _list(self, holders: Iterable[Pageable]) -> Job:
        quantum = self._later.quantum
        for each in holders:
            size = each.bytes_in_memory
            if size > LEAST:
                self._holders.append((-size, len(self._holders), each))
            if quantum.spend(1):
                yield

    def work(self, now: float) -> None:
        """Page out a slice of the surplus."""
        room = SLICE
        while self._surplus > 0 and room > 0:
            if not self._holders or self.page_store is None:
                self._surplus = 0
                break
            _, number, holder = heapq.heappop(self._holders)
            if holder.is_deleted:
                continue
            try:
                freed = holder.page_out(self.page_store, min(room, self._surplus))
            except OSError:
                self._surplus = 0
                self._failed(True, now)
                return
            if freed:
                room -= freed
                self._surplus -= freed
                self._failed(False, now)
                size = holder.bytes_in_memory
                if size > LEAST:
                    heapq.heappush(self._holders, (-size, number, holder))
        if self._surplus <= 0:
            self.relieved()

"""Lets waiting messages go from memory to the disk while more of it is used than messages are for.

The rule: once the broker uses half of the memory at which its publishers are blocked, the queue that holds most in
memory pages out what is behind its head, or the channel what is out there, and then the next, until as much is free as
was too much.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from amqproxy.broker.queues.paged_messages import PageStore
from amqproxy.broker.work import Job, WorkQueue

SHARE = 0.5
"""Of the limit for memory: where paging begins, as with RabbitMQ."""

SLICE = 1024 * 1024
"""Bytes that one `work` pages out, about: a few thousandths of a second, in which no client is served."""

LEAST = 128 * 1024
"""Bytes of a queue in memory that are worth a look: a head may stay anyway."""


class Pageable(Protocol):
    """A queue, or what a channel has not settled: it holds messages in memory, and can let them go to the disk."""

    @property
    def is_deleted(self) -> bool: ...

    @property
    def bytes_in_memory(self) -> int: ...

    def page_out(self, page_store: PageStore, most: int, /) -> int:
        """Let about so many bytes go; how many that were. `OSError` when the disk does not take them."""


class PageableInPassing(Protocol):
    """What delayed exchanges hold."""

    def paging_out(self) -> Iterable[tuple[int, int]]:
        """Let go what is on the disk already: for each step what it cost, and the bytes that it freed."""


class PagedVhost(Protocol):
    """A virtual host, as far as paging goes."""

    @property
    def delayed(self) -> PageableInPassing: ...

    @property
    def queues(self) -> Mapping[str, Pageable]: ...


class Paging:
    """`measured` is called with the memory in use (bytes), and `work` then pages out a slice of what is too much. To
    find the largest of very many is left to later turns, too.

    `vhosts` and `unacked` give all there are. `page_store` takes what no message log has: until it is set, nothing is
    done. `failed` is called with whether the disk has refused something, or has taken something again; `relieved` when
    all is done for now.
    """

    def __init__(
        self,
        limit: int | None,
        later: WorkQueue,
        vhosts: Callable[[], Iterable[PagedVhost]],
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
        """Is there something to do now?"""
        return self._surplus > 0

    def measured(self, memory: int, now: float) -> None:
        """So many bytes of memory are in use now."""
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
        """Find who holds what, in steps; and what is held and on the disk already need not be in memory."""
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
        """Park a slice of what is too much."""
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

"""Queues in the order of a list, and the pages of it, found in the broker so that other rows need not be sent.

Everything is done in slices between which other tasks have their turn: keys are sorted in runs, and the runs merged.
Regular expressions are matched by the management API in its own process, from the names alone: one of 16 characters can
take 0.1 s for 1,024 names.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from heapq import merge
from operator import attrgetter
from typing import Any

from amqproxy.broker.queues.queue import Queue
from amqproxy.broker.vhost import VirtualHost
from amqproxy.control.request import QueuePage

RUN = 256
"""Keys that are made and sorted, merged, or passed over, before other tasks have their turn."""

Found = tuple[VirtualHost, Queue]

Key = tuple[Any, str, str]
"""Sort key, virtual host and name of a queue."""

SORTS: Mapping[str, Callable[[Queue], Any]] = {
    "vhost": lambda queue: 0,  # the virtual host is the next part of each key
    "name": attrgetter("name"),
    "consumers": lambda queue: len(queue.consumers),
    "memory": attrgetter("bytes_in_memory"),
    "messages": lambda queue: queue.message_count + queue.unacked,
    "messages_ready": attrgetter("message_count"),
    "messages_unacknowledged": attrgetter("unacked"),
}
"""Columns by which the broker sorts: all queues have them."""


def queue_page(vhosts: Iterable[VirtualHost], page: QueuePage) -> Iterator[dict[str, int] | Found | None]:
    """Return an iterator over the numbers of queues, all and matching, if a `count` is given, and then the queues.

    A None lets other tasks have their turn.
    """
    seen = {each.name: each for each in vhosts if page.vhosts is None or each.name in page.vhosts}
    if page.names is not None:
        return _found(seen, page.names)
    return _paged(seen, page)


def _found(seen: Mapping[str, VirtualHost], names: Iterable[tuple[str, str] | None]) -> Iterator[Found | None]:
    """Yield those of the named queues that exist."""
    for number, name in enumerate(names, 1):
        queue = None if name is None or name[0] not in seen else seen[name[0]].queues.get(name[1])
        if name is not None and queue is not None:
            yield seen[name[0]], queue
        if name is None or not number % RUN:
            yield None


def _paged(seen: Mapping[str, VirtualHost], page: QueuePage) -> Iterator[dict[str, int] | Found | None]:
    runs: list[list[Key]] = []
    total = yield from _sorted_runs(seen.values(), page, runs)
    filtered = sum(map(len, runs))
    first, end = 0, filtered
    if page.count is not None:
        yield {"total": total, "filtered": filtered}
        first, end = min(page.offset, filtered), min(page.offset + page.count, filtered)
    if first <= filtered - end:
        yield from _found(seen, _merged(runs, first, end, reverse=page.reverse))
        return
    # A page near the end is merged from there, so that fewer keys are passed over.
    backwards: list[tuple[str, str]] = []
    for each in runs:
        each.reverse()
    for name in _merged(runs, filtered - end, filtered - first, reverse=not page.reverse):
        if name is None:
            yield None
        else:
            backwards.append(name)
    yield from _found(seen, reversed(backwards))


def _sorted_runs(vhosts: Iterable[VirtualHost], page: QueuePage, runs: list[list[Key]]) -> Generator[None, None, int]:
    """Add the keys of matching queues to `runs`, each sorted; return the number of all queues."""
    total = 0
    key, part = SORTS[page.sort], page.name.lower()
    run: list[Key] = []
    for vhost in vhosts:
        name, queues = vhost.name, list(vhost.queues.values())
        total += len(queues)
        for begin in range(0, len(queues), RUN):
            some = [queue for queue in queues[begin : begin + RUN] if not queue.is_deleted]
            if part:
                some = [queue for queue in some if part in queue.name.lower()]
            run += [(key(queue), name, queue.name) for queue in some]
            if len(run) > RUN // 2:  # with the next queues, it has no more than one and a half
                run.sort(reverse=page.reverse)
                runs.append(run)
                run = []
            yield
    run.sort(reverse=page.reverse)
    runs.append(run)
    return total


def _merged(runs: Iterable[list[Key]], first: int, end: int, *, reverse: bool) -> Iterator[tuple[str, str] | None]:
    """Yield virtual hosts and names from the `first` key up to the `end`; a None for each turn of others before it."""
    for number, (_, vhost, name) in enumerate(merge(*runs, reverse=reverse)):
        if number >= end:
            return
        if number >= first:
            yield vhost, name
        elif not number % RUN:
            yield None

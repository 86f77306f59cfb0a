"""Queues in the order of a list, and the pages of it, found in the broker so that other rows need not be sent.

Everything is done in slices between which other tasks have their turn: keys are sorted in runs, and the runs merged, or
only the keys up to the end of the page are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from heapq import merge
from typing import Any

from amqproxy.broker.queues.queue import Queue
from amqproxy.broker.vhost import VirtualHost
from amqproxy.control.request import QueuePage
from amqproxy.rules.matching.name_pattern import name_pattern

RUN = 1024
"""Keys that are made, or sorted, before other tasks have their turn."""

Found = tuple[VirtualHost, Queue]

SORTS: Mapping[str, Callable[[VirtualHost, Queue], Any]] = {
    "vhost": lambda vhost, queue: vhost.name,
    "name": lambda vhost, queue: queue.name,
    "consumers": lambda vhost, queue: len(queue.consumers),
    "memory": lambda vhost, queue: queue.bytes_in_memory,
    "messages": lambda vhost, queue: queue.message_count + queue.unacked,
    "messages_ready": lambda vhost, queue: queue.message_count,
    "messages_unacknowledged": lambda vhost, queue: queue.unacked,
}
"""Columns by which the broker sorts: all queues have them."""


def queue_page(vhosts: Iterable[VirtualHost], page: QueuePage) -> Iterator[dict[str, int] | Found | None]:
    """Return an iterator over the numbers of queues, all and matching, if a `count` is given, and then the queues.

    `ValueError` for an invalid pattern; a None lets other tasks have their turn.
    """
    matches = _matcher(page)
    seen = [each for each in vhosts if page.vhosts is None or each.name in page.vhosts]
    if page.count is None:
        return _in_order(seen, page, matches)
    return _counted(seen, page, page.offset + page.count, matches)


def _counted(
    seen: list[VirtualHost], page: QueuePage, end: int, matches: Callable[[str], bool] | None
) -> Iterator[dict[str, int] | Found | None]:
    total = filtered = 0
    key = SORTS[page.sort]
    best: list[tuple[Any, str, str, Queue]] = []
    hosts = {each.name: each for each in seen}
    run: list[tuple[Any, str, str, Queue]] = []
    for vhost in seen:
        for queue in list(vhost.queues.values()):
            total += 1
            if matches is None or matches(queue.name):
                filtered += 1
                run.append((key(vhost, queue), vhost.name, queue.name, queue))
            if not total % RUN:
                best = _first([*best, *run], end, page)
                run = []
                yield None
    best = _first([*best, *run], end, page)
    yield {"total": total, "filtered": filtered}
    for _, name, _, queue in best[page.offset :]:
        yield hosts[name], queue


def _first(keys: list[tuple[Any, str, str, Queue]], end: int, page: QueuePage) -> list[tuple[Any, str, str, Queue]]:
    """Return the first keys in order. Names are unique in a virtual host, so that queues are never compared."""
    keys.sort(reverse=page.reverse)
    return keys[:end]


def _in_order(
    vhosts: list[VirtualHost], page: QueuePage, matches: Callable[[str], bool] | None
) -> Iterator[Found | None]:
    """Yield all queues in order of virtual host and name."""
    for vhost in sorted(vhosts, key=lambda each: each.name, reverse=page.reverse):
        names = list(vhost.queues)
        runs: list[list[str]] = []
        for start in range(0, len(names), RUN):
            runs.append(sorted(names[start : start + RUN], reverse=page.reverse))
            yield None
        del names
        for name in merge(*runs, reverse=page.reverse):
            queue = vhost.queues.get(name)
            if queue is not None and (matches is None or matches(name)):
                yield vhost, queue


def _matcher(page: QueuePage) -> Callable[[str], bool] | None:
    if not page.name:
        return None
    if page.regex:
        return name_pattern(page.name, ignores_case=True).fits
    part = page.name.lower()
    return lambda name: part in name.lower()

"""Pages of queues that this process selects by a regular expression, or sorts by a rate, from their names alone.

The broker sends only the names, and then the rows of the page: it knows no rates, and no user's pattern runs in its
process, where it would keep clients waiting.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from typing import Any

from amqproxy.management.call import Call, Entry
from amqproxy.management.listing import ListQuery, name_matcher, sort_key
from amqproxy.management.recent_answers import Counted
from amqproxy.management.statistics.figures import AFTER_LENGTHS, DELIVERIES, LENGTHS, PUBLISH, Figures
from amqproxy.management.statistics.ranges import ranges_of
from amqproxy.rules.matching.name_pattern import bounded_name_pattern

LOOKED_AT = 64
"""Names that are looked at before other requests have their turn."""

RATES = frozenset(
    {f"{name}_details.rate" for name in LENGTHS}
    | {f"message_stats.{name}_details.rate" for name in (*PUBLISH, *DELIVERIES)}
)

ORDER = ("vhost", "name")

Key = Callable[[str, str], Any]
"""The sort key of a queue, by virtual host and name."""


def is_rate(sort: str) -> bool:
    """Whether a list is sorted by a rate of queues."""
    return sort in RATES


async def selected_page(call: Call, query: ListQuery, page: Entry) -> tuple[Entry | None, tuple[int, int] | None]:
    """Return a page by the names of its queues, and the numbers of all queues and of those chosen.

    None for an invalid pattern, which `name_matcher` refuses, or lets match nothing.
    """
    assert query.page is not None
    fits: Callable[[str], bool]
    if query.is_regex:
        try:
            fits = bounded_name_pattern(query.name, ignores_case=True).fits
        except ValueError:
            return None, None
    else:
        fits = name_matcher(query, refuses_patterns=False)
    vhost, begin = call.values.get("vhost"), (query.page - 1) * query.page_size
    key = _rate_key(call, query.sort) if query.sort and is_rate(query.sort) else None

    async def ask() -> Counted:
        total = 0
        names: list[tuple[str, str]] = []
        async with aclosing(call.broker.objects("queues", vhost, page=page)) as entries:
            async for each in entries:
                total += 1
                if not total % LOOKED_AT:
                    await asyncio.sleep(0)
                if fits(each["name"]):
                    names.append((each["vhost"], each["name"]))
        filtered = len(names)
        if key is not None:
            names = await _sorted(names, key, is_reverse=query.is_reverse)
        return Counted(total, [{"names": names[begin : begin + query.page_size], "filtered": filtered}])

    asked = ("selected", vhost, repr(page), query, tuple(call.query.items()) if key is not None else ())
    found = await call.broker.recent.get(asked, ask)
    [selected] = found.entries
    return {"names": selected["names"]}, (found.queues, selected["filtered"])


def _rate_key(call: Call, sort: str) -> Key:
    """Return the sort key of queues by a rate, which this process has sampled."""
    wanted = sort.removesuffix(".rate").rpartition(".")[2]
    history = call.history
    figures = Figures(history, ranges_of(call.query, "invalid_range_parameters"), {wanted})

    def key(vhost: str, name: str) -> Any:
        counts = history.of("queues", vhost, name).numbers[AFTER_LENGTHS:]
        row = figures.of_queue(vhost, name, counts or None)
        return sort_key({"vhost": vhost, "name": name, **row}, ORDER, sort)

    return key


async def _sorted(names: list[tuple[str, str]], key: Key, *, is_reverse: bool) -> list[tuple[str, str]]:
    keyed = []
    for number, name in enumerate(names):
        keyed.append((key(*name), name))
        if not number % LOOKED_AT:
            await asyncio.sleep(0)
    keyed.sort(key=lambda each: each[0], reverse=is_reverse)
    return [name for _, name in keyed]

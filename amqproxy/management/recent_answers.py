"""Answers about all queues, given again for a time that grows with their number: scrapers ask for the same ones."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Hashable
from functools import partial
from typing import Any, NamedTuple

import msgspec

LEAST_QUEUES = 1000
"""Queues up to which every answer is of the moment."""

QUEUES_A_SECOND = 10_000
"""Queues for which an answer is given again for a second: the broker looks at about a million in a second."""

MOST_SECONDS = 5.0
"""Longest age of an answer: that of RabbitMQ's numbers, which it samples."""

MOST_BYTES = 1 << 20
"""Bytes of all answers and of what was asked, as JSON: in memory they are some times as large."""

Entry = dict[str, Any]


class Counted(NamedTuple):
    """An answer, with the number of queues that the broker looked at for it."""

    queues: int
    entries: list[Entry]


class RecentAnswers:
    """Answers by what was asked.

    Those of a large broker may be up to `MOST_SECONDS` old, as the numbers of RabbitMQ's API are, but are asked for
    again after each change that this API makes.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._made: OrderedDict[Hashable, tuple[float, Counted, int]] = OrderedDict()
        """Answers, each with the time until which it is given and its size, the oldest first."""
        self._asking: dict[Hashable, asyncio.Task[Counted]] = {}

    async def get(self, asked: Hashable, ask: Callable[[], Coroutine[Any, Any, Counted]]) -> Counted:
        """Return the answer to what was `asked`; `ask` gets it, unless there is a recent one, or others wait for it."""
        until, found, _ = self._made.get(asked, (0.0, None, 0))
        if found is not None and self._clock() < until:
            return found
        task = self._asking.get(asked)
        if task is None:
            task = self._asking[asked] = asyncio.create_task(ask())
            task.add_done_callback(partial(self._keep, asked, self._clock()))
        return await asyncio.shield(task)  # others wait for it too

    def _keep(self, asked: Hashable, began: float, task: asyncio.Task[Counted]) -> None:
        has_failed = task.cancelled() or task.exception() is not None
        if self._asking.get(asked) is not task:
            return  # something was changed meanwhile
        del self._asking[asked]
        self._made.pop(asked, None)
        if has_failed or task.result().queues <= LEAST_QUEUES:
            return
        answer = task.result()
        now = self._clock()
        for each in [key for key, (until, *_) in self._made.items() if until <= now]:
            del self._made[each]
        until = began + min(answer.queues / QUEUES_A_SECOND, MOST_SECONDS)
        self._made[asked] = until, answer, len(repr(asked)) + len(msgspec.json.encode(answer.entries))
        while sum(size for *_, size in self._made.values()) > MOST_BYTES:
            self._made.popitem(last=False)

    def forget(self) -> None:
        """Ask for all answers again, since something was changed."""
        self._made.clear()
        self._asking.clear()

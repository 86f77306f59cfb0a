"""Queries of the pipeline's tables in threads, few at once, so that other work is not delayed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from amqproxy.dashboard.problem import Problem

if TYPE_CHECKING:
    from amqproxy.pipeline.analytics import Analytics

Answer = TypeVar("Answer")

AT_ONCE = 2
"""Maximum number of concurrent queries; each has bounded memory."""

MAX_WAITING = 32
"""Maximum number of queries that run or wait."""


class TableQueries:
    """Queries of one directory of tables."""

    def __init__(self, path: str) -> None:
        from amqproxy.pipeline.analytics import Analytics
        from amqproxy.pipeline.reading import Reader

        self.path = path
        self._analytics = Analytics(Reader(path))
        self._turns = asyncio.Semaphore(AT_ONCE)
        self._waiting = 0

    async def ask(self, question: Callable[[Analytics], Answer]) -> Answer:
        """Run a query; `Problem` if the tables cannot be read or the query exceeds its limits."""
        from amqproxy.pipeline.reading import TooMuch, Unreadable

        if self._waiting >= MAX_WAITING:
            raise Problem(503, "too many questions about the tables wait already: ask again later")
        self._waiting += 1
        try:
            async with self._turns:
                return await asyncio.to_thread(question, self._analytics)
        except TooMuch as error:
            raise Problem(503, str(error)) from None
        except Unreadable as error:
            raise Problem(502, str(error)) from None
        finally:
            self._waiting -= 1

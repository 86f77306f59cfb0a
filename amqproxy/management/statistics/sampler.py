"""The task that samples the broker's counts."""

from __future__ import annotations

import asyncio
import time
from contextlib import aclosing

from amqproxy.control import RequestError
from amqproxy.management.broker_source import BrokerSource
from amqproxy.management.statistics.history import History
from amqproxy.management.statistics.series import INTERVAL
from amqproxy.process.supervision import contained

ROWS_A_TURN = 200
"""Rows that are added before requests have their turn."""


class Sampler:
    """Keeper of a `History`: it asks the broker for the counts that changed since the sample before."""

    def __init__(self, broker: BrokerSource) -> None:
        self._broker = broker
        self._revision = 0
        self.history = History()

    async def run(self) -> None:
        """Sample at each multiple of `INTERVAL`, until cancelled."""
        while True:
            await self.sample(time.time(), time.monotonic())
            await asyncio.sleep(INTERVAL - time.time() % INTERVAL)

    async def sample(self, now: float, moment: float | None = None) -> None:
        """Take one sample at `now`, as `History.begin`; a broker that does not answer leaves it out."""
        with contained("sampling failed"):
            try:
                await self._sample(now, moment)
            except RequestError:
                return  # the requests of clients tell that it does not answer

    async def _sample(self, now: float, moment: float | None) -> None:
        history, since = self.history, self._revision
        async with aclosing(self._broker.samples(since)) as rows:
            revision = await anext(rows)
            history.begin(now, moment)
            number = 0
            async for kind, vhost, name, is_new, numbers in rows:
                history.add((kind, vhost, name), numbers, is_new=is_new and since > 0)
                number += 1
                if not number % ROWS_A_TURN:
                    await asyncio.sleep(0)
        history.end()
        self._revision = revision

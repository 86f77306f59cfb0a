"""The sampler, at a broker in the same process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

from amqproxy.control import RequestError
from amqproxy.control.management.samples import Samples
from amqproxy.management.broker_source import BrokerSource
from amqproxy.management.statistics.sampler import Sampler
from amqproxy.management.statistics.series import INTERVAL
from tests.control.served import Serving

NOW = 1_000_000_000


class LocalSamples(BrokerSource):
    """A broker that is asked directly, and does not answer while it `is_away`."""

    def __init__(self) -> None:
        super().__init__(Path("none"))
        self.serving = Serving()
        self.is_away = False
        self._samples = Samples(self.serving.broker, {})

    async def samples(self, since: int) -> AsyncGenerator[Any]:
        if self.is_away:
            raise RequestError("unreachable", "it is away")
        for each in self._samples.since(since):
            if each is not None:
                yield each


def test_a_sample_that_the_broker_does_not_answer_is_left_out() -> None:
    broker = LocalSamples()
    sampler = Sampler(broker)
    for step in range(4):
        broker.serving.client.publish("", "q")
        broker.is_away = step == 2
        asyncio.run(sampler.sample(NOW + INTERVAL * step))
    history = sampler.history
    queue = history.of("queues", "/", "q")
    assert (history.previous, history.last, history.seconds) == (NOW + INTERVAL, NOW + 3 * INTERVAL, 2 * INTERVAL)
    assert [queue.at(time)[0] for time in (NOW, history.previous, history.last)] == [1, 2, 4]

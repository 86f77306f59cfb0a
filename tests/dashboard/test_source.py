"""The processor time of taking traffic."""

from __future__ import annotations

import asyncio
import time

import pytest

from amqproxy.dashboard import source
from amqproxy.dashboard.missing_frames import MissingFrames

pytestmark = pytest.mark.once

STEPS = 20
OTHERS = 0.005


def test_taking_traffic_costs_no_more_than_its_own_processor_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "SLICE_SECONDS", 0.0)
    taken = source.Source(0, "taken", 1 << 20, lambda: None, is_live=True)

    async def others() -> None:
        while True:
            stop = time.thread_time() + OTHERS
            while time.thread_time() < stop:
                pass
            await asyncio.sleep(0)

    async def took() -> float:
        busy = asyncio.create_task(others())
        cost = await taken.take([MissingFrames(0, 1, "lost")] * STEPS)
        busy.cancel()
        return cost

    began = time.thread_time()
    cost = asyncio.run(took())
    assert taken.ring.next_seq == STEPS
    assert 0 < cost <= time.thread_time() - began - STEPS * OTHERS

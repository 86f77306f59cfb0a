"""Turns for counting the reach of policies."""

from __future__ import annotations

import asyncio

import pytest

from amqproxy.dashboard.reach_turns import ReachTurns

pytestmark = pytest.mark.once


def test_a_client_counts_one_reach_at_a_time() -> None:
    order: list[str] = []

    async def count(turns: ReachTurns, address: str, name: str) -> None:
        async with turns.turn(address):
            order.append(f"{name} begins")
            for _ in range(5):
                await asyncio.sleep(0)
            order.append(f"{name} ends")

    async def test() -> None:
        turns = ReachTurns()
        await asyncio.gather(count(turns, "a", "first"), count(turns, "a", "second"), count(turns, "b", "other"))
        assert not turns._locks

    asyncio.run(test())
    assert order.index("second begins") > order.index("first ends")
    assert order.index("other begins") < order.index("first ends")

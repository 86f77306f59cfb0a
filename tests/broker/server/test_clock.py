"""Two clocks, a fixed time apart."""

import time

import pytest
import trio
import trio.testing

from amqproxy.broker.server.clock import current_time, trio_time


async def test_it_is_the_time_of_day() -> None:
    assert current_time() == pytest.approx(time.time(), abs=1.0)
    assert trio_time(current_time()) == pytest.approx(trio.current_time(), abs=0.1)


async def test_it_goes_with_trios_clock(autojump_clock: trio.testing.MockClock) -> None:
    began = current_time()
    await trio.sleep(1000)
    assert current_time() - began == pytest.approx(1000)

"""A deadline that is moved while it is waited for."""

import math

import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from amqproxy.proxy.session.release_timer import ReleaseTimer


async def test_one_task_waits_for_a_deadline_that_moves(autojump_clock: MockClock) -> None:
    timer = ReleaseTimer()
    begin = trio.current_time()
    assert not timer.move(math.inf)
    assert timer.move(begin + 10)
    assert not timer.move(begin + 5), "the task that is to wait has been asked for already"
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_wait, timer, begin + 5, begin + 3)
        await wait_all_tasks_blocked()
        assert not timer.move(math.inf)
        assert not timer.move(begin + 3)


async def test_there_is_no_task_once_nothing_waits() -> None:
    timer = ReleaseTimer()
    assert timer.move(trio.current_time())
    assert await timer.wait(trio.current_time())
    assert not timer.move(math.inf)
    assert not await timer.wait(math.inf)
    assert timer.move(trio.current_time())


async def _wait(timer: ReleaseTimer, deadline: float, end: float) -> None:
    assert await timer.wait(deadline)
    assert trio.current_time() == end

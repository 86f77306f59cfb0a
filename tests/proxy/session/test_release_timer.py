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


async def test_the_task_ends_when_there_is_nothing_to_wait_for_any_more(autojump_clock: MockClock) -> None:
    timer = ReleaseTimer()
    ended: list[bool] = []

    async def wait() -> None:
        ended.append(await timer.wait(trio.current_time() + 10))

    assert timer.move(trio.current_time() + 10)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait)
        await wait_all_tasks_blocked()
        assert not timer.move(math.inf)
        await wait_all_tasks_blocked()
    assert ended == [False]
    assert timer.move(trio.current_time() + 10), "another one is to be started"


async def _wait(timer: ReleaseTimer, deadline: float, end: float) -> None:
    assert await timer.wait(deadline)
    assert trio.current_time() == end

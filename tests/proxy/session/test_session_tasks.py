"""Tasks that are started before there is a nursery for them."""

import math

import trio
from trio.testing import MockClock

from amqproxy.proxy.session.session_tasks import SessionTasks


async def _note(done: list[int], number: int) -> None:
    done.append(number)


async def test_what_was_started_before_starts_with_the_nursery() -> None:
    done: list[int] = []
    tasks = SessionTasks()
    tasks.start_soon(_note, done, 1)
    assert tasks.count == 1
    async with trio.open_nursery() as nursery:
        tasks.begin(nursery)
        tasks.start_soon(_note, done, 2)
        assert tasks.count == 2
        assert done == []
    assert sorted(done) == [1, 2]


async def test_it_has_the_time_that_was_set_before(autojump_clock: MockClock) -> None:
    tasks = SessionTasks()
    tasks.cancel_scope.deadline = trio.current_time() + 3
    async with trio.open_nursery() as nursery:
        tasks.begin(nursery)
        assert tasks.cancel_scope is nursery.cancel_scope
        await trio.sleep_forever()
    assert trio.current_time() == 3


async def test_it_is_cancelled_if_it_was_before() -> None:
    tasks = SessionTasks()
    assert tasks.cancel_scope.deadline == math.inf
    tasks.cancel_scope.cancel()
    async with trio.open_nursery() as nursery:
        tasks.begin(nursery)
        await trio.sleep_forever()
    assert nursery.cancel_scope.cancelled_caught


async def test_none_starts_once_the_last_one_has_ended() -> None:
    done: list[int] = []
    tasks = SessionTasks()
    async with trio.open_nursery() as nursery:
        tasks.begin(nursery)
        tasks.start_soon(_note, done, 1)
        tasks.note_return()
        assert not tasks.have_ended
    assert tasks.have_ended
    tasks.start_soon(_note, done, 2)
    assert done == [1]

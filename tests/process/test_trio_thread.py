"""A trio loop in a thread of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager

import pytest
import trio
import trio.lowlevel
import trio.testing

from amqproxy.process.trio_thread import TrioThread


class Opened:
    """A context manager, what happened to it, and whether it is to fail."""

    def __init__(self, fails_at: str = "") -> None:
        self.happened: list[str] = []
        self.fails_at = fails_at
        self.breaks = trio.Event()

    @asynccontextmanager
    async def enter(self) -> AsyncIterator[str]:
        self._pass("enter")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._break)
            yield "value"
            nursery.cancel_scope.cancel()
        self._pass("exit")

    async def _break(self) -> None:
        await self.breaks.wait()
        self._pass("run")

    def _pass(self, point: str) -> None:
        self.happened.append(point)
        if self.fails_at == point:
            raise ValueError(point)


def test_from_start_to_stop() -> None:
    opened = Opened()
    thread = TrioThread(opened.enter, "name")
    assert thread.start() == thread.value == "value"
    assert thread.call(threading.current_thread).name == "name"
    thread.stop()
    assert opened.happened == ["enter", "exit"]
    with pytest.raises(trio.RunFinishedError):
        thread.call(lambda: None)


def test_what_is_called_may_fail() -> None:
    thread = TrioThread(Opened().enter, "name")
    thread.start()
    with pytest.raises(ZeroDivisionError):
        thread.call(lambda: 1 // 0)
    assert thread.call(lambda: 5) == 5
    thread.stop()


def test_an_async_function() -> None:
    async def answer() -> int:
        await trio.lowlevel.checkpoint()
        return 5 // dividend

    dividend = 1
    thread = TrioThread(Opened().enter, "name")
    thread.start()
    assert thread.run(answer) == 5
    dividend = 0
    with pytest.raises(ZeroDivisionError):
        thread.run(answer)
    thread.stop()


def test_an_async_function_that_the_end_of_the_loop_cuts_short() -> None:
    thread = TrioThread(Opened().enter, "name")
    thread.start()
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(thread.run, trio.sleep_forever)
        thread.run(trio.testing.wait_all_tasks_blocked)
        thread.stop()
        with pytest.raises(trio.RunFinishedError):
            waiting.result()


async def test_it_may_be_called_from_trio() -> None:
    thread = TrioThread(Opened().enter, "name")
    thread.start()
    assert thread.call(lambda: 5) == 5
    thread.stop()


def test_it_may_be_called_from_asyncio() -> None:
    async def main() -> int:
        return thread.call(lambda: 5)

    thread = TrioThread(Opened().enter, "name")
    thread.start()
    assert asyncio.run(main()) == 5
    thread.stop()


def test_what_keeps_it_from_opening_is_raised() -> None:
    before = set(threading.enumerate())
    thread = TrioThread(Opened(fails_at="enter").enter, "name")
    with pytest.raises(ValueError, match="enter"):
        thread.start()
    assert set(threading.enumerate()) <= before  # others may have ended meanwhile


def test_what_fails_at_the_end_is_raised() -> None:
    thread = TrioThread(Opened(fails_at="exit").enter, "name")
    thread.start()
    with pytest.raises(ValueError, match="exit"):
        thread.stop()


def test_what_fails_meanwhile_is_raised_at_the_end() -> None:
    opened = Opened(fails_at="run")
    thread = TrioThread(opened.enter, "name")
    thread.start()
    thread.call(opened.breaks.set)
    with pytest.raises(ExceptionGroup) as failure:
        thread.stop()
    assert failure.group_contains(ValueError, match="run")

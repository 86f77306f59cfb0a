"""Those who watch have their share of the time, and no more."""

from __future__ import annotations

import trio
from trio.testing import MockClock

from amqproxy.control.work_share import LONGEST_TURN, REST, TURN, WorkShare


class Processor:
    """Its time passes when somebody works."""

    def __init__(self) -> None:
        self.now = 0.0
        self.steps: list[int] = []
        self.share = WorkShare(lambda: self.now, lambda: self.now)

    async def watch(self, turns: int) -> None:
        """So many turns, as long as each is allowed to be."""
        for _ in range(turns):
            steps = 0
            async with self.share.turn() as is_over:
                while not is_over():
                    self.now += TURN / 100
                    steps += 1
            self.steps.append(steps)


async def test_a_turn_is_bounded_and_alone_one_follows_the_other(autojump_clock: MockClock) -> None:
    processor = Processor()
    before = trio.current_time()
    await processor.watch(5)
    assert [abs(each - 100) <= 1 for each in processor.steps] == [True] * 5
    assert trio.current_time() == before


async def test_where_others_work_those_who_watch_rest_all_together(autojump_clock: MockClock) -> None:
    processor = Processor()
    began: list[float] = []

    def now() -> float:
        return processor.now + trio.current_time()

    async def work() -> None:
        for _ in range(50):
            processor.now += TURN
            await trio.lowlevel.checkpoint()

    async def watch() -> None:
        async with processor.share.turn():
            began.append(now())
            processor.now += TURN

    before = now()
    async with trio.open_nursery() as nursery:
        for task in (work, watch, watch):
            nursery.start_soon(task)
    assert began[1] - began[0] >= REST * TURN * 0.99
    assert now() - before >= REST * TURN * 0.99


async def test_where_others_take_long_a_turn_is_longer(autojump_clock: MockClock) -> None:
    processor = Processor()

    async def work() -> None:
        for _ in range(20):
            processor.now += 8 * TURN
            await trio.lowlevel.checkpoint()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(work)
        await processor.watch(4)
    assert abs(processor.steps[0] - 100) <= 1
    assert max(processor.steps) > 190
    assert max(processor.steps) <= LONGEST_TURN / TURN * 100 + 1


async def test_observers_do_not_rest_for_the_time_of_other_processes(autojump_clock: MockClock) -> None:
    processor = Processor()
    share = WorkShare(trio.current_time, lambda: processor.now)

    async def work() -> None:
        for _ in range(5):
            processor.now += TURN
            await trio.lowlevel.checkpoint()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(work)
        async with share.turn() as is_over:
            autojump_clock.jump(1.0)  # the process is suspended
            assert is_over()
        assert trio.current_time() < 1.0 + REST * TURN

"""Answers of the broker that are given again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from amqproxy.management.recent_answers import LEAST_QUEUES, MOST_BYTES, MOST_SECONDS, Counted, RecentAnswers

LARGE = 20_000
"""Queues for which an answer is recent for two seconds."""


class Asked:
    """Counts how often it is asked; `now` is the time."""

    def __init__(self, queues: int, size: int = 1) -> None:
        self.number = 0
        self.now = 0.0
        self.answer = Counted(queues, [{"names": ["x" * (size // 4)] * 4}])
        self.recent = RecentAnswers(lambda: self.now)

    async def ask(self) -> Counted:
        self.number += 1
        await asyncio.sleep(0)
        return self.answer

    async def get(self, asked: str = "totals") -> Counted:
        return await self.recent.get(asked, self.ask)


def run(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(test())


@pytest.mark.parametrize(
    ("queues", "seconds"), [(LEAST_QUEUES, 0.0), (LEAST_QUEUES + 1, 0.1), (LARGE, 2.0), (10_000_000, MOST_SECONDS)]
)
def test_an_answer_is_given_again_for_longer_the_more_queues_there_are(queues: int, seconds: float) -> None:
    asked = Asked(queues)

    async def test() -> None:
        await asked.get()
        asked.now = seconds - 0.01
        await asked.get()
        assert asked.number == 1 + (seconds == 0)
        asked.now = seconds + 0.01
        await asked.get()
        assert asked.number == 2 + (seconds == 0)

    run(test)


def test_requests_at_once_share_an_answer_even_of_few_queues() -> None:
    asked = Asked(1)

    async def test() -> None:
        await asyncio.gather(*(asked.get() for _ in range(5)))
        assert asked.number == 1
        await asked.get()
        assert asked.number == 2

    run(test)


def test_after_a_change_all_is_asked_for_again_even_what_is_under_way() -> None:
    asked = Asked(LARGE)

    async def test() -> None:
        before = asyncio.create_task(asked.get())
        await asyncio.sleep(0)
        asked.recent.forget()
        after = asyncio.create_task(asked.get())
        assert await before == await after
        assert asked.number == 2
        await asked.get()
        assert asked.number == 2
        asked.recent.forget()
        await asked.get()
        assert asked.number == 3

    run(test)


def test_the_oldest_answers_make_room_for_others() -> None:
    asked = Asked(LARGE, size=MOST_BYTES // 2 - 100)

    async def test() -> None:
        for name in ("one", "two", "three", "three", "two"):
            await asked.get(name)
        assert asked.number == 3
        await asked.get("one")
        assert asked.number == 4

    run(test)


def test_long_questions_count_and_answers_that_are_too_old_make_room_at_once() -> None:
    asked = Asked(LARGE)

    async def test() -> None:
        for number in range(5):
            await asked.get(f"{number}" + "x" * (MOST_BYTES // 4))
        assert len(asked.recent._made) == 3
        asked.now = MOST_SECONDS
        await asked.get("later")
        assert list(asked.recent._made) == ["later"]

    run(test)


def test_a_failure_reaches_all_who_wait_and_nobody_else() -> None:
    asked = Asked(LARGE)

    async def fail() -> Counted:
        raise ValueError("no answer")

    async def test() -> None:
        found = await asyncio.gather(*(asked.recent.get("totals", fail) for _ in range(2)), return_exceptions=True)
        assert list(map(str, found)) == ["no answer"] * 2
        assert await asked.get() == asked.answer

    run(test)


def test_one_who_gives_up_leaves_the_answer_to_others() -> None:
    asked = Asked(LARGE)

    async def test() -> None:
        impatient, patient = asyncio.create_task(asked.get()), asyncio.create_task(asked.get())
        await asyncio.sleep(0)
        impatient.cancel()
        assert await patient == asked.answer
        assert asked.number == 1

    run(test)

"""The event loop's time, shared among busy legs."""

from __future__ import annotations

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from amqproxy.proxy import turns
from amqproxy.proxy.turns import MOST_TURNS, QUANTUM, ROUND, Turn, TurnQueue


async def test_one_of_those_that_wait_goes_on_in_each_turn_of_the_loop() -> None:
    queue = TurnQueue()
    order: list[int] = []

    async def work(number: int) -> None:
        for _ in range(2):
            await queue.wait()
            order.append(number)

    async with trio.open_nursery() as nursery:
        for number in range(10):
            nursery.start_soon(work, number)
        sizes = []
        while len(order) < 20:
            before = len(order)
            await trio.lowlevel.checkpoint()
            sizes.append(len(order) - before)
        assert max(sizes) <= 2, "the order of the tasks of a turn is random: one of the turn before can come behind us"
        assert len(sizes) >= 19
    assert sorted(order[:10]) == sorted(order[10:]) == list(range(10)), "each has its turn before any has two"
    assert queue.waiting == 0


async def test_who_is_cancelled_while_it_waits_leaves_the_turn_to_the_next() -> None:
    queue = TurnQueue()
    done: list[int] = []
    scopes = [trio.CancelScope() for _ in range(6)]

    async def work(number: int) -> None:
        with scopes[number]:
            await queue.wait()
            done.append(number)

    async with trio.open_nursery() as nursery:
        for number in range(len(scopes)):
            nursery.start_soon(work, number)
        while queue.waiting < 4:
            await trio.lowlevel.checkpoint()
        for scope in scopes[::2]:
            scope.cancel()
    assert set(done) >= {1, 3, 5}
    with trio.fail_after(1):
        await queue.wait()
    assert queue.waiting == 0


async def test_turns_are_shorter_the_more_wait() -> None:
    queue = TurnQueue()
    assert queue.quantum == QUANTUM
    async with trio.open_nursery() as nursery:
        for _ in range(1001):
            nursery.start_soon(queue.wait)
        while queue.waiting < 900:
            await trio.lowlevel.checkpoint()
        waiting = queue.waiting
        assert queue.quantum == pytest.approx(ROUND / waiting)
        nursery.cancel_scope.cancel()
    await wait_all_tasks_blocked()
    assert queue.quantum == QUANTUM


def test_a_turn_is_over_after_a_quantum_of_work() -> None:
    turn = Turn(TurnQueue())
    now = 100.0
    step = QUANTUM / 5
    for _ in range(4):
        assert not turn.is_over(now, now + step / 2, now + step)
        now += step
    assert turn.is_over(now, now + 2 * step, now + 2 * step)


def test_who_waits_as_long_as_it_works_has_always_a_turn() -> None:
    turn = Turn(TurnQueue())
    now = 100.0
    for _ in range(100):
        assert not turn.is_over(now, now + QUANTUM / 2, now + QUANTUM / 2)
        now += QUANTUM


def test_a_send_that_waited_for_the_peer_is_no_work() -> None:
    turn = Turn(TurnQueue())
    assert not turn.is_over(100.0, 100.0 + QUANTUM / 2, 100.0 + 10 * QUANTUM)


async def test_among_many_that_wait_only_its_share_is_earned_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "ROUND", 1.0)
    queue = TurnQueue()
    turn = Turn(queue)
    async with trio.open_nursery() as nursery:
        for _ in range(10):
            nursery.start_soon(queue.wait)
        while queue.waiting < 8:
            await trio.lowlevel.checkpoint()
        now = 100.0
        answers = []
        for _ in range(4):
            answers.append(turn.is_over(now, now + QUANTUM / 2, now + QUANTUM / 2))
            now += QUANTUM
        assert answers == [False, False, True, True]
        await turn.next()
        assert not turn.is_over(now, now, now)


async def test_an_indivisible_step_of_many_quanta_is_followed_by_as_many_turns_of_others() -> None:
    queue = TurnQueue()
    turn = Turn(queue)
    others: list[int] = []

    async def work() -> None:
        while True:
            await queue.wait()
            others.append(1)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(work)
        for quanta, turns in ((1, 1), (10, 10), (1000, MOST_TURNS)):  # the longest: the process was not running
            others.clear()
            now = 100.0 * quanta
            assert turn.is_over(now, now + (quanta + 0.5) * QUANTUM, now + (quanta + 0.5) * QUANTUM)
            await turn.next()
            assert turns - 1 <= len(others) <= turns + 1
        nursery.cancel_scope.cancel()

"""Tasks wait for their turns, whoever of them leaves."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from amqproxy.proxy.admission_queue import AdmissionQueue, Departed, QueueFull
from amqproxy.proxy.admissions import await_turn

CLIENTS = 50


async def test_all_pass_at_the_rate(autojump_clock: MockClock) -> None:
    turns = AdmissionQueue(10.0, CLIENTS)
    passed: list[float] = []

    async def one(number: int) -> None:
        await await_turn(turns, f"10.0.0.{number % 3}")
        passed.append(trio.current_time() - began)

    began = trio.current_time()
    async with trio.open_nursery() as nursery:
        for number in range(CLIENTS):
            nursery.start_soon(one, number)
    assert len(passed) == CLIENTS
    assert passed == sorted(passed)
    assert passed[-1] == pytest.approx(CLIENTS / 10, abs=0.2)
    assert turns.seconds == pytest.approx(sum(passed))
    assert len(turns) == 0


async def test_the_number_of_brokers_multiplies_the_rate(autojump_clock: MockClock) -> None:
    turns = AdmissionQueue(10.0, CLIENTS)
    began = trio.current_time()
    async with trio.open_nursery() as nursery:
        for _ in range(CLIENTS):
            nursery.start_soon(await_turn, turns, "a", lambda: 5)
    assert trio.current_time() - began == pytest.approx(1.0, abs=0.2)


async def test_the_timekeeper_may_leave(autojump_clock: MockClock) -> None:
    turns = AdmissionQueue(1.0, CLIENTS)
    assert turns.admits(trio.current_time())
    scopes = [trio.CancelScope() for _ in range(10)]
    passed = []

    async def one(number: int) -> None:
        with scopes[number]:
            await await_turn(turns, "a")
            passed.append(number)

    async with trio.open_nursery() as nursery:
        for number in range(10):
            nursery.start_soon(one, number)
            await trio.testing.wait_all_tasks_blocked()
        for each in scopes[:5]:
            each.cancel()
    assert passed == [5, 6, 7, 8, 9]


async def test_a_client_that_has_hung_up_is_told_in_its_turn(autojump_clock: MockClock) -> None:
    turns = AdmissionQueue(1.0, CLIENTS)
    assert turns.admits(trio.current_time())
    with pytest.raises(Departed):
        await await_turn(turns, "a", is_gone=lambda: True)


async def test_a_refused_task_is_told_at_once(autojump_clock: MockClock) -> None:
    turns = AdmissionQueue(0.01, 2)
    assert turns.admits(trio.current_time())
    refused = []

    async def one(address: str) -> None:
        try:
            await await_turn(turns, address)
        except QueueFull:
            refused.append(address)

    async with trio.open_nursery() as nursery:
        for address in ("a", "a", "b", "c"):
            nursery.start_soon(one, address)
            await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    assert refused == ["a", "c"]

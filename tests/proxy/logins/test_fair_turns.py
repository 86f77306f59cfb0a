"""Turns that are shared fairly among addresses."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from amqproxy.proxy.logins.fair_turns import FairTurns


class Room:
    """Holders of turns, each of which takes a second."""

    def __init__(self, at_once: int) -> None:
        self.turns = FairTurns(at_once)
        self.inside: list[str] = []
        self.most = 0
        self.ended: list[tuple[float, str]] = []

    async def visit(self, key: str, seconds: float = 1.0) -> None:
        async with self.turns.turn(key):
            self.inside.append(key)
            self.most = max(self.most, len(self.inside))
            await trio.sleep(seconds)
            self.inside.remove(key)
        self.ended.append((trio.current_time(), key))


async def test_turns_are_bounded_and_one_key_has_half_at_most(autojump_clock: MockClock) -> None:
    room = Room(4)
    began = trio.current_time()
    async with trio.open_nursery() as nursery:
        for _ in range(20):
            nursery.start_soon(room.visit, "guesser")
        await wait_all_tasks_blocked()
        assert room.inside == ["guesser"] * 2
        nursery.start_soon(room.visit, "client")
        await wait_all_tasks_blocked()
        assert room.inside == ["guesser", "guesser", "client"]
    assert room.most == 3
    assert trio.current_time() - began == pytest.approx(10)
    assert not room.turns._held
    assert not room.turns._waiting


async def test_keys_take_turns(autojump_clock: MockClock) -> None:
    room = Room(2)
    began = trio.current_time()
    async with trio.open_nursery() as nursery:
        for guesser in ("one", "two", "three"):
            for _ in range(1000):
                nursery.start_soon(room.visit, guesser)
        await trio.sleep(0.5)
        with trio.fail_after(3):  # with 3,000 before it
            await room.visit("client")
        nursery.cancel_scope.cancel()
    assert trio.current_time() - began < 4
    assert room.most == 2
    assert room.turns._free == 2
    assert not room.turns._held
    assert not room.turns._waiting


async def test_who_gives_up_takes_no_turn(autojump_clock: MockClock) -> None:
    room = Room(1)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(room.visit, "a")
        await wait_all_tasks_blocked()
        with trio.move_on_after(0.5):
            await room.visit("b")
        assert not room.turns._waiting
        await room.visit("b")
    assert [key for _, key in room.ended] == ["a", "b"]


async def test_a_turn_granted_to_who_gives_up_is_passed_on(autojump_clock: MockClock) -> None:
    turns = FairTurns(1)
    leaving = trio.CancelScope()

    async def leave() -> None:
        with leaving:
            async with turns.turn("b"):
                raise AssertionError("it had a turn")

    async with trio.open_nursery() as nursery, turns.turn("a"):
        nursery.start_soon(leave)
        await wait_all_tasks_blocked()
        leaving.cancel()  # and the turn is granted before the other task can notice that
    assert turns._free == 1
    async with turns.turn("c"):
        assert turns._free == 0

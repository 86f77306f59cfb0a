"""Clients move to other members at a rate, each once."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from amqproxy.proxy.client_moves import MOVED, ClientMoves
from amqproxy.proxy.upstreams.group import UpstreamGroup
from amqproxy.proxy.upstreams.member import Member


class Guest:
    """A session of a member, which ends when it is asked to, and comes back to another member."""

    def __init__(self, floor: Floor, number: int, member: Member) -> None:
        self.floor = floor
        self.number = number
        self.member = member
        self.is_open = True
        self.told: list[str] = []
        member.note_connected()

    def contained(self) -> Any:
        return nullcontext()

    def drain(self, reason: Any) -> None:
        assert reason is MOVED
        self.leave("drained")
        others = self.floor.group.candidates(trio.current_time())
        self.floor.add(others[0])

    def disconnect(self, peer: Any, reason: str) -> None:
        self.leave(reason)

    def leave(self, why: str) -> None:
        self.told.append(why)
        self.floor.moved.append((trio.current_time(), self.number))
        del self.floor.sessions[self.number]
        self.member.note_disconnected()


class Floor:
    def __init__(self, *counts: int, rate: float = 0.0) -> None:
        members = [Member("abc"[place]) for place in range(len(counts))]
        self.group = UpstreamGroup("g", members, selection="least_connections", rebalance_rate=rate)
        self.sessions: dict[int, Any] = {}
        self.moved: list[tuple[float, int]] = []
        self.last = 0
        for member, count in zip(members, counts, strict=True):
            for _ in range(count):
                self.add(member)
        self.moves = ClientMoves(self.sessions, lambda: [self.group])

    def add(self, member: Member) -> None:
        self.last += 1
        self.sessions[self.last] = Guest(self, self.last, member)

    @property
    def counts(self) -> list[int]:
        return [member.connections for member in self.group.members]


async def test_a_drained_member_takes_no_clients_and_keeps_its_own(autojump_clock: MockClock) -> None:
    floor = Floor(10, 10)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(floor.moves.run)
        floor.moves.drain(floor.group.members[0], 0.0)
        await trio.sleep(30.0)
        assert floor.counts == [10, 10]
        assert [each.address for each in floor.group.candidates(0.0)] == ["b"]
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize(("rate", "seconds"), [(5.0, 4), (0.5, 40)])
async def test_a_drained_member_is_emptied_at_the_rate(rate: float, seconds: int, autojump_clock: MockClock) -> None:
    floor = Floor(20, 20)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(floor.moves.run)
        floor.moves.drain(floor.group.members[0], rate)
        await trio.sleep(seconds + 0.5)
        assert floor.counts == [0, 40]
        assert len({number for _, number in floor.moved}) == 20
        if rate >= 1:
            assert all(sum(at == second for at, _ in floor.moved) <= rate for second, _ in floor.moved)
        nursery.cancel_scope.cancel()


async def test_a_rebalance_stops_at_the_skew(autojump_clock: MockClock) -> None:
    floor = Floor(600, 400, 0)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(floor.moves.run)
        await trio.sleep(10.0)
        assert floor.moved == []
        floor.moves.rebalance(floor.group, 50.0)
        await trio.sleep(30.0)
        nursery.cancel_scope.cancel()
    assert max(floor.counts) <= 367  # a third of 1,000, and a tenth of that
    assert len({number for _, number in floor.moved}) == len(floor.moved) == 600 - 367 + 400 - 367
    assert sum(at == 11.0 for at, _ in floor.moved) == 50


async def test_a_group_may_rebalance_by_itself(autojump_clock: MockClock) -> None:
    floor = Floor(30, 0, rate=10.0)
    floor.group.members[1].note_check(0.0, passed=False, fall=1, rise=1)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(floor.moves.run)
        await trio.sleep(10.0)
        assert floor.counts == [30, 0]
        floor.group.members[1].note_check(trio.current_time(), passed=True, fall=1, rise=1)
        await trio.sleep(10.0)
        assert max(floor.counts) <= 17
        nursery.cancel_scope.cancel()


async def test_clients_of_a_member_that_is_down_are_told_at_once() -> None:
    floor = Floor(3, 2)
    lost = [session for session in floor.sessions.values() if session.member.address == "a"]
    await floor.moves.close(floor.group.members[0], "a is down")
    assert [session.told for session in lost] == [["a is down"]] * 3
    assert floor.counts == [0, 2]
    await floor.moves.close(floor.group.members[0], "a is down")

"""Places in a pool, and its ends."""

from __future__ import annotations

from typing import Any, cast

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from amqproxy.amqp091.errors import NotAllowed
from amqproxy.amqp091.frame import HEARTBEAT_FRAME
from amqproxy.amqp091.methods import ConnectionBlocked, ConnectionTune
from amqproxy.configuration.pool_config import PoolConfig
from amqproxy.proxy.amqp091.pools.lane import Lane, Piece
from amqproxy.proxy.amqp091.pools.pool import Pool, PoolKey
from amqproxy.proxy.amqp091.pools.pool_counts import PoolCounts
from amqproxy.proxy.amqp091.pools.pool_login import LoggedIn
from amqproxy.proxy.amqp091.pools.shared_upstream import SharedClient
from amqproxy.proxy.upstreams.member import Member
from tests.proxy.amqp091.pools.open_connection import open_connection
from tests.proxy.amqp091.pools.scripted_broker import ScriptedBroker


class Up:
    """A member that takes clients."""

    is_draining = False


class Guest:
    """A client of a shared connection."""

    def lose(self, reason: str) -> None:
        """Do nothing."""


class Stage:
    """A pool whose connections are opened at once."""

    def __init__(self, nursery: trio.Nursery, **config: Any) -> None:
        self.brokers: list[ScriptedBroker] = []
        self.behind: list[Any] = []
        self.has_room = True
        self.may_open = trio.Event()
        self.may_open.set()
        key = PoolKey(cast("Member", Up()), "/", "guest", b"digest")
        self.pool = Pool(key, PoolConfig(**config), self._open, lambda: self.has_room, nursery.start_soon, PoolCounts())
        self.placed: list[object] = []

    async def _open(self, key: PoolKey) -> LoggedIn:
        await self.may_open.wait()
        broker = ScriptedBroker.opened()
        self.brokers.append(broker)
        opened = LoggedIn(broker, open_connection(), ConnectionTune(2047, 131_072, 0))
        opened.behind = self.behind
        return opened

    async def come(self) -> None:
        """Take a place, and keep it."""
        upstream = await self.pool.place()
        client = cast("SharedClient", Guest())
        upstream.attach(client)
        self.placed.append(client)

    def leave(self) -> None:
        for upstream in self.pool.upstreams:
            if upstream.clients:
                upstream.detach(next(iter(upstream.clients)))
                return


async def test_every_client_that_waits_gets_a_place_as_others_leave(autojump_clock: object) -> None:
    async with trio.open_nursery() as nursery:
        stage = Stage(nursery, clients_per_upstream=2, upstreams=1)
        for _ in range(2):
            await stage.come()
        for _ in range(2):
            nursery.start_soon(stage.come)
        await wait_all_tasks_blocked()
        began = trio.current_time()
        for count in (3, 4):
            stage.leave()
            await wait_all_tasks_blocked()
            assert len(stage.placed) == count
        assert trio.current_time() == began
        nursery.cancel_scope.cancel()


async def test_clients_that_come_at_once_open_no_more_connections_than_they_need(autojump_clock: object) -> None:
    async with trio.open_nursery() as nursery:
        stage = Stage(nursery, clients_per_upstream=10, upstreams=8)
        for _ in range(10):
            nursery.start_soon(stage.come)
        await trio.sleep(1)
        assert (len(stage.placed), len(stage.brokers)) == (10, 1)
        nursery.cancel_scope.cancel()


async def test_room_that_another_pool_leaves_is_noticed(autojump_clock: object) -> None:
    async with trio.open_nursery() as nursery:
        stage = Stage(nursery)
        stage.has_room = False
        nursery.start_soon(stage.come)
        await trio.sleep(1)
        assert stage.placed == []
        stage.has_room = True
        await trio.sleep(1)
        assert len(stage.placed) == 1
        nursery.cancel_scope.cancel()


async def test_a_client_waits_for_a_bounded_time(autojump_clock: object) -> None:
    async with trio.open_nursery() as nursery:
        stage = Stage(nursery, wait=2.0)
        stage.has_room = False
        with pytest.raises(NotAllowed, match="pool exhausted"):
            await stage.come()
        assert stage.pool.waiting == 0
        nursery.cancel_scope.cancel()


async def test_a_connection_that_is_closed_for_idleness_takes_no_client(autojump_clock: object) -> None:
    async with trio.open_nursery() as nursery:
        stage = Stage(nursery, idle=60.0)
        await stage.come()
        stage.leave()
        await trio.sleep(61)
        stage.pool.keep(trio.current_time())
        await stage.come()
        assert len(stage.brokers) == 2
        nursery.cancel_scope.cancel()


async def test_what_the_broker_sends_behind_open_ok_is_not_lost(autojump_clock: object) -> None:
    async with trio.open_nursery() as nursery:
        stage = Stage(nursery)
        stage.behind = [ConnectionBlocked("low on memory")]
        await stage.come()
        assert stage.pool.upstreams[0].shared.blocked_for == "low on memory"
        nursery.cancel_scope.cancel()


async def test_a_client_that_leaves_keeps_its_place_while_bytes_of_it_wait(autojump_clock: object) -> None:
    """What waits on a connection is bounded by its places, however often clients publish and leave."""
    async with trio.open_nursery() as nursery:
        stage = Stage(nursery, clients_per_upstream=2, upstreams=1, wait=1.0)
        for _ in range(2):
            await stage.come()
        (upstream,) = stage.pool.upstreams
        stage.brokers[0].takes_bytes = False
        lanes = [Lane(), Lane()]
        for lane in lanes:
            lane.put(Piece(1, b"x" * 1000))
            stage.leave()
            upstream.keep_place(lane)
        assert (upstream.places, upstream.left_bytes) == (2, 2000)
        with pytest.raises(NotAllowed, match="pool exhausted"):
            await stage.come()
        lanes[0].take()
        upstream.shared.send_urgently(HEARTBEAT_FRAME)
        upstream.flush()
        await wait_all_tasks_blocked()
        await stage.come()
        assert (upstream.places, upstream.left_bytes) == (2, 1000)
        nursery.cancel_scope.cancel()


async def test_a_client_takes_a_place_that_is_left_while_another_connection_is_opened(autojump_clock: object) -> None:
    async with trio.open_nursery() as nursery:
        stage = Stage(nursery, clients_per_upstream=1)
        await stage.come()
        stage.may_open = trio.Event()
        nursery.start_soon(stage.come)
        await wait_all_tasks_blocked()
        began = trio.current_time()
        stage.leave()
        await wait_all_tasks_blocked()
        assert (len(stage.placed), trio.current_time()) == (2, began)
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("is_retired", [False, True])
async def test_a_connection_that_comes_late_has_an_owner(autojump_clock: object, is_retired: bool) -> None:
    """Its client has given up, and the pool would be removed; or a reload has removed it."""
    async with trio.open_nursery() as nursery:
        stage = Stage(nursery, wait=1.0)
        stage.may_open = trio.Event()
        with pytest.raises(NotAllowed, match="pool exhausted"):
            await stage.come()
        assert not stage.pool.is_empty
        if is_retired:
            stage.pool.retire()
        stage.may_open.set()
        await wait_all_tasks_blocked()
        assert stage.brokers[0].is_closed == is_retired
        assert stage.pool.is_empty == is_retired
        nursery.cancel_scope.cancel()

"""Connections to a control socket that are kept between requests."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from pathlib import Path

import pytest

from amqproxy.control import RequestError, kept_connections
from amqproxy.control.kept_connections import KeptConnections
from tests.management.fake_broker import FakeBroker

DEADLINE = 30.0


@pytest.fixture
def proxy(tmp_path: Path) -> FakeBroker:
    return FakeBroker(tmp_path / "control.sock", {"hello": {}})


async def ask(connections: KeptConnections) -> None:
    async with connections.one() as client:
        await client.ask("hello")


@pytest.mark.parametrize(("most", "accepted"), [(0, 3), (1, 1)])
def test_a_connection_is_used_again_if_connections_are_kept(proxy: FakeBroker, most: int, accepted: int) -> None:
    async def asked() -> None:
        async with proxy.serving(), asyncio.timeout(DEADLINE), aclosing(KeptConnections(proxy.path, most)) as kept:
            for _ in range(3):
                await ask(kept)

    asyncio.run(asked())
    assert proxy.accepted == accepted


def test_requests_at_once_have_connections_of_their_own_of_which_the_most_are_kept(proxy: FakeBroker) -> None:
    async def asked() -> None:
        async with proxy.serving(), asyncio.timeout(DEADLINE), aclosing(KeptConnections(proxy.path, 2)) as kept:
            for _ in range(2):
                async with kept.one() as first, kept.one() as second, kept.one() as third:
                    for each in (first, second, third):
                        await each.ask("hello")

    asyncio.run(asked())
    assert proxy.accepted == 4


def test_a_connection_whose_block_failed_is_closed(proxy: FakeBroker) -> None:
    async def asked() -> None:
        async with proxy.serving(), asyncio.timeout(DEADLINE), aclosing(KeptConnections(proxy.path, 1)) as kept:
            with pytest.raises(ValueError, match="half read"):
                async with kept.one():
                    raise ValueError("half read")
            await ask(kept)

    asyncio.run(asked())
    assert proxy.accepted == 2


def test_a_connection_that_the_proxy_closed_is_replaced(proxy: FakeBroker) -> None:
    async def asked() -> None:
        async with asyncio.timeout(DEADLINE), aclosing(KeptConnections(proxy.path, 1)) as kept:
            async with proxy.serving():
                async with kept.one() as client:
                    await client.ask("hello")
                for each in proxy.writers:
                    each.close()
                assert [event async for event in client.events()] == []
                await ask(kept)
            with pytest.raises(RequestError, match="no amqproxy answers"):
                async with kept.one(), kept.one():
                    pass

    asyncio.run(asked())


def test_a_connection_that_was_idle_for_long_is_not_used_again(
    proxy: FakeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_connections, "MOST_IDLE_SECONDS", -1.0)

    async def asked() -> None:
        async with proxy.serving(), asyncio.timeout(DEADLINE), aclosing(KeptConnections(proxy.path, 1)) as kept:
            await ask(kept)
            await ask(kept)

    asyncio.run(asked())
    assert proxy.accepted == 2

"""Silence, as seconds pass: only what comes counts, and only where somebody listens."""

from contextlib import suppress

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from amqproxy.config import Limits
from amqproxy.proxy import watchdog
from tests.proxy.stage import HANDSHAKE, Stage, staged
from tests.proxy.words import octets

HEARTBEAT = 60
GONE = 2 * HEARTBEAT


async def keep_talking(stage: Stage, *, client: bool, broker: bool, seconds: float) -> None:
    """Let each that is alive send a heartbeat in time."""
    for _ in range(int(seconds // (HEARTBEAT / 2))):
        await trio.sleep(HEARTBEAT / 2)
        if client:
            stage.client.perform("heartbeat")
        if broker:
            stage.broker.perform("heartbeat")


@pytest.fixture
def limits() -> Limits:
    return Limits(close_timeout=5.0)


async def test_who_beats_may_stay(limits: Limits, nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    async with staged(HANDSHAKE, limits=limits) as stage:
        nursery.start_soon(watchdog.watch, {1: stage.session})
        await keep_talking(stage, client=True, broker=True, seconds=10 * GONE)
        assert not stage.is_over.is_set()
        await stage.play(f"client: {', '.join(['heartbeat'] * 40)}")


async def test_a_silent_client(limits: Limits, nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    async with staged(HANDSHAKE, limits=limits) as stage:
        nursery.start_soon(watchdog.watch, {1: stage.session})
        nursery.start_soon(lambda: keep_talking(stage, client=False, broker=True, seconds=GONE))
        await stage.is_over.wait()
        assert GONE < trio.current_time() < GONE + limits.close_timeout + 3
        assert stage.end == ("proxy", "none")
        await stage.play("broker: connection.close 320, EOF")


async def test_a_silent_broker(limits: Limits, nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    async with staged(HANDSHAKE, limits=limits) as stage:
        nursery.start_soon(watchdog.watch, {1: stage.session})
        nursery.start_soon(lambda: keep_talking(stage, client=True, broker=False, seconds=GONE))
        await stage.is_over.wait()
        assert stage.end == ("server", "none")
        assert stage.count("upstream_failures_total", reason="lost") == 1
        seen = await stage.client.sees()
        assert seen.endswith("connection.close 320, EOF")


async def test_who_cannot_be_heard_is_not_silent(
    limits: Limits, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    """The broker reads nothing, and so the client is not read: what it says waits, its heartbeats too."""
    async with staged(HANDSHAKE + ">> 1: channel.open", limits=limits) as stage:
        chunk = octets("1: basic.publish, 1: header 4000, 1: body 4000") * 10
        with suppress(BlockingIOError):
            while stage.client.socket.send(chunk) == len(chunk):
                await wait_all_tasks_blocked()
        nursery.start_soon(watchdog.watch, {1: stage.session})
        await keep_talking(stage, client=False, broker=True, seconds=10 * GONE)
        assert not stage.is_over.is_set()


async def test_no_heartbeat_agreed_is_no_silence(nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    async with staged(">> header") as stage:
        seen = watchdog.look([stage.session], {}, 0.0)
        assert watchdog.look([stage.session], seen, 1e9) == {}
        assert not stage.is_over.is_set()

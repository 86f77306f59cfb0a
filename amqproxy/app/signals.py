"""Signals: an orderly end, and a reload."""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator, Awaitable, Callable

import trio

from amqproxy.process.log import logger
from amqproxy.process.supervision import contained, kept_up
from amqproxy.process.systemd import Systemd

ENDING = (signal.SIGTERM, signal.SIGINT)
"""Signals that end the program. Until it listens, they do so at once, as by default."""

ENDING_TIME = 15.0
"""Time limit for the end after the drain, in seconds: recordings, telemetry and output are finished."""


async def handle_ending(signals: AsyncIterator[int], drain: trio.Event, scope: trio.CancelScope) -> None:
    """Drain at the first signal, and end everything at the second."""
    async for _ in signals:
        if drain.is_set():
            scope.cancel()
        drain.set()


async def handle_hangup(hangups: AsyncIterator[int], reload: Callable[[], Awaitable[None]]) -> None:
    """Reload at each SIGHUP; a failure changes nothing."""
    async for _ in hangups:
        logger().info("reloading", reason="SIGHUP")
        with contained("reload failed"):
            await reload()


def report_to_systemd(nursery: trio.Nursery, systemd: Systemd, drain: trio.Event, within: float) -> None:
    """Send systemd watchdog signals, and report a drain of at most `within` seconds."""
    nursery.start_soon(kept_up, "no signs of life", systemd.live)
    nursery.start_soon(_report_drain, drain, systemd, within)


async def _report_drain(drain: trio.Event, systemd: Systemd, within: float) -> None:
    await drain.wait()
    systemd.stopping(within + ENDING_TIME)

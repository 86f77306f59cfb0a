"""The pumps of a configuration."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from amqproxy.app.cpu_quota import cpu_quota
from amqproxy.configuration.config import Config
from amqproxy.process.log import logger
from amqproxy.proxy.dialects import KEPT
from amqproxy.pump.dialects import pump_dialects
from amqproxy.pump.pumps import Pumps, are_available, may_be_idle
from amqproxy.taps.metrics import Metrics

TEST_MODE = "AMQPROXY_TEST_PUMP"
"""Environment variable, for tests only: the number of frames after which a connection changes its owner, repeatedly."""

MOST_THREADS = 4
"""Default maximum number of pumps, however many cores there are: one relays more than most networks carry."""


@contextmanager
def open_pumps(config: Config, metrics: Metrics) -> Iterator[Pumps | None]:
    """Run the pumps until the block ends; yield `None` if there are none.

    If no thread is requested or available, they only keep idle connections.

    The integrated broker runs in this process, in turn with the event loop: a pump would not relieve it.
    """
    threads = default_threads() if config.threads is None else config.threads
    if config.upstream == "broker":
        yield None
        return
    if threads and not are_available():
        logger().warning("no pumps", reason="they are compiled, and for Linux", threads=threads)
    if threads and are_available():
        pumps = Pumps(threads, pump_dialects(metrics, KEPT), metrics, **_forced())
        with pumps.started():
            if pumps.count:
                yield pumps
                return
    with _idle_pumps(metrics) as pumps_or_none:
        yield pumps_or_none


@contextmanager
def _idle_pumps(metrics: Metrics) -> Iterator[Pumps | None]:
    """Yield pumps that keep idle connections for the event loop, which relays all others."""
    if not may_be_idle():
        yield None
        return
    pumps = Pumps(0, pump_dialects(metrics, KEPT), metrics, is_idle_only=True)
    with pumps.started():
        yield pumps if pumps.count else None


def default_threads() -> int:
    """Return the default number of pumps: none if they are unavailable, or on one core, except for tests.

    A CPU quota counts as cores. More threads would use it up together in a part of each period, and the whole proxy
    would stall for the rest.
    """
    if not are_available():
        return 0
    cores = min(len(os.sched_getaffinity(0)), cpu_quota())
    return max(1 if _forced() else 0, min(int(cores) - 1, MOST_THREADS))


def _forced() -> dict[str, Any]:
    """Return a test's settings for handing over connections; empty if there are none."""
    frames = int(os.environ.get(TEST_MODE) or 0)
    return {"most_frames": frames, "first_chunks": 1, "most_chunks": 1} if frames else {}

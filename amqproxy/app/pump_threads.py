"""The pumps that a config wants."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from amqproxy.app.cpu_quota import cpu_quota
from amqproxy.configuration.config import Config
from amqproxy.process.log import logger
from amqproxy.proxy.amqp010.stateful import KEPT as AMQP010_KEPT
from amqproxy.proxy.amqp091.stateful import STATEFUL
from amqproxy.pump.pumps import Pumps, are_available, may_be_idle
from amqproxy.taps.metrics import Metrics

TEST_MODE = "AMQPROXY_TEST_PUMP"
"""In the environment: so many frames after which a connection changes its owner, all the time. For tests alone."""

MOST_THREADS = 4
"""Pumps by default, however many cores there are: one relays more than most networks carry."""


@contextmanager
def open_pumps(config: Config, metrics: Metrics) -> Iterator[Pumps | None]:
    """They run until the block ends; None where there are none.

    Where no thread is wanted, or can be had, they only keep idle connections.

    The integrated broker is in this process, and has its turn where the event loop has its own: no pump saves that.
    """
    threads = default_threads() if config.threads is None else config.threads
    if config.upstream == "broker":
        yield None
        return
    if threads and not are_available():
        logger().warning("no pumps", reason="they are compiled, and for Linux", threads=threads)
    if threads and are_available():
        pumps = Pumps(threads, STATEFUL, metrics, amqp010_keeps=AMQP010_KEPT, **_forced())
        with pumps.started():
            if pumps.count:
                yield pumps
                return
    with _idle_pumps(metrics) as pumps_or_none:
        yield pumps_or_none


@contextmanager
def _idle_pumps(metrics: Metrics) -> Iterator[Pumps | None]:
    """What keeps idle connections for the event loop, which relays all others."""
    if not may_be_idle():
        yield None
        return
    pumps = Pumps(0, STATEFUL, metrics, is_idle_only=True)
    with pumps.started():
        yield pumps if pumps.count else None


def default_threads() -> int:
    """How many where the config names no number: none where there can be none, or on one core, but for tests.

    A limit of processor time counts as cores. More threads would use it up together in a part of each period, and all
    of the proxy would stand still for the rest.
    """
    if not are_available():
        return 0
    cores = min(len(os.sched_getaffinity(0)), cpu_quota())
    return max(1 if _forced() else 0, min(int(cores) - 1, MOST_THREADS))


def _forced() -> dict[str, Any]:
    """How a test wants connections handed over; empty where none does."""
    frames = int(os.environ.get(TEST_MODE) or 0)
    return {"most_frames": frames, "first_chunks": 1, "most_chunks": 1} if frames else {}

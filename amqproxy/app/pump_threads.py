"""The pumps that a config wants."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from amqproxy.app.cpu_quota import cpu_quota
from amqproxy.config import Config
from amqproxy.log import logger
from amqproxy.proxy.stateful import AMQP010_KEPT, STATEFUL
from amqproxy.pump.pumps import Pumps, are_available
from amqproxy.taps.metrics import Metrics

TEST_MODE = "AMQPROXY_TEST_PUMP"
"""In the environment: so many frames after which a connection changes its owner, all the time. For tests alone."""

MOST_THREADS = 4
"""Pumps by default, however many cores there are: one relays more than most networks carry."""


@contextmanager
def open_pumps(config: Config, metrics: Metrics) -> Iterator[Pumps | None]:
    """They run until the block ends; None where there are none.

    The integrated broker is in this process, and has its turn where the event loop has its own: no pump saves that.
    """
    threads = default_threads() if config.threads is None else config.threads
    if not threads or config.upstream == "broker":
        yield None
    elif not are_available():
        logger().warning("no pumps", reason="they are compiled, and for Linux", threads=threads)
        yield None
    else:
        pumps = Pumps(threads, STATEFUL, metrics, amqp010_keeps=AMQP010_KEPT, **_forced())
        with pumps.started():
            yield pumps if pumps.count else None


def default_threads() -> int:
    """How many where the config names no number: none where there can be none, or there is but one core.

    A limit of processor time counts as cores. More threads would use it up together in a part of each period, and all
    of the proxy would stand still for the rest.
    """
    if not are_available():
        return 0
    cores = min(len(os.sched_getaffinity(0)), cpu_quota())
    return max(0, min(int(cores) - 1, MOST_THREADS))


def _forced() -> dict[str, int]:
    """How a test wants connections handed over."""
    frames = int(os.environ.get(TEST_MODE) or 0)
    return {"most_frames": frames, "first_chunks": 1, "most_chunks": 1} if frames else {}

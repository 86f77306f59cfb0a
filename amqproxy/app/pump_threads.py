"""The pumps that a config wants."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from amqproxy.config import Config
from amqproxy.log import logger
from amqproxy.proxy.stateful import STATEFUL
from amqproxy.pump.pumps import Pumps, are_available
from amqproxy.taps.metrics import Metrics


@contextmanager
def open_pumps(config: Config, metrics: Metrics) -> Iterator[Pumps | None]:
    """They run until the block ends; None where there are none.

    The integrated broker is in this process, and has its turn where the event loop has its own: no pump saves that.
    """
    if not config.threads or config.upstream == "broker":
        yield None
    elif not are_available():
        logger().warning("no pumps", reason="they are compiled, and for Linux", threads=config.threads)
        yield None
    else:
        pumps = Pumps(config.threads, STATEFUL, metrics)
        with pumps.started():
            yield pumps

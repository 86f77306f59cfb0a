"""Statistics of the whole process, for the control socket."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

from prometheus_client import CollectorRegistry

from amqproxy import __version__
from amqproxy.control.request import PROTOCOL


class Statistics:
    """Statistics from the metrics of `registry`. `lag` returns the event loop's latest lag, and a minute's maximum.

    `started` and `time` are in seconds since 1970.
    """

    def __init__(
        self,
        registry: CollectorRegistry,
        lag: Callable[[], tuple[float, float]],
        *,
        started: float,
        time: Callable[[], float],
    ) -> None:
        self._registry = registry
        self._lag = lag
        self._started = started
        self._time = time

    def process(self) -> dict[str, Any]:
        """Return the process's identity, start time, uptime and event loop lag."""
        now, most = self._lag()
        return {
            "version": __version__,
            "protocol": PROTOCOL,
            "pid": os.getpid(),
            "started_at": self._started,
            "time": self._time(),
            "uptime": max(0.0, self._time() - self._started),
            "lag": {"now": now, "most": most},
        }

    def samples(self) -> Iterator[dict[str, Any]]:
        """Yield every sample that a scrape of /metrics has, except creation times."""
        for family in self._registry.collect():
            for sample in family.samples:
                if not sample.name.endswith("_created"):
                    yield {
                        "name": sample.name,
                        "type": family.type,
                        "labels": dict(sample.labels),
                        "value": sample.value,
                    }

"""Memory of connections that are open and idle."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import psutil

from bench import talk
from bench.load import fork_open
from bench.peers import contenders, listener
from bench.report import Goal, Row, progress

CONNECTIONS = 1000
KIB = 1024
GOAL = Goal(20.0, is_most=True)


def measure(rounds: int, scale: float) -> Iterator[Row | str]:
    """One row: resident KiB for each connection, both its legs."""
    count = max(100, int(CONNECTIONS * min(1.0, 2 * scale)))
    with listener() as listening, contenders(listening.getsockname()[1], with_threads=False) as (proxies, missing):
        yield from missing
        progress(f"memory: {count} idle connections")
        figures: dict[str, list[float]] = {}
        for proxy in proxies:
            if proxy.pid is None:
                continue
            process = psutil.Process(proxy.pid)
            with ExitStack() as stack:
                stack.enter_context(fork_open(listening, count + 50))
                for _ in range(50):  # what the first connections bring is not theirs
                    stack.enter_context(talk.connect(proxy.port))
                before = process.memory_info().rss
                for _ in range(count):
                    stack.enter_context(talk.connect(proxy.port))
                figures[proxy.name] = [(process.memory_info().rss - before) / count / KIB]
        yield Row("Memory", f"{count} idle connections, each", "KiB", figures, goal=GOAL, less_is_better=True)

"""Reaction to Ctrl-C and SIGTERM of a command that runs until a signal."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def on_signals(first: Callable[[], None], then: Callable[[], None] | None = None) -> Iterator[None]:
    """Call `first` at the first signal within the block, and `then`, or `first` again, at each later one."""
    signals = 0

    def handle(number: int, frame: object) -> None:
        nonlocal signals
        signals += 1
        (first if signals == 1 or then is None else then)()

    before = {each: signal.signal(each, handle) for each in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)

"""What Ctrl-C and SIGTERM do while a command works until one of them comes."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def on_signals(first: Callable[[], None], then: Callable[[], None] | None = None) -> Iterator[None]:
    """Call `first` with the first of them within the block, and with each one after it `then`, or `first` again."""
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

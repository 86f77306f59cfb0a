"""Waiting for a condition, with a deadline, instead of sleeping."""

import time
from collections.abc import Callable
from typing import TypeVar

Answer = TypeVar("Answer")

DEADLINE = 60.0
"""Seconds; generous, because test machines are noisy."""


def until(condition: Callable[[], Answer], what: str, deadline: float = DEADLINE, pause: float = 0.02) -> Answer:
    """The first truthy answer of `condition`."""
    end = time.monotonic() + deadline
    while True:
        if answer := condition():
            return answer
        if time.monotonic() > end:
            raise TimeoutError(f"{what}: not after {deadline:g} s")
        time.sleep(pause)

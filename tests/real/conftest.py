"""A deadline for every test here, because a peer that stays silent would otherwise hang the run."""

import signal
from collections.abc import Iterator
from types import FrameType

import pytest

DEADLINE = 180
"""Seconds that a test may take; far more than any needs."""


@pytest.fixture(autouse=True)
def deadline(request: pytest.FixtureRequest) -> Iterator[None]:
    def expire(_: int, __: FrameType | None) -> None:
        raise TimeoutError(f"the test took more than {DEADLINE} s")

    previous = signal.signal(signal.SIGALRM, expire)
    signal.alarm(DEADLINE)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, previous)

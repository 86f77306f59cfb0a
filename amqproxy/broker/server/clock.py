"""The model's clock: the time of day at first, and from then on trio's clock, which never goes back."""

from __future__ import annotations

import time

import trio

_offset: trio.lowlevel.RunVar[float] = trio.lowlevel.RunVar("seconds from trio's clock to the time of day")


def current_time() -> float:
    """Seconds since 1970."""
    return trio.current_time() + _to_time_of_day()


def trio_time(when: float) -> float:
    """The time of trio's clock at which `current_time` is `when`."""
    return when - _to_time_of_day()


def _to_time_of_day() -> float:
    try:
        return _offset.get()
    except LookupError:
        offset = time.time() - trio.current_time()
        _offset.set(offset)
        return offset

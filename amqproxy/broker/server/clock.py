"""The model's clock: it starts at the time of day and advances with trio's clock, which never goes back."""

from __future__ import annotations

import time

import trio

_offset: trio.lowlevel.RunVar[float] = trio.lowlevel.RunVar("seconds from trio's clock to the time of day")


def current_time() -> float:
    """Return the seconds since 1970."""
    return trio.current_time() + _to_time_of_day()


def trio_time(when: float) -> float:
    """Return the time of trio's clock at which `current_time` is `when`."""
    return when - _to_time_of_day()


def _to_time_of_day() -> float:
    try:
        return _offset.get()
    except LookupError:
        offset = time.time() - trio.current_time()
        _offset.set(offset)
        return offset

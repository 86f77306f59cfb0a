"""Setup of Python's interpreter for serving many connections."""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable

import trio

from amqproxy.compiled import _pure
from amqproxy.process.log import logger
from amqproxy.process.malloc_trim import give_back

COLLECT_AFTER = (5_000, 1_000_000, 1_000_000)
"""Thresholds of automatic garbage collection: often in the youngest generation, which takes a millisecond or two, and
never in older ones: waiting messages and open connections are many objects, none of them garbage.
"""

YOUNG_EVERY = 0.01
"""Minimum seconds between two collections of the youngest generation at the end of a turn."""

EVERY = 60.0
"""Minimum seconds between two full collections, and between two returns of free memory."""

SHARE = 1e-4
"""Maximum share of the time for each of them."""

SWITCH_INTERVAL = 0.0005
"""Seconds for which the broker may keep the interpreter from the thread that writes to the disk."""


class YoungCollection(trio.abc.Instrument):
    """Collection of the youngest generation at the end of turns, before it grows.

    The interpreter compares its threshold with how many objects are new, less how many of any age have been freed.
    Where connections replace their objects, and when many are freed, 200,000 new ones may accumulate, which then take a
    turn of 300 ms.
    """

    def __init__(self) -> None:
        self._last = 0.0

    def before_io_wait(self, timeout: float) -> None:
        now = time.monotonic()
        if now - self._last >= YOUNG_EVERY:
            self._last = now
            gc.collect(0)


def keep_pauses_short(nursery: trio.Nursery, *, has_messages: bool) -> None:
    """Set the interpreter up for serving many connections, once everything is loaded.

    Warn if the plain form runs though nobody has asked for it. Automatic collections look only at new objects; existing
    objects are never checked again, and all others seldom, in a task of `nursery`. Free memory is then returned to the
    system, unless the process `has_messages`: traversing the gaps between many messages takes long, and a broker itself
    returns the memory of messages that it pages out.
    """
    if _pure.is_slow():
        logger().warning("running plain sources", reason=_pure.SLOW)
    gc.collect()
    gc.freeze()
    gc.set_threshold(*COLLECT_AFTER)
    trio.lowlevel.add_instrument(YoungCollection())
    sys.setswitchinterval(SWITCH_INTERVAL)
    nursery.start_soon(do_seldom, gc.collect)
    if not has_messages:
        nursery.start_soon(do_seldom, give_back)


async def do_seldom(do: Callable[[], object], clock: Callable[[], float] = time.monotonic) -> None:
    """Call a function repeatedly until cancelled, the less often the longer it takes."""
    pause = EVERY
    while True:
        await trio.sleep(pause)
        began = clock()
        do()
        pause = max(EVERY, (clock() - began) / SHARE)

"""How Python's interpreter is set up for serving many connections."""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable

import trio

from amqproxy.process.malloc_trim import give_back

COLLECT_AFTER = (5_000, 1, 1_000_000)
"""When Python is to look for garbage by itself: often among what is new, which takes a millisecond or two, and never
among all: messages that wait, and open connections, are so many things, and none of them is garbage."""

EVERY = 60.0
"""Seconds between two looks among all, at least, and between two times that free memory is given back."""

SHARE = 1e-4
"""Of the time: what each of both may take."""

SWITCH_INTERVAL = 0.0005
"""Seconds that the broker may keep the interpreter from the thread that writes to the disk."""


def keep_pauses_short(nursery: trio.Nursery, *, has_messages: bool) -> None:
    """Set the interpreter up for serving many connections, once all is loaded.

    Garbage is looked for among what is new; what there is now is never looked at again, and all else in a task of
    `nursery`, seldom. What is free then is given back to the system, unless the process `has_messages`: to go over the
    gaps between many takes long, and a broker gives back by itself what it has paged out.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*COLLECT_AFTER)
    sys.setswitchinterval(SWITCH_INTERVAL)
    nursery.start_soon(do_seldom, gc.collect)
    if not has_messages:
        nursery.start_soon(do_seldom, give_back)


async def do_seldom(do: Callable[[], object], clock: Callable[[], float] = time.monotonic) -> None:
    """Call a function now and then, the more seldom the longer it takes, until cancelled."""
    pause = EVERY
    while True:
        await trio.sleep(pause)
        began = clock()
        do()
        pause = max(EVERY, (clock() - began) / SHARE)

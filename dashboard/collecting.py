"""Keeps the pauses of Python's garbage collector short: rings keep very many objects, which it would look at each time.

What is kept for long is set aside: it is freed when nothing refers to it any more, as ever, but cycles among it are
only looked for now and then.
"""

from __future__ import annotations

import asyncio
import gc

INTERVAL = 0.2
"""Seconds until what there is by then is set aside."""

FULL_COLLECTION = 3600.0
"""Seconds until all is looked at once: that may take a fifth of a second."""


def set_aside() -> None:
    """Collect what is new, and set the rest aside."""
    gc.collect(1)
    gc.freeze()


async def keep_collections_short() -> None:
    """Set aside what there is, again and again."""
    loop = asyncio.get_running_loop()
    full_at = loop.time() + FULL_COLLECTION
    try:
        while True:
            set_aside()
            await asyncio.sleep(INTERVAL)
            if loop.time() > full_at:
                gc.unfreeze()
                gc.collect()
                full_at = loop.time() + FULL_COLLECTION
    finally:
        gc.unfreeze()

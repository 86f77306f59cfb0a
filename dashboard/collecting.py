"""Keeps the pauses of Python's garbage collector short: rings hold very many objects that it would visit each time.

Long-lived objects are frozen: reference counting still frees them, but cycles among them are collected only by the
full collections.
"""

from __future__ import annotations

import asyncio
import gc

INTERVAL = 0.2
"""Seconds between two freezes of the objects that exist by then."""

FULL_COLLECTION = 3600.0
"""Seconds between two full collections, which may take a fifth of a second."""


def set_aside() -> None:
    """Collect new objects, and freeze those that remain."""
    gc.collect(1)
    gc.freeze()


async def keep_collections_short() -> None:
    """Freeze objects at every `INTERVAL`, until cancelled."""
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

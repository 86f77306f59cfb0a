"""Python's collector of garbage, for tests that count what is kept."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without_collector() -> Iterator[None]:
    """What is freed in the block is freed by the count of its references alone."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()

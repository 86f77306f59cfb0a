"""Memory that Python has freed, and the C library keeps for later: here it is given back to the system."""

from __future__ import annotations

import ctypes
from contextlib import suppress


def give_back() -> None:
    """Give back what is free, where the C library can: with glibc, some milliseconds for a gigabyte."""
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).malloc_trim(0)

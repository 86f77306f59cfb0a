"""malloc settings for a recording: the memory of written entries is reused at once for the data received next."""

from __future__ import annotations

import ctypes
from contextlib import suppress

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
_MOST_TRIM_THRESHOLD = 2**31 - 1
_MOST_MMAP_THRESHOLD = 32 * 1024 * 1024
_USUAL = 1024 * 1024


def keep(size: int) -> None:
    """Limit the free memory that malloc retains to `size` bytes (`M_TRIM_THRESHOLD`); no effect outside glibc.

    Otherwise malloc would return the memory to the system and fault in every page anew, which takes longer than
    receiving a page of data.
    """
    _set(_MMAP_THRESHOLD, _MOST_MMAP_THRESHOLD)
    _set(_TRIM_THRESHOLD, min(size, _MOST_TRIM_THRESHOLD))


def give_back() -> None:
    """Return free memory to the system, and restore small thresholds."""
    _set(_MMAP_THRESHOLD, _USUAL)
    _set(_TRIM_THRESHOLD, 2 * _USUAL)
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).malloc_trim(0)


def _set(parameter: int, value: int) -> None:
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).mallopt(parameter, value)

"""What becomes of the memory of entries once they are written: it is used again at once for what is received next."""

from __future__ import annotations

import ctypes
from contextlib import suppress

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
_MOST_TRIM_THRESHOLD = 2**31 - 1
_MOST_MMAP_THRESHOLD = 32 * 1024 * 1024
_USUAL = 1024 * 1024


def keep(size: int) -> None:
    """Keep so many bytes at most that are free, where the C library can.

    Else it would give them back to the system, and get each page anew, which takes longer than to receive one.
    """
    _set(_MMAP_THRESHOLD, _MOST_MMAP_THRESHOLD)
    _set(_TRIM_THRESHOLD, min(size, _MOST_TRIM_THRESHOLD))


def give_back() -> None:
    """Give them back, and keep few from here on."""
    _set(_MMAP_THRESHOLD, _USUAL)
    _set(_TRIM_THRESHOLD, 2 * _USUAL)
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).malloc_trim(0)


def _set(parameter: int, value: int) -> None:
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).mallopt(parameter, value)

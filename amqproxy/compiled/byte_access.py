"""Bytes read and written, for modules that may be compiled: C has these functions from the `.pxd`, as parts of callers.

This is for the plain run. Who uses it imports it where it is not compiled, and has it in its own `.pxd`.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from amqproxy.compiled import _cython as cython

if not cython.compiled:

    def short_at(p: bytes, at: int) -> int:
        """The unsigned number in two bytes."""
        return int.from_bytes(p[at : at + 2])

    def long_at(p: bytes, at: int) -> int:
        """The unsigned number in four bytes."""
        return int.from_bytes(p[at : at + 4])

    def long_long_at(p: bytes, at: int) -> int:
        """The unsigned number in eight bytes."""
        return int.from_bytes(p[at : at + 8])

    def signed_long_long_at(p: bytes, at: int) -> int:
        """Return the signed number in eight bytes."""
        return int.from_bytes(p[at : at + 8], signed=True)

    def are_alike(p: bytes, one: int, other: int, size: int) -> bool:
        """Whether `size` bytes are the same at two places."""
        return p[one : one + size] == p[other : other + size]

    def is_at(p: bytes, at: int, size: int, data: bytes) -> bool:
        """Whether the bytes between a place and `size` bytes behind it are `data`."""
        return p[at : at + size] == data

    def put_number(out: bytearray, at: int, number: int, size: int) -> int:
        """Write an unsigned number in `size` bytes, and return the place behind it."""
        return put_bytes(out, at, number.to_bytes(size))

    def field_size_at(p: bytes, at: int, end: int, code: int) -> int:
        """The bytes of a field of 0-9-1, its length included; -1 where it goes past the end.

        The code is a letter of `amqp091.wire`'s layouts, and of no bit.
        """
        size = _SIZES.get(code)
        if size is None:
            width = 1 if chr(code) in "su" else 4
            if end - at < width:
                return -1
            size = width + int.from_bytes(p[at : at + width])
        return size if size <= end - at else -1

    _SIZES = {ord("q"): 8, ord("h"): 2, ord("l"): 4, ord("o"): 1}

    def put_bytes(out: bytearray, at: int, data: bytes) -> int:
        """Write bytes at a place, and return the place behind them."""
        out[at : at + len(data)] = data
        return at + len(data)

    def put_digits(out: bytearray, at: int, number: int) -> int:
        """Write a non-negative number as decimal digits, and return the place behind them."""
        return put_bytes(out, at, b"%d" % number)

    def put_signed(out: bytearray, at: int, number: int) -> int:
        """Like `put_digits`, for negative numbers too."""
        return put_bytes(out, at, b"%d" % number)

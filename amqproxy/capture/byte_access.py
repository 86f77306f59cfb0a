"""Numbers in bytes, for modules that may be compiled: C has them from the `.pxd`, and makes them a part of the caller.

This is for the plain run. Who uses it imports it where it is not compiled, and has it in its own `.pxd`.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from amqproxy import _cython as cython

if not cython.compiled:

    def long_at(p: bytes, at: int) -> int:
        """The unsigned number in four bytes."""
        return int.from_bytes(p[at : at + 4])

    def long_long_at(p: bytes, at: int) -> int:
        """The unsigned number in eight bytes."""
        return int.from_bytes(p[at : at + 8])

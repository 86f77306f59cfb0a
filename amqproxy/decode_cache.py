"""What was decoded before, known again by its bytes: peers send the same names, properties and commands many times.

What is decoded never changes, so that one value serves for all. `amqp091` and `amqp010` decode with these caches.
"""

from __future__ import annotations

from typing import Any

try:
    import cython
except ImportError:  # a plain run does not need Cython
    from amqproxy import _cython as cython

SLOTS = 256
"""How many values a cache holds at most."""

_MASK = cython.declare(cython.ulonglong, SLOTS - 1)


@cython.final
@cython.no_gc
@cython.cclass
class DecodeCache:
    """Values by their bytes, each in a slot that the hash of these chooses.

    A value is kept when its bytes come for the second time in a row in its slot: what comes only once, as ids of
    messages do, takes nobody's place, and costs no copy.
    """

    def __init__(self) -> None:
        self._keys: list[bytes] = [b""] * SLOTS
        self._values: list[Any] = [None] * SLOTS
        self._hash = 0
        if not cython.compiled:
            self._seen = [0] * SLOTS
            self._kept = [0] * SLOTS

    @cython.cfunc
    def _find(self, p: cython.p_const_uchar, start: cython.Py_ssize_t, size: cython.Py_ssize_t) -> object:
        """The value of the bytes from `start` on, of which there is one at least; None if it is not known."""
        number: cython.ulonglong
        if not cython.compiled:
            number = hash(p[start : start + size])
        else:
            number = hash_of(p + start, size)  # type: ignore[name-defined, operator]  # noqa: F821 - see the .pxd
        self._hash = number
        slot: cython.Py_ssize_t = number & _MASK
        if self._kept[slot] != number:
            return None
        key: bytes = self._keys[slot]
        if len(key) != size or not _is_same(p, start, key, size):
            return None
        return self._values[slot]

    @cython.cfunc
    @cython.returns(cython.void)
    def _keep(self, p: cython.p_const_uchar, start: cython.Py_ssize_t, size: cython.Py_ssize_t, value: object) -> None:
        """Take the value of the bytes that were not found just now."""
        # Whatever was looked up in between, the key is these bytes: a wrong slot is one in which it is not found.
        number: cython.ulonglong = self._hash
        slot: cython.Py_ssize_t = number & _MASK
        if self._seen[slot] != number:
            self._seen[slot] = number
            return
        self._kept[slot] = number
        self._keys[slot] = p[start : start + size]
        self._values[slot] = value

    def find(self, data: bytes) -> Any:
        """The value of these bytes, for callers that are not compiled; None if it is not known."""
        return self._find(data, 0, len(data)) if data else None

    def keep(self, data: bytes, value: Any) -> None:
        """Take the value of the bytes that were not found just now, for callers that are not compiled."""
        self._keep(data, 0, len(data), value)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _is_same(
    p: cython.p_const_uchar, start: cython.Py_ssize_t, q: cython.p_const_uchar, size: cython.Py_ssize_t
) -> cython.bint:
    """Whether the bytes from `start` on are the first of others."""
    if not cython.compiled:
        return p.startswith(q[:size], start)
    return bool(memcmp(p + start, q, size) == 0)  # type: ignore[name-defined, operator]  # noqa: F821 - see the .pxd

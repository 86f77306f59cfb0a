"""What was decoded before, known again by its bytes: peers send the same names, properties and commands many times.

What is decoded never changes, so that one value serves for all. `amqp091` and `amqp010` decode with these caches.
"""

from __future__ import annotations

from typing import Any

try:
    import cython
except ImportError:  # a plain run does not need Cython
    from amqproxy.compiled import _cython as cython

SLOTS = 256
"""How many values a cache holds at most."""

_MASK = cython.declare(cython.ulonglong, SLOTS - 2)
"""Of a hash, what is the first slot of two."""


@cython.final
@cython.no_gc
@cython.auto_pickle(False)
@cython.cclass
class DecodeCache:
    """Values by their bytes, each in one of two slots that the hash of these chooses.

    A value is kept when its bytes come for the second time, of the last two that came for these slots: what comes only
    once, as ids of messages do, takes no place, and costs no copy.
    """

    def __init__(self) -> None:
        self._keys: list[bytes] = [b""] * SLOTS
        self._values: list[Any] = [None] * SLOTS
        self._hash = 0
        self._kept = 0
        if not cython.compiled:
            self._seen = [0] * SLOTS

    @cython.cfunc
    def _find(self, p: cython.p_const_uchar, start: cython.Py_ssize_t, size: cython.Py_ssize_t) -> object:
        """The value of the bytes from `start` on, of which there is one at least; None if it is not known."""
        if not cython.compiled:
            key = p[start : start + size]
            self._hash = hash(key)
            slot = self._hash & _MASK
            return next((self._values[each] for each in (slot, slot + 1) if self._keys[each] == key), None)
        number: cython.ulonglong = hash_of(p + start, size)  # type: ignore[name-defined, operator]  # noqa: F821
        self._hash = number
        return lookup(cython.address(self._entries[number & _MASK]), number, p + start, size)  # type: ignore[name-defined, operator, attr-defined]  # noqa: F821

    @cython.cfunc
    @cython.returns(cython.void)
    def _keep(self, p: cython.p_const_uchar, start: cython.Py_ssize_t, size: cython.Py_ssize_t, value: object) -> None:
        """Take the value of the bytes that were not found just now."""
        # Whatever was looked up in between, the key is these bytes: a wrong slot is one in which it is not found.
        number: cython.ulonglong = self._hash
        slot: cython.Py_ssize_t = number & _MASK
        if self._seen[slot] != number and self._seen[slot + 1] != number:
            self._seen[slot + 1] = self._seen[slot]
            self._seen[slot] = number
            return
        if self._keys[slot]:
            slot += self._kept & 1 if self._keys[slot + 1] else 1
        self._kept += 1
        before = (self._keys[slot], self._values[slot])  # until no entry refers to them
        key: bytes = p[start : start + size]
        self._keys[slot] = key
        self._values[slot] = value
        if cython.compiled:
            enter(cython.address(self._entries[slot]), number, key, value)  # type: ignore[name-defined, attr-defined]  # noqa: F821
        del before

    def find(self, data: bytes) -> Any:
        """The value of these bytes, for callers that are not compiled; None if it is not known."""
        return self._find(data, 0, len(data)) if data else None

    def keep(self, data: bytes, value: Any) -> None:
        """Take the value of the bytes that were not found just now, for callers that are not compiled."""
        self._keep(data, 0, len(data), value)

"""Cache of decoded values by their bytes: peers send the same names, properties and commands many times.

Decoded values are immutable, so that one serves all callers. The protocols decode with these caches.
"""

from __future__ import annotations

from typing import Any

try:
    import cython
except ImportError:  # a plain run does not need Cython
    from amqproxy.compiled import _cython as cython

SLOTS = 256
"""Maximum number of values in a cache."""

_MASK = cython.declare(cython.ulonglong, SLOTS - 2)
"""Mask that makes of a hash the number of the first of its two slots."""


@cython.final
@cython.no_gc
@cython.auto_pickle(False)
@cython.cclass
class DecodeCache:
    """Decoded values by their bytes, each in one of the two slots of its hash.

    A value is cached when its bytes occur for the second time, among the last two that occurred for these slots. Bytes
    that occur once, such as message ids, take no slot and cost no copy.
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
        """Return the value of the bytes from `start` on, `size` of at least 1; `None` if it is not cached."""
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
        """Cache the value of bytes that `_find` did not find, if their hash was noted before; otherwise note it."""
        # After another look-up in between, the hash is of other bytes; the key is still these bytes, so that an entry
        # in a wrong slot is never found.
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
        """Return the value of these bytes, for callers that are not compiled; `None` if it is not cached."""
        return self._find(data, 0, len(data)) if data else None

    def keep(self, data: bytes, value: Any) -> None:
        """Cache the value of the bytes that `find` has just not found, for callers that are not compiled."""
        self._keep(data, 0, len(data), value)

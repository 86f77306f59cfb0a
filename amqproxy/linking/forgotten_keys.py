"""Keys of messages that were forgotten, so that an alike message is not taken for the only one."""

from __future__ import annotations

BITS = 1 << 23
"""Bits of a generation: 1 MiB."""

KEYS = BITS // 16
"""Keys of a generation."""

_MASK = BITS - 1


class ForgottenKeys:
    """The last forgotten keys, `KEYS` to twice as many, as two Bloom filters of three bits a key.

    About 1 in 100 other keys is wrongly found when both are full.
    """

    __slots__ = ("_before", "_count", "_current", "dropped")

    def __init__(self) -> None:
        self._current = bytearray()
        self._before = bytearray()
        self._count = 0
        self.dropped = 0
        """Number of generations that were dropped."""

    @property
    def memory_used(self) -> int:
        """Memory in bytes."""
        return len(self._current) + len(self._before)

    def add(self, key: int) -> None:
        """Remember that a message with this key was forgotten."""
        if self._count >= KEYS:
            self.dropped += bool(self._before)
            self._before, self._current, self._count = self._current, bytearray(), 0
        if not self._current:
            self._current = bytearray(BITS // 8)
        self._count += 1
        for place in (key & _MASK, key >> 20 & _MASK, key >> 40 & _MASK):
            self._current[place >> 3] |= 1 << (place & 7)

    def __contains__(self, key: int) -> bool:
        return any(
            bits and all(bits[place >> 3] & 1 << (place & 7) for place in _places(key))
            for bits in (self._current, self._before)
        )


def _places(key: int) -> tuple[int, int, int]:
    return key & _MASK, key >> 20 & _MASK, key >> 40 & _MASK

"""Sequence numbers with the arithmetic of RFC 1982, sets of them, and ranges of bytes (section 7, its types)."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator

try:
    import cython
except ImportError:  # a plain run does not need Cython
    from amqproxy.compiled import _cython as cython

BITS = 32
_MODULUS = 1 << BITS
_HALF = 1 << (BITS - 1)

MAX_RANGES = 65_535 // 8
"""Maximum number of ranges of a `SequenceSet` on the wire: its size has 16 bits."""

MAX_BYTE_RANGES = 65_535 // 16

_PAIR = struct.Struct(">2I")


def add(number: int, increment: int) -> int:
    """Return the sequence number `increment` after another. RFC 1982 allows at most 2 to the power of 31, less 1."""
    if not 0 <= increment < _HALF:
        raise ValueError(f"{increment} cannot be added to a sequence number")
    return (number + increment) % _MODULUS


def difference(number: int, other: int) -> int:
    """Return the distance from `other` to `number`, negative if it is before; the minimum if both ways are equally
    far.
    """
    return (number - other + _HALF) % _MODULUS - _HALF


def is_before(number: int, other: int) -> bool:
    """Whether `number` comes before `other`; `False` if undefined in RFC 1982, as both ways are equally far."""
    return 0 < (other - number) % _MODULUS < _HALF


@cython.final
@cython.no_gc
@cython.freelist(512)
@cython.auto_pickle(True)
@cython.cclass
class SequenceSet:
    """A set of sequence numbers as closed ranges, in wire order and form.

    Ascending ranges that neither overlap nor touch are canonical; a received set that is not is kept unchanged.
    """

    def __init__(self, ranges: Iterable[tuple[int, int]] = ()) -> None:
        listed = tuple([(first, last) for first, last in ranges])
        if len(listed) > MAX_RANGES:
            raise ValueError(f"a sequence-set holds {MAX_RANGES} ranges, this one has {len(listed)}")
        self._first = self._last = 0
        self._ranges: tuple[tuple[int, int], ...] | None = listed
        self._data: bytes | None = struct.pack(f">{2 * len(listed)}I", *[word for each in listed for word in each])

    @staticmethod
    def of(numbers: Iterable[int], near: int = 0) -> SequenceSet:
        """Return the canonical set of these numbers, each less than 2 to the power of 31 away from `near`."""
        ranges: list[tuple[int, int]] = []
        first = last = None
        for distance in sorted({difference(number, near) for number in numbers}):
            if first is None or last is None:
                first = distance
            elif distance != last + 1:
                ranges.append((first, last))
                first = distance
            last = distance
        if first is not None and last is not None:
            ranges.append((first, last))
        return SequenceSet([((near + first) % _MODULUS, (near + last) % _MODULUS) for first, last in ranges])

    @staticmethod
    def from_bytes(data: bytes) -> SequenceSet:
        """Decode a set without its size in front, which is a multiple of 8."""
        return SequenceSet._of(data)

    @staticmethod
    @cython.cfunc
    def _of(data: bytes) -> SequenceSet:
        made: SequenceSet = SequenceSet.__new__(SequenceSet)
        made._ranges = None
        made._data = data
        return made

    @staticmethod
    @cython.cfunc
    def _of_one(first: cython.uint, last: cython.uint) -> SequenceSet:
        """Return the set of one range, the usual case."""
        made: SequenceSet = SequenceSet.__new__(SequenceSet)
        made._ranges = None
        made._data = None
        made._first = first
        made._last = last
        return made

    def to_bytes(self) -> bytes:
        """Encode the set, without its size in front."""
        if self._data is None:
            self._data = _PAIR.pack(self._first, self._last)
        return self._data

    @property
    def ranges(self) -> tuple[tuple[int, int], ...]:
        if self._ranges is None:
            if self._data is None:
                self._ranges = ((self._first, self._last),)
            else:
                words = struct.unpack(f">{len(self._data) // 4}I", self._data)
                self._ranges = tuple(zip(words[::2], words[1::2], strict=True))
        return self._ranges

    @property
    def is_canonical(self) -> bool:
        """Whether the ranges ascend, and neither overlap nor touch."""
        if any(is_before(last, first) or difference(last, first) == -_HALF for first, last in self.ranges):
            return False
        pairs = zip(self.ranges, self.ranges[1:], strict=False)
        return all(difference(second[0], first[1]) > 1 for first, second in pairs)

    @property
    def count(self) -> int:
        """Number of sequence numbers in the ranges, with duplicates."""
        return sum([(last - first) % _MODULUS + 1 for first, last in self.ranges])

    def __contains__(self, number: object) -> bool:
        if not isinstance(number, int):
            return False
        return any((number - first) % _MODULUS <= (last - first) % _MODULUS for first, last in self.ranges)

    def __iter__(self) -> Iterator[int]:
        """Yield the numbers; each range may have 2 to the power of 32."""
        for first, last in self.ranges:
            for distance in range((last - first) % _MODULUS + 1):
                yield (first + distance) % _MODULUS

    def __bool__(self) -> bool:
        return bool(self.to_bytes())

    def __eq__(self, other: object) -> bool:
        return self.to_bytes() == other.to_bytes() if isinstance(other, SequenceSet) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.to_bytes())

    def __repr__(self) -> str:
        return f"SequenceSet({list(self.ranges)!r})"


class ByteRanges:
    """Closed ranges of bytes of a payload, in wire order and form."""

    __slots__ = ("ranges",)

    def __init__(self, ranges: Iterable[tuple[int, int]] = ()) -> None:
        self.ranges: tuple[tuple[int, int], ...] = tuple([(first, last) for first, last in ranges])
        if len(self.ranges) > MAX_BYTE_RANGES:
            raise ValueError(f"byte-ranges hold {MAX_BYTE_RANGES} ranges, these have {len(self.ranges)}")

    @classmethod
    def from_bytes(cls, data: bytes) -> ByteRanges:
        """Decode ranges without their size in front, which is a multiple of 16."""
        made = cls.__new__(cls)
        words = struct.unpack(f">{len(data) // 8}Q", data)
        made.ranges = tuple(zip(words[::2], words[1::2], strict=True))
        return made

    def to_bytes(self) -> bytes:
        """Encode the ranges, without their size in front."""
        return struct.pack(f">{2 * len(self.ranges)}Q", *[word for each in self.ranges for word in each])

    @property
    def is_canonical(self) -> bool:
        """Whether the ranges ascend, and neither overlap nor touch."""
        if any(last < first for first, last in self.ranges):
            return False
        pairs = zip(self.ranges, self.ranges[1:], strict=False)
        return all(second[0] > first[1] + 1 for first, second in pairs)

    def __bool__(self) -> bool:
        return bool(self.ranges)

    def __eq__(self, other: object) -> bool:
        return self.ranges == other.ranges if isinstance(other, ByteRanges) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.ranges)

    def __repr__(self) -> str:
        return f"ByteRanges({list(self.ranges)!r})"

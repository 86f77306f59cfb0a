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
"""How many ranges a `SequenceSet` holds on the wire: its size is in 16 bits."""

MAX_BYTE_RANGES = 65_535 // 16

_PAIR = struct.Struct(">2I")


def add(number: int, increment: int) -> int:
    """The sequence number so many after another. RFC 1982 allows for at most 2 to the power of 31, less 1."""
    if not 0 <= increment < _HALF:
        raise ValueError(f"{increment} cannot be added to a sequence number")
    return (number + increment) % _MODULUS


def difference(number: int, other: int) -> int:
    """How far `number` is after `other`: negative, if it is before. Both ways are as far: the least there is."""
    return (number - other + _HALF) % _MODULUS - _HALF


def is_before(number: int, other: int) -> bool:
    """Whether `number` comes before `other`; never, where RFC 1982 leaves it undefined, as both ways are as far."""
    return 0 < (other - number) % _MODULUS < _HALF


@cython.final
@cython.no_gc
@cython.freelist(512)
@cython.cclass
class SequenceSet:
    """A set of sequence numbers as closed ranges, in the order and the form in which they are on the wire.

    Ascending ranges that neither overlap nor touch are canonical; what a peer sent that is not is kept as it was.
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
        """The canonical set of these numbers, none of which is 2 to the power of 31 or more away from `near`."""
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
        """The set on the wire, without the size before it, which is a multiple of 8."""
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
        """The set of one range, as most are."""
        made: SequenceSet = SequenceSet.__new__(SequenceSet)
        made._ranges = None
        made._data = None
        made._first = first
        made._last = last
        return made

    def to_bytes(self) -> bytes:
        """The set on the wire, without the size before it."""
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
        """How many numbers its ranges hold, each for itself."""
        return sum([(last - first) % _MODULUS + 1 for first, last in self.ranges])

    def __contains__(self, number: object) -> bool:
        if not isinstance(number, int):
            return False
        return any((number - first) % _MODULUS <= (last - first) % _MODULUS for first, last in self.ranges)

    def __iter__(self) -> Iterator[int]:
        """The numbers; there may be 2 to the power of 32 in each range."""
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
    """Closed ranges of bytes of a payload, in the order and the form in which they are on the wire."""

    __slots__ = ("ranges",)

    def __init__(self, ranges: Iterable[tuple[int, int]] = ()) -> None:
        self.ranges: tuple[tuple[int, int], ...] = tuple([(first, last) for first, last in ranges])
        if len(self.ranges) > MAX_BYTE_RANGES:
            raise ValueError(f"byte-ranges hold {MAX_BYTE_RANGES} ranges, these have {len(self.ranges)}")

    @classmethod
    def from_bytes(cls, data: bytes) -> ByteRanges:
        """The ranges on the wire, without the size before them, which is a multiple of 16."""
        made = cls.__new__(cls)
        words = struct.unpack(f">{len(data) // 8}Q", data)
        made.ranges = tuple(zip(words[::2], words[1::2], strict=True))
        return made

    def to_bytes(self) -> bytes:
        """The ranges on the wire, without the size before them."""
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

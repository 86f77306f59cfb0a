"""Counts of the frames, and of their bytes, that a pump has forwarded from each peer, by kind."""

from __future__ import annotations

try:
    import cython
except ImportError:  # a plain run does not need Cython
    from amqproxy.compiled import _cython as cython


@cython.cfunc
def _collect(
    slots: cython.int, counted: CounterPointer, collected: CounterPointer, into: cython.ulonglong[::1]
) -> object:
    slot: cython.int
    count: cython.ulonglong
    for slot in range(slots):
        count = look(cython.address(counted[slot]))
        into[slot] += count - collected[slot]
        collected[slot] = count
    return None


@cython.final
@cython.cclass
class FrameCounts:
    """Counts of `kinds` kinds of frames, as in a `Tally`; one thread counts, another may collect at any time."""

    def __init__(self, kinds: int) -> None:
        self._slots = kinds
        self.frames = cython.cast(CounterPointer, calloc(2 * self._slots, 8))
        self.sizes = cython.cast(CounterPointer, calloc(2 * self._slots, 8))
        self._collected_frames = cython.cast(CounterPointer, calloc(2 * self._slots, 8))
        self._collected_sizes = cython.cast(CounterPointer, calloc(2 * self._slots, 8))
        if (
            self.frames == cython.NULL
            or self.sizes == cython.NULL
            or self._collected_frames == cython.NULL
            or self._collected_sizes == cython.NULL
        ):
            raise MemoryError

    def __dealloc__(self) -> None:
        free(self.frames)
        free(self.sizes)
        free(self._collected_frames)
        free(self._collected_sizes)

    def collect(self, tallies: tuple) -> None:
        """Add the counts since the last call to the tallies of both peers."""
        place: cython.int
        at: cython.int
        for place in range(2):
            at = place * self._slots
            _collect(self._slots, self.frames + at, self._collected_frames + at, tallies[place].frames)
            _collect(self._slots, self.sizes + at, self._collected_sizes + at, tallies[place].byte_counts)

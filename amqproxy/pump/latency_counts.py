"""Histogram of the time that a pump's bytes spend in the proxy."""

from __future__ import annotations

try:
    import cython
except ImportError:  # a plain run does not need Cython
    from amqproxy.compiled import _cython as cython


@cython.final
@cython.cclass
class LatencyCounts:
    """Latency counts by `bounds` in seconds; one thread observes, another may collect at any time."""

    def __init__(self, bounds: tuple) -> None:
        place: cython.int
        self._bound_count = len(bounds)
        self._counts = cython.cast(CounterPointer, calloc(self._bound_count + 1, 8))
        self._collected = cython.cast(CounterPointer, calloc(self._bound_count + 1, 8))
        self._bounds = cython.cast(CounterPointer, calloc(self._bound_count + 1, 8))
        if self._counts == cython.NULL or self._collected == cython.NULL or self._bounds == cython.NULL:
            raise MemoryError
        for place in range(self._bound_count):
            self._bounds[place] = int(bounds[place] * 1e9)

    def __dealloc__(self) -> None:
        free(self._counts)
        free(self._collected)
        free(self._bounds)

    @cython.nogil
    @cython.cfunc
    @cython.exceptval(check=False)
    def observe(self, nanoseconds: cython.ulonglong) -> cython.void:
        """Count one latency."""
        slot: cython.int = 0
        while slot < self._bound_count and nanoseconds > self._bounds[slot]:
            slot += 1
        add(cython.address(self._counts[slot]), 1)
        add(cython.address(self._total), nanoseconds)

    def collect(self) -> tuple[list[int], float]:
        """Return the counts by bound and the sum in seconds since the last call."""
        slot: cython.int
        count: cython.ulonglong
        delta: cython.ulonglong
        counts: list = []
        for slot in range(self._bound_count + 1):
            count = look(cython.address(self._counts[slot]))
            delta = count - self._collected[slot]
            self._collected[slot] = count
            counts.append(delta)
        count = look(cython.address(self._total))
        delta = count - self._collected_total
        self._collected_total = count
        return counts, delta * 1e-9

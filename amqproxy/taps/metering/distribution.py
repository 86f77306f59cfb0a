"""Histogram of values, such as latencies and body sizes."""

from __future__ import annotations

from array import array
from collections.abc import Sequence

try:
    import cython
except ImportError:  # a plain run does not need Cython
    from amqproxy.compiled import _cython as cython


@cython.final
@cython.cclass
class Distribution:
    """Histogram with the buckets `bounds`, each the largest value of its bucket; the last bucket has no bound.

    `counts` are the counts of the buckets, one more than the bounds; `total` is the sum of all values.
    """

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = array("d", bounds)
        self.counts = array("Q", bytes(8 * (len(bounds) + 1)))
        self.total = 0.0
        self._bounds = self.bounds
        self._counts = self.counts
        self._size = len(bounds)

    def observe(self, value: cython.double, count: cython.longlong = 1) -> None:
        """Count a value, `count` times."""
        low: cython.Py_ssize_t = 0
        high: cython.Py_ssize_t = self._size
        middle: cython.Py_ssize_t
        while low < high:
            middle = (low + high) >> 1
            if self._bounds[middle] < value:
                low = middle + 1
            else:
                high = middle
        self._counts[low] += count
        self.total += value * count

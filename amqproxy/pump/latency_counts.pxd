# What C sees of `latency_counts`.

cimport cython
from libc.stdlib cimport calloc, free

from amqproxy.pump.system_calls cimport CounterPointer, add, look


@cython.final
cdef class LatencyCounts:
    cdef int _bound_count
    cdef unsigned long long *_bounds
    cdef unsigned long long *_counts
    cdef unsigned long long *_collected
    cdef unsigned long long _total
    cdef unsigned long long _collected_total

    cdef void observe(self, unsigned long long nanoseconds) noexcept nogil

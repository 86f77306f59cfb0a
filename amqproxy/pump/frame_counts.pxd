# What C sees of `frame_counts`.

cimport cython
from libc.stdlib cimport calloc, free

from amqproxy.pump.system_calls cimport CounterPointer, look


@cython.final
cdef class FrameCounts:
    cdef unsigned long long *frames
    cdef unsigned long long *sizes
    cdef int _slots
    cdef unsigned long long *_collected_frames
    cdef unsigned long long *_collected_sizes
